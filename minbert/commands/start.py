"""The first moments of a command, before its own files are imported.

Until `exit_code` takes over (ending.py), Ctrl-C ends the program without a traceback. A standard
stream that is closed is opened on the null device. Otherwise the next file that is opened would get
its number, and what C code prints would go into that file.

minbert/__init__.py imports this file before all others. It imports little itself, because Ctrl-C
during an import is its topic. In a program that is no command of ours, such as a notebook, nothing
is changed.
"""

from __future__ import annotations

import os
import signal
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
STOPPED = 130  # what shells report for a program that Ctrl-C ended


def is_command() -> bool:
    """Whether the program that runs is a command of ours."""
    # Python puts "-m" there until it has found the module.
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":
        words = sys.orig_argv
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        return is_ours(module.partition(".")[0])
    if os.path.basename(program) in ("minbert", "minbert.exe"):
        return True
    path = os.path.relpath(os.path.realpath(program), ROOT)
    return is_ours(path.split(os.sep)[0].removesuffix(".py"))


def is_ours(name: str) -> bool:
    """Whether a name is that of a package of ours, or of run_multitask."""
    if name == "run_multitask":
        return True
    return name.isidentifier() and os.path.isfile(os.path.join(ROOT, name, "__init__.py"))


def open_closed_streams() -> None:
    """Open the null device in the place of each standard stream that is closed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)


def stop_at_once(signal_number: int, frame: object) -> None:
    """The handler of Ctrl-C until a command listens for it itself: nothing has begun yet."""
    if os.environ.get("RANK", "0") == "0" and sys.stderr is not None:
        try:
            os.write(2, b"\nStopped.\n")
        except OSError:  # standard error is full or closed
            os._exit(STOPPED)
    os._exit(STOPPED)


def begin() -> None:
    """Prepare the process if it is a command of ours."""
    if not is_command():
        return
    open_closed_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop_at_once)
    # Imported here, because Ctrl-C is handled from the line above on.
    from minbert.commands import cores

    cores.begin()


begin()
