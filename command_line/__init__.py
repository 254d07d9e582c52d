"""Flags, help, and the joined options of a run. Only settings.py imports torch.

options.py       joins the option groups of the packages into one Options
checks.py        refuses combinations of options from several packages
course_flags.py  the flags of the courses' own scripts, in our words
parser.py        makes the flags, --help and --help-all, and reads a command line
folders.py       the folder of a new run, or of the run that --resume names
automatic.py     what each "auto" becomes, with its reason
settings.py      the same for a run: its device, its model, and a printed line for each value
reproduction.py  the command line of a finished run
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

check_packages("data", "contrastive", "multitask", "experiments")
