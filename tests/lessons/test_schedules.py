"""Learning-rate schedules. Run it with `python -m pytest -x tests/lessons/test_schedules.py`.

Numbers worked by hand, transformers' schedules, properties, negative controls.
"""

from __future__ import annotations

import math

import pytest

from minbert.schedule import SCHEDULES, constant, cosine, linear, warmup

every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


# --- by hand --------------------------------------------------------------------------------------


def test_warmup_by_hand():
    found = [warmup(step, 4) for step in range(6)]
    assert found[0] != 0.0, "the first step must not be lost: (step + 1) / w, not step / w"
    assert found == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0], (
        "the factor rises by 1/w a step, reaches 1 at step w - 1, and stays there"
    )
    assert warmup(0, 0) == 1.0, "without warm-up the factor is 1 from the first step on"


# What comes out at the two steps of the warm-up.
LINEAR_MISTAKES = {
    (10 / 8, 9 / 8): "the warm-up is missing: take the smaller one of `warmup` and the line",
    (10 / 16, 9 / 8): "`warmup` and the line are multiplied; take the smaller one",
    (1.0, 1.0): "the warm-up is missing: take the smaller one of `warmup` and the line",
    (7 / 4, 17 / 8): "`warmup` and the line are added; take the smaller one",
    (1 / 3, 2 / 3): "the warm-up is (step + 1) / w, as in `warmup`, not (step + 1) / (w + 1)",
    (1 / 10, 2 / 10): "the warm-up is (step + 1) / w; here it is divided by num_steps",
    (0.0, 1.0): "the warm-up is (step + 1) / w, as in `warmup`, not step / (w - 1)",
    (50.0, 100.0): "the factor is a share of 1, and not of 100",
    (0.0, 0.0): "the warm-up is 0 here: it is (step + 1) / w, as in `warmup`",
    (0.0, 1 / 8): "the line rises; what counts is the steps that remain, num_steps - step",
    (0.0, 1 / 2): "the warm-up is one step behind: (step + 1) / w, which is `warmup`",
    (1 / 2, 9 / 10): (
        "the line is 1 - step / num_steps: it begins at step 0, and divides by all steps instead "
        "of those after the warm-up"
    ),
}


# What comes out after the warm-up, by the mistake.
LINE_MISTAKES = {
    "the line is 1 - step / num_steps: it begins at step 0, and divides by all steps instead of "
    "those after the warm-up": lambda step: (10 - step) / 10,
    "the line rises; what counts is the steps that remain, num_steps - step": (
        lambda step: (step - 2) / 8
    ),
    "the factor stays at 1 after the warm-up: is the line missing, or divided by //, which gives "
    "whole numbers?": lambda step: 1.0,
    "the line is squared": lambda step: ((10 - step) / 8) ** 2,
    "this is half a cosine; the line is straight": (
        lambda step: (1 + math.cos(math.pi * (step - 2) / 8)) / 2
    ),
    "the line is one step late: it has not reached 0 at step num_steps": lambda step: (
        (11 - step) / 8
    ),
    "early: the line reaches 0 at step num_steps, which is no step of the run": lambda step: (
        (9 - step) / 8
    ),
    "the line reaches 0 at step num_steps, which is no step of the run; here it is 0 one step "
    "before": lambda step: (9 - step) / 7,
    "the line divides by the steps of the warm-up; divide by those after it": (
        lambda step: min(1.0, (10 - step) / 2)
    ),
    "the line divides by one step too few: num_steps - num_warmup_steps is right": (
        lambda step: min(1.0, (10 - step) / 7)
    ),
    "the line divides by one step too many: num_steps - num_warmup_steps is right": (
        lambda step: (10 - step) / 9
    ),
    "Write / and not //: this is a division of whole numbers": lambda step: float((10 - step) // 8),
}


def test_linear_by_hand():
    """10 steps, 2 of warm-up: up in halves, then down in eighths to 0 at step 10."""
    found = [linear(step, 10, 2) for step in range(10)]
    assert None not in found, "not written yet, or is the return missing?"
    hint = "the warm-up is that of `warmup`"
    for wrong, mistake in LINEAR_MISTAKES.items():
        if found[:2] == pytest.approx(wrong):
            hint = mistake
    assert found[:2] == pytest.approx([1 / 2, 2 / 2]), f"{found[:2]}, expected [0.5, 1.0]: {hint}"
    hint = (
        "after the warm-up, (num_steps - step) / (num_steps - num_warmup_steps): do you divide by "
        "all steps instead of those after the warm-up?"
    )
    for mistake, line in LINE_MISTAKES.items():
        if found[3:] == pytest.approx([line(step) for step in range(3, 10)]):
            hint = mistake
    expected = [8 / 8, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    if found[2:] == pytest.approx(expected, abs=0.05):
        hint = "nearly right: is the factor rounded, or something small added?"
    assert found[2:] == pytest.approx(expected), f"{found[2:]}, expected {expected}: {hint}"
    found = [linear(step, 4) for step in range(5)]
    assert found[4] <= 0.0, "the line goes down to 0, at step num_steps; it has no lowest factor"
    assert found == [1.0, 0.75, 0.5, 0.25, 0.0], "without warm-up, 1 at step 0 and 0 at num_steps"


# What comes out at the beginning, a third and the half of the steps after the warm-up.
COSINE_MISTAKES = {
    (2.0, 1.5, 1.0): "the half is missing",
    (1.5, 1.0, 0.5): "the half is added; it multiplies: (1 + cos(pi x)) / 2",
    (1.5, 1.25, 1.0): "the half belongs to the 1, too: (1 + cos(pi x)) / 2",
    (1.0, 0.0238, 0.2760): "math.cos takes radians: pi x, not 180 x",
    (1.0, 0.9725, 0.9388): "pi is missing: (1 + cos(pi x)) / 2",
    (1.0, 0.5, 0.0): "1 and the half are missing",
    (1.0, 0.5625, 0.25): "the factor is squared; (1 + cos(pi x)) / 2 is right",
    (1.0, 0.6545, 0.3455): (
        "x is divided by one step too few: num_steps - num_warmup_steps is right"
    ),
    (1.0, 0.8117, 0.6113): (
        "x is divided by one step too many: num_steps - num_warmup_steps is right"
    ),
    (1.0, 0.8536, 0.6913): "x is divided by all steps; divide by those after the warm-up",
    (0.9330, 0.5, 0.25): "x is one step ahead: it is 0 at the end of the warm-up",
    (1.0, 0.0, 0.0): "x is divided by the steps of the warm-up; divide by those after it",
    (1.0, 1.0, 1.0): "x stays 0: is // a division of whole numbers? Write /",
    (1.0, 0.25, 0.0): "the cosine runs through a whole period; half of one is right, pi x",
    (1.0, 0.9330, 0.8536): "the cosine runs through a quarter of a period; half of one is right",
    (0.5, 0.9330, 1.0): "this is the sine",
    (1.0, 0.8660, 0.7071): "this is cos(pi x / 2); take (1 + cos(pi x)) / 2",
    (0.0, 0.25, 0.5): "the cosine rises: (1 + cos(pi x)) / 2, not 1 - cos",
    (1.0, 0.6667, 0.5): "this is the straight line of `linear`",
    (0.8536, 0.5, 0.3087): (
        "x is a share of all steps; take that of the steps after the warm-up, from its end"
    ),
    (0.75, 0.25, 0.0670): "x is counted from step 0; count it from the end of the warm-up",
}
# What comes out at the two steps of the warm-up.
WARM_UP_MISTAKES = {
    (1 / 3, 2 / 3): "the warm-up is (step + 1) / w, as in `warmup`, not (step + 1) / (w + 1)",
    (1 / 8, 2 / 8): "the warm-up is (step + 1) / w; here it is divided by num_steps",
    (0.0, 0.0): "the warm-up is 0 here: it is (step + 1) / w, as in `warmup`",
    (0.5, 0.9619): "`warmup` and the cosine are multiplied; before its end, take `warmup` alone",
    (0.4810, 0.8536): "`warmup` and the cosine are multiplied; before its end, take `warmup` alone",
    (0.0, 1 / 2): "the warm-up is one step behind: (step + 1) / w, which is `warmup`",
    (1.0, 1.0): "the warm-up is missing",
}


def test_cosine_by_hand():
    """A third of half a period is 60 degrees: (1 + 1/2) / 2."""
    found = [cosine(step, 8, 2) for step in (2, 4, 5, 8)]
    assert None not in found, "not written yet, or is the return missing?"
    hint = "(1 + cos(pi x)) / 2, x the share of the steps after the warm-up"
    if found[3] > 0.99:
        hint = "the cosine begins again at step num_steps; it stays at 0"
    elif found[3] > 0.001:
        hint = "the cosine goes down to 0, at step num_steps; it has no lowest factor"
    for wrong, mistake in COSINE_MISTAKES.items():
        if found[:3] == pytest.approx(wrong, abs=1e-3):
            hint = mistake
    expected = [1.0, 0.75, 0.5, 0.0]
    if found == pytest.approx(expected, abs=0.02):
        hint = "nearly right: is pi or the factor rounded, or something small added?"
    assert found == pytest.approx(expected), f"{found}, expected {expected}: {hint}"
    found = [cosine(step, 8, 2) for step in (0, 1)]
    hint = "before step num_warmup_steps, the factor is that of `warmup`"
    for wrong, mistake in WARM_UP_MISTAKES.items():
        if found == pytest.approx(wrong, abs=1e-3):
            hint = mistake
    assert found == pytest.approx([1 / 2, 2 / 2]), f"{found}, expected [0.5, 1.0]: {hint}"
    found = [cosine(step, 16, 8) for step in (0, 1, 5)]
    assert found == pytest.approx([1 / 8, 2 / 8, 6 / 8]), (
        f"{found}, expected [0.125, 0.25, 0.75]: the warm-up is a line, (step + 1) / w, also here"
    )


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_behind_the_last_step_it_stays_at_0(schedule):
    found = [schedule(step, 8, 2) for step in (8, 11, 20)]
    assert found == pytest.approx([0, 0, 0]), (
        "a step behind num_steps counts as the last one: a line would go below 0, and a cosine "
        "would rise again"
    )


def test_constant_by_hand():
    found = [constant(step, 10, 2) for step in (0, 1, 9, 1000)]
    assert found == [0.5, 1.0, 1.0, 1.0], "the warm-up, then always 1"


def test_tension_by_hand():
    """The paper's table, 1e-5 to 2e-6, whatever the number of steps."""
    tension = SCHEDULES["tension"]
    steps = (0, 499, 500, 999, 1000, 1499, 1500, 1999, 2000, 90_000)
    expected = [1e-5, 1e-5, 8e-6, 8e-6, 6e-6, 6e-6, 4e-6, 4e-6, 2e-6, 2e-6]
    for num_steps in (10, 100_000):
        found = [1e-5 * tension(step, num_steps) for step in steps]
        assert found == pytest.approx(expected), (
            "a fifth less every 500 steps, never below a fifth, whatever num_steps is"
        )
    assert tension(600, 1000, 1202) == pytest.approx(0.8 * 601 / 1202), (
        "the warm-up multiplies the share"
    )


# --- transformers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("linear", "get_linear_schedule_with_warmup"),
        ("cosine", "get_cosine_schedule_with_warmup"),
        ("constant", "get_constant_schedule_with_warmup"),
    ],
)
def test_equals_transformers_from_the_end_of_the_warm_up(name, theirs):
    """During warm-up ours is one step ahead. Theirs starts at 0: its first step moves nothing."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run pip install transformers"
    )
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    arguments = {"num_warmup_steps": 7}
    if name != "constant":
        arguments["num_training_steps"] = 50
    reference = getattr(transformers, theirs)(optimizer, **arguments).lr_lambdas[0]
    for step in range(51):
        expected = reference(step + 1 if step < 7 else step)
        found = SCHEDULES[name](step, 50, 7)
        assert found == pytest.approx(expected, abs=1e-6), (
            f"{found} at step {step}, expected {expected}: look at the tests by hand first"
        )


DIVISOR = (
    "num_steps - num_warmup_steps is 0 where all steps are warm-up. Divide by at least 1, as by "
    "max(1, ...)."
)

# --- properties -----------------------------------------------------------------------------------


@every_schedule
@pytest.mark.parametrize(
    ("num_steps", "num_warmup_steps"), [(1, 0), (1, 1), (10, 0), (10, 3), (10, 10), (5, 20)]
)
def test_stays_between_0_and_1_and_never_wastes_a_step(schedule, num_steps, num_warmup_steps):
    """The corners too: a single step, nothing but warm-up, a warm-up longer than the run."""
    try:
        all_steps = [schedule(s, num_steps, num_warmup_steps) for s in range(num_steps + 3)]
    except ZeroDivisionError:
        pytest.fail(f"division by zero: {DIVISOR}")
    factors = all_steps[:num_steps]
    assert all(0.0 < factor <= 1.0 for factor in factors), (
        f"{factors}: a factor of 0 wastes a step, and none may be above 1. Is the warm-up longer "
        "than the run?"
    )
    assert all(map(math.isfinite, all_steps)), f"{all_steps}: {DIVISOR}"


@every_schedule
def test_rises_through_the_warm_up_and_never_after_it(schedule):
    factors = [schedule(step, 40, 8) for step in range(40)]
    assert factors[:8] == sorted(factors[:8]), "the factor falls during the warm-up"
    assert factors[7] == 1.0, "the warm-up of 8 steps ends at 1 with step 7"
    assert factors[8:] == sorted(factors[8:], reverse=True), "the factor rises after the warm-up"


def test_a_warm_up_that_is_longer_than_the_run():
    found = [linear(step, 4, 8) for step in (3, 4, 6)]
    assert found == pytest.approx([4 / 8, 0, 0]), (
        "from step num_steps on `linear` is 0, also where the warm-up has not ended"
    )
    found = [cosine(step, 4, 8) for step in (3, 4, 6)]
    assert found == pytest.approx([4 / 8, 5 / 8, 7 / 8]), (
        "`cosine` is the warm-up until that ends, also from step num_steps on"
    )


def test_far_and_near_corners():
    """Many steps, a single one, and steps far behind the end, where both schedules are alike."""
    hint = "is a step, or the number of steps, limited somewhere?"
    span = (
        "behind the warm-up the factor is 0 here. num_steps - num_warmup_steps is below 0: divide "
        "by at least 1, as by max(1, ...)"
    )
    for arguments, expected in {
        (2500, 4000, 1000): 0.5,
        (0, 4000, 1): 1.0,
        (0, 1, 0): 1.0,
        (0, 1, 1): 1.0,
        (38, 8, 0): 0.0,
        (9, 8, 8): 0.0,
        (40, 8, 13): 0.0,
    }.items():
        for schedule in (linear, cosine):
            found = schedule(*arguments)
            assert isinstance(found, int | float) and not isinstance(found, bool), (
                f"found {found!r}, expected a float: a schedule returns a plain number"
            )
            assert found == pytest.approx(expected, abs=1e-6), (
                f"{schedule.__name__}{arguments} is {found}, expected {expected}: "
                + (span if arguments[1] < arguments[2] else hint)
            )


def test_the_area_under_linear_is_half_of_what_is_left():
    """1 + 99/100 + ... + 1/100 = 50.5: a closed form that a decay with another end misses."""
    assert sum(linear(step, 100) for step in range(100)) == pytest.approx(50.5), (
        "49.5: the decay begins or ends one step early"
    )


def test_negative_controls():
    """The checks above tell the schedules apart."""
    assert cosine(2, 8) != pytest.approx(linear(2, 8))
    assert sum(linear(step, 101) for step in range(100)) != pytest.approx(50.5)
