"""For courses that teach with this code. docs/teaching.md says how.

exercises.py    The exercises: what is written, and the tests for it.
options.py      The command lines of handout.py, grade.py and trace.py.
small_handout.py  Which files a hand-out needs, its pages, and the zip that Gradescope runs.
handout.py      Command: writes the files of some exercises without their answers.
grafting.py     From a student's file to one function that may be called.
calls.py        How each function is called.
judging.py      How answers are judged, and the numbers that cases are made of.
checks.py       The checks of each function.
children.py     Runs a function in a forked process.
running.py      Runs a student's function in a child process with limits.
grading.py      From a student's folder to points, a table and files.
grade.py        Command: grades what students hand in.
trace.py        Command: follows one sentence through the model.
stations.py     The stations of a sentence in the encoder, each with its line, and their tensors.
comparing.py    Other code beside ours: the first tensor that differs.
tracing.py      What trace.py shows.
rehearsal.py    Tries a hand-out before any student does.
built_notebooks.py  From the text of a notebook to an .ipynb file with outputs.
notebooks.py    Command: builds the notebooks of docs/notebooks/.

The pages of a hand-out and the scripts of the zip stand in templates/.
"""
