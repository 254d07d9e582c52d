"""Runs a student's function in a child process, with limits, and judges what comes back.

The child is forked for each function. It holds no expected result: those are computed after it has
answered. It writes one line for each check, so the lines before a crash still count.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from teaching.calls import answer
from teaching.checks import CHECKS, Check
from teaching.grafting import Refused, graft
from teaching.judging import Answer, Case, read_answer

SECONDS = 10  # of computing, for all checks of a function
WAIT = 6  # times as long, because a busy machine computes less
MEMORY = 2 * 1024**3  # bytes beside those that Python and torch take
LONGEST = 64 * 1024**2  # bytes of an answer


class CheckResult(NamedTuple):
    """The result of one check."""

    name: str
    message: str  # "" where it passed


class FunctionResult(NamedTuple):
    """The result of all checks of a function."""

    function: str
    checks: list[CheckResult]

    @property
    def share(self) -> float:
        """The share of the checks that passed."""
        return sum(not check.message for check in self.checks) / len(self.checks)


def grade_function(name: str, clean: str, student: str, module: ModuleType) -> FunctionResult:
    """Run and judge one function. clean, student, module: as in `graft`."""
    checks = CHECKS[name]
    # No student knows the seed.
    rng = np.random.default_rng()
    cases = [check.draw(rng) for check in checks]

    def work(send: Callable[[str], None]) -> None:
        try:
            made = graft(clean, student, name, module)
        except Refused as error:
            for _ in cases:
                send(json.dumps({"error": f"refused: {error}"}))
            return
        owner, _, method = name.rpartition(".")
        place = getattr(module, owner) if owner else module
        # The answer itself would still be called by `self(...)` or `self.update(...)`.
        for word, function in {**made.methods, method: made.function}.items():
            setattr(place, word, function)
        for case in cases:
            send(answer(name, made.function, case.inputs, case.options))

    lines, ending = run_in_child(work)
    results: list[CheckResult] = []
    for number, (check, case) in enumerate(zip(checks, cases, strict=True)):
        line = lines[number] if number < len(lines) else json.dumps({"error": ending})
        message = judge(check, case, line)
        if check.is_weak and results[0].message:
            message = message or f"counts only where '{checks[0].name}' passes"
        results.append(CheckResult(check.name, message))
    return FunctionResult(name, results)


def judge(check: Check, case: Case, line: str) -> str:
    """Say what is wrong with an answer, or ""."""
    try:
        parts = read_answer(line)
        if "error" in parts:
            is_expected = check.error and parts["error"].startswith(f"{check.error}:")
            return "" if is_expected else str(parts["error"])
        if check.error:
            return "no error was raised; see the docstring"
        return check.judge(case, Answer(**parts))
    except Exception as error:
        # A result of another kind than every right one may break a judge in any way.
        return f"the result cannot be read ({type(error).__name__}: {error})"


# --- the child ------------------------------------------------------------------------------------


def run_in_child(work: Callable[[Callable[[str], None]], None]) -> tuple[list[str], str]:
    """Run `work` in a forked process. Returns the lines that it sent, and how it ended."""
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def run() -> None:
        limit()
        try:
            work(lambda line: writer.send_bytes(line.encode()))
        except Exception:
            writer.send_bytes(json.dumps({"error": traceback.format_exc()[-1500:]}).encode())

    child = context.Process(target=run)
    child.start()
    writer.close()
    lines = []
    ending = f"stopped after {WAIT * SECONDS} seconds"
    deadline = time.monotonic() + WAIT * SECONDS
    try:
        while reader.poll(max(0.0, deadline - time.monotonic())):
            lines.append(reader.recv_bytes(LONGEST).decode())
    except EOFError:
        ending = "the process died: too much memory, or too deep a recursion?"
    except OSError:
        ending = "the answer is cut off, or too long"
    reader.close()
    child.kill()
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        ending = f"stopped after {SECONDS} seconds"
    child.close()
    return lines, ending


def limit() -> None:
    """Take from this process its outputs, its network, and more memory and time than it needs."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    limits = {
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        # No new file or socket: the highest number of an open file, and none above it.
        resource.RLIMIT_NOFILE: 3,
    }
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        pages = int(sizes.read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY
    for kind, number in limits.items():
        with contextlib.suppress(ValueError, OSError):
            # The end by the lower limit of time has a signal of its own.
            hard = number + 1 if kind == resource.RLIMIT_CPU else number
            resource.setrlimit(kind, (number, hard))
