"""Runs a student's function in a child process, with limits, and judges what comes back.

The child is forked for each function. It holds no expected result: those are computed after it has
answered. It sends one line for each check, so the lines before a crash still count.
"""

from __future__ import annotations

import contextlib
import resource
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from teaching.calls import Values, answer
from teaching.checks import CHECKS, Check
from teaching.children import Send, run_in_child
from teaching.grafting import Graft, Refused, graft, refusing, released_function
from teaching.judging import Answer, Right, read_answer

SECONDS = 20  # of computing, for all checks of a function
WAIT = 6  # times as long, because a busy machine computes less
MEMORY = 2 * 1024**3  # bytes beside those that Python and torch take
LONGEST = 64 * 1024**2  # bytes of an answer


class FunctionResult(NamedTuple):
    """The result of all checks of a function."""

    checks: dict[str, str]  # what is wrong by the name of a check, "" where it passed

    @property
    def share(self) -> float:
        """The share of the checks that passed."""
        return sum(not message for message in self.checks.values()) / len(self.checks)

    @property
    def faults(self) -> list[str]:
        """What is wrong, each with the checks that say so."""
        faults = []
        for message in dict.fromkeys(filter(None, self.checks.values())):
            names = [name for name, text in self.checks.items() if text == message]
            prefix = "" if len(names) == len(self.checks) else f"{', '.join(names)}: "
            faults.append(prefix + message)
        return faults


def grade_function(name: str, clean: str, student: str, module: ModuleType) -> FunctionResult:
    """Run and judge one function. clean, student, module: as in `graft`."""
    checks = CHECKS[name]
    # No student knows the seed.
    rng = np.random.default_rng()
    cases = [check.draw(rng) for check in checks]

    def work(send: Send) -> None:
        limit()
        try:
            made = graft(clean, student, name, module)
        except Refused as error:
            made = Graft(refusing(error), {})
        owner, _, method = name.rpartition(".")
        place = getattr(module, owner) if owner else module
        # The answer itself would still be called by `self(...)` or `self.update(...)`.
        for word, function in {**made.methods, method: made.function}.items():
            setattr(place, word, function)
        for check, values in zip(checks, cases, strict=True):
            send(answer(made.function, check.call, values).encode())

    lines, ending = run_in_child(work, WAIT * SECONDS, LONGEST)
    results: dict[str, str] = {}
    for number, (check, values) in enumerate(zip(checks, cases, strict=True)):
        message = ending
        if number < len(lines):
            right = released_answers(name, check, values)
            message = judge(check, values, lines[number].decode(), right)
        if check.is_weak and results[checks[0].name]:
            message = message or f"counts only where '{checks[0].name}' passes"
        results[check.name] = message
    return FunctionResult(results)


def released_answers(name: str, check: Check, values: Values) -> Right:
    """The answers of a released function to the values of a check, each computed once."""

    @cache
    def right(**changed: Any) -> Answer:
        line = answer(released_function(name), check.call, values | changed)
        return Answer(**read_answer(line))

    return right


def judge(check: Check, values: Values, line: str, right: Right) -> str:
    """Say what is wrong with an answer, or ""."""
    try:
        parts = read_answer(line)
        if "error" in parts:
            is_expected = parts["error"].partition(":")[0] in check.error.split()
            return "" if is_expected else str(parts["error"])
        if check.error:
            return "no error was raised; see the docstring"
        wrong = check.judge(values, Answer(**parts), right)
        if not wrong and parts["changed"]:
            wrong = f"the argument {parts['changed'][0]} was changed in place"
        return wrong
    except Exception as error:
        # A result of another kind than every right one may break a judge in any way.
        return f"the result cannot be read ({type(error).__name__}: {error})"


def limit() -> None:
    """Take from this process its files, its network, and more memory and time than it needs."""
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
