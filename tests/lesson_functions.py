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
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


class CallsOfTests:
    """A pytest plugin that notes the seconds and the calls of each test."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, set[CodeType]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run one test with its fixtures."""
        started = time.perf_counter()
        called: set[CodeType] = set()
        with recorded_calls(called):
            yield
        self.seconds[item.nodeid] = time.perf_counter() - started
        self.calls[item.nodeid] = called


# --- the check ------------------------------------------------------------------------------------


def run_tests(tests: list[str], plugins: list[Any]) -> int:
    """Run tests up to the first failure, with the readable branches. Returns pytest's exit code."""
    flags = ["-x", "-n0", "-p", "no:cacheprovider", "-k", "readable"]
    return int(pytest.main([*flags, *tests], plugins=plugins))


def in_child(work: Callable[[], Any]) -> Any:
    """Call a function in a forked process that prints nothing. Returns its result through JSON."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        pid = os.fork()
        if pid == 0:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            answer.write_text(json.dumps(work()))
            os._exit(0)
        os.waitpid(pid, 0)
        return json.loads(answer.read_text()) if answer.is_file() else None


def find_lesson_tests(files: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """From each function of some lesson files to the lesson tests that call it, quickest first.

    Raises AssertionError if a lesson test fails although nothing is broken.
    """
    functions = {file: functions_of(file) for file in files}

    def tests_that_call(function: FunctionType, plugin: CallsOfTests) -> list[str]:
        tests = [test for test, called in plugin.calls.items() if function.__code__ in called]
        return sorted(tests, key=lambda test: plugin.seconds[test])

    def collect() -> dict[str, dict[str, list[str]]]:
        plugin = CallsOfTests()
        if run_tests(["tests/lessons"], [plugin]) != 0:
            return {}
        tests: dict[str, dict[str, list[str]]] = {}
        for file, by_name in functions.items():
            tests[file] = {name: tests_that_call(by_name[name], plugin) for name in by_name}
        return tests

    tests = in_child(collect)
    assert tests, "a lesson test fails before anything is broken"
    return tests


def unnoticed(file: str, tests: Mapping[str, list[str]]) -> list[str]:
    """The functions of a lesson file that can be broken although all lesson tests pass.

    tests: from each function to the tests that call it.
    """
    names = []
    for name, function in functions_of(file).items():

        def try_broken(function: FunctionType = function, name: str = name) -> int:
            break_function(function)
            return run_tests(tests[name], [])

        # pytest's code 1: a test failed. None: the process ended before all tests had run.
        if not tests[name] or in_child(try_broken) not in (1, None):
            names.append(name)
    return names


def copied_is_noticed(file: str, name: str, tests: list[str]) -> bool:
    """The negative control: whether tests notice a function that does what it did before."""
    function = functions_of(file)[name]

    def replace_by_a_copy() -> int:
        copy = FunctionType(function.__code__, function.__globals__)
        replace_body(function, copy)
        return run_tests(tests, [])

    return in_child(replace_by_a_copy) != 0


def check(files: Sequence[str]) -> dict[str, Any]:
    """Break each function of some files. Returns the unnoticed ones, and the negative control."""
    tests = find_lesson_tests(files)
    result: dict[str, Any] = {"unnoticed": {file: unnoticed(file, tests[file]) for file in files}}
    if CONTROL[0] in tests:
        file, name = CONTROL
        assert tests[file][name], "no lesson test calls the function of the negative control"
        result["control"] = copied_is_noticed(file, name, tests[file][name][:3])
    return result


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
