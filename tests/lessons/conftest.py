"""Each lesson test runs with readable and with fast branches, and its hint stands last."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from minbert import fast
from tests.reference_models import hugging_face_folder, minilm_folder

__all__ = ["hugging_face_folder", "minilm_folder"]


@pytest.fixture(autouse=True, params=["readable", "fast"])
def formulas(request: pytest.FixtureRequest) -> Iterator[str]:
    """Take one kind of branches in a test. The readable ones come first."""
    with fast.switched(is_fast=request.param == "fast"):
        yield request.param


# What an unexpected exception most likely means, by words of its message.
MEANINGS = {
    "'NoneType'": "An argument may be None here: ask `is not None` before you use it.",
    "must match the size|cannot be multiplied|mat1 and mat2|size mismatch|batch_size|is invalid for"
    "|Expected size": "The shapes do not fit: print the shape of each tensor in this line.",
    "expected scalar type|same dtype|implemented for '|Expected floating|dtype int64|used as ind": (
        "The dtypes do not fit: convert one tensor, by .float(), .long() or .to(dtype)."
    ),
    "Boolean value of Tensor": "`if` asks one question: `is not None`, or a mask for each number.",
    "index .* is out of": "An index is too large: which dimension does it count?",
    "leaf Variable|inplace operation": "A tensor is changed in place; make a new one.",
    "does not require grad|used in the graph": (
        "No gradient: is the result made a number, or detached, on the way?"
    ),
}


def meaning_of(message: str) -> str:
    """What a message of an exception most likely means, or ""."""
    return next((f" {text}" for words, text in MEANINGS.items() if re.search(words, message)), "")


def place_of(report: pytest.TestReport) -> str:
    """The last line of the code under test that an unexpected exception has passed, or ""."""
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", [])
    files = [entry.reprfileloc for entry in entries if entry.reprfileloc is not None]
    if not files or "Error" not in files[-1].message or files[-1].message == "AssertionError":
        return ""
    inside = [file for file in files if not file.path.startswith(("tests", "/", ".."))]
    return f" (in {inside[-1].path}, line {inside[-1].lineno})" if inside else ""


class Hints:
    """A pytest plugin that keeps the message of the first failure and prints it at the end."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the first failed test says."""
        crash = getattr(report.longrepr, "reprcrash", None)
        if report.failed and crash is not None and not self.first:
            # pytest's own explanation of the assertion stands behind the first line.
            message = crash.message.splitlines()[0]
            self.first = message.removeprefix("AssertionError: ").removeprefix("Failed: ")
            self.first += place_of(report)
            if not crash.message.startswith(("AssertionError", "Failed", "assert")):
                self.first += meaning_of(crash.message)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the hint below pytest's own last line."""
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if self.first and terminal is not None:
            terminal.write_line(f"\nHINT: {self.first}")


def pytest_configure(config: pytest.Config) -> None:
    """Add the plugin."""
    config.pluginmanager.register(Hints())
