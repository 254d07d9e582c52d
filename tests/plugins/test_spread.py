"""tests/plugins/spread.py: every row once, and the shares of the tasks at every moment.

The tests of tests/lessons/test_samplers.py that hold for every sampler run on it in test_runs.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lessons.test_samplers import (
    MAKE_BATCHES,
    NUM_ALL,
    NUM_BATCHES,
    NUM_ROWS,
    batches_of,
    fixed,
    rows_in,
    seeded,
    tasks_in,
)
from tests.plugins.loading import module_of

spread = module_of("spread").spread


def test_by_hand():
    """Places: a at 1/8, 3/8, 5/8, 7/8 and b at 1/2."""
    batches = {"a": fixed([0], [1], [2], [3]), "b": fixed([9])}
    assert spread(batches, seeded()) == [
        [("a", [0])],
        [("a", [1])],
        [("b", [9])],
        [("a", [2])],
        [("a", [3])],
    ]


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_every_row_comes_once(jitter):
    steps = spread(MAKE_BATCHES, seeded(), jitter)
    assert len(steps) == NUM_ALL
    for task, num_rows in NUM_ROWS.items():
        assert rows_in(batches_of(task, steps)) == list(range(num_rows))


def largest_lead(tasks: list[str]) -> float:
    """How far the count of a task is from its share, at the worst moment of the epoch."""
    counts: Counter[str] = Counter()
    worst = 0.0
    for number, task in enumerate(tasks, start=1):
        counts[task] += 1
        for name, num_batches in NUM_BATCHES.items():
            worst = max(worst, abs(counts[name] - number * num_batches / NUM_ALL))
    return worst


def test_at_every_moment_a_task_has_its_share():
    assert largest_lead(tasks_in(spread(MAKE_BATCHES, seeded()))) < 1
    # The negative control: one task after the other.
    in_turn = [task for task, count in NUM_BATCHES.items() for _ in range(count)]
    assert largest_lead(in_turn) > 2


def test_jitter_moves_batches_and_follows_the_seed():
    plain = tasks_in(spread(MAKE_BATCHES, seeded()))
    moved = {tuple(tasks_in(spread(MAKE_BATCHES, seeded(seed), 1.0))) for seed in range(20)}
    assert len(moved - {tuple(plain)}) > 5
    assert spread(MAKE_BATCHES, seeded(7), 1.0) == spread(MAKE_BATCHES, seeded(7), 1.0)


def test_batches_of_one_task_keep_their_order_without_much_jitter():
    batches = {"a": fixed([0], [1], [2], [3])}
    for seed in range(20):
        steps = spread(batches, seeded(seed), 0.99)
        assert [rows for ((_, rows),) in steps] == [[0], [1], [2], [3]]
