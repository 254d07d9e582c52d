"""The folder of a run: options.json when it begins, a lock while it works, run.json at its end."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import tokenizers
import torch
from filelock import FileLock, Timeout

from minbert.commands.cores import processor_name
from minbert.commands.files import read_json, remove_half_written, write_json
from minbert.commands.locks import lock_file
from minbert.commands.new_folders import new_folder
from minbert.commands.paths import LATEST, temporary_name
from minbert.reporting import terminal
from minbert.training import processes
from minbert.training.code_version import code_version, name_of

OPTIONS_FILE = "options.json"
RECORD_FILE = "run.json"
# Inside the run's folder, so that it moves with it. It is empty. A run that ends removes it. After
# a kill it stays, but the lock on it has ended with the process.
LOCK_FILE = ".lock"

# The locks of this process, by the number of their file on the disk. A lock that nothing refers to
# would be released.
HELD_LOCKS: dict[int, FileLock] = {}


def hold(folder: Path) -> Path:
    """Lock a run's folder until this process ends, also after a kill; returns the folder.

    Nothing happens where no run has begun in `folder` yet, or where files cannot be locked (some
    network drives). ValueError where another process works on the run.
    """
    path = folder / LOCK_FILE
    is_begun = (folder / OPTIONS_FILE).is_file()
    is_ours = path.is_file() and path.stat().st_ino in HELD_LOCKS
    if not is_begun or is_ours:
        return folder

    try:
        lock = lock_file(path, timeout=0)
    except Timeout:
        raise ValueError(
            f"{folder}: another process works on this run. Wait for its end, or stop it."
        ) from None
    if lock is None:
        return folder
    HELD_LOCKS[path.stat().st_ino] = lock
    return folder


def release(folder: Path) -> None:
    """End the lock that `hold` took in this process, if it did, and remove its file."""
    path = folder / LOCK_FILE
    if not path.is_file():
        return
    lock = HELD_LOCKS.pop(path.stat().st_ino, None)
    if lock is not None:
        lock.release()  # before the file goes: Windows does not remove an open file
    path.unlink(missing_ok=True)


def write_nothing(folder: Path) -> None:
    """The default of `claim`: a run needs no other file to begin."""


def claim(
    folder: Path,
    options: dict[str, Any],
    files: dict[str, str],
    is_resumed: bool,
    write: Callable[[Path], None] = write_nothing,
) -> None:
    """Make and lock the run's folder with its options.json, or check on resume what the run reads.

    options: written to options.json. files: SHA-256 by name of all that the run reads.
    write: puts into the new folder what else a run cannot go on without.

    On resume it prints whether the code or the number of processes or threads is another one than
    at the start. The run then goes on, but not to the same bits. Raises ValueError where a file has
    changed since the run began, where another run took the folder, or where another process works
    on the run.
    """
    start = {
        "code": code_version(),
        "processes": processes.count(),
        "threads": torch.get_num_threads(),
    }
    if is_resumed:
        stored = read_json(folder / OPTIONS_FILE)
        check_unchanged(folder, stored["files"], files)
        changes = changes_since({**start, **stored}, start)
        if changes:
            terminal.say(
                f"{folder}: begun with {' and '.join(changes)}; it goes on, but not to the same "
                "bits"
            )
        # A resumed run may have other output paths.
        if stored["options"] != json.loads(json.dumps(options)):
            content = {**stored, "options": options}
            processes.from_first(
                lambda: write_json(folder / OPTIONS_FILE, content, has_checksum=True)
            )
    else:
        content = {"options": options, "files": files, **start}
        processes.from_first(lambda: make_folder(folder, content, write))
    processes.from_first(lambda: hold(folder))


def make_folder(folder: Path, content: dict[str, Any], write: Callable[[Path], None]) -> None:
    """Make the run's folder and its files at once, or nothing.

    content: of options.json. ValueError where something else than an empty folder is in its place.
    """
    try:
        with new_folder(folder) as beside:
            write_json(beside / OPTIONS_FILE, content, has_checksum=True)
            write(beside)
    except OSError as error:
        raise ValueError(
            f"{folder}: the run's folder cannot be made ({error.strerror}). Start the command "
            "again, or choose another folder."
        ) from error


def point_to_latest(folder: Path) -> None:
    """Make the link `latest` beside a run's folder point to that run, if no newer run has it.

    A run does it when it begins, when it is resumed, and at its end. So the link is there in the
    end, also after a kill or a fault of the disk.

    Nothing happens where something else has that name, or where the system makes no links. A link
    to an older run that stays is said.
    """
    link = folder.with_name(LATEST)
    if link.is_symlink():
        if os.readlink(link) == folder.name or time_of_start(link) > time_of_start(folder):
            return
    elif link.exists():
        return
    beside = link.with_name(temporary_name(link))
    try:
        # A process that was killed may have left it.
        beside.unlink(missing_ok=True)
        beside.symlink_to(folder.name, target_is_directory=True)
        # The rename replaces an older link at once.
        os.replace(beside, link)
    except (OSError, NotImplementedError) as error:
        with suppress(OSError):
            beside.unlink()
        if link.is_symlink():
            terminal.say(f"warning: {link} still leads to {os.readlink(link)} ({error})")


def time_of_start(folder: Path) -> float:
    """When the options of a run were written, in seconds; 0 where no run has begun."""
    try:
        return (folder / OPTIONS_FILE).stat().st_mtime
    except OSError:
        return 0.0


def check_unchanged(folder: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """ValueError that names a file whose SHA-256 is not the one that the run began with."""
    for name, digest in now.items():
        if before.get(name) != digest:
            raise ValueError(
                f"--resume {folder}: {name} has changed since the run began. Restore it, or start "
                "a new run without --resume."
            )


def changes_since(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What makes a resumed run end in other bits, for a message: code, processes and threads."""
    changes = []
    if before["code"]["sha256"] != now["code"]["sha256"]:
        changes.append(f"other code ({name_of(before['code'])}, now {name_of(now['code'])})")
    for name in ("processes", "threads"):
        if before[name] != now[name]:
            changes.append(f"another number of {name} ({before[name]}, now {now[name]})")
    return changes


def make_record(options: dict[str, Any], files: dict[str, str], **results: Any) -> dict[str, Any]:
    """The content of run.json: command, options, code, versions, machine, inputs and results."""
    return {
        "command": sys.argv,
        "options": options,
        "code": code_version(),
        "versions": library_versions(),
        "machine": describe_machine(options["device"]),
        "files": files,
        **results,
    }


def library_versions() -> dict[str, str]:
    """The versions of Python and of the libraries on which numbers depend, for run.json."""
    versions = {"python": platform.python_version()}
    for module in (torch, numpy, tokenizers):
        versions[module.__name__] = module.__version__
    return versions


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write run.json, the last file. record: of make_record.

    The run is finished then: its checkpoints and its lock are removed.
    """
    write_json(folder / RECORD_FILE, record, has_checksum=True)
    tidy_up(folder)


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` has come to its end; says so."""
    record = folder / RECORD_FILE
    if record.is_file():
        tidy_up(folder)
        terminal.say(
            f"{folder} is finished, there is nothing to resume; its scores are in {record}."
        )
    return record.is_file()


def tidy_up(folder: Path) -> None:
    """Remove what only an unfinished run needs: checkpoints, half-written files and the lock.

    A run does this at its end. A kill right before has left them, so a command that finds a
    finished run does it, too. What cannot be removed does no harm and stays.
    """
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    with suppress(OSError):
        remove_half_written(folder)
        release(folder)


def describe_machine(device: str) -> dict[str, Any]:
    """The machine, its processor, and the number of processes and threads, for run.json."""
    machine = {
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
        "device": device,
        # processes.count() is 1 by now: the others have ended.
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "processor": processor_name(),
        "cores": os.cpu_count(),
    }
    if torch.cuda.is_initialized():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine
