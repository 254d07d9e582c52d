"""What a run was: options.json when it begins, run.json when it ends."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy
import tokenizers
import torch

from minbert.commands.files import write_json
from minbert.training import processes
from minbert.training.code_version import code_version, name_of

HELD = {}  # number of a file on its disk: the open file, whose lock ends with the process


def hold(folder: Path) -> Path:
    """Lock the run's folder, if it is there, for this process to its end; ValueError where another one works in it.

    Returns it. Where files cannot be locked (Windows, some network drives) nothing happens.
    """
    with suppress(ImportError, OSError):
        import fcntl

        path = folder / "options.json"
        number = path.stat().st_ino
        HELD[number] = HELD.get(number) or open(path)  # noqa: SIM115 - it stays open
        try:
            fcntl.flock(HELD[number], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder}: another process works on this run. Wait for its end, or stop it."
            ) from None
    return folder


def claim(
    folder: Path,
    options: dict,
    files: dict[str, str],
    is_resumed: bool,
    write: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Make the run's folder with its options.json; on resume check that what it reads is still the same.

    files: SHA-256 by name. `write` puts into the new folder what else a run cannot go on without: folder and content
    come into being at once. Raises ValueError naming a file that has changed, or where another run took the folder, or
    another process works on this one.
    Where code or the number of processes or threads differ from those at the start, it says so and goes on, but not
    to the same bits.
    """
    now = {
        "code": code_version(),
        "processes": processes.count(),
        "threads": torch.get_num_threads(),
    }

    def make() -> None:
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            write_json(beside / "options.json", {"options": options, "files": files, **now})
            write(beside)
            beside.rename(folder)  # where nothing or an empty folder stands, and only there
        except OSError as error:
            raise ValueError(
                f"{folder}: the run's folder cannot be made ({error.strerror}). Start the command again, "
                "or choose another folder."
            ) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    if is_resumed:
        stored = json.loads((folder / "options.json").read_text(encoding="utf-8"))
        changed = [name for name in files if stored["files"].get(name) != files[name]]
        if changed:
            raise ValueError(
                f"--resume {folder}: {changed[0]} has changed since the run began. Restore it, or start a "
                "new run without --resume."
            )
        before, told = {**now, **stored}, []
        if before["code"]["sha256"] != now["code"]["sha256"]:
            told.append(f"other code ({name_of(before['code'])}, now {name_of(now['code'])})")
        told += [
            f"another number of {what} ({before[what]}, now {now[what]})"
            for what in ("processes", "threads")
            if before[what] != now[what]
        ]
        if told:
            print(
                f"{folder}: begun with {' and '.join(told)}; it goes on, but not to the same bits"
            )
    else:
        processes.from_first(make)
    processes.from_first(lambda: hold(folder))


def write_record(folder: Path, options: dict, files: dict[str, str], **results) -> None:
    """Write run.json: command, options, code, versions, machine, inputs, results; nothing is left to be resumed."""
    modules = (torch, numpy, tokenizers)
    versions = {
        "python": platform.python_version(),
        **{module.__name__: module.__version__ for module in modules},
    }
    machine = {
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
        "device": options["device"],
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }
    if torch.cuda.is_initialized():
        machine["gpu"] = torch.cuda.get_device_name()
    write_json(
        folder / "run.json",
        {
            "command": sys.argv,
            "options": options,
            "code": code_version(),
            "versions": versions,
            "machine": machine,
            "files": files,
            **results,
        },
    )
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
