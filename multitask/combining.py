"""A method of --surgery as the training loop calls it.

The loop takes either weights of the losses, or an object that turns the Gramian of the tasks'
gradients into their weights (minbert/training/job.py, Surgery).

Legend: K tasks of a step, T tasks of the run, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from data.options import numbers_by_task
from minbert.commands.options import MethodOptions
from minbert.training.job import equal_weights
from multitask import surgery
from multitask.options import TaskOptions
from multitask.surgery_registry import (
    SURGERIES,
    CaGradOptions,
    GradientStep,
    GradVacOptions,
    LossWeightOptions,
    ReductionOptions,
)


def loss_weights(options: TaskOptions) -> Callable[[Sequence[str]], Sequence[float]]:
    """The function from the K tasks of a step to the K weights of their losses (Job.weigh).

    Where --surgery changes gradients, the loop does not ask for weights of losses.
    """
    method = options.surgery
    method_options = options.of_surgery
    if SURGERIES[method].changes_gradients:
        return equal_weights
    if method == "mean":
        return surgery.mean
    if method == "sum":
        return partial(surgery.weighted, weights={})
    if method == "weighted":
        factors = numbers_by_task(method_options[LossWeightOptions].loss_weights)
        return partial(surgery.weighted, weights=factors)
    weigh = SURGERIES[method].weigh
    assert weigh is not None, f"--surgery {method} has no function"
    return lambda tasks: weigh(tasks, method_options)


def update_weights(method: str, step: GradientStep) -> Tensor:
    """Compute the weights (K,) with which a step's gradients become one, as --surgery asks.

    method: a key of SURGERIES that changes gradients. GradVac moves `step.targets`.
    """
    combine = SURGERIES[method].combine
    if combine is not None:  # of a user's own file
        return combine(step)

    options = step.method_options
    reduction = options[ReductionOptions].reduction
    if method == "pcgrad":
        return surgery.pcgrad_weights(step.gramian, reduction, step.generator)
    if method == "gradvac":
        beta = options[GradVacOptions].gradvac_beta
        weights, moved = surgery.gradvac_weights(
            step.gramian, step.targets, beta, reduction, step.generator
        )
        step.targets.copy_(moved)
        return weights
    if method == "cagrad":
        radius = options[CaGradOptions].cagrad_radius
        return surgery.cagrad_weights(step.gramian, radius, reduction)
    if method == "upgrad":
        return surgery.upgrad_weights(step.gramian, reduction)
    raise ValueError(f"surgery is '{method}', which changes no gradients.")


def gradient_surgery(options: TaskOptions, seed: int) -> GradientSurgery | None:
    """The method of --surgery that changes gradients (Job.surgery); None where it weighs losses.

    seed: of the random orders of the tasks.
    """
    if not options.changes_gradients:
        return None
    return GradientSurgery(options.surgery, options.of_surgery, options.order, seed)


# --- in the loop ----------------------------------------------------------------------------------


class GradientSurgery:
    """A method that changes gradients, as the loop calls it.

    It keeps the method's targets and its memory, and the cosines of every step.

    Orders come from a generator of its own. So runs of a seed with and without surgery have the
    same dropout masks.

    method: a key of SURGERIES that changes gradients. method_options: TaskOptions.of_surgery.
    tasks: of the run; a name may come several times.
    """

    def __init__(
        self, method: str, method_options: MethodOptions, tasks: Sequence[str], seed: int
    ) -> None:
        assert SURGERIES[method].changes_gradients, f"--surgery {method} weighs losses"
        self.method = method
        self.method_options = method_options
        self.generator = torch.Generator().manual_seed(seed)
        self.tasks = tuple(dict.fromkeys(tasks))
        self.pairs = list(combinations(range(len(self.tasks)), 2))
        self.targets = torch.zeros(len(self.tasks), len(self.tasks), dtype=torch.float64)  # (T, T)
        self.memory: dict[str, Tensor] = {}  # of a method of the user
        # Of each step: float32 (pairs,), nan for a pair that the step does not hold.
        self.cosines: list[Tensor] = []

    def __call__(self, gramian: Tensor, losses: Mapping[str, float]) -> Tensor:
        """Compute the weights of this step's gradients. Record their cosines and move the targets.

        losses: of K tasks of the run. gramian: (K, K) float64 on the CPU, in that order.
        Returns (K,) float64. Raises ValueError for another name, and for weights of another shape.
        """
        # The step may hold some of the run's tasks, in any order.
        tasks = list(losses)
        numbers = torch.tensor([self.tasks.index(task) for task in tasks])  # (K,)
        self.record(gramian, numbers)
        rows = numbers.unsqueeze(1)  # (K, 1)
        columns = numbers.unsqueeze(0)  # (1, K)
        targets = self.targets[rows, columns]  # (K, K), a copy
        step = GradientStep(
            gramian, losses, targets, self.generator, self.method_options, self.memory
        )
        weights = torch.as_tensor(update_weights(self.method, step), dtype=torch.float64)  # (K,)
        self.targets[rows, columns] = step.targets
        if weights.shape != (len(tasks),):
            raise ValueError(
                f"--surgery {self.method} gave weights of the shape {tuple(weights.shape)}; one "
                f"for each of the {len(tasks)} gradients of the step is expected."
            )
        return weights

    def record(self, gramian: Tensor, numbers: Tensor) -> None:
        """Keep the cosine of every pair of this step's gradients.

        The cosine of a zero gradient counts as 0.

        numbers: (K,), of the step's tasks among those of the run.
        """
        # cos(g_i, g_j) = G[i, j] / (|g_i| |g_j|), and |g_i| = sqrt(G[i, i]).
        norms = gramian.diagonal().sqrt()  # (K,)
        cosines = (gramian / torch.outer(norms, norms)).nan_to_num(0, 0, 0).float()  # (K, K)
        of_run = torch.full((len(self.tasks), len(self.tasks)), torch.nan)  # (T, T)
        of_run[numbers[:, None], numbers] = cosines
        self.cosines.append(torch.tensor([float(of_run[pair]) for pair in self.pairs]))

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint has to hold."""
        cosines = torch.empty(0, len(self.pairs))  # (S, pairs)
        if self.cosines:
            cosines = torch.stack(self.cosines)
        memory = {f"memory.{name}": tensor.clone() for name, tensor in self.memory.items()}
        return {
            **memory,
            "targets": self.targets.clone(),
            "cosines": cosines,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""
        self.targets = state["targets"].clone()
        self.cosines = list(state["cosines"])
        self.generator.set_state(state["generator"])
        self.memory = {}
        for name, tensor in state.items():
            if name.startswith("memory."):
                self.memory[name.removeprefix("memory.")] = tensor.clone()

    def conflicts(self) -> list[dict[str, Any]]:
        """A summary for each pair of tasks that met in a step.

        "tasks": both names. "steps": how many held both. "conflicts": the share of these steps in
        which the cosine of their gradients was below 0. "cosine": its mean.
        """
        cosines = self.state_dict()["cosines"]  # (S, pairs)
        summaries: list[dict[str, Any]] = []
        for number, pair in enumerate(self.pairs):
            of_pair = cosines[:, number]
            of_pair = of_pair[~of_pair.isnan()]
            if not len(of_pair):
                continue
            summaries.append(
                {
                    "tasks": [self.tasks[task] for task in pair],
                    "steps": len(of_pair),
                    "conflicts": float((of_pair < 0).float().mean()),
                    "cosine": float(of_pair.mean()),
                }
            )
        return summaries
