"""Checks of the paths that a user gives, and paths as a shell takes them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


def check_writable(run: Path, files: Sequence[Path] = ()) -> None:
    """ValueError for the run's folder or a file that could not be created or written into; creates nothing."""
    for path in filter(Path.is_dir, files):
        raise ValueError(
            f"{path}: a folder stands where a file is to be written. Choose another path."
        )
    for folder in (run, *(path.parent for path in files)):
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise ValueError(
                f"{folder}: cannot be written, because {existing} is "
                f"{'not writable' if existing.is_dir() else 'a file'}. Choose another folder."
            )


def in_shell(path: Path) -> str:
    """A path to paste into a shell: quoted where it has to be, and relative where it lies in the working folder."""
    return shlex.quote(
        str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    )


def is_free(folder: Path) -> bool:
    """Whether a new folder can take this place: nothing is there, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
