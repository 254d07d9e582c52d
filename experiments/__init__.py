"""Published tables as named recipes, run over seeds and set beside the published numbers.

The files in reading order:

    recipes.py             Published experiments and comparisons as plain dictionaries of options.
    series.py              Recipes times seeds: the folder and the command of each run.
    flags.py               The flags of --with as option values, and when two values mean the same.
    run_files.py           Reading the scores, options and stages that a run wrote.
    checks.py              Which finished or begun runs may be counted in one table.
    tables.py              Mean and standard deviation over seeds as Markdown tables.
    records.py             The records of measured runs, in records/*.jsonl.
    comparable.py          Which records may stand in one row, and which rows may be compared.
    conditions.py          When, where and with which code numbers were measured.
    cut.py                 The cut of the data on which the rows of the reports are measured.
    reports.py             Command: measures these rows, and records them.
    grades.py              The rule that chooses the shares of graded film sentences in the sample.
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
    pages.py               Command: writes these tables into the documents.
    figures.py             Command: a page with curves and bars of runs.
    results.py             What the finished runs of a series say, and how they were made.
    measured_numbers.py    Command: lists measured numbers that stand outside of these tables.
    __main__.py            `python -m experiments`: run what is missing and print the tables.
"""

from minbert.commands.hidden import check_packages

check_packages("data", "contrastive", "multitask", "command_line")
