"""The hand-ins of courses, and the names that scripts of a course import.

A student who comes from a course looks for these names. teaching/ is for the teachers of one. In
reading order:

editions.py      The courses and their years: words of a mode, names of files.
part1.py         Command: SST and CFIMDB in both modes, and the eight files of part 1.
submit.py        Command: verifies the files of a hand-in and writes its zip.
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
