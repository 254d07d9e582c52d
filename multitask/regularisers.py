"""Regularisers of a task's loss, each a pure function (tensors in, scalar out).

R-Drop: the two predictions of two dropout masks should agree. The options are those of
options.py (--regulariser), and stage.py calls these functions.

All of them compute in float32, as losses.py does.
Legend: B batch, C classes.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def symmetric_divergence(first: Tensor, second: Tensor, kind: str) -> Tensor:
    """How far two predictions of the same rows are apart, averaged over the batch.

        classes, binary   KL(P1 || P2) + KL(P2 || P1)  =  sum_c (p1_c - p2_c) (log p1_c - log p2_c)
        score             (f1 - f2)^2

    first, second: raw outputs of a task, any float dtype. kind: of the task. "classes": logits
    (B, C). "binary": a logit (B,). "score": a number (B,).

    Returns a float32 scalar >= 0, and 0 for equal predictions. Gradients flow into both. Raises
    ValueError for another kind or different shapes. Compare with torch.nn.functional.kl_div.
    """
    if first.shape != second.shape:
        raise ValueError(
            f"first is {tuple(first.shape)}, second is {tuple(second.shape)}; both must have the "
            "same shape."
        )
    first = first.float()
    second = second.float()
    if kind == "classes":
        difference = first.softmax(dim=1) - second.softmax(dim=1)  # (B, C)
        ratio = F.log_softmax(first, dim=1) - F.log_softmax(second, dim=1)  # (B, C)
        return (difference * ratio).sum(dim=1).mean()
    if kind == "binary":
        # Of two classes both terms of the sum are equal, up to the log-odds: l1 - l2.
        return ((first.sigmoid() - second.sigmoid()) * (first - second)).mean()
    if kind == "score":
        return (first - second).square().mean()
    raise ValueError(f"kind is '{kind}'; it is classes, binary or score.")


def r_drop(first_loss: Tensor, second_loss: Tensor, divergence: Tensor, weight: float) -> Tensor:
    """R-Drop, "regularized dropout" (Liang et al. 2021, equation 4).

        L = L_NLL + a L_KL
        L_NLL = -log P1(y | x) - log P2(y | x)              (equation 3)
        L_KL = (KL(P1 || P2) + KL(P2 || P1)) / 2            (equation 2)

    P1 and P2 are the predictions of two forward passes of the same rows. Dropout makes them differ.

    first_loss, second_loss: scalars, the task's loss of each pass. divergence: a scalar of
    `symmetric_divergence`. For a score, which the paper does not treat, it is a squared difference,
    as in SMART (Jiang et al. 2020, section 3.1). weight: a, at least 0; the paper has 0.1 to 5.

    Returns a scalar. Even with a = 0 it is twice the usual loss, as in the paper.
    """
    return first_loss + second_loss + weight * divergence / 2
