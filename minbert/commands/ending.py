"""How commands end: on bad input, on Ctrl-C, and with which exit code.

Imports nothing heavy, so that commands answer at once.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

from minbert.commands import start, streams
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.memory import first_line_of, is_lack_of_memory, message_of_full_memory
from minbert.commands.new_folders import reserved
from minbert.commands.optional import advice_on_module
from minbert.commands.paths import NotWritten, in_shell
from minbert.commands.plugins import flags_of_named
from minbert.commands.texts import visible_everywhere

Arguments = Sequence[str] | None
Main = Callable[[Arguments], int | None]

# Exit codes. 130 is what shells report for a program that Ctrl-C ended.
DONE = 0
DIVERGED = 1
BAD_INPUT = 2
DEFECT = 70
STOPPED = start.STOPPED
# Another try would not change these.
FAILS_AGAIN = (DIVERGED, BAD_INPUT, DEFECT)

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)  # errors of a disk without space


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
def resumable(program: str | Path, folder: Path, is_resumed: bool) -> Iterator[None]:
    """Work for the folder of a run. If it is stopped, tell the user how to continue.

    program: the command's words behind the launcher, or its file. folder: that of the run. No other
    command may begin a new run of this name meanwhile: ValueError.

    The loop's own Interrupted is a KeyboardInterrupt. A second Ctrl-C, or one outside of the loop,
    is a plain one. Both get the advice as their message.
    """
    try:
        with reserved(folder, not is_resumed):
            yield
    except (Exception, KeyboardInterrupt) as error:
        if not is_interruption(error):
            raise
        advice = "Nothing was written yet."
        if (folder / "options.json").is_file():
            words = in_shell(program) if isinstance(program, Path) else program
            command = f"{this_launcher()} {words} --resume {in_shell(folder)}"
            advice = f"Continue with: {command}{flags_of_named()}"
        raise KeyboardInterrupt(advice) from error


@contextmanager
def only_warn(file: str) -> Iterator[None]:
    """Turn an error into one line of warning, for work on a run whose results are on the disk.

    file: the one that is then missing. NotWritten is no such error: the disk must be well first,
    and the run is resumed then.
    """
    try:
        yield
    except NotWritten:
        raise
    except Exception as error:
        reason = visible_everywhere(" ".join(f"{type(error).__name__}: {error}".split()))
        print(f"warning: {file} was not written ({reason[:300]}). All results are complete.")


def exit_code(
    name: str,
    stopped: str = "Stopped.",
    outlives_reader: bool = False,
    takes_processes: bool = False,
) -> Callable[[Main], Callable[..., int]]:
    """Decorate main(arguments), so that it returns an exit code and prints errors as one line.

    name: the command, which stands before its error messages. stopped: is printed after Ctrl-C,
    and the message of the interruption follows it. outlives_reader: whether the command goes on
    where the reader of its output goes away, as in `| head`. Otherwise it ends, with code 0.
    takes_processes: whether torchrun may start it in several processes. Otherwise the first one
    refuses, and the others end without a word.

    main may return a code of its own, or nothing. Otherwise the codes are 0 (done), 1 (diverged:
    FloatingPointError, a loss that is not finite), 2 (bad input: ValueError or OSError, or an
    exercise that is not written: NotImplementedError), 70 (a defect: any other exception, whose
    traceback goes to a file) and 130 (Ctrl-C).
    """

    def decorate(main: Main) -> Callable[..., int]:
        @wraps(main)
        def run(arguments: Arguments = None) -> int:
            is_silent = streams.prepare(outlives_reader)
            ending = Ending(name, stopped)
            # Otherwise it is a function in a program of the user, which handles Ctrl-C itself.
            is_program = signal.getsignal(signal.SIGINT) is start.stop_at_once
            try:
                if is_program:
                    INTERRUPTION.listen()
                check_variables()
                if not takes_processes:
                    refuse_processes()
                ending.code = main(arguments) or DONE
                _ignore_signals(is_program)
            except BaseException as error:
                # Such as SystemExit.
                if not isinstance(error, Exception | KeyboardInterrupt) and not is_panic(error):
                    raise
                _ignore_signals(is_program)
                ending.explain(error)
            _check_output(ending)
            if ending.message:
                streams.say(ending.message, is_silent)
            return ending.code

        return run

    return decorate


def check_variables() -> None:
    """Raise ValueError where the variables of torchrun name no process of a group.

    A batch system or a container may leave some of them. Such a process would wait for others that
    never come, or stay silent as one of them.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    rank = os.environ.get("RANK", "0" if count == "1" else "not set")
    if count.isdecimal() and rank.isdecimal() and int(rank) < int(count):
        return
    raise ValueError(
        f"the environment variables WORLD_SIZE and RANK are {count} and {rank}. torchrun sets "
        "them, and RANK is then a whole number below WORLD_SIZE. Start several processes with "
        "torchrun, or one after `unset WORLD_SIZE RANK`."
    )


def refuse_processes() -> None:
    """Refuse several processes, which would all do the whole work and write the same files.

    Only the first one says so. If another one failed before, torchrun would end the first one.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    if count == "1":
        return
    if os.environ.get("RANK", "0") != "0":
        os._exit(DONE)
    raise ValueError(
        f"torchrun started {count} processes, and this command works in one. Start it with "
        f"{this_python()} in the place of torchrun. Several processes can share the work of "
        "run_multitask.py, minbert.pretraining, contrastive.embed and multitask.predict."
    )


@contextmanager
def first_speaks() -> Iterator[None]:
    """Within it only the first of several processes says what is wrong with a command line.

    The others end without a word and with code 0. torchrun ends all processes where one of them
    fails, so another code could end the first one before it has spoken.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0":
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            yield
        except (SystemExit, ValueError, OSError):
            os._exit(DONE)


@dataclass
class Ending:
    """How a command ends: its exit code, and a message for the user."""

    name: str
    stopped: str
    code: int = DONE
    message: str = ""

    def explain(self, error: BaseException) -> None:
        """Set code and message for an exception."""
        if is_interruption(error):
            self.code = STOPPED
            # All processes of a run hear it. One of them says so.
            if os.environ.get("RANK", "0") == "0":
                advice = error.args if isinstance(error, KeyboardInterrupt) else ()
                self.message = " ".join([f"\n{self.stopped}", *map(str, advice)])
            return
        # Whoever closed the pipe has read enough.
        if isinstance(error, BrokenPipeError):
            return
        self.code = BAD_INPUT
        self.message = f"{self.name}: {error}"
        if isinstance(error, ModuleNotFoundError):
            self.message += f". {advice_on_module(error.name or '')}"
        elif isinstance(error, FloatingPointError):
            self.code = DIVERGED
        elif isinstance(error, OSError) and error.filename is None and error.errno in FULL:
            # Our own files say their names.
            self.message = message_of_full_output(self.name, error)
        elif is_lack_of_memory(error):
            self.message = f"{self.name}: {message_of_full_memory(error)}"
        # NotImplementedError is an exercise of the hand-out that is not written yet, and says so.
        elif not isinstance(error, ValueError | OSError | NotImplementedError):
            self.code = DEFECT
            self.message = (
                f"{self.name}: this is a defect of minBERT, or a damaged input that it does not "
                f"recognise: {type(error).__name__}: {first_line_of(error)}. "
                f"{keep_traceback(error)}"
            )


def is_interruption(error: BaseException) -> bool:
    """Whether an exception comes from Ctrl-C, also where a library has made another one of it."""
    return isinstance(error, KeyboardInterrupt) or INTERRUPTION.is_wanted


def is_panic(error: BaseException) -> bool:
    """Whether an exception is the panic of a library in Rust, such as tokenizers."""
    return type(error).__module__ == "pyo3_runtime"


def message_of_full_output(name: str, error: OSError) -> str:
    """The message of a command whose output goes to a full disk."""
    return (
        f"{name}: standard output cannot be written ({error.strerror}). Free some space, or send "
        "it to another place."
    )


def keep_traceback(error: BaseException) -> str:
    """Write the traceback to a new file in the system's temporary folder. Returns a sentence."""
    lines = traceback.format_exception(error)
    text = f"{shlex.join(sys.argv)}\n{sys.version}\n{''.join(lines)}"
    try:
        number, path = tempfile.mkstemp(prefix="minbert-traceback-", suffix=".txt")
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as problem:
        return f"Its traceback could not be written ({problem.strerror})."
    return f"The traceback is in {path}. Please report it."


def _ignore_signals(is_program: bool) -> None:
    """Let Ctrl-C do nothing from here on: the work is over, and a message may follow."""
    if not is_program:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGTERM) == INTERRUPTION.receive:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _check_output(ending: Ending) -> None:
    """Flush the output, and change the ending where it could not be written."""
    problem = streams.finish()
    if problem is None or isinstance(problem, BrokenPipeError):
        return
    ending.code = BAD_INPUT
    ending.message = message_of_full_output(ending.name, problem)
