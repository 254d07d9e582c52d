"""The functions of the lesson files, and a way to break one of them in this process.

`python -m tests.lesson_functions minbert/attention.py` breaks each function of a file, one at a
time. Each time it runs the lesson tests that call the function, and says whether one of them fails.
tests/system/test_lesson_functions.py starts it for all files.

It forks for each function. A fork is only safe where no other thread runs, and workers of pytest
have threads. So it runs in a process of its own.

A broken function returns zeros in place of its numbers, and changes nothing in place.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType, FunctionType, GeneratorType
from typing import Any

import pytest
import torch

from minbert.fast import RELEASED

ROOT = Path(__file__).resolve().parent.parent

LESSON_FILES: tuple[str, ...] = tuple(json.loads(RELEASED.read_text(encoding="utf-8")))

# Functions of these files that compute no formula: they make modules, check arguments, pass options
# or tensors on, read and write files, or let an output be taken apart.
NO_FORMULAS = {
    "BertModel.initialise",
    "BertModel.device",
    "BertModel.from_pretrained",
    "BertModel.save_pretrained",
    "BertForMaskedLM.from_pretrained",
    "BertForMaskedLM.save_pretrained",
    "BertForMaskedLM.head_tensors",
    "BertForMaskedLM.load_head",
    "save_pooling",
    "stored_pooling",
    "check_pooling",
    "pooling_modes",
    "_mode_of",
    "note_on_pooling",
    "check_same_shape",
    "check_positive",
    "check_labels",
    "check_names",
    "shape_error",
    "on_device",
    "rows_of",
    "loss_of_mnr",
    "loss_of_cosent",
}


# The negative control leaves this function as it is.
CONTROL = ("minbert/attention.py", "mask_to_bias")


def is_formula(name: str) -> bool:
    """Whether a function of a lesson file computes a part of a formula."""
    is_protocol = name.startswith("BertOutput.") or name.endswith(".__init__")
    return name not in NO_FORMULAS and not is_protocol


def functions_of(file: str) -> dict[str, FunctionType]:
    """The functions of a lesson file and the methods of its classes, such as "AdamW.update"."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    functions: dict[str, FunctionType] = {}
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__:
            continue
        if inspect.isclass(value):
            for inner, member in vars(value).items():
                functions[f"{name}.{inner}"] = plain_function(member)
        else:
            functions[name] = plain_function(value)
    return {
        name: function
        for name, function in functions.items()
        if isinstance(function, FunctionType)
        and function.__code__.co_filename == module.__file__
        and is_formula(name)
    }


def plain_function(member: Any) -> Any:
    """The function behind a method, a property or a decorator."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    return inspect.unwrap(member) if callable(member) else member


# --- breaking -------------------------------------------------------------------------------------


def zeros(value: Any) -> Any:
    """Zeros in place of the numbers of a result. Raises RuntimeError where it has none."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return value * 0
    if isinstance(value, int | float):
        return type(value)(0)
    if hasattr(value, "_fields"):
        return type(value)(*map(zeros, value))
    if isinstance(value, list | tuple):
        return type(value)(map(zeros, value))
    if isinstance(value, GeneratorType):
        return iter(())
    raise RuntimeError("this function is broken")


def break_function(function: FunctionType) -> None:
    """Break a function for the rest of this process, wherever its name was imported to."""
    original = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    original.__kwdefaults__ = function.__kwdefaults__
    has_result = "-> None" not in inspect.getsource(function).split('"""')[0]

    def broken(*arguments: Any, **options: Any) -> Any:
        return zeros(original(*arguments, **options)) if has_result else None

    replace_body(function, broken)


def replace_body(function: FunctionType, body: Callable[..., Any]) -> None:
    """Let a function call another one. Its name and its object stay.

    function: not one that uses super(), whose code has a further variable.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return _broken(*arguments, **options)  # type: ignore[name-defined]  # noqa: F821

    # `call` runs with the names of the function's own module.
    function.__globals__["_broken"] = body
    function.__code__ = call.__code__
    function.__defaults__ = None
    function.__kwdefaults__ = None


# --- which functions are called -------------------------------------------------------------------


@contextmanager
def recorded_calls(called: set[CodeType]) -> Iterator[None]:
    """Add the code of every function that is called in the `with` block."""

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield
    finally:
        sys.setprofile(before)


# --- the check ------------------------------------------------------------------------------------


class Breaking:
    """A pytest plugin that breaks functions in place of one run of the tests.

    All tests run once, and the calls of each are noted. Then each function has a fork of its own,
    in which it is broken, and the tests that call it run up to the first failure.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self.functions = {file: functions_of(file) for file in files}
        self.seconds: dict[pytest.Item, float] = {}
        self.calls: dict[pytest.Item, set[CodeType]] = {}
        # From each file to its functions that can be broken although all tests pass.
        self.unnoticed: dict[str, list[str]] = {}
        # Whether a test fails for a function that does what it did before.
        self.control: bool | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do everything, in the place of pytest's own loop over the tests."""
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            started = time.perf_counter()
            called: set[CodeType] = set()
            with recorded_calls(called):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.seconds[item] = time.perf_counter() - started
            self.calls[item] = called
        if session.testsfailed:
            return True  # `check` says so
        for file, functions in self.functions.items():
            names = [name for name in functions if not self.is_noticed(session, functions[name])]
            self.unnoticed[file] = names
        file, name = CONTROL
        if file in self.functions:
            function = self.functions[file][name]
            assert self.tests_of(function), "no test calls the function of the negative control"
            self.control = self.is_noticed(session, function, replace_by_a_copy)
        return True

    def tests_of(self, function: FunctionType) -> list[pytest.Item]:
        """The tests that call a function, quickest first."""
        tests = [item for item, called in self.calls.items() if function.__code__ in called]
        return sorted(tests, key=lambda item: self.seconds[item])

    def is_noticed(
        self,
        session: pytest.Session,
        function: FunctionType,
        change: Callable[[FunctionType], None] = break_function,
    ) -> bool:
        """Whether a test fails, or its process ends, where a function is changed."""
        tests = self.tests_of(function)
        pid = os.fork()
        if pid == 0:
            change(function)
            for item in tests:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status) != 0


def replace_by_a_copy(function: FunctionType) -> None:
    """Let a function call a copy of itself."""
    replace_body(function, FunctionType(function.__code__, function.__globals__))


def check(files: Sequence[str]) -> dict[str, Any]:
    """Break each function of some files. Returns the unnoticed ones, and the negative control.

    Raises AssertionError if a lesson test fails although nothing is broken.
    """
    plugin = Breaking(files)
    flags = ["-n0", "-p", "no:cacheprovider", "-k", "readable", "tests/lessons"]
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = pytest.main(flags, plugins=[plugin])
    assert code == 0, f"a lesson test fails before anything is broken: {printed.getvalue()[-2000:]}"
    return {"unnoticed": plugin.unnoticed, "control": plugin.control}


def main(arguments: Sequence[str]) -> None:
    """Print the functions whose break no test notices, or write all results as JSON."""
    parser = argparse.ArgumentParser(description="Breaks the functions of lesson files.")
    parser.add_argument("files", nargs="*", default=LESSON_FILES, help="default: all")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    flags = parser.parse_args(arguments)
    os.chdir(ROOT)
    result = check(flags.files)
    if flags.json:
        flags.json.write_text(json.dumps(result), encoding="utf-8")
    for file, names in result["unnoticed"].items():
        for name in names:
            print(f"{file}: {name} can be broken, and all lesson tests pass")


if __name__ == "__main__":
    main(sys.argv[1:])
