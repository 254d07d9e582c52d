"""Command: thousands of faults, each in a real process. `python -m tools.reliability`.

The files in reading order:

    children.py         A trial's process: forked, limited, and measured.
    file_operations.py  Every change that a command makes to files, to stop or to fail there.
    targets.py          The commands that are disturbed, and what they leave.
    workplace.py        The tiny model, table and runs that all trials read.
    trial.py            A trial, its outcome, and what counts as survived.
    kills.py            Processes that are stopped.
    series.py           Commands that start runs of their own, stopped.
    disk.py             Disks that are full, fail, or cannot be written.
    mutations.py        Ways to damage the bytes of a file.
    damaged_files.py    Files that a command reads, damaged.
    damaged_tables.py   Tables of the user, damaged.
    collisions.py       Output paths at which something stands already.
    hostile_server.py   A web server that answers wrongly.
    downloads.py        Downloads from it.
    extremes.py         Numbers far beyond what is sensible.
    together.py         Two processes at once, and the ranks of torchrun.
    soak.py             Memory and open files over a long time.
    campaign.py         All trials in their order, and what is left to do.
    __main__.py         The command line.
"""
