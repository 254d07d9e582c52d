"""Checks of the paths that a user gives, and paths as a shell takes them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

LATEST = "latest"  # beside the runs: a link to the newest one


def behind_link(folder: Path) -> Path:
    """The folder that a link such as runs/latest points to, or a folder that is no link itself.

    Only the last part of the path is followed, so that messages keep the words of the user.
    """
    return folder.parent / os.readlink(folder) if folder.is_symlink() else folder


def check_writable(run: Path, files: Sequence[Path] = ()) -> None:
    """Raise ValueError if a folder or a file could not be created or written. Creates nothing.

    run: the folder of a run. files: other files that are to be written.
    """
    for file in files:
        if file.is_dir():
            raise ValueError(
                f"{file}: a folder stands where a file is to be written. Choose another path."
            )
    for folder in (run, *(file.parent for file in files)):
        existing = _nearest_existing(folder)
        if not existing.is_dir():
            reason = "a file"
        elif not os.access(existing, os.W_OK | os.X_OK):
            reason = "not writable"
        else:
            continue
        raise ValueError(
            f"{folder}: cannot be written, because {existing} is {reason}. Choose another folder."
        )


def _nearest_existing(folder: Path) -> Path:
    """Find the folder itself if it exists, or else the nearest folder above it that does."""
    candidates = (folder, *folder.absolute().parents)
    return next(path for path in candidates if path.exists())


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
