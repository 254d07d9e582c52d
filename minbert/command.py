"""What commands share: whether a folder can be written, and how they end on bad input or Ctrl-C.

Imports nothing heavy, so that they answer at once.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
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


def check_at_least(given: Namespace, least: dict[str, int]) -> None:
    """ValueError for a number among the given ones that is below the least with a meaning; None was not given."""
    for name, limit in least.items():
        if (value := getattr(given, name)) is not None and value < limit:
            raise ValueError(
                f"--{name.replace('_', '-')} is {value}; pass a whole number of {limit} or more."
            )


def in_shell(path: Path) -> str:
    """A path to paste into a shell: quoted where it has to be, and relative where it lies in the working folder."""
    return shlex.quote(
        str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    )


def this_python() -> str:
    """The command that runs this Python, to print in advice: `.venv/bin/python` in the root of the clone."""
    return in_shell(Path(sys.executable))


def this_launcher() -> str:
    """What starts a program as this one was started: `this_python`, or torchrun with as many processes a machine."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return this_python()
    torchrun = in_shell(Path(sys.executable).with_name("torchrun"))
    return f"{torchrun} --nproc_per_node {os.environ.get('LOCAL_WORLD_SIZE', '?')}"


def is_free(folder: Path) -> bool:
    """Whether a new folder can take this place: nothing is there, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


@contextmanager
def resumable(program: str, folder: Path) -> Iterator[None]:
    """A run of `program` in `folder`: whoever stops it hears how it goes on, whether the loop had saved or not.

    The loop's own Interrupted is a KeyboardInterrupt; a second Ctrl-C, or one outside the loop, is a plain one.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        is_begun = (folder / "options.json").is_file()
        raise KeyboardInterrupt(
            f"Continue with: {this_launcher()} {program} --resume {in_shell(folder)}"
            if is_begun
            else "Nothing was written yet."
        ) from error


def exit_code(name: str, stopped: str = "Stopped.") -> Callable:
    """Decorates main(arguments), which returns nothing or a code of its own: 0 done, 1 diverged, 2 bad input, 130 stop.

    Bad input is a ValueError or OSError, a loss that is not finite a FloatingPointError; the message follows the
    command's `name`. `stopped` is said after Ctrl-C, and then what the interruption itself has to say.
    """

    def decorate(main: Callable[[Sequence[str] | None], int | None]) -> Callable[..., int]:
        @wraps(main)
        def run(arguments: Sequence[str] | None = None) -> int:
            if isinstance(sys.stdout, io.TextIOWrapper):  # that of a notebook is another
                # In a log, too, a line stands once it is said; what the encoding of a pipe or locale lacks is escaped.
                sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
            sys.stdin = sys.stdin or io.TextIOWrapper(
                io.BytesIO()
            )  # None where it is closed; nothing to read, then
            try:
                return main(arguments) or 0
            except KeyboardInterrupt as error:
                if os.environ.get("RANK", "0") == "0":  # of several processes, which all hear it
                    print(f"\n{stopped}", *error.args, file=sys.stderr)
                return 130
            except (ValueError, OSError, ModuleNotFoundError, FloatingPointError) as error:
                hint = ". Run `bash setup.sh` once, then .venv/bin/python" * isinstance(
                    error, ModuleNotFoundError
                )
                print(f"{name}: {error}{hint}", file=sys.stderr)
                return 1 if isinstance(error, FloatingPointError) else 2

        return run

    return decorate
