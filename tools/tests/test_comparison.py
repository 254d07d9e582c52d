"""tools/benchmarks: turns, medians, the closing line. Nothing is timed."""

from __future__ import annotations

import json

import pytest
import torch

from tools.benchmarks.comparison import Check, Comparison, Goal, Spread, json_line, versions
from tools.benchmarks.timing import SideProcess, alternate, relative_spread

FIELDS = {"name", "ours", "peer", "unit", "ratio", "n", "share_of_limit", "versions"}


class Clock:
    """Time that passes only when a side works. calls: which side ran which part."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, seconds: float):
        def run_part(part: int) -> None:
            self.calls.append(f"{name}{part}")
            self.now += seconds

        return run_part


# --- timing ---------------------------------------------------------------------------------------


def test_sides_take_turns_part_by_part_and_their_order_changes():
    clock = Clock()
    ends = []
    seconds = alternate(
        {"ours": clock.side("o", 1.0), "peer": clock.side("p", 3.0)},
        num_rounds=2,
        num_parts=3,
        num_warmup=1,
        between=lambda: ends.append(clock.now),
        clock=clock,
    )
    # Three parts of 1 and of 3 seconds. Those that warm up are not counted.
    assert seconds == {"ours": [3.0, 3.0], "peer": [9.0, 9.0]}
    assert clock.calls[:2] == ["o0", "p0"]
    first_round = ["o0", "p0", "p1", "o1", "o2", "p2"]
    second_round = ["p0", "o0", "o1", "p1", "p2", "o2"]
    assert clock.calls[2:] == first_round + second_round
    assert ends == [16.0, 28.0]


def test_spread_by_hand():
    # The quartiles are 2 and 4, and the median is 3.
    assert relative_spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert relative_spread([7.0]) == 0.0


def make_counter(start: int):
    """A side that adds up its requests."""
    total = start

    def add(number: int) -> int:
        nonlocal total
        total += number
        return total

    return add


def test_a_process_keeps_its_side_and_says_when_it_ends(capfd):
    with SideProcess(1, make_counter, 5) as process:
        assert process(1) == 6
        assert process(2) == 8, "the side must remember the first request"
        with pytest.raises(RuntimeError, match="ended with code 1"):
            process("not a number")
    assert "TypeError" in capfd.readouterr().err


# --- comparisons ----------------------------------------------------------------------------------

# One slow round of five changes a mean, and not a median.
OURS = [1.0, 1.0, 50.0, 1.0, 1.0]
PEER = [4.0, 4.0, 4.0, 4.0, 400.0]


def test_a_comparison_of_rates_is_of_medians():
    comparison = Comparison.of("a", "rows/s", OURS, PEER, Goal(">=", 4.0), per=100).as_json()
    assert comparison["ours"] == 100
    assert comparison["peer"] == 25
    assert comparison["ratio"] == 4
    assert comparison["n"] == 5
    assert comparison["is_met"] is True


def test_a_comparison_of_times_is_of_medians():
    comparison = Comparison.of("a", "ms", OURS, PEER, Goal("<=", 0.2), scale=1e3).as_json()
    assert comparison["ours"] == 1000
    assert comparison["peer"] == 4000
    assert comparison["ratio"] == 0.25
    assert comparison["is_met"] is False


def test_a_comparison_without_a_goal_is_neither_met_nor_missed():
    assert Comparison.of("a", "ms", OURS, PEER).as_json()["is_met"] is None


@pytest.fixture
def line():
    spread = Spread(0.01, 0.02)
    comparisons = [
        Comparison("ours : theirs", "ms", 2.0, 8.0, 5, spread, Goal("<=", 0.35)),
        Comparison("ours : another", "ms", 2.0, 1.0, 5, spread),
    ]
    return json_line(
        "optimizer",
        comparisons,
        versions(),
        [Check("largest difference", 3e-8, "<=", 1e-6)],
        ["a note"],
        share_of_limit=0.25,
        limit=2e12,
    )


def test_the_closing_line_has_all_fields(line):
    stored = json.loads(json.dumps(line))
    assert stored.keys() >= FIELDS
    assert stored["comparisons"][0]["goal"] == ["<=", 0.35]
    assert stored["comparisons"][0]["spread"] == [0.01, 0.02]

    # Those of the first comparison.
    assert stored["ours"] == 2
    assert stored["peer"] == 8
    assert stored["ratio"] == 0.25
    assert stored["n"] == 5

    # A build for CUDA is named by torch alone.
    assert torch.__version__.partition("+")[0] in stored["versions"]["torch"]
    results = [item["is_met"] for item in stored["comparisons"] + stored["checks"]]
    assert results == [True, None, True]
