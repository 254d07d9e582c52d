"""PCGrad and GradVac from dot products alone: the fast twins of surgery.py.

Both methods look at gradients only through their dot products. So the K x K Gramian tells
everything, and the long gradients are read once. A gradient that is being changed is kept as its
weights w on the original ones. Its dot product with g_j is then G[j] . w, and its squared length
w . G w.

Legend: K tasks of a step, G the Gramian with G[i, j] = g_i . g_j.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from multitask.surgery import SMALLEST_SINE, Reduction, reduce


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
