"""Checks of the paths that a user gives, and paths as a shell takes them."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

LATEST = "latest"  # beside the runs: a link to the newest one
TEMPORARY = ".writing"  # the end of the names of half-written files
LONGEST_START = 200  # bytes of the name of a file in its temporary name


class NotWritten(ValueError):
    """A file could not be written. The message says why and what to do."""


def behind_link(folder: Path) -> Path:
    """The folder that a link such as runs/latest points to, or a folder that is no link itself.

    Only the last part of the path is followed, so that messages keep the words of the user.
    """
    return folder.parent / os.readlink(folder) if folder.is_symlink() else folder


def real_path(path: str | Path) -> Path:
    """The place that a path leads to, all links followed.

    Unlike Path.resolve, it raises nothing where links lead in a circle. Such a link stays.
    """
    return Path(os.path.realpath(path))


def check_writable(run: Path, files: Sequence[Path] = ()) -> None:
    """Raise ValueError if a folder or a file could not be created or written. Leaves nothing.

    run: the folder of a run. files: other files that are to be written. Each name is tried: a
    short file of a temporary name is made in the nearest folder that exists, and removed.
    """
    for file in files:
        if os.path.isdir(file):
            raise ValueError(
                f"{file}: a folder stands where a file is to be written. Choose another path."
            )
    for folder in (run, *(file.parent for file in files)):
        _check_folder(folder)
    for path in (run, *files):
        _check_names(path)


def check_plain_inputs(paths: Iterable[str | Path]) -> None:
    """Raise ValueError for an input that is a device, a pipe or a socket, which may never end.

    A run reads its inputs more than once. A path where nothing is passes: its reader says so.
    """
    for path in paths:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise ValueError(
                f"{path}: it is not a plain file, but a device, a pipe or a socket. Give a file."
            )


def _check_folder(folder: Path) -> None:
    """Raise ValueError if the nearest folder that exists cannot take new files."""
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        reason = "a link to nothing" if existing.is_symlink() else "a file"
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = "not writable"
    else:
        try:
            with tempfile.TemporaryFile(dir=existing):
                return
        except OSError as error:
            # Such as a read-only disk, or one without a free place for another file.
            reason = f"not writable ({error.strerror})"
    raise ValueError(
        f"{folder}: cannot be written, because {existing} is {reason}. Choose another folder."
    )


def _check_names(path: Path) -> None:
    """Raise ValueError if the file system does not allow the path or one of its parts."""
    existing = _nearest_existing(path)
    parts = path.absolute().relative_to(existing.absolute()).parts
    try:
        for part in parts:
            _look_up(existing / part)
        _look_up(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{path}: no possible path ({reason}). Choose a shorter name.") from error


def _look_up(path: Path) -> None:
    """OSError or ValueError if there can be nothing at this path."""
    with suppress(FileNotFoundError):
        path.lstat()


def _nearest_existing(folder: Path) -> Path:
    """Find the folder itself if it exists, or else the nearest folder above it that does.

    A link to nothing counts as existing, because no folder can be made in its place.
    """
    candidates = (folder, *folder.absolute().parents)
    return next(path for path in candidates if os.path.lexists(path))


def temporary_name(path: Path) -> str:
    """The name under which a file is written before it gets its own.

    A long name is cut. File systems allow 255 bytes, and more is not needed to tell two apart.
    """
    start = os.fsencode(path.name)[:LONGEST_START]
    # Half a character at the cut is dropped.
    return f".{start.decode('utf-8', 'ignore')}{TEMPORARY}"


def in_shell(path: Path) -> str:
    """Write a path so that it can be pasted into a shell.

    It is quoted if necessary, and relative if it lies in the working folder.
    """
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def is_free(folder: Path) -> bool:
    """Whether a new folder can take this place: nothing is there, or an empty folder."""
    if not folder.exists():
        return True
    return folder.is_dir() and not any(folder.iterdir())
