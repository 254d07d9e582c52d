"""The command `python -m multitask.errors RUN`: it shows where a finished run is wrong.

Reading order:
  mistakes.py    The dev rows with a model's outputs, and the worst mistakes.
  suspicious.py  Rows whose labels may be wrong, as a table.
  breakdown.py   A dev score taken apart: buckets of rows. Pure functions.
  page.py        From these numbers to the sections of a report, and to its two files.
  options.py     The options of the command, and what is refused before any work.
  __main__.py    The command.
"""
