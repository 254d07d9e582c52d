"""PCGrad through minbert/training/gradients.py, from several tasks' losses to .grad, against plain flat vectors."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from minbert import AdamW
from minbert.training import gradients
from minbert.training.gradients import backward
from multitask.combining import GradientSurgery
from tests.lessons.test_surgery import orders_of, plain_pcgrad
from tests.toy_job import make_job

SEED = 4


class ManyHeads(nn.Module):
    """A body that all tasks share, and a head for each."""

    def __init__(self, num_tasks: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(3, 5)
        self.heads = nn.ModuleList(nn.Linear(5, 1) for _ in range(num_tasks))
        for (
            head
        ) in self.heads:  # alike, so that opposite targets pull the body in opposite directions
            head.load_state_dict(self.heads[0].state_dict())


def make_step(folder, num_tasks: int, scale: float):
    """A job whose tasks pull in different directions, one batch of each, and the gradient that each has alone."""
    model = ManyHeads(num_tasks)

    def loss(task, batch):
        outputs = model.heads[int(task)](torch.tanh(model.body(batch.inputs))).squeeze(-1)
        return scale * (outputs - (-1) ** int(task) * 3 * batch.targets).square().mean()

    job = replace(
        make_job(folder),
        model=model,
        optimizer=AdamW(model.parameters()),
        loss=loss,
        surgery=GradientSurgery(
            "pcgrad", "sum", 0.01, [str(task) for task in range(num_tasks)], SEED
        ),
    )
    step = [
        (str(task), list(range(3 * task, 3 * task + 3)), 1 / num_tasks) for task in range(num_tasks)
    ]
    own = [
        torch.autograd.grad(loss(task, job.load(task, rows)), list(model.body.parameters()))
        for task, rows, _ in step
    ]
    flat = torch.stack(
        [torch.cat([gradient.flatten() for gradient in of_task]) for of_task in own]
    ).double()  # (K, P)
    assert (flat @ flat.T < 0).any(), "nothing conflicts, so nothing is tested"
    return job, step, flat


def of_the_body(job, step) -> torch.Tensor:
    """The shared gradient, (P,), that one step leaves."""
    backward(job, step)
    return torch.cat(
        [parameter.grad.flatten() for parameter in job.model.body.parameters()]
    ).double()


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
def test_a_step_is_that_of_a_plain_loop(tmp_path, num_tasks, scale):
    job, step, flat = make_step(tmp_path, num_tasks, scale)
    expected = plain_pcgrad(flat, orders_of(SEED, num_tasks))
    found = of_the_body(job, step)
    torch.testing.assert_close(
        found, expected, rtol=1e-4, atol=1e-5 * float(flat.abs().max())
    )  # fp32 Gramian
    for task, rows, _ in step:
        head = job.model.heads[int(task)].weight
        (alone,) = torch.autograd.grad(job.loss(task, job.load(task, rows)), [head])
        torch.testing.assert_close(head.grad, alone)


def test_negative_control_gradients_that_were_summed_before(tmp_path, monkeypatch):
    """Each backward pass adds to what the tasks before it left, and so every gradient but the first is a sum."""
    job, step, flat = make_step(tmp_path, 3, 1.0)
    monkeypatch.setattr(
        gradients,
        "take",
        lambda parameters: [
            None if parameter.grad is None else parameter.grad.clone() for parameter in parameters
        ],
    )
    expected = plain_pcgrad(flat, orders_of(SEED, 3))
    assert not torch.allclose(of_the_body(job, step), expected, rtol=0.05)
