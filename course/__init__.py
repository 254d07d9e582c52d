"""The hand-ins of courses, and the names that scripts of a course import.

A student who comes from a course looks for these names. teaching/ is for the teachers of one. In
reading order:

editions.py      The courses and their years: words of a mode, names of files.
options.py       The options of the three commands.
four_runs.py     The four runs of part 1, and their eight files.
part1.py         Command: SST and CFIMDB in both modes, and the eight files of part 1.
predicted_files.py  Other data as a finished run predicts them.
predict.py       Command: predicts other data with a finished run, as leaderboard files.
hand_in.py       The files of a hand-in: verified, and joined in a zip.
submit.py        Command: verifies the files of a hand-in and writes its zip.
datasets.py      The course's readers and data sets, with their collate_fn.
evaluation.py    Predictions and scores of a student's multitask model.
checkpoints.py   What the checkpoints of the course's scripts hold, besides tensors.
cs224n_2024.py   All names that a script of CS224N 2024 imports.
cs224n_2023.py   The same for 2023, where results come in another order.
"""

import sys

try:
    from minbert.commands.hidden import check_packages
except ModuleNotFoundError as error:
    if error.name != "minbert.commands":
        raise
    place = getattr(sys.modules.get("minbert"), "__file__", None) or "a folder named minbert"
    raise ImportError(
        f"{place} hides the package minbert, because it comes first on Python's path. Rename it, "
        "or move your script to another folder."
    ) from error

check_packages("data", "multitask")
