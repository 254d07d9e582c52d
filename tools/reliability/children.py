"""Trials are real processes. They are forked, so that none has to import torch again.

The parent imports everything once and computes nothing. A child has its own memory, signals, limits
and streams, and dies alone. It costs a fraction of a second instead of several seconds. Linux only.
"""

from __future__ import annotations

import importlib
import io
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from fcntl import F_SETPIPE_SZ, fcntl
from typing import NamedTuple

from minbert.commands import start
from minbert.commands.ctrl_c import INTERRUPTION
from minbert.commands.memory import size_of_process

# A hang is what takes longer. The machine may be busy, so this is more than a trial ever needs.
LONGEST = 120.0
SLICE = 1.0
PIPE_SIZE = 1 << 20
ADDRESS_SPACE = 12 << 30
STOPPABLE = ("run_multitask", "minbert.pretraining")  # SIGTERM stops them as Ctrl-C does

SENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The children that have not been waited for.
RUNNING: set[int] = set()


class Call(NamedTuple):
    """A command of ours with its arguments.

    module: such as multitask.predict. before: is called in the child before the command, to limit
    it or to damage its calls of the system. text: its standard input.
    """

    module: str
    arguments: Sequence[str]
    before: Callable[[], None] | None = None
    text: bytes = b""

    @property
    def name(self) -> str:
        """The name with which the command begins its messages."""
        if self.module == "run_multitask":
            return "run_multitask.py"
        return f"python -m {self.module}"


class Ending(NamedTuple):
    """How a child ended.

    code: its exit code, the negative number of the signal that ended it, or None if it hung.
    seconds: by the clock. busy_seconds: of the processor. bytes: the most memory it had, without
        that of the process from which it was forked.
    """

    name: str
    code: int | None
    output: str
    errors: str
    seconds: float
    busy_seconds: float
    bytes: int


def main_of(module: str) -> Callable[[Sequence[str]], int]:
    """The function `main` of a command."""
    with suppress(ModuleNotFoundError):
        return importlib.import_module(f"{module}.__main__").main
    return importlib.import_module(module).main


class Child:
    """A process that runs one command of ours."""

    def __init__(self, call: Call) -> None:
        self.call = call
        # The import happens in the parent, once.
        main = main_of(call.module)
        pipes = [os.pipe() for _ in range(3)]
        for reader, _ in pipes[1:]:
            fcntl(reader, F_SETPIPE_SZ, PIPE_SIZE)
        sys.stdout.flush()
        sys.stderr.flush()
        self.begun = time.monotonic()
        # A signal waits until the child has the handlers of a fresh process.
        signal.pthread_sigmask(signal.SIG_BLOCK, SENT)
        self.inherited = size_of_process("RssAnon")
        self.pid = os.fork()
        if self.pid == 0:
            run_and_exit(call, main, pipes)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
        # The ends of the child.
        os.close(pipes[0][0])
        os.close(pipes[1][1])
        os.close(pipes[2][1])
        os.write(pipes[0][1], call.text[: PIPE_SIZE // 16])
        os.close(pipes[0][1])
        self.streams = {pipes[1][0]: b"", pipes[2][0]: b""}
        self.unread = list(self.streams)
        self.handle = os.pidfd_open(self.pid)
        self.is_running = True
        RUNNING.add(self.pid)

    def wait(self, longest: float = LONGEST) -> bool:
        """Read what the child says until it ends, at most so many seconds. True if it has ended."""
        waited = 0.0
        while self.is_running:
            if waited >= longest:
                return False
            before = time.monotonic()
            part = min(longest - waited, SLICE)
            ready, _, _ = select.select([self.handle, *self.unread], [], [], part)
            # A machine that sleeps for a while stops this process and the child.
            waited += min(time.monotonic() - before, SLICE)
            self._read(ready)
            if self.handle in ready:
                self.is_running = False
        return True

    def send(self, number: int) -> None:
        """Send a signal, if the child still runs."""
        if self.is_running:
            os.kill(self.pid, number)

    def end(self, longest: float = LONGEST) -> Ending:
        """Wait for the end of the child and return how it ended. A child that hangs is killed."""
        is_over = self.wait(longest)
        if not is_over:
            os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        RUNNING.discard(self.pid)
        self._read(self.unread)
        for number in (self.handle, *self.streams):
            os.close(number)
        output, errors = (text.decode("utf-8", "replace") for text in self.streams.values())
        return Ending(
            self.call.name,
            os.waitstatus_to_exitcode(status) if is_over else None,
            output,
            errors,
            time.monotonic() - self.begun,
            usage.ru_utime + usage.ru_stime,
            max(0, usage.ru_maxrss * 1024 - self.inherited),
        )

    def _read(self, ready: Sequence[int]) -> None:
        """Read what is there."""
        for number in list(self.unread):
            if number not in ready:
                continue
            os.set_blocking(number, False)
            with suppress(BlockingIOError):
                block = os.read(number, PIPE_SIZE)
                self.streams[number] += block
                if not block:
                    self.unread.remove(number)


def kill_all() -> None:
    """Kill the children of a trial that is given up."""
    for pid in sorted(RUNNING):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    RUNNING.clear()


def run(call: Call, longest: float = LONGEST) -> Ending:
    """Run a command in a process of its own, to its end."""
    return Child(call).end(longest)


def run_and_exit(
    call: Call, main: Callable[[Sequence[str]], int], pipes: Sequence[tuple[int, int]]
) -> None:
    """What the child does: it looks like a fresh process of the command, and never returns."""
    code = 1
    try:
        os.setsid()
        for number, pipe in enumerate(pipes):
            os.dup2(pipe[0] if number == 0 else pipe[1], number)
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])
        sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), write_through=True)
        sys.argv = [call.name.removeprefix("python -m "), *call.arguments]
        set_signals(call.module)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
        # A file that asks for too much memory must not stop the machine.
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        if call.before is not None:
            call.before()
        code = main(call.arguments) or 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def set_signals(module: str) -> None:
    """Set the handlers that a fresh process of the command has before its main function."""
    signal.signal(signal.SIGINT, start.stop_at_once)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    is_stoppable = module in STOPPABLE
    signal.signal(signal.SIGTERM, INTERRUPTION.receive if is_stoppable else signal.SIG_DFL)


def preload(call: Call) -> None:
    """Import all that a command imports while it works. A child finds out what that is."""
    reader, writer = os.pipe()
    fcntl(reader, F_SETPIPE_SZ, PIPE_SIZE)
    names_before = set(sys.modules)
    main = main_of(call.module)
    pid = os.fork()
    if pid == 0:
        silent = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(silent, number)
        sys.stdin = io.TextIOWrapper(io.BytesIO(call.text))
        with suppress(BaseException):
            if call.before is not None:
                call.before()
            main(call.arguments)
        names = [name for name in sys.modules if name not in names_before]
        os.write(writer, "\n".join(names).encode()[:PIPE_SIZE])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        names = file.read().split()
    os.waitpid(pid, 0)
    for name in names:
        if os.environ.get("DBG"):
            print(name, flush=True)
        # Some modules exist only inside of others.
        with suppress(Exception):
            importlib.import_module(name)
