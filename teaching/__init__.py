"""For courses that teach with this code. docs/teaching.md says how.

handout.py      Writes a copy of the clone without the answers of some exercises.
built_notebooks.py  From the text of a notebook to an .ipynb file with outputs.
notebooks.py    Command: builds the notebooks of docs/notebooks/.
"""
