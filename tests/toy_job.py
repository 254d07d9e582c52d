"""A small job for tests of the loop: a regression with dropout, two tasks and two heads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from minbert import AdamW
from minbert.training.job import Job, Progress, TaskBatch
from minbert.training.loop import fit

NUM_ROWS = 20
BATCH_SIZE = 4
EPOCHS = 3
NUM_STEPS = NUM_ROWS // BATCH_SIZE * EPOCHS  # 5 x 3 = 15


class Kill(BaseException):
    """Stands for SIGKILL: nothing after it runs, nothing is saved."""


@dataclass
class Rows:
    """A batch of the toy job."""

    inputs: Tensor
    targets: Tensor
    ids: tuple[str, ...]

    @property
    def input_ids(self) -> Tensor:
        return self.inputs


class TwoHeads(nn.Module):
    """One body with dropout, a head for each task, and a parameter that no loss touches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.body = nn.Linear(3, 4)
        self.dropout = nn.Dropout(0.3)
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, task: str, inputs: Tensor) -> Tensor:
        hidden = self.dropout(torch.tanh(self.body(inputs)))
        return self.heads[task](hidden).squeeze(-1)


def undisturbed(when: str, number: int) -> None:
    """The default of make_job's `disturb`."""


def make_job(
    folder: Path, dropout: float = 0.3, disturb: Callable[[str, int], None] = undisturbed, **changes
) -> Job:
    """The toy job. changes: fields of the Job that replace those here.

    disturb: called as disturb(when, number) in each loss ("step") and each evaluation
    ("evaluation"), counted from 1.
    """
    generator = torch.Generator().manual_seed(8)
    inputs = torch.randn(NUM_ROWS, 3, generator=generator)
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5])
    model = TwoHeads()
    model.dropout.p = dropout
    calls = {"step": 0, "evaluation": 0}

    def count(when):
        calls[when] += 1
        disturb(when, calls[when])

    def plan(epoch, generator):
        order = torch.randperm(NUM_ROWS, generator=generator).tolist()
        steps = []
        for number, start in enumerate(range(0, NUM_ROWS, BATCH_SIZE)):
            steps.append([TaskBatch("ab"[number % 2], order[start : start + BATCH_SIZE])])
        return steps

    def load(task, rows):
        return Rows(inputs[rows], targets[rows], tuple(f"row-{row}" for row in rows))

    def loss(task, batch):
        count("step")
        return nn.functional.mse_loss(model(task, batch.inputs), batch.targets)

    def evaluate():
        model.eval()
        errors = {}
        with torch.no_grad():
            for task in "ab":
                errors[task] = float(nn.functional.mse_loss(model(task, inputs), targets))
        count("evaluation")
        model.train()
        return {"score": -sum(errors.values()), **errors}

    job = Job(
        name="toy",
        folder=folder,
        model=model,
        optimizer=AdamW(model.parameters(), lr=0.05, weight_decay=0.01),
        plan=plan,
        load=load,
        loss=loss,
        evaluate=evaluate,
        score="score",
        epochs=EPOCHS,
        device=torch.device("cpu"),
        precision="fp32",
        seed=2,
        save_every=2,
    )
    return replace(job, **changes)


def killed_at(job: Job, step: int) -> Job:
    """Any job, killed before update number `step`, with one checkpoint for each step."""
    num_steps = 0

    def dying(task, batch):
        nonlocal num_steps
        num_steps += 1
        if num_steps == step:
            raise Kill
        return job.loss(task, batch)

    return replace(job, loss=dying, save_every=1)


def bits(job: Job, progress: Progress) -> dict:
    """All that a run leaves behind but its seconds: weights, optimizer state, progress."""
    weights = {name: tensor.numpy().tobytes() for name, tensor in job.model.state_dict().items()}
    moments = []
    for state in job.optimizer.state.values():
        stored = {}
        for key, value in state.items():
            stored[key] = value.numpy().tobytes() if torch.is_tensor(value) else value
        moments.append(stored)
    rates = []
    for group in job.optimizer.param_groups:
        rates.append((group["lr"], group["initial_lr"], group["weight_decay"]))
    seen = {name: value for name, value in vars(progress).items() if name != "seconds"}
    return {"weights": weights, "moments": moments, "rates": rates, **copy.deepcopy(seen)}


def resumed(folder: Path, **changes) -> dict:
    """The bits of a job that is resumed from `folder`."""
    job = make_job(folder, **changes)
    torch.manual_seed(12345)  # another process has drawn other numbers by now
    return bits(job, fit(job, resume=True))
