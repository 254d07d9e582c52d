"""How commands end: on bad input, on Ctrl-C, and with which exit code.

Imports nothing heavy, so that commands answer at once.
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

Arguments = Sequence[str] | None
Main = Callable[[Arguments], int | None]

# Exit codes. 130 is what shells report for a program that Ctrl-C ended.
DONE = 0
DIVERGED = 1
BAD_INPUT = 2
STOPPED = 130


def this_python() -> str:
    """The command that starts this Python, for advice: `.venv/bin/python` in the clone's root."""
    return in_shell(Path(sys.executable))


def this_launcher() -> str:
    """The command that starts a program as this one was started, for advice.

    It is `this_python`, or torchrun with as many processes per machine.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return this_python()
    torchrun = in_shell(Path(sys.executable).with_name("torchrun"))
    return f"{torchrun} --nproc_per_node {os.environ.get('LOCAL_WORLD_SIZE', '?')}"


@contextmanager
def resumable(program: str, folder: Path) -> Iterator[None]:
    """Tell the user how to continue if a run is stopped, whether the loop had saved or not.

    program: the command's words behind the launcher. folder: that of the run.

    The loop's own Interrupted is a KeyboardInterrupt. A second Ctrl-C, or one outside of the loop,
    is a plain one. Both get the advice as their message.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        advice = "Nothing was written yet."
        if (folder / "options.json").is_file():
            advice = f"Continue with: {this_launcher()} {program} --resume {in_shell(folder)}"
        raise KeyboardInterrupt(advice) from error


def exit_code(name: str, stopped: str = "Stopped.") -> Callable[[Main], Callable[..., int]]:
    """Decorate main(arguments), so that it returns an exit code and prints errors as one line.

    name: the command, which stands before its error messages. stopped: is printed after Ctrl-C,
    and the message of the interruption follows it.

    main may return a code of its own, or nothing. Otherwise the codes are 0 (done), 1 (diverged:
    FloatingPointError, a loss that is not finite), 2 (bad input: ValueError or OSError) and 130
    (Ctrl-C). Any other exception is a defect and is not caught.
    """

    def decorate(main: Main) -> Callable[..., int]:
        @wraps(main)
        def run(arguments: Arguments = None) -> int:
            _prepare_streams()
            try:
                return main(arguments) or DONE
            except KeyboardInterrupt as error:
                # All processes of a run hear it. One of them says so.
                if os.environ.get("RANK", "0") == "0":
                    print(f"\n{stopped}", *error.args, file=sys.stderr)
                return STOPPED
            except ModuleNotFoundError as error:
                hint = "Run `bash setup.sh` once, then .venv/bin/python"
                print(f"{name}: {error}. {hint}", file=sys.stderr)
                return BAD_INPUT
            except (ValueError, OSError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return BAD_INPUT
            except FloatingPointError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return DIVERGED

        return run

    return decorate


def _prepare_streams() -> None:
    """Make output appear at once and never fail, and give a closed input an end."""
    # The output of a notebook is of another class.
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A log shows a line once it is printed. The encoding of a pipe may lack a character, which
        # is then escaped.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    # None stands for an input that is closed.
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
