"""What commands share: whether a folder can be written, and how they end on bad input or Ctrl-C.

Imports nothing heavy, so that they answer at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from minbert.commands.paths import in_shell


def this_python() -> str:
    """The command that runs this Python, to print in advice: `.venv/bin/python` in the root of the clone."""
    return in_shell(Path(sys.executable))


def this_launcher() -> str:
    """What starts a program as this one was started: `this_python`, or torchrun with as many processes a machine."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return this_python()
    torchrun = in_shell(Path(sys.executable).with_name("torchrun"))
    return f"{torchrun} --nproc_per_node {os.environ.get('LOCAL_WORLD_SIZE', '?')}"


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
