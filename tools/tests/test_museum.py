"""tools/museum.py: which mistakes are shown, and when a curve counts as seen."""

from __future__ import annotations

import numpy as np
import pytest

from tools.museum import EXHIBITS, JOBS, NUM_WINDOWS, Exhibit, find_mistake, is_seen, windows_of

RIGHT = [[3.0, 2.0, 1.0], [3.2, 2.2, 1.2], [3.1, 1.9, 1.1]]


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda row: f"{row.function}: {row.cause}")
def test_each_exhibit_is_a_mistake_of_the_table(exhibit):
    assert find_mistake(exhibit).body
    assert exhibit.job in JOBS


def test_an_exhibit_that_the_table_lacks():
    with pytest.raises(ValueError, match="no row attention: no such cause"):
        find_mistake(Exhibit("attention", "no such cause"))


@pytest.mark.parametrize(
    ("losses", "seen"),
    [
        ([3.1, 2.1, 1.1], False),
        ([3.25, 2.3, 0.95], False),  # a little outside of all three
        ([3.1, 2.1, 1.9], True),
        ([np.nan, np.nan, np.nan], True),
    ],
)
def test_a_curve_is_seen_far_outside_of_the_right_ones(losses, seen):
    assert is_seen(losses, RIGHT) == seen


def test_a_window_is_the_mean_of_its_steps():
    windows = windows_of([1.0, 3.0] * NUM_WINDOWS)
    assert windows == [2.0] * NUM_WINDOWS
