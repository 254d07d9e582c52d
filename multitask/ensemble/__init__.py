"""Several finished runs together: `python -m multitask.ensemble RUN RUN... --out DIR`.

voting.py            What several runs say about the same rows, joined, and how good that is.
work.py              Predicts with the runs, joins, and writes the results.
options.py           The options of the command, and what is refused before any work.
__main__.py          The command.
"""
