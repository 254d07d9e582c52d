"""The table of mistakes (mistakes.toml): what each costs, and the hint that a student reads first.

Wrong functions run in this process, in place of the right ones.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from minbert import fast
from teaching.calls import Values, answer
from teaching.checks import CHECKS, Check
from teaching.exercises import EXERCISES
from teaching.grafting import graft, module_of
from teaching.judging import Right
from teaching.running import judge, released_answers
from tests.lesson_functions import functions_of
from tests.teaching.answers import FILE_OF, ROOT, released, student_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("mistakes.toml")


class Mistake(NamedTuple):
    """A row of the table. Its head says what a field means."""

    function: str
    cause: str
    change: str
    hint: str
    station: str

    @property
    def body(self) -> str:
        """The wrong body. Raises ValueError where the released one has another text."""
        body = released(self.function)
        if " => " not in self.change:
            return self.change
        for line in self.change.splitlines():
            right, _, wrong = line.partition(" => ")
            if right not in body:
                raise ValueError(f"{self.function}, {self.cause}: {right} is not in\n{body}")
            body = body.replace(right, wrong)
        return body

    @property
    def file(self) -> str:
        """The text of a student's file with the mistake."""
        return student_file(self.function, self.body)


def read_mistakes() -> list[Mistake]:
    """All rows of the table."""
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Mistake(name, *row) for name, table in tables.items() for row in table["rows"]]


MISTAKES = read_mistakes()


def wrong_function(mistake: Mistake) -> Any:
    """The wrong function, grafted as the grader does it."""
    file = FILE_OF[mistake.function]
    clean = (ROOT / file).read_text(encoding="utf-8")
    return graft(clean, mistake.file, mistake.function, module_of(file)).function


# --- what it costs --------------------------------------------------------------------------------


@cache
def drawn_checks(name: str) -> list[tuple[Check, Values, Right]]:
    """The checks of a function with their values. All its mistakes share the released answers."""
    rng = np.random.default_rng(0)
    drawn = []
    for check in CHECKS[name]:
        values = check.draw(rng)
        drawn.append((check, values, released_answers(name, check, values)))
    return drawn


def first_failed_check(name: str, function: Any) -> str:
    """The first check of the grader that a function fails, and its message; "" where none does."""
    for check, values, right in drawn_checks(name):
        line = answer(function, check.call, copy.deepcopy(values))
        message = judge(check, values, line, right)
        if message:
            return f"{check.name}: {message}"
    return ""


# --- what the student reads -----------------------------------------------------------------------


@contextmanager
def in_place_of(name: str, wrong: Any) -> Iterator[None]:
    """Inside the block, a function of an exercise runs the code of another one."""
    function = functions_of(FILE_OF[name])[name]
    before = (function.__code__, function.__defaults__, function.__kwdefaults__)
    function.__globals__["_wrong"] = wrong
    function.__code__ = call_wrong.__code__
    function.__defaults__ = None
    function.__kwdefaults__ = None
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = before
        del function.__globals__["_wrong"]


def call_wrong(*arguments, **options):
    return _wrong(*arguments, **options)  # type: ignore[name-defined]  # noqa: F821


@cache
def cases_of(name: str) -> list[Callable[[], None]]:
    """The visible tests of a function's exercise, in their order, without those with fixtures."""
    file = FILE_OF[name]
    tests = next(exercise.tests for exercise in EXERCISES.values() if file == exercise.file)
    module = importlib.import_module(tests.removesuffix(".py").replace("/", "."))
    cases: list[Callable[[], None]] = []
    for word, function in vars(module).items():
        if word.startswith("test_"):
            cases += calls_of(function, module)
    return cases


def calls_of(test: FunctionType, module: ModuleType) -> list[Callable[[], None]]:
    """A test with each combination of its parameters."""
    choices = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
            rows = [value if len(names) > 1 else (value,) for value in values]
            choices.append([dict(zip(names, row, strict=True)) for row in rows])
    calls = []
    for parts in itertools.product(*choices):
        options = {key: value for part in parts for key, value in part.items()}
        if set(test.__code__.co_varnames[: test.__code__.co_argcount]) == set(options):
            calls.append(partial(test, **options))
    return calls


def first_message(name: str, wrong: Any) -> str:
    """The message of the first visible test that fails, or "" where all pass."""
    with in_place_of(name, wrong), fast.switched(is_fast=False):
        for case in cases_of(name):
            torch.manual_seed(0)
            try:
                case()
            except pytest.skip.Exception:
                continue
            except BaseException as error:  # pytest.fail is no Exception
                return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
