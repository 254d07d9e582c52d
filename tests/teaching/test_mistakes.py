"""Each mistake of the table costs points, and a visible test names its cause.

The wrong function replaces the right one in a forked process, which runs its lesson up to the first
failure. That is the hint that a student reads first.
"""

from __future__ import annotations

import re

import pytest

from teaching.calls import warm_up
from teaching.exercises import EXERCISES
from teaching.grafting import graft, module_of
from teaching.running import grade_function
from tests.lesson_functions import functions_of, in_child
from tests.teaching.answers import FILE_OF, ROOT, released, student_file
from tests.teaching.mistakes import MISTAKES, Mistake


def wrong_file(mistake: Mistake) -> str:
    """The file of a student who makes the mistake."""
    body = released(mistake.function)
    assert mistake.right in body, f"{mistake.right} is not in {mistake.function}"
    return student_file(mistake.function, body.replace(mistake.right, mistake.wrong))


class FirstMessage:
    """A pytest plugin that keeps the message of the first failure."""

    def __init__(self) -> None:
        self.text = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        if report.failed and crash is not None and not self.text:
            self.text = crash.message.splitlines()[0]


def first_message(mistake: Mistake) -> str:
    """The message of the first visible test that fails, or "" where all pass."""
    file = FILE_OF[mistake.function]
    tests = next(e.tests for e in EXERCISES.values() if file in e.to_write)
    clean = (ROOT / file).read_text(encoding="utf-8")
    wrong = graft(clean, wrong_file(mistake), mistake.function, module_of(file)).function

    def run() -> str:
        function = functions_of(file)[mistake.function]
        function.__globals__["_wrong"] = wrong
        function.__code__ = call_wrong.__code__
        function.__defaults__ = None
        function.__kwdefaults__ = None
        plugin = FirstMessage()
        flags = ["-x", "-n0", "-p", "no:cacheprovider", "-k", "readable"]
        pytest.main([*flags, str(ROOT / tests)], plugins=[plugin])
        return plugin.text

    return in_child(run) or ""


def call_wrong(*arguments, **options):
    return _wrong(*arguments, **options)  # noqa: F821


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_costs_points(mistake):
    warm_up()
    file = FILE_OF[mistake.function]
    clean = (ROOT / file).read_text(encoding="utf-8")
    result = grade_function(mistake.function, clean, wrong_file(mistake), module_of(file))
    assert result.share < 1


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_failure_names_the_cause(mistake):
    message = first_message(mistake)
    assert message, "no visible test notices this mistake"
    assert re.search(mistake.hint, message), message
