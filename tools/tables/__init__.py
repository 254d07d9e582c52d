"""The tables of measured numbers in the documents, and the measurements behind some of them.

The files in reading order:

    cut.py                 The cut of the data on which the rows of the reports are measured.
    reports.py             Command: measures these rows, and records them.
    first_model_tables.py  The tables of the default job on real sentences.
    sample_tables.py       The tables behind the choices of the bundled sample.
    cost_tables.py         The tables of what a run costs.
    benchmark_tables.py    The tables beside other libraries, and beside our readable code.
    reliability_tables.py  The tables of killed runs, damaged files and other faults.
    record_tables.py       All of these tables by name, and the first one: one row per question.
    report_tables.py       The tables of the two reports: published beside measured.
    report_comparisons.py  Rows of a report compared with each other: published beside measured.
    method_tables.py       The tables that compare training methods.
    soup_tables.py         The tables of model soups.
    ensembles.py           Command: records ensembles. Their table.
    figures.py             Command: a page with curves and bars of recorded runs.
    measured_numbers.py    Command: lists measured numbers that stand outside of these tables.
    __main__.py            Command: writes these tables into the documents.
"""
