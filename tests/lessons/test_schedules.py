"""Learning-rate factors: by hand, against transformers' schedules, properties, negative controls."""

from __future__ import annotations

import math

import pytest

from minbert.schedule import SCHEDULES, constant, cosine, linear, warmup

EVERY = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


def test_warmup_by_hand():
    assert [warmup(step, 4) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmup(0, 0) == 1.0


def test_linear_by_hand():
    """10 steps, 2 of warm-up: up in halves, then eighths down: 8/8 at step 2, 1/8 at step 9, 0 at step 10."""
    expected = [1 / 2, 2 / 2, 8 / 8, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert [linear(step, 10, 2) for step in range(10)] == pytest.approx(expected)
    assert [linear(step, 4) for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_cosine_by_hand():
    """A third of half a period is 60 degrees: (1 + 1/2) / 2."""
    assert [cosine(step, 8, 2) for step in (2, 4, 5, 8)] == pytest.approx([1.0, 0.75, 0.5, 0.0])


def test_constant_by_hand():
    assert [constant(step, 10, 2) for step in (0, 1, 9, 1000)] == [0.5, 1.0, 1.0, 1.0]


def test_tension_by_hand():
    """The paper's table, 1e-5 to 2e-6, whatever the number of steps."""
    steps = (0, 499, 500, 999, 1000, 1499, 1500, 1999, 2000, 90_000)
    for num_steps in (10, 100_000):
        found = [1e-5 * SCHEDULES["tension"](step, num_steps) for step in steps]
        assert found == pytest.approx([1e-5, 1e-5, 8e-6, 8e-6, 6e-6, 6e-6, 4e-6, 4e-6, 2e-6, 2e-6])
    assert SCHEDULES["tension"](600, 1000, 1202) == pytest.approx(0.8 * 601 / 1202)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("linear", "get_linear_schedule_with_warmup"),
        ("cosine", "get_cosine_schedule_with_warmup"),
        ("constant", "get_constant_schedule_with_warmup"),
    ],
)
def test_equals_transformers_from_the_end_of_the_warm_up(name, theirs):
    """During warm-up ours is one step ahead: theirs starts at 0, so its first step changes nothing."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    arguments = {"num_warmup_steps": 7} | ({} if name == "constant" else {"num_training_steps": 50})
    reference = getattr(transformers, theirs)(optimizer, **arguments).lr_lambdas[0]
    for step in range(51):
        if step >= 7:
            assert SCHEDULES[name](step, 50, 7) == pytest.approx(reference(step), abs=1e-12), step
        else:
            assert SCHEDULES[name](step, 50, 7) == pytest.approx(reference(step + 1), abs=1e-12), (
                step
            )


@EVERY
@pytest.mark.parametrize(
    ("num_steps", "num_warmup_steps"), [(1, 0), (1, 1), (10, 0), (10, 3), (10, 10), (5, 20)]
)
def test_stays_between_0_and_1_and_never_wastes_a_step(schedule, num_steps, num_warmup_steps):
    """The corners too: a single step, nothing but warm-up, a warm-up longer than the run."""
    factors = [schedule(step, num_steps, num_warmup_steps) for step in range(num_steps)]
    assert all(0.0 < factor <= 1.0 for factor in factors), factors
    assert all(
        math.isfinite(schedule(step, num_steps, num_warmup_steps)) for step in range(num_steps + 3)
    )


@EVERY
def test_rises_through_the_warm_up_and_never_after_it(schedule):
    factors = [schedule(step, 40, 8) for step in range(40)]
    assert factors[:8] == sorted(factors[:8]) and factors[7] == 1.0
    assert factors[8:] == sorted(factors[8:], reverse=True)


def test_the_area_under_linear_is_half_of_what_is_left():
    """Sum of 1 + 99/100 + ... + 1/100 = 50.5: a closed form that a decay with another end misses."""
    assert sum(linear(step, 100) for step in range(100)) == pytest.approx(50.5)


def test_negative_controls():
    """The checks above tell the schedules apart."""
    assert cosine(2, 8) != pytest.approx(linear(2, 8))
    assert sum(linear(step, 101) for step in range(100)) != pytest.approx(50.5)
