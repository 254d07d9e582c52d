"""How the K tasks of one step become one gradient: the mathematics.

mean and weighted are weights of the losses, known before any backward pass. pcgrad, gradvac, cagrad
and upgrad change the gradients themselves. combining.py calls them in the training loop.

These methods look at gradients only through their dot products. So the K x K Gramian tells
everything, and the long gradients are read once. A gradient that is being changed is kept as its
weights w on the original ones. Its dot product with g_j is then G[j] . w, and its squared length
w . G w. Each method therefore computes K weights: pcgrad_weights(gramian) is the method, which the
training loop calls. pcgrad(gradients) adds up a matrix of gradients with these weights.

A run passes --surgery-reduction, by default sum. [ROB] is a report of Stanford's course CS224N.

Legend: K tasks of a step, P parameters, G the Gramian with G[i, j] = g_i . g_j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize, nnls
from torch import Tensor

Reduction = Literal["sum", "mean"]
SMALLEST_SINE = 1e-8  # of the angle of a target cosine
SMALLEST_LENGTH = 1e-8  # of a mixture of gradients, as a share of their lengths


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


def gramian_of(gradients: Tensor) -> Tensor:
    """Compute the dot products of the gradients: (K, P) -> (K, K) float64 on the CPU.

    A square of float32 numbers may be too small or too large for float32. In float64 it is not.
    """
    gradients = gradients.double()
    return (gradients @ gradients.T).cpu()  # (K, K)


def reduce(rows: Tensor, reduction: Reduction) -> Tensor:
    """The sum or the mean of K rows. Raises ValueError for a reduction of another name."""
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is '{reduction}'; it is sum or mean.")
    return rows.sum(dim=0) if reduction == "sum" else rows.mean(dim=0)


# --- PCGrad ---------------------------------------------------------------------------------------


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
    CPU; the orders are drawn from it, or from torch's global one. With two tasks the order makes
    no difference.

    Returns (P,) of the same dtype: the plain sum for orthogonal tasks, 0 for two opposite ones of
    equal length. Raises ValueError for a reduction other than sum and mean. Compare with gradvac,
    and with torchjd's PCGrad and UPGrad.
    """
    weights = pcgrad_weights(gramian_of(gradients), reduction, generator)
    return weights.to(gradients) @ gradients


def pcgrad_weights(
    gramian: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """Compute the weights with which `pcgrad` adds up the original gradients.

    Row i of the weights begins one-hot. Where G[j] . w_i is below 0,
    w_ij <- w_ij - (G[j] . w_i) / G[j, j]. A task j whose square G[j, j] is 0 is passed over.

    gramian: (K, K), float64 or float32. Returns (K,) of the same dtype, such that
    weights @ gradients is pcgrad(gradients). generator and errors: as there. Each task draws an
    order of its own, and each order must be as likely as another. How it is drawn is free.
    """
    num_tasks = len(gramian)
    # Row i: the projected g_i in terms of the original gradients.
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)  # (K, K)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            product = gramian[j] @ weights[i]  # g . g_j
            squared_norm = gramian[j, j]  # |g_j|^2
            # A square may be too small for its dtype. It is then 0, and g_j is passed over.
            if j != i and product < 0 < squared_norm:
                weights[i, j] -= product / squared_norm
    return reduce(weights, reduction)


# --- gradient vaccine -----------------------------------------------------------------------------


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
    errors: as in pcgrad. Compare with torchjd's GradVac.
    """
    weights, moved = gradvac_weights(
        gramian_of(gradients), targets.double(), beta, reduction, generator
    )
    return GradVacResult(weights.to(gradients) @ gradients, moved.to(targets))


class WeightsAndTargets(NamedTuple):
    """The result of one step of gradient vaccine."""

    weights: Tensor  # (K,), of the original gradients
    targets: Tensor  # (K, K), moved


def gradvac_weights(
    gramian: Tensor,
    targets: Tensor,
    beta: float = 0.01,
    reduction: Reduction = "sum",
    generator: torch.Generator | None = None,
) -> WeightsAndTargets:
    """Compute the weights with which `gradvac` adds up the original gradients.

    gramian: (K, K). targets: (K, K) in [-1, 1], row i for the gradient of task i. beta: 0 to 1.
    The arguments are not changed. weights @ gradients is the gradient of `gradvac`. A zero gradient
    is passed over. reduction, generator and errors: as there.
    """
    num_tasks = len(gramian)
    targets = targets.clone()
    # Row i: the changed g_i in terms of the original gradients.
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)  # (K, K)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            norm = (weights[i] @ gramian @ weights[i]).clamp(min=0).sqrt()
            other_norm = gramian[j, j].sqrt()
            if j == i or norm == 0 or other_norm == 0:
                continue
            cosine = (gramian[j] @ weights[i] / (norm * other_norm)).clamp(-1, 1)
            target = targets[i, j].clone()
            targets[i, j] = (1 - beta) * target + beta * cosine
            if cosine < target:
                # Equation 4. A target of 1 would ask for infinitely much of g_j.
                target_sine = (1 - target**2).sqrt().clamp(min=SMALLEST_SINE)
                cosine_sine = (1 - cosine**2).sqrt()
                numerator = norm * (target * cosine_sine - cosine * target_sine)
                weights[i, j] += numerator / (other_norm * target_sine)
    return WeightsAndTargets(reduce(weights, reduction), targets)


# --- CAGrad ---------------------------------------------------------------------------------------


def cagrad(gradients: Tensor, radius: float = 0.5, reduction: Reduction = "mean") -> Tensor:
    """Conflict-averse gradient descent (Liu et al. 2021, algorithm 1).

    Near the mean g_0 of the gradients, it takes the update that helps the worst task most:

        max over d of  min_i g_i . d    with  |d - g_0| <= c |g_0|          (equation 2)

    Let g_w = sum_i w_i g_i be the mixture of `worst_mixture`. Then the update is

        d = g_0 + c |g_0| / |g_w| g_w

    With c = 0 it is the mean. Where g_w is 0 the mean is returned: no direction helps all tasks.

    gradients: (K, P), K >= 1, finite. They are not changed. radius: c, at least 0; the paper has
    0 to 1. reduction: "mean" as in the paper, or "sum", which is K times as long.

    Returns (P,). Raises ValueError for a reduction other than sum and mean. Compare with upgrad,
    and with torchjd's CAGrad. For a large c it turns towards the update of MGDA (Sener and Koltun
    2018).
    """
    weights = cagrad_weights(gramian_of(gradients), radius, reduction)
    return weights.to(gradients) @ gradients


def cagrad_weights(gramian: Tensor, radius: float = 0.5, reduction: Reduction = "mean") -> Tensor:
    """Compute the weights with which `cagrad` adds up the original gradients.

        d = sum_i (1 / K + c |g_0| / |g_w| w_i) g_i

    gramian: (K, K) float64. radius: c, at least 0. Returns (K,) float64, such that
    weights @ gradients is cagrad(gradients). reduction and errors: as there.
    """
    num_tasks = len(gramian)
    even = torch.full((num_tasks,), 1 / num_tasks, dtype=torch.float64)
    mixture = worst_mixture(gramian, radius)  # w, (K,)
    # |g_0|^2 = b . G b with b = 1 / K, and |g_w|^2 = w . G w.
    mean_length = (even @ gramian @ even).clamp(min=0).sqrt()
    mixture_length = (mixture @ gramian @ mixture).clamp(min=0).sqrt()

    weights = even
    if mixture_length > SMALLEST_LENGTH * gramian.trace().sqrt():
        weights = even + radius * mean_length / mixture_length * mixture
    # K equal rows, so that the sum is K times as long as the mean.
    return reduce(weights.expand(num_tasks, -1), reduction)


def worst_mixture(gramian: Tensor, radius: float) -> Tensor:
    """The weights w of the tasks in CAGrad's dual problem (Liu et al. 2021, section 3.2).

        min over w of  g_w . g_0 + c |g_0| |g_w|     with  w >= 0 and  sum_i w_i = 1

    They are high for tasks that the update helps little. As in the authors' code, scipy's SLSQP
    finds them.

    gramian: (K, K), the dot products of the gradients. radius: c. Returns (K,) float64.
    """
    num_tasks = len(gramian)
    even = np.full(num_tasks, 1 / num_tasks)
    products = gramian.double().numpy()
    # The weights do not depend on the scale of the gradients.
    products = products / (products.trace() or 1.0)
    with_mean = products @ even  # (K,), g_i . g_0
    mean_length = np.sqrt(max(even @ with_mean, 0.0))

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The value to minimise, and its gradient (K,)."""
        with_mixture = products @ weights  # (K,), g_i . g_w
        # Its derivative does not exist where g_w is 0.
        length = np.sqrt(max(weights @ with_mixture, SMALLEST_LENGTH**2))
        value = weights @ with_mean + radius * mean_length * length
        return value, with_mean + radius * mean_length / length * with_mixture

    result = minimize(
        objective,
        even,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * num_tasks,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    weights = np.clip(result.x, 0, 1)
    return torch.from_numpy(weights / weights.sum())


# --- UPGrad ---------------------------------------------------------------------------------------


def upgrad(gradients: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Unconflicting projection of gradients (Quinton and Rey 2024, UPGrad).

    Each gradient is replaced by the nearest vector that conflicts with no task (section 3):

        p_i = argmin over x of |x - g_i|    with  g_j . x >= 0 for all j

    The results are averaged (the paper) or summed. No task conflicts with the sum of such vectors,
    so a small enough step makes no loss larger. PCGrad does not promise this for three tasks: a
    later projection may undo an earlier one.

    gradients: (K, P), K >= 1, finite. They are not changed. Returns (P,). Raises ValueError for a
    reduction other than sum and mean. Compare with pcgrad, which it equals for two tasks, and with
    torchjd's UPGrad.
    """
    weights = upgrad_weights(gramian_of(gradients), reduction)
    return weights.to(gradients) @ gradients


def upgrad_weights(gramian: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Compute the weights with which `upgrad` adds up the original gradients.

    The projection of g_i is g_i + sum_j u_j g_j with the u >= 0 that make it shortest (proposition
    1). This is non-negative least squares, which scipy solves exactly.

    gramian: (K, K) float64. Returns (K,) float64, such that weights @ gradients is
    upgrad(gradients). reduction and errors: as there.
    """
    # Gradients of length 1 have the same projections. A zero gradient stays zero.
    lengths = gramian.diagonal().sqrt()  # (K,)
    divisors = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    cosines = gramian / torch.outer(divisors, divisors)  # (K, K)
    # Vectors of only K numbers with the same cosines as the gradients: the columns of a root.
    values, vectors = torch.linalg.eigh(cosines)
    root = (values.clamp(min=0).sqrt()[:, None] * vectors.T).numpy()  # (K, K)

    weights = torch.eye(len(gramian), dtype=torch.float64)  # (K, K)
    for i in range(len(gramian)):
        # The u >= 0 with the smallest |root u + root_i|.
        added, _ = nnls(root, -root[:, i])
        # Back to the true lengths: p_i = g_i + sum_j u_j |g_i| / |g_j| g_j.
        weights[i] += torch.from_numpy(added) * divisors[i] / divisors
    return reduce(weights, reduction)
