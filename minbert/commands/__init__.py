"""How every command starts and ends. Imports nothing of ours, and every package may import it.

In reading order:

options.py      Option groups: how a package declares its options, and how they are checked.
registry.py     Registries: the methods that an option names, each with all that belongs to it.
plugins.py      --plugin: a user's file that registers methods.
flags.py        Flags and help, made from the fields of an option group.
paths.py        Checks of the paths that a user gives, and paths as a shell takes them.
outputs.py      The one check of every path that a user gives a command to write to.
cores.py        The processor, how threads wait for each other, and who else uses its cores.
start.py        The first moments of a command, before its own files are imported.
texts.py        Makes signs visible that a reader cannot see, and keeps messages short.
streams.py      Standard input and output that may be closed, full or without a reader.
ctrl_c.py       Ctrl-C while a command works, also where a library loses it.
memory.py       Too little memory, told as such.
hidden.py       Files of a user that hide a package of ours.
optional.py     Packages that are not installed, and the command that installs them.
ending.py       Exit codes, Ctrl-C and the messages of both.
launcher.py     The command `minbert`, which lists and starts all commands.
files.py        Files that are written whole or not at all.
new_folders.py  Folders that are written whole or not at all.
locks.py        Locks on files, which keep two processes from the same work.
digests.py      The record of a model's files, which every reader compares.
"""
