"""The multiple-gradient descent algorithm (Sener and Koltun 2018), as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/mgda.py --sampling joint --surgery mgda

K tasks of a step, G the Gramian of their gradients, G[i, j] = g_i . g_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minbert.commands.options import OptionGroup, flag
from minbert.commands.registry import Fixture
from multitask import GradientStep, Surgery, register_surgery

MAX_STEPS = 10_000
TOLERANCE = 1e-10  # of the gap, relative to the longest gradient


@dataclass(frozen=True)
class MgdaOptions(OptionGroup):
    """Option of mgda."""

    mgda_normalise: str = flag(
        "no",
        "With --surgery mgda: whether each gradient is first divided by its length, so that a "
        "short one does not decide alone.",
        choices=("no", "yes"),
    )


def min_norm_weights(gramian: torch.Tensor) -> torch.Tensor:
    """The weights of the shortest vector in the convex hull of K gradients.

    They minimise w . G w with w >= 0 and sum(w) = 1 (equation 3). That vector lowers every task's
    loss, or is 0 where no such direction exists. Frank and Wolfe's algorithm (algorithm 2), with
    steps that may also take weight away: each step moves weight from the gradient that points
    furthest along the current vector to the one that points least along it.

    gramian: (K, K) float64. Returns (K,) float64. Two gradients take one step.
    """
    num_tasks = len(gramian)
    weights = torch.full((num_tasks,), 1 / num_tasks, dtype=gramian.dtype)
    smallest_gap = TOLERANCE * gramian.diagonal().max()
    for _ in range(MAX_STEPS):
        along = gramian @ weights  # (K,), g_k . v with v the current vector
        used = torch.where(weights > 0, along, -torch.inf)
        worst = int(used.argmax())
        best = int(along.argmin())
        gap = along[worst] - along[best]
        if gap <= smallest_gap:
            break

        # The step that makes v shortest, with at most all of the weight there is.
        squared = gramian[worst, worst] + gramian[best, best] - 2 * gramian[worst, best]
        step = min(float(gap / squared), float(weights[worst])) if squared > 0 else 0.0
        if step == 0:
            break
        weights[best] += step
        weights[worst] -= step
    return weights


def combine(step: GradientStep) -> torch.Tensor:
    """--surgery mgda."""
    if step.method_options[MgdaOptions].mgda_normalise == "no":
        return min_norm_weights(step.gramian)
    lengths = step.gramian.diagonal().sqrt()  # (K,)
    lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    return min_norm_weights(step.gramian / torch.outer(lengths, lengths)) / lengths


register_surgery(
    "mgda",
    Surgery(
        title="the shortest vector between the gradients (Sener and Koltun 2018)",
        combine=combine,
        options=(MgdaOptions,),
        fixture=Fixture(values={"mgda_normalise": ["no", "yes"]}),
    ),
)
