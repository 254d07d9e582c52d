"""multitask/combining.py: GradientSurgery as the loop calls it, and PCGrad in a whole step.

If the last part fails and the lesson passes, the gradients that the loop takes are wrong, such as a
sum in place of each task's own.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from minbert import AdamW
from minbert.training import gradients
from minbert.training.gradients import backward
from minbert.training.job import Part
from multitask import combining
from multitask.combining import update_weights
from multitask.options import TaskOptions
from multitask.surgery import pcgrad
from multitask.surgery_registry import SURGERIES, GradientStep
from tests.lessons.test_surgery import conflicting, orders_of, plain_pcgrad, rows
from tests.toy_job import make_job
from tests.toy_surgery import make_surgery

each_method = pytest.mark.parametrize("method", ["pcgrad", "gradvac"])


def gramian_of(gradients: torch.Tensor) -> torch.Tensor:
    return gradients @ gradients.T


# --- the memory of a run ------------------------------------------------------------------------


def test_cosines_are_kept_by_pair_of_tasks():
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "para", "sts", "sst"], seed=0)
    gradients = rows([3, 0], [-1, 0], [0, 2])
    surgery(gramian_of(gradients), ["sst", "para", "sts"])
    # Another order, and PARA is not in it.
    surgery(gramian_of(gradients[[2, 0]]), ["sts", "sst"])
    # Gradients of zero.
    surgery(torch.zeros(2, 2, dtype=torch.float64), ["sst", "sts"])

    found = {tuple(entry.pop("tasks")): entry for entry in surgery.conflicts()}
    assert found == {
        ("sst", "para"): {"steps": 1, "conflicts": 1.0, "cosine": -1.0},
        ("sst", "sts"): {"steps": 3, "conflicts": 0.0, "cosine": 0.0},
        ("para", "sts"): {"steps": 1, "conflicts": 0.0, "cosine": 0.0},
    }


def test_targets_follow_the_names_of_the_tasks():
    gradients = rows([1, 0], [-1, 1])
    one = make_surgery("gradvac", "sum", 0.5, ["sst", "para", "sts"], seed=0)
    other = make_surgery("gradvac", "sum", 0.5, ["sst", "para", "sts"], seed=0)
    first = one(gramian_of(gradients), ["sst", "sts"])
    second = other(gramian_of(gradients[[1, 0]]), ["sts", "sst"])
    torch.testing.assert_close(first, second[[1, 0]])
    assert torch.equal(one.targets, other.targets)
    assert one.targets[0, 2] != 0
    assert not one.targets[1].any()


@each_method
def test_the_reduction_is_that_of_the_run(method):
    gramian = gramian_of(rows([1, 0], [-1, 1]))
    names = ["sst", "sts"]
    whole = make_surgery(method, "sum", 0.5, names, seed=0)(gramian, names)
    mean = make_surgery(method, "mean", 0.5, names, seed=0)(gramian, names)
    torch.testing.assert_close(whole, 2 * mean)


@each_method
def test_orders_are_drawn_apart_from_dropout_masks(method):
    """So a run with surgery and its control differ in the surgery alone.

    The orders follow from the seed.
    """
    names = ["sst", "para", "sts"]
    gramian = gramian_of(rows([1, 0.1], [-1, 0.1], [-1, -1]))  # here the order matters
    torch.manual_seed(5)
    untouched = torch.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        surgery = make_surgery(method, "sum", 0.5, names, seed)
        found.append(torch.stack([surgery(gramian, names) for _ in range(8)]))
        assert torch.equal(torch.get_rng_state(), untouched)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])

    # A restored state goes on with the same orders.
    state = surgery.state_dict()
    expected = surgery(gramian, names)
    again = make_surgery(method, "sum", 0.5, names, seed=7)
    again.load_state_dict(state)
    assert torch.equal(again(gramian, names), expected)


def test_the_state_goes_into_a_checkpoint_and_back():
    one = make_surgery("gradvac", "sum", 0.5, ["sst", "sts"], seed=0)
    other = make_surgery("gradvac", "sum", 0.5, ["sst", "sts"], seed=0)
    assert one.state_dict()["cosines"].shape == (0, 1)
    gramian = gramian_of(rows([1, 0], [-1, 1]))
    one(gramian, ["sst", "sts"])
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(gramian, ["sst", "sts"]), other(gramian, ["sst", "sts"]))
    assert one.conflicts() == other.conflicts()
    assert one.conflicts()[0]["steps"] == 2


def test_weights_of_another_number_than_gradients_are_refused(monkeypatch):
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    gramian = gramian_of(rows([1, 0], [-1, 1]))
    monkeypatch.setattr(combining, "update_weights", lambda *_: [1.0, 2.0, 3.0])
    words = r"--surgery pcgrad gave weights of the shape \(3,\); one for each of the 2 gradients"
    with pytest.raises(ValueError, match=words):
        surgery(gramian, ["sst", "sts"])
    monkeypatch.setattr(combining, "update_weights", lambda *_: [1, 0.5])
    assert surgery(gramian, ["sst", "sts"]).tolist() == [1, 0.5], "a list is as good as a tensor"


# --- a whole step: from the losses to .grad -----------------------------------------------------

SEED = 4


class ManyHeads(nn.Module):
    """A body that all tasks share, and a head for each."""

    def __init__(self, num_tasks: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(3, 5)
        self.heads = nn.ModuleList(nn.Linear(5, 1) for _ in range(num_tasks))
        # Alike, so that opposite targets pull the body in opposite directions.
        for head in self.heads:
            head.load_state_dict(self.heads[0].state_dict())


def flattened(tensors) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def make_step(folder, num_tasks: int, scale: float):
    """A job whose tasks pull in different directions, and one batch of each.

    Returns job, step, and the gradient (K, P) that each task has alone.
    """
    model = ManyHeads(num_tasks)
    names = [str(task) for task in range(num_tasks)]

    def loss(task, batch):
        outputs = model.heads[int(task)](torch.tanh(model.body(batch.inputs))).squeeze(-1)
        return scale * (outputs - (-1) ** int(task) * 3 * batch.targets).square().mean()

    job = replace(
        make_job(folder),
        model=model,
        optimizer=AdamW(model.parameters()),
        loss=loss,
        surgery=make_surgery("pcgrad", "sum", 0.01, names, SEED),
    )
    step = []
    alone = []
    for number, name in enumerate(names):
        part = Part(name, list(range(3 * number, 3 * number + 3)), 1 / num_tasks)
        step.append(part)
        batch = job.load(part.task, part.rows)
        gradient = torch.autograd.grad(loss(name, batch), list(model.body.parameters()))
        alone.append(flattened(gradient))
    flat = torch.stack(alone).double()  # (K, P)
    assert (flat @ flat.T < 0).any(), "nothing conflicts, so nothing is tested"
    return job, step, flat


def gradient_of_body(job, step) -> torch.Tensor:
    """The shared gradient, (P,), that one step leaves."""
    backward(job, step)
    return flattened(parameter.grad for parameter in job.model.body.parameters()).double()


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_a_step_is_that_of_a_plain_loop(tmp_path, num_tasks, scale):
    job, step, flat = make_step(tmp_path, num_tasks, scale)
    expected = plain_pcgrad(flat, orders_of(SEED, num_tasks))
    found = gradient_of_body(job, step)
    # The Gramian is made of float32 products.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(flat.abs().max()))
    for part in step:
        head = job.model.heads[int(part.task)].weight
        loss = job.loss(part.task, job.load(part.task, part.rows))
        torch.testing.assert_close(head.grad, torch.autograd.grad(loss, [head])[0])


def test_negative_control_gradients_that_were_summed_before(tmp_path, monkeypatch):
    """If .grad is not emptied, each backward pass adds to what the tasks before it left."""
    job, step, flat = make_step(tmp_path, 3, 1.0)

    def take_copies(parameters):
        grads = [parameter.grad for parameter in parameters]
        return [None if grad is None else grad.clone() for grad in grads]

    monkeypatch.setattr(gradients, "take", take_copies)
    expected = plain_pcgrad(flat, orders_of(SEED, 3))
    assert not torch.allclose(gradient_of_body(job, step), expected, rtol=0.05)


def test_a_gradient_whose_square_is_zero_is_passed_over():
    """The product of the two is below 0, and the square of the second is 0."""
    gramian = torch.tensor([[1.0, -1e-200], [-1e-200, 0.0]], dtype=torch.float64)
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    assert surgery(gramian, ["sst", "sts"]).tolist() == [1, 1]
    assert surgery.conflicts()[0]["cosine"] == 0


CHANGING = [name for name, entry in SURGERIES.items() if entry.changes_gradients]


@pytest.mark.parametrize("method", CHANGING)
def test_every_method_that_changes_gradients_is_computed(method):
    """The registry has the names and combining.py the functions. Without a conflict all agree."""
    surgery = make_surgery(method, "mean", 0.01, ["sst", "sts"], seed=0)
    weights = surgery(torch.eye(2, dtype=torch.float64), ["sst", "sts"])
    assert weights.shape == (2,) and (weights > 0).all()


def test_a_method_without_a_function_is_refused():
    step = GradientStep(
        torch.eye(2), {}, torch.zeros(2, 2), torch.Generator(), TaskOptions().of_surgery, {}
    )
    with pytest.raises(ValueError, match="surgery is 'mean', which changes no gradients"):
        update_weights("mean", step)


# --- the draws of a run ---------------------------------------------------------------------------


@pytest.mark.parametrize("num_tasks", range(2, 7))
def test_pcgrad_agrees_with_torchjd(num_tasks):
    """Both draw an order of all K tasks for each task, so that runs repeat those of before."""
    aggregation = pytest.importorskip(
        "torchjd.aggregation", reason="torchjd is the reference; run setup.sh --dev"
    )
    gradients = conflicting(num_tasks)
    torch.manual_seed(7)
    expected = aggregation.PCGrad()(gradients)
    torch.manual_seed(7)
    torch.testing.assert_close(pcgrad(gradients), expected)
