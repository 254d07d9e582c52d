"""Folders that are written whole or not at all.

A folder is made beside its place and renamed when it is complete. So a command that was killed can
be given again: its place is still free.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from minbert.commands.files import flush_folder
from minbert.commands.locks import lock_file
from minbert.commands.paths import in_shell, is_free, temporary_name
from minbert.commands.plugins import PluginError, flags_of_named

if TYPE_CHECKING:
    from filelock import FileLock


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
        # From here on the folder itself says that the place is taken. A kill after the rename would
        # leave the file.
        remove_reservation(folder)
        # The system renames only to where nothing or an empty folder is.
        beside.rename(folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def reserved(folder: Path, is_wanted: bool = True) -> Iterator[None]:
    """Within the block, no other command begins to work for this new folder.

    So the second of two commands with one new folder ends at once, and not after its work. Of
    several processes that train one model, the first one reserves. is_wanted: False does nothing.

    A file beside the folder is locked, and removed at the end. After a kill the file stays, but the
    lock on it has ended. Nothing happens where no file can be made or locked.

    ValueError where another command works for the folder, or has just made it.
    """
    if not is_wanted or os.environ.get("RANK", "0") != "0":
        yield
        return
    made = make_parents(folder)
    try:
        lock = lock_or_refuse(folder)
        try:
            if not is_free(folder):
                raise ValueError(f"{folder} was just made by another command. Choose another name.")
            yield
        finally:
            if lock is not None:
                remove_reservation(folder)
                lock.release()
    finally:
        for parent in made:
            # It stays if something is in it by now.
            with suppress(OSError):
                parent.rmdir()


def refuse_taken(name: str, folder: Path, load: Callable[[Path], object], remedy: str) -> NoReturn:
    """Raise ValueError for a new run's folder that is not free. Only a run can be continued.

    name: of the folder, for the message. load: opens a run of this command that has begun, and
    raises ValueError where there is none. remedy: what to pass in its place.
    """
    advice = f"Pass --resume {in_shell(folder)}{flags_of_named()} to continue it, or {remedy}."
    try:
        load(folder)
    except PluginError:
        pass  # a run, and --resume says which file it needs
    except ValueError:
        advice = f"It holds no run that this command can continue. Pass {remedy}."
    raise ValueError(f"{name} exists. {advice}")


def is_reserved(folder: Path) -> bool:
    """Whether another command works for this new folder."""
    if not reservation_of(folder).exists():
        return False
    try:
        lock = lock_or_refuse(folder)
    except ValueError:
        return True
    if lock is not None:
        lock.release()
    return False


def reservation_of(folder: Path) -> Path:
    """The file beside a new folder that a command locks while it works for it."""
    return folder.with_name(f"{temporary_name(folder)}.lock")


def remove_reservation(folder: Path) -> None:
    """Remove the file. Windows does not remove one that is open."""
    with suppress(OSError):
        reservation_of(folder).unlink()


def make_parents(folder: Path) -> list[Path]:
    """Make the folders above a new folder. Returns those that were not there, the lowest first."""
    made = [parent for parent in folder.parents if not parent.exists()]
    # check_new_folder says why they cannot be made.
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    return made


def lock_or_refuse(folder: Path) -> FileLock | None:
    """Lock the file beside a new folder, as lock_file. ValueError where another command has it.

    None also where the folder above could not be made: check_new_folder says why.
    """
    # Imported late, so that --help answers at once.
    from filelock import Timeout

    # filelock would make the folders above, even behind a link to nothing.
    if not folder.parent.is_dir():
        return None
    try:
        return lock_file(reservation_of(folder), timeout=0)
    except Timeout:
        raise ValueError(
            f"{folder}: another command makes this folder just now. Start again with another name, "
            "or after its end."
        ) from None


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
