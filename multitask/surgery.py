"""How the K tasks of one step become one gradient. Called by train.py; next: minbert/training/gradients.py, which applies it.

K tasks, P parameters, T tasks of the run, S steps. mean, sum and weighted are weights of the losses, known before any
backward pass. PCGrad and GradVac look at the gradients, but only at their dot products: the K x K Gramian G tells all.
A gradient in the making is kept as its weights w on the original ones, so its dot product with g_j is G[j] . w.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["sum", "mean"]


def mean(tasks: Sequence[str]) -> list[float]:
    """Weights that make a step follow the mean of its losses: 1/K each.

    The gradient of the mean of the losses is the mean of their gradients, so K backward passes, each on its own
    loss times 1/K, leave in .grad what one backward pass on the mean would, and only one task's graph is in memory
    at a time. A step of one batch (mt-dnn sampling) has the weight 1.0: its loss as it is.

    tasks: the K task names of a step, K >= 1. Returns K floats.
    """
    return [1.0 / len(tasks)] * len(tasks)


def weighted(tasks: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    """A fixed weight for each task's loss, 1 where `weights` says nothing; with no weights at all the sum.

    tasks: the K task names of a step. weights: factors above 0 by task name. Returns K floats in the order of `tasks`,
    not normalised: with {} a step follows the sum of its losses, K times what `mean` gives. A name in `weights` that
    this step does not hold is no error: with one batch a step the tasks take turns.
    """
    return [weights.get(task, 1.0) for task in tasks]


def pcgrad(
    gradients: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """Projecting conflicting gradients, "gradient surgery" (Yu et al. 2020, algorithm 1): K gradients -> one.

    For each task i its gradient loses, for every other task j in a fresh random order, the part that points against
    g_j: if g . g_j < 0, g -= (g . g_j) / |g_j|^2 g_j, with g_j as it was, never projected. The results are summed (the
    paper) or averaged ([ROB] section 4).

    gradients (K, P), K >= 1, one floating dtype, finite; left as they are. generator: of the CPU, the orders are drawn
    from it, or from torch's global one; two tasks have no choice of order. Returns (P,) of the same dtype: the plain
    sum for orthogonal tasks, 0 for two opposite ones of equal length. Raises ValueError for a reduction other than sum
    and mean. Compare with gradvac_weights, and torchjd's PCGrad and UPGrad.
    """
    return pcgrad_weights(gradients @ gradients.T, reduction, generator) @ gradients


def pcgrad_weights(
    gramian: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """The weights (K,) with which `pcgrad` adds up the original gradients (Yu et al. 2020, algorithm 1).

    gramian (K, K), float32 or better float64, G[i, j] = g_i . g_j; row i of the weights begins one-hot, and w_ij loses
    (G[j] . w_i) / G[j, j] where that product is below 0. Returns (K,) of the same dtype, such that weights @ gradients
    is pcgrad(gradients); generator and errors as there.
    """
    num_tasks = len(gramian)
    # row i: the projected g_i in terms of the originals
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            product = gramian[j] @ weights[i]
            if j != i and product < 0 < gramian[j, j]:  # a square may be too small for its dtype
                weights[i, j] -= product / gramian[j, j]
    return reduce(weights, reduction)


def gradvac_weights(
    gramian: Tensor,
    targets: Tensor,
    beta: float = 0.01,
    reduction: Reduction = "sum",
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradient vaccine (Wang et al. 2021, algorithm 1, equation 4): PCGrad towards a target instead of towards 0.

    For each task i and every other j in a fresh random order: where the cosine c of the gradient in the making with g_j
    is below the target t, it gets |g| (t sqrt(1 - c^2) - c sqrt(1 - t^2)) / (|g_j| sqrt(1 - t^2)) of g_j, which lifts
    the cosine to t. Then t becomes (1 - beta) t + beta c. With all targets 0 this is PCGrad.

    gramian (K, K); targets (K, K) in [-1, 1], row i for the gradient of task i; beta in [0, 1]. Returns the weights
    (K,) and the new targets (K, K); the arguments are left as they are. A zero gradient is passed over.
    """
    num_tasks, targets = len(gramian), targets.clone()
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            norm, other_norm = (
                (weights[i] @ gramian @ weights[i]).clamp(min=0).sqrt(),
                gramian[j, j].sqrt(),
            )
            if j == i or norm == 0 or other_norm == 0:
                continue
            cosine, target = (
                (gramian[j] @ weights[i] / (norm * other_norm)).clamp(-1, 1),
                targets[i, j].clone(),
            )
            targets[i, j] = (1 - beta) * target + beta * cosine
            if cosine < target:
                sine = (
                    (1 - target**2).sqrt().clamp(min=1e-8)
                )  # a target of 1 would ask for infinitely much of g_j
                weights[i, j] += (
                    norm * (target * (1 - cosine**2).sqrt() - cosine * sine) / (other_norm * sine)
                )
    return reduce(weights, reduction), targets


def reduce(weights: Tensor, reduction: Reduction) -> Tensor:
    """The K projected gradients as one: (K, K) -> (K,); ValueError for a reduction of another name."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is '{reduction}'; it is sum or mean.")
    return weights.sum(dim=0) if reduction == "sum" else weights.mean(dim=0)


class GradientSurgery:
    """PCGrad or GradVac as the loop calls it, with what it remembers: GradVac's targets and every step's cosines.

    Calling it: Gramian (K, K) and the K task names of this step -> weights (K,). Orders come from a generator of its
    own, so that runs of a seed with and without surgery have the same dropout masks.
    """

    def __init__(
        self, method: str, reduction: Reduction, beta: float, tasks: Sequence[str], seed: int
    ) -> None:
        self.method, self.reduction, self.beta = method, reduction, beta
        self.generator = torch.Generator().manual_seed(seed)
        self.tasks = tuple(dict.fromkeys(tasks))
        self.pairs = list(combinations(range(len(self.tasks)), 2))
        self.targets = torch.zeros(len(self.tasks), len(self.tasks), dtype=torch.float64)  # (T, T)
        self.cosines: list[
            Tensor
        ] = []  # of each step (pairs,) float32, nan for a pair that it does not hold

    def __call__(self, gramian: Tensor, tasks: list[str]) -> Tensor:
        """The weights (K,) float64 of this step's K gradients; records their cosines, and moves GradVac's targets.

        gramian (K, K) float64 on the CPU, in the order of `tasks`: K different ones of those given at the start,
        ValueError for another name.
        """
        numbers = torch.tensor([self.tasks.index(task) for task in tasks])
        self.record(gramian, numbers)
        if self.method == "pcgrad":
            return pcgrad_weights(gramian, self.reduction, self.generator)
        assert self.method == "gradvac", f"there is no surgery {self.method}"
        rows, columns = numbers.unsqueeze(1), numbers.unsqueeze(0)
        weights, self.targets[rows, columns] = gradvac_weights(
            gramian, self.targets[rows, columns], self.beta, self.reduction, self.generator
        )
        return weights

    def record(self, gramian: Tensor, numbers: Tensor) -> None:
        """Keep the cosine of every pair of this step's gradients; that of a zero gradient counts as 0."""
        norms = gramian.diagonal().sqrt()
        every = torch.full((len(self.tasks), len(self.tasks)), torch.nan)
        every[numbers[:, None], numbers] = (
            (gramian / torch.outer(norms, norms)).nan_to_num(0, 0, 0).float()
        )
        self.cosines.append(
            torch.stack([every[pair] for pair in self.pairs]) if self.pairs else torch.empty(0)
        )

    def state_dict(self) -> dict[str, Tensor]:
        empty = torch.empty(0, len(self.pairs))
        return {
            "targets": self.targets.clone(),
            "cosines": torch.stack(self.cosines) if self.cosines else empty,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.targets, self.cosines = state["targets"].clone(), list(state["cosines"])
        self.generator.set_state(state["generator"])

    def conflicts(self) -> list[dict]:
        """For each pair of tasks: "tasks", in how many "steps" both were, the share in which they conflicted (their
        gradients' cosine is below 0), and the mean "cosine"."""
        cosines = self.state_dict()["cosines"]  # (S, pairs)
        found = []
        for number, pair in enumerate(self.pairs):
            seen = cosines[:, number][~cosines[:, number].isnan()]
            if len(seen):
                found.append(
                    {
                        "tasks": [self.tasks[task] for task in pair],
                        "steps": len(seen),
                        "conflicts": float((seen < 0).float().mean()),
                        "cosine": float(seen.mean()),
                    }
                )
        return found
