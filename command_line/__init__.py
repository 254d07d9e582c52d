"""Flags, help, and the joined options of a run. No torch here.

options.py    joins the option groups of the packages into one Options
checks.py     refuses combinations of options from several packages
parser.py     makes the flags, --help and --help-all, and reads a command line
folders.py    the folder of a new run, or of the run that --resume names
automatic.py  what each "auto" becomes, with its reason
"""
