"""For courses that teach with this code. docs/teaching.md says how.

exercises.py    The exercises: what is written, and the tests for it.
small_handout.py  Which files a hand-out needs, and the pages that it has.
handout.py      Command: writes the files of some exercises without their answers.
grafting.py     From a student's file to one function that may be called.
calls.py        How each function is called.
references.py   The formulas of the exercises in numpy.
judging.py      The checks of each function: drawn inputs, and what is right.
running.py      Runs a function in a child process with limits.
grade_options.py  The command line of grade.py.
grading.py      From a student's folder to points, a table and files.
grade.py        Command: grades what students hand in.
autograder.py   The zip that Gradescope runs.
rehearsal.py    Tries a hand-out before any student does.
built_notebooks.py  From the text of a notebook to an .ipynb file with outputs.
notebooks.py    Command: builds the notebooks of docs/notebooks/.
"""
