"""--surgery by name: how the losses of a step become one gradient, as the training loop needs it.

The loop takes either weights of the losses, or an object that turns the Gramian of the tasks'
gradients into their weights (minbert/training/job.py, Surgery).

Legend: K tasks of a step, T tasks of the run, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from data.options import numbers_by_task
from multitask import surgery
from multitask.gramian import WeightsAndTargets, gradvac_weights, pcgrad_weights
from multitask.options import TaskOptions
from multitask.surgery import Reduction

# --- methods by name ------------------------------------------------------------------------------


class LossMethod(NamedTuple):
    """A value of --surgery that weighs the losses."""

    weigh: Callable[[TaskOptions, Sequence[str]], list[float]]  # (options, K tasks) -> K weights
    options: tuple[str, ...] = ()  # that it reads


class GradientMethod(NamedTuple):
    """A value of --surgery that changes the gradients."""

    # (gramian, targets, beta, reduction, generator)
    combine: Callable[[Tensor, Tensor, float, Reduction, torch.Generator], WeightsAndTargets]
    options: tuple[str, ...] = ()  # that it reads


def mean_of_losses(options: TaskOptions, tasks: Sequence[str]) -> list[float]:
    """--surgery mean."""
    return surgery.mean(tasks)


def sum_of_losses(options: TaskOptions, tasks: Sequence[str]) -> list[float]:
    """--surgery sum: each loss has the weight 1."""
    return surgery.weighted(tasks, {})


def weighted_losses(options: TaskOptions, tasks: Sequence[str]) -> list[float]:
    """--surgery weighted, with --loss_weights."""
    return surgery.weighted(tasks, numbers_by_task(options.loss_weights))


def combine_by_pcgrad(
    gramian: Tensor,
    targets: Tensor,
    beta: float,
    reduction: Reduction,
    generator: torch.Generator,
) -> WeightsAndTargets:
    """--surgery pcgrad, which has no targets."""
    return WeightsAndTargets(pcgrad_weights(gramian, reduction, generator), targets)


LOSS_METHODS = {
    "mean": LossMethod(mean_of_losses),
    "sum": LossMethod(sum_of_losses),
    "weighted": LossMethod(weighted_losses, options=("loss_weights",)),
}
GRADIENT_METHODS = {
    "pcgrad": GradientMethod(combine_by_pcgrad, options=("surgery_reduction",)),
    "gradvac": GradientMethod(gradvac_weights, options=("surgery_reduction", "gradvac_beta")),
}


def combination(options: TaskOptions, seed: int) -> dict[str, Any]:
    """The fields of the Job for --surgery: "weigh", weights of the losses, or "surgery".

    seed: of the random orders of the tasks.
    """
    if options.surgery in LOSS_METHODS:
        return {"weigh": partial(LOSS_METHODS[options.surgery].weigh, options)}
    reduction = cast(Reduction, options.surgery_reduction)
    return {
        "surgery": GradientSurgery(
            options.surgery, reduction, options.gradvac_beta, options.order, seed
        )
    }


# --- in the loop ----------------------------------------------------------------------------------


class GradientSurgery:
    """PCGrad or GradVac as the loop calls it. It keeps targets, and the cosines of every step.

    Orders come from a generator of its own. So runs of a seed with and without surgery have the
    same dropout masks.

    method: a key of GRADIENT_METHODS. tasks: of the run; a name may come several times.
    """

    def __init__(
        self, method: str, reduction: Reduction, beta: float, tasks: Sequence[str], seed: int
    ) -> None:
        self.combine = GRADIENT_METHODS[method].combine
        self.reduction = reduction
        self.beta = beta
        self.generator = torch.Generator().manual_seed(seed)
        self.tasks = tuple(dict.fromkeys(tasks))
        self.pairs = list(combinations(range(len(self.tasks)), 2))
        self.targets = torch.zeros(len(self.tasks), len(self.tasks), dtype=torch.float64)  # (T, T)
        # Of each step: float32 (pairs,), nan for a pair that the step does not hold.
        self.cosines: list[Tensor] = []

    def __call__(self, gramian: Tensor, tasks: list[str]) -> Tensor:
        """Compute the weights of this step's gradients. Record their cosines and move the targets.

        gramian: (K, K) float64 on the CPU, in the order of `tasks`. tasks: K different tasks of the
        run. Returns (K,) float64. Raises ValueError for another name.
        """
        # The step may hold some of the run's tasks, in any order.
        numbers = torch.tensor([self.tasks.index(task) for task in tasks])  # (K,)
        self.record(gramian, numbers)
        rows = numbers.unsqueeze(1)  # (K, 1)
        columns = numbers.unsqueeze(0)  # (1, K)
        targets = self.targets[rows, columns]  # (K, K)
        result = self.combine(gramian, targets, self.beta, self.reduction, self.generator)
        self.targets[rows, columns] = result.targets
        return result.weights

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
        return {
            "targets": self.targets.clone(),
            "cosines": cosines,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""
        self.targets = state["targets"].clone()
        self.cosines = list(state["cosines"])
        self.generator.set_state(state["generator"])

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
