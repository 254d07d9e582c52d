"""Regularisers of a task's loss, each a pure function (tensors in, a tensor out).

R-Drop: the two predictions of two dropout masks should agree. SMART: a small change of the word
embeddings, or of the weights, should change the prediction little.

regularised_loss.py calls these functions for --regulariser, and regulariser_registry.py has the
options. All of them compute in float32, as losses.py does.
Legend: B batch, C classes, R encoded rows, T tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def symmetric_divergence(first: Tensor, second: Tensor, kind: str) -> Tensor:
    """How far two predictions of the same rows are apart, averaged over the batch.

        classes, binary   KL(P1 || P2) + KL(P2 || P1)  =  sum_c (p1_c - p2_c) (log p1_c - log p2_c)
        multilabel        the same for each label as for two classes, averaged over the labels
        score             (f1 - f2)^2

    first, second: raw outputs of a task, any float dtype. kind: of the task. "classes": logits
    (B, C). "binary": a logit (B,). "multilabel": logits (B, C). "score": a number (B,).

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
    if kind in ("binary", "multilabel"):
        # Of two classes both terms of the sum are equal, up to the log-odds: l1 - l2.
        return ((first.sigmoid() - second.sigmoid()) * (first - second)).mean()
    if kind == "score":
        return (first - second).square().mean()
    raise ValueError(f"kind is '{kind}'; it is classes, binary, multilabel or score.")


# --- R-Drop ---------------------------------------------------------------------------------------


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


# --- SMART ----------------------------------------------------------------------------------------


def smart(
    loss: Tensor,
    smoothness: Tensor,
    proximity: Tensor,
    smoothness_weight: float,
    proximity_weight: float,
) -> Tensor:
    """SMART (Jiang et al. 2020): what is minimised in each step.

        F(theta) + mu D_Breg(theta, theta_t)                                      (section 3.2)
        F(theta) = L(theta) + lambda_s R_s(theta)                                 (equation 1)
        R_s(theta) = mean_i max_{|x'_i - x_i| <= epsilon} l_s(f(x'_i; theta), f(x_i; theta))
        D_Breg(theta, theta_t) = mean_i l_s(f(x_i; theta), f(x_i; theta_t))

    f is the model, and x_i are the word embeddings of row i. l_s is `symmetric_divergence`.

    loss: L, the task's loss. smoothness: R_s, the divergence of the outputs with and without
    `adversarial_perturbation`. proximity: D_Breg, the divergence from the outputs of an earlier
    model. All are scalars. smoothness_weight: lambda_s, in the paper 1, 3 or 5.
    proximity_weight: mu, in the paper 1. Returns a scalar.
    """
    return loss + smoothness_weight * smoothness + proximity_weight * proximity


def adversarial_perturbation(
    outputs_of: Callable[[Tensor], Tensor],
    outputs: Tensor,
    perturbation: Tensor,
    kind: str,
    step_size: float,
    epsilon: float,
    num_steps: int,
) -> Tensor:
    """The small change of the word embeddings that changes the outputs most (SMART, algorithm 1).

    The maximum of R_s has no formula. Algorithm 1 climbs towards it from a random start, in
    `num_steps` steps of `ascent_step`. At the unchanged embeddings the divergence is least and its
    gradient is 0, so the start must differ from them.

    outputs_of: from a perturbation (R, T, H) to the outputs of the task, (B, C) or (B,). outputs:
    those without a perturbation. perturbation: the start, drawn from N(0, sigma^2), (R, T, H)
    float32. kind: of the task. step_size: eta. epsilon: the largest change of one number.

    Returns (R, T, H) float32 in [-epsilon, epsilon], without a gradient. No .grad is touched.
    Compare with projected gradient descent of Madry et al. 2018, which maximises the task's loss.
    """
    outputs = outputs.detach()
    for _ in range(num_steps):
        perturbation = perturbation.detach().requires_grad_()
        divergence = symmetric_divergence(outputs_of(perturbation), outputs, kind)
        (gradient,) = torch.autograd.grad(divergence, perturbation)  # (R, T, H)
        perturbation = ascent_step(perturbation.detach(), gradient, step_size, epsilon)
    return perturbation


def ascent_step(perturbation: Tensor, gradient: Tensor, step_size: float, epsilon: float) -> Tensor:
    """One step of projected gradient ascent (Jiang et al. 2020, algorithm 1).

        d <- clip(d + eta g / max |g|, -epsilon, epsilon)

    The largest number of each row's gradient becomes 1 or -1. The clip is the projection onto the
    ball of the infinity norm. A gradient of 0 changes nothing but the clip.

    perturbation: d, and gradient: g, both (R, T, H) float32. step_size: eta. Returns (R, T, H).
    """
    largest = gradient.abs().amax(dim=(1, 2), keepdim=True)  # (R, 1, 1)
    direction = gradient / largest.clamp(min=torch.finfo(gradient.dtype).tiny)  # (R, T, H)
    return (perturbation + step_size * direction).clamp(-epsilon, epsilon)


def reference_decay(decay: float, step: int, num_steps: int) -> float:
    """The share of the old reference model that stays after a step of SMART (section 3.2).

        theta~_t = (1 - beta) theta_t + beta theta~_(t-1)

    The paper has beta = 0.99 in the first tenth of the steps, and 0.999 afterwards.

    decay: beta of the later steps, in [0, 1). step: counted from 1. num_steps: of the whole job.
    """
    is_early = step <= 0.1 * num_steps
    return min(decay, 0.99) if is_early else decay
