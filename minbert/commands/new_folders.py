"""Folders that are written whole or not at all.

A folder is made beside its place and renamed when it is complete. So a command that was killed can
be given again: its place is still free.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minbert.commands.files import flush_folder
from minbert.commands.paths import temporary_name


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Gives a new empty folder beside `folder`, which takes its place when the block ends.

    After an error in the block, or a kill, nothing is at `folder`. What killed processes have left
    beside it is removed first. OSError where something else than an empty folder is in its place.
    """
    beside = folder.with_name(f"{temporary_name(folder)}.{os.getpid()}")
    remove_leftovers(folder)
    # An earlier process may have had the number of this one.
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        yield beside
        # The system renames only to where nothing or an empty folder is.
        beside.rename(folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what earlier processes have left of this folder: they were killed while they made it.

    The name of such a folder ends in the number of its process.
    """
    for path in folder.parent.glob(f"{glob.escape(temporary_name(folder))}.*"):
        number = path.name.rpartition(".")[2]
        if number.isdecimal() and not is_running(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def is_running(number: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(number, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user, or is no possible number
        return True
    return True
