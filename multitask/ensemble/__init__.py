"""Several finished runs together: `python -m multitask.ensemble RUN RUN... --out DIR`.

voting.py            What several runs say about the same rows, joined, and how good that is.
__main__.py          The command.
"""
