"""Published tables as named recipes, run over seeds and set beside the published numbers.

The files in reading order:

    recipes.py     Published experiments and comparisons as plain dictionaries of options.
    series.py      Recipes times seeds: the folder and the command of each run.
    flags.py       The flags of --with as option values, and when two values mean the same.
    run_files.py   Reading the scores, options and stages that a run wrote.
    run_logs.py    The warnings in the logs of a series, each once.
    checks.py      Which finished or begun runs may be counted in one table.
    tables.py      Mean and standard deviation over seeds as Markdown tables.
    records.py     The records of measured runs, in records/*.jsonl.
    known_data.py  Which data our records come from, and whether one fits its own command.
    comparable.py  Which records may stand in one row, and which rows may be compared.
    controls.py    The control of each method, and which runs --record methods takes.
    figures.py     Curves and bars of runs.
    results.py     What the finished runs of a series say, and how they were made.
    reproduction.py  A run trained again, and how its results compare.
    reproduce.py   Command: trains a run or a record again and says whether it comes out the same.
    calibration.py  Probabilities that mean what they say, and thresholds with costs.
    track.py       Command: puts a finished run into trackio or wandb.
    label_questions.py  Calibration, cross-validation, and what more labels would bring.
    labels.py      Command: asks them of a finished run.
    paper_recipes.py  The rows of the three papers as data, with the published figures.
    paper_scores.py  Scores with what chance in rows and seeds does to them.
    papers.py      Command: trains and measures these rows, published beside measured.
    __main__.py    `python -m experiments`: run what is missing and print the tables.
"""

from minbert.commands.hidden import check_packages

check_packages("data", "contrastive", "multitask", "command_line")
