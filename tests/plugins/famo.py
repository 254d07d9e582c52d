"""Fast adaptive multitask optimization, FAMO (Liu et al. 2023), as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/famo.py --sampling joint --surgery famo

It weighs tasks by how fast their losses fall, and keeps what it has learnt from step to step.

K tasks of a step, l_k their losses, x_k a number that is learnt for each task, z = softmax(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minbert.commands.options import OptionGroup, flag
from minbert.commands.registry import Fixture
from multitask import GradientStep, Surgery, register_surgery

LEAST_LOSS = 1e-8  # of which a logarithm is taken
DECAY = 0.01  # gamma: how strongly x returns to 0


@dataclass(frozen=True)
class FamoOptions(OptionGroup):
    """Option of famo."""

    famo_lr: float = flag(0.025, "With --surgery famo: the step size of x, beta.", low=0.0)


def loss_weights(x: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
    """The weights of the losses: c z_k / l_k, with c such that they add up to 1.

    x, losses: (K,) float64. Returns (K,).
    """
    weights = x.softmax(dim=0) / losses
    return weights / weights.sum()


def learn(x: torch.Tensor, fall: torch.Tensor, lr: float) -> torch.Tensor:
    """Move x so that tasks weigh more whose losses fell less (algorithm 1).

    x: (K,). fall: (K,), log l_k before the last update minus log l_k now. The gradient of
    sum_k z_k fall_k by x is z_k (fall_k - sum_j z_j fall_j). Returns the new x.
    """
    z = x.softmax(dim=0)
    gradient = z * (fall - z @ fall)
    return x - lr * (gradient + DECAY * x)


def combine(step: GradientStep) -> torch.Tensor:
    """--surgery famo. Each loss is compared with that of the task's last batch."""
    options = step.method_options[FamoOptions]
    tasks = list(step.losses)
    losses = torch.tensor(list(step.losses.values()), dtype=torch.float64).clamp(min=LEAST_LOSS)
    x = torch.zeros_like(losses)  # (K,)
    before = losses.clone()
    for place, task in enumerate(tasks):
        if task in step.memory:
            x[place], before[place] = step.memory[task]

    x = learn(x, before.log() - losses.log(), options.famo_lr)
    for place, task in enumerate(tasks):
        step.memory[task] = torch.stack([x[place], losses[place]])
    return loss_weights(x, losses)


register_surgery(
    "famo",
    Surgery(
        title="weights by how fast each loss falls (Liu et al. 2023)",
        combine=combine,
        options=(FamoOptions,),
        fixture=Fixture(values={"famo_lr": [0.025, 5.0]}),
    ),
)
