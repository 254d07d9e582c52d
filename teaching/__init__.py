"""For courses that teach with this code. docs/teaching.md says how.

handout.py      Writes a copy of the clone without the answers of some exercises.
notebooks.py    Command: builds the notebooks of docs/notebooks/.
"""
