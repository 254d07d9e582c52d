"""multitask/surgery.py as the loop calls it: cosines by task, targets, the orders' own generator, its state."""

from __future__ import annotations

import pytest
import torch

from multitask.combining import GradientSurgery
from tests.lessons.test_surgery import rows


def test_cosines_are_kept_by_pair_of_tasks():
    surgery = GradientSurgery("pcgrad", "sum", 0.01, ["sst", "para", "sts", "sst"], seed=0)
    gradients = rows([3, 0], [-1, 0], [0, 2])
    surgery(gradients @ gradients.T, ["sst", "para", "sts"])
    surgery(
        gradients[[2, 0]] @ gradients[[2, 0]].T, ["sts", "sst"]
    )  # another order, and PARA is not in it
    zero = torch.zeros(2, 2, dtype=torch.float64)
    surgery(zero, ["sst", "sts"])
    found = {tuple(entry.pop("tasks")): entry for entry in surgery.conflicts()}
    assert found == {
        ("sst", "para"): {"steps": 1, "conflicts": 1.0, "cosine": -1.0},
        ("sst", "sts"): {"steps": 3, "conflicts": 0.0, "cosine": 0.0},
        ("para", "sts"): {"steps": 1, "conflicts": 0.0, "cosine": 0.0},
    }


def test_targets_follow_the_names_of_the_tasks():
    gradients = rows([1, 0], [-1, 1])
    one, other = (
        GradientSurgery("gradvac", "sum", 0.5, ["sst", "para", "sts"], seed=0) for _ in range(2)
    )
    first = one(gradients @ gradients.T, ["sst", "sts"])
    second = other(gradients[[1, 0]] @ gradients[[1, 0]].T, ["sts", "sst"])
    torch.testing.assert_close(first, second[[1, 0]])
    assert (
        torch.equal(one.targets, other.targets)
        and one.targets[0, 2] != 0
        and not one.targets[1].any()
    )


@pytest.mark.parametrize("method", ["pcgrad", "gradvac"])
def test_the_reduction_is_that_of_the_run(method):
    gradients, names = rows([1, 0], [-1, 1]), ["sst", "sts"]
    whole, mean = (
        GradientSurgery(method, reduction, 0.5, names, seed=0)(gradients @ gradients.T, names)
        for reduction in ("sum", "mean")
    )
    torch.testing.assert_close(whole, 2 * mean)


@pytest.mark.parametrize("method", ["pcgrad", "gradvac"])
def test_orders_are_drawn_apart_from_dropout_masks(method):
    """So that a run with surgery and its control differ in the surgery alone; and the orders follow from the seed."""
    names, found = ["sst", "para", "sts"], []
    gradients = rows([1, 0.1], [-1, 0.1], [-1, -1])  # whose projections depend on the order
    torch.manual_seed(5)
    untouched = torch.get_rng_state()
    for seed in (0, 0, 1):
        surgery = GradientSurgery(method, "sum", 0.5, names, seed)
        found.append(torch.stack([surgery(gradients @ gradients.T, names) for _ in range(8)]))
        assert torch.equal(torch.get_rng_state(), untouched)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    state = surgery.state_dict()
    expected = surgery(gradients @ gradients.T, names)
    again = GradientSurgery(method, "sum", 0.5, names, seed=7)
    again.load_state_dict(state)
    assert torch.equal(again(gradients @ gradients.T, names), expected)


def test_the_state_goes_into_a_checkpoint_and_back():
    one, other = (GradientSurgery("gradvac", "sum", 0.5, ["sst", "sts"], seed=0) for _ in range(2))
    assert one.state_dict()["cosines"].shape == (0, 1)
    gradients = rows([1, 0], [-1, 1])
    one(gradients @ gradients.T, ["sst", "sts"])
    other.load_state_dict(one.state_dict())
    assert torch.equal(
        one(gradients @ gradients.T, ["sst", "sts"]), other(gradients @ gradients.T, ["sst", "sts"])
    )
    assert one.conflicts() == other.conflicts() and one.conflicts()[0]["steps"] == 2
