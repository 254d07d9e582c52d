"""How the K tasks of one step become one gradient: the mathematics.

mean and weighted are weights of the losses, known before any backward pass. pcgrad and gradvac
change the gradients themselves. gramian.py has the methods of --surgery by name.

Legend: K tasks of a step, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from minbert.commands.late import torch

if TYPE_CHECKING:
    from torch import Tensor

Reduction = Literal["sum", "mean"]
SMALLEST_SINE = 1e-8  # of the angle of a target cosine


# --- weights of the losses ------------------------------------------------------------------------


def mean(tasks: Sequence[str]) -> list[float]:
    """Weights that make a step follow the mean of its losses: 1/K each.

    The gradient of the mean of the losses is the mean of their gradients. So K backward passes,
    each on one loss times 1/K, leave the same .grad as one backward pass on the mean. Only one
    task's graph is in memory at a time. A step of one batch (mt-dnn sampling) has the weight 1.0.

    tasks: the K task names of a step, K >= 1. Returns K floats.
    """
    return [1.0 / len(tasks)] * len(tasks)


def weighted(tasks: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    """A fixed weight for the loss of each task, 1 for a task without an entry.

    tasks: the K task names of a step. weights: factors above 0 by task name. A name that this step
    does not hold is no error: with one batch a step the tasks take turns.

    Returns K floats in the order of `tasks`. They are not normalised: with {} a step follows the
    sum of its losses, which is K times their mean.
    """
    return [weights.get(task, 1.0) for task in tasks]


# --- changed gradients ----------------------------------------------------------------------------


def pcgrad(
    gradients: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """Project conflicting gradients, "gradient surgery" (Yu et al. 2020, algorithm 1).

    For each task i, every other task j is visited in a new random order. If g . g_j < 0, the
    gradient g of task i loses the part that points against g_j:

        g <- g - (g . g_j) / |g_j|^2  g_j

    Here g_j is the original gradient, never a projected one. The results are summed (the paper) or
    averaged ([ROB] section 4).

    gradients: (K, P), K >= 1, one floating dtype, finite. They are not changed. generator: on the
    CPU; the orders are drawn from it, or from torch's global one. Two tasks have only one order.

    Returns (P,) of the same dtype: the plain sum for orthogonal tasks, 0 for two opposite ones of
    equal length. Raises ValueError for a reduction other than sum and mean. Compare with gradvac,
    and with torchjd's PCGrad and UPGrad. gramian.pcgrad_weights is its fast twin.
    """
    num_tasks = len(gradients)
    projected = gradients.clone()
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            product = projected[i] @ gradients[j]
            squared_norm = gradients[j] @ gradients[j]
            # A square may be too small for its dtype. It is then 0, and g_j is passed over.
            if j != i and product < 0 < squared_norm:
                projected[i] -= product / squared_norm * gradients[j]
    return reduce(projected, reduction)


class GradVacResult(NamedTuple):
    """The result of one step of gradient vaccine."""

    gradient: Tensor  # (P,)
    targets: Tensor  # (K, K), moved


def gradvac(
    gradients: Tensor,
    targets: Tensor,
    beta: float = 0.01,
    reduction: Reduction = "sum",
    generator: torch.Generator | None = None,
) -> GradVacResult:
    """Gradient vaccine (Wang et al. 2021, algorithm 1): PCGrad towards a target cosine.

    For each task i, every other task j is visited in a new random order. Let c be the cosine of the
    gradient g of task i with g_j, and t its target. If c < t, then g is changed so that its cosine
    becomes t (equation 4):

        g <- g + |g| (t sqrt(1 - c^2) - c sqrt(1 - t^2)) / (|g_j| sqrt(1 - t^2))  g_j

    Then the target follows the cosine: t <- (1 - beta) t + beta c. With all targets 0 this is
    PCGrad.

    gradients: (K, P), finite. targets: (K, K) in [-1, 1], row i for the gradient of task i. beta:
    0 to 1. The arguments are not changed. A zero gradient is passed over. reduction, generator and
    errors: as in pcgrad. Compare with torchjd's GradVac. gramian.gradvac_weights is its fast twin.
    """
    num_tasks = len(gradients)
    targets = targets.clone()
    vaccinated = gradients.clone()
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            norm = vaccinated[i].norm()
            other_norm = gradients[j].norm()
            if j == i or norm == 0 or other_norm == 0:
                continue
            cosine = (vaccinated[i] @ gradients[j] / (norm * other_norm)).clamp(-1, 1)
            target = targets[i, j].clone()
            targets[i, j] = (1 - beta) * target + beta * cosine
            if cosine < target:
                # Equation 4. A target of 1 would ask for infinitely much of g_j.
                target_sine = (1 - target**2).sqrt().clamp(min=SMALLEST_SINE)
                cosine_sine = (1 - cosine**2).sqrt()
                numerator = norm * (target * cosine_sine - cosine * target_sine)
                vaccinated[i] += numerator / (other_norm * target_sine) * gradients[j]
    return GradVacResult(reduce(vaccinated, reduction), targets)


def reduce(rows: Tensor, reduction: Reduction) -> Tensor:
    """The sum or the mean of K rows. Raises ValueError for a reduction of another name."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is '{reduction}'; it is sum or mean.")
    return rows.sum(dim=0) if reduction == "sum" else rows.mean(dim=0)
