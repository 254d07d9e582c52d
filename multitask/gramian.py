"""Gradient surgery from dot products alone, which is fast.

The functions here are the fast twins of those in surgery.py. All methods look at gradients only
through their dot products. So the K x K Gramian tells everything, and the long gradients are read
once. A gradient that is being changed is kept as its weights w on the original ones. Its dot
product with g_j is then G[j] . w, and its squared length w . G w.

A new method is a function from the Gramian to the weights of the gradients, and an entry of
surgery_registry.py. combining.py calls it in the training loop.

Legend: K tasks of a step, G the Gramian with G[i, j] = g_i . g_j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minbert.commands.late import torch
from multitask.surgery import SMALLEST_LENGTH, SMALLEST_SINE, Reduction, reduce, worst_mixture

if TYPE_CHECKING:
    from torch import Tensor


def pcgrad_weights(
    gramian: Tensor, reduction: Reduction = "sum", generator: torch.Generator | None = None
) -> Tensor:
    """The weights with which `pcgrad` adds up the original gradients (Yu et al. 2020, algorithm 1).

    Row i of the weights begins one-hot. Where G[j] . w_i is below 0, w_ij loses
    (G[j] . w_i) / G[j, j].

    gramian: (K, K), float32 or better float64. Returns (K,) of the same dtype, such that
    weights @ gradients is surgery.pcgrad(gradients). generator and errors: as there.
    """
    num_tasks = len(gramian)
    # Row i: the projected g_i in terms of the original gradients.
    weights = torch.eye(num_tasks, dtype=gramian.dtype, device=gramian.device)  # (K, K)
    for i in range(num_tasks):
        for j in torch.randperm(num_tasks, generator=generator).tolist():
            product = gramian[j] @ weights[i]
            squared_norm = gramian[j, j]
            # A square may be too small for its dtype. It is then 0, and g_j is passed over.
            if j != i and product < 0 < squared_norm:
                weights[i, j] -= product / squared_norm
    return reduce(weights, reduction)


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
    """The weights with which `gradvac` adds up the original gradients (Wang et al. 2021).

    gramian: (K, K). targets: (K, K) in [-1, 1], row i for the gradient of task i. beta: 0 to 1.
    The arguments are not changed. weights @ gradients is the gradient of surgery.gradvac. A zero
    gradient is passed over. reduction, generator and errors: as there.
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
                # Equation 4, as in surgery.gradvac.
                target_sine = (1 - target**2).sqrt().clamp(min=SMALLEST_SINE)
                cosine_sine = (1 - cosine**2).sqrt()
                numerator = norm * (target * cosine_sine - cosine * target_sine)
                weights[i, j] += numerator / (other_norm * target_sine)
    return WeightsAndTargets(reduce(weights, reduction), targets)


def cagrad_weights(gramian: Tensor, radius: float = 0.5, reduction: Reduction = "mean") -> Tensor:
    """The weights with which `cagrad` adds up the original gradients (Liu et al. 2021).

        d = sum_i (1 / K + c |g_0| / |g_w| w_i) g_i

    gramian: (K, K) float64. radius: c, at least 0. Returns (K,) float64, such that
    weights @ gradients is surgery.cagrad(gradients). reduction and errors: as there.
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
    return reduce(weights.expand(num_tasks, -1), reduction)


def upgrad_weights(gramian: Tensor, reduction: Reduction = "mean") -> Tensor:
    """The weights with which `upgrad` adds up the original gradients (Quinton and Rey 2024).

    The projection of g_i is g_i + sum_j u_j g_j with the u >= 0 that make it shortest (proposition
    1). This is non-negative least squares, which scipy solves exactly.

    gramian: (K, K) float64. Returns (K,) float64, such that weights @ gradients is
    surgery.upgrad(gradients). reduction and errors: as there.
    """
    # Imported late: scipy takes half a second, and `--help` must answer at once.
    from scipy.optimize import nnls

    # Gradients of length 1 have the same projections. A zero gradient stays zero.
    lengths = gramian.diagonal().sqrt()  # (K,)
    divisors = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    cosines = gramian / torch.outer(divisors, divisors)  # (K, K)
    # Short vectors with the same dot products as the gradients: the columns of a root of `cosines`.
    values, vectors = torch.linalg.eigh(cosines)
    root = (values.clamp(min=0).sqrt()[:, None] * vectors.T).numpy()  # (K, K)

    weights = torch.eye(len(gramian), dtype=torch.float64)  # (K, K)
    for i in range(len(gramian)):
        added, _ = nnls(root, -root[:, i])
        weights[i] += torch.from_numpy(added) * divisors[i] / divisors
    return reduce(weights, reduction)
