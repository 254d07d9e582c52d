"""A job small enough to see through, for the tests of the loop: a regression with dropout, two tasks and two heads."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from minbert import AdamW
from minbert.training.job import Job
from minbert.training.loop import fit

NUM_ROWS, BATCH_SIZE, EPOCHS = 20, 4, 3
NUM_STEPS = NUM_ROWS // BATCH_SIZE * EPOCHS  # 5 x 3 = 15


class Kill(BaseException):
    """Stands for SIGKILL: nothing after it runs, nothing is saved."""


@dataclass
class Rows:
    inputs: torch.Tensor
    targets: torch.Tensor
    ids: tuple[str, ...]

    @property
    def input_ids(self):
        return self.inputs


class TwoHeads(nn.Module):
    """One body with dropout, a head per task, and a parameter that no loss touches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.body, self.dropout = nn.Linear(3, 4), nn.Dropout(0.3)
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, task, inputs):
        return self.heads[task](self.dropout(torch.tanh(self.body(inputs)))).squeeze(-1)


def make_job(
    folder, dropout: float = 0.3, disturb: Callable = lambda when, number: None, **changes
) -> Job:
    """`disturb(when, number)` is called in each loss ("step") and each evaluation ("evaluation"), counted from 1."""
    generator = torch.Generator().manual_seed(8)
    inputs = torch.randn(NUM_ROWS, 3, generator=generator)
    targets = inputs @ torch.tensor([1.0, -2.0, 0.5])
    model = TwoHeads()
    model.dropout.p = dropout
    calls = {"step": 0, "evaluation": 0}

    def disturbed(when):
        calls[when] += 1
        disturb(when, calls[when])

    def plan(epoch, generator):
        order = torch.randperm(NUM_ROWS, generator=generator).tolist()
        batches = [order[start : start + BATCH_SIZE] for start in range(0, NUM_ROWS, BATCH_SIZE)]
        return [[("ab"[number % 2], batch)] for number, batch in enumerate(batches)]

    def loss(task, batch):
        disturbed("step")
        return nn.functional.mse_loss(model(task, batch.inputs), batch.targets)

    def evaluate():
        model.eval()
        with torch.no_grad():
            errors = {
                task: float(nn.functional.mse_loss(model(task, inputs), targets)) for task in "ab"
            }
        disturbed("evaluation")
        model.train()
        return {"score": -sum(errors.values()), **errors}

    job = Job(
        name="toy",
        folder=folder,
        model=model,
        optimizer=AdamW(model.parameters(), lr=0.05, weight_decay=0.01),
        plan=plan,
        load=lambda task, rows: Rows(
            inputs[rows], targets[rows], tuple(f"row-{row}" for row in rows)
        ),
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
    """Any job, with a loss that dies like a killed process before update number `step`, and one checkpoint a step."""
    num_steps = 0

    def dying(task, batch):
        nonlocal num_steps
        num_steps += 1
        if num_steps == step:
            raise Kill
        return job.loss(task, batch)

    return replace(job, loss=dying, save_every=1)


def bits(job: Job, progress) -> dict:
    """All that a run leaves behind but its seconds: weights, optimizer state, progress."""
    weights = {name: tensor.numpy().tobytes() for name, tensor in job.model.state_dict().items()}
    moments = [
        {
            key: value.numpy().tobytes() if torch.is_tensor(value) else value
            for key, value in state.items()
        }
        for state in job.optimizer.state.values()
    ]
    seen = {name: value for name, value in vars(progress).items() if name != "seconds"}
    rates = [
        (group["lr"], group["initial_lr"], group["weight_decay"])
        for group in job.optimizer.param_groups
    ]
    return {"weights": weights, "moments": moments, "rates": rates, **copy.deepcopy(seen)}


def resumed(folder, **changes) -> dict:
    """The bits of a job taken up again from `folder`."""
    job = make_job(folder, **changes)
    torch.manual_seed(12345)  # another process has drawn other numbers by now
    return bits(job, fit(job, resume=True))
