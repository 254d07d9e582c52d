"""The tables of measured numbers in the documents, and the measurements behind some of them.

A table is an entry in tables.toml. The files in reading order:

    cut.py               The cut of the data on which the rows of the reports are measured.
    reports.py           Command: measures these rows, and records them.
    ensembles.py         Command: records ensembles.
    conditions.py        When, where and with which code numbers were measured.
    rows.py              A row of a table: the records of its numbers, and of their controls.
    row_chance.py        How far chance in the dev rows moves the scores of a table: a note.
    record_faults.py     What does not fit together in our records, and what each must say.
    report_rows.py       The rows of the two reports: published beside measured.
    paper_rows.py        The rows of the three papers: published beside measured.
    preparations.py      Other rows, records and notes that need a computation, by name.
    generic.py           Makes a table from its entry.
    answers.py           The first table of results, and what the default job prints.
    __main__.py          Command: writes all tables into the documents.
    figures.py           Command: a page with curves and bars of recorded runs.
    measured_numbers.py  Command: lists measured numbers that stand outside of these tables.
"""
