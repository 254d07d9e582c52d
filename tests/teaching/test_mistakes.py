"""Each mistake of the table costs points, and the first visible test that fails names its cause."""

from __future__ import annotations

import re

import pytest

from teaching.grafting import graft, module_of
from tests.teaching.answers import BEFORE_STYLES, FILE_OF, ROOT, STYLES, released, student_file
from tests.teaching.mistakes import (
    MISTAKES,
    Mistake,
    first_failed_check,
    first_message,
    wrong_function,
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda row: f"{row.function}: {row.cause}")
def test_a_mistake_costs_points_and_its_hint_names_it(mistake):
    wrong = wrong_function(mistake)
    assert first_failed_check(mistake.function, wrong), "the grader gives full marks"
    message = first_message(mistake.function, wrong)
    assert message, "no visible test notices it"
    assert re.search(mistake.hint, message), message


@pytest.mark.parametrize("name", FILE_OF)
def test_the_released_function_is_no_mistake(name):
    """The negative control."""
    right = wrong_function(Mistake(name, "none", released(name), "", ""))
    assert first_failed_check(name, right) == ""
    assert first_message(name, right) == ""


@pytest.mark.parametrize(("name", "body"), STYLES)
def test_a_right_answer_in_another_style_passes_the_visible_tests(name, body):
    file = FILE_OF[name]
    text = student_file(name, body.strip(), BEFORE_STYLES)
    clean = (ROOT / file).read_text(encoding="utf-8")
    function = graft(clean, text, name, module_of(file)).function
    assert first_message(name, function) == ""
