"""Learning-rate schedules: pure functions of the step, each giving a factor in (0, 1] for the peak learning rate.

Next: mlm.py, or checkpoint.py and loop.py, where the factor is applied before every step.
"""

from __future__ import annotations

import math


def warmup(step: int, num_warmup_steps: int) -> float:
    """Rises linearly from 1/w at step 0 to 1 at step w - 1; with w = 0 it is 1 throughout."""
    return min(1.0, (step + 1) / num_warmup_steps) if num_warmup_steps else 1.0


def constant(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm-up, then 1."""
    return warmup(step, num_warmup_steps)


def linear(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm-up, then down in a straight line that would reach 0 at step num_steps (Devlin et al. 2019)."""
    remaining = (num_steps - step) / max(1, num_steps - num_warmup_steps)
    return min(warmup(step, num_warmup_steps), max(0.0, remaining))


def cosine(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm-up, then half a cosine down to 0 at step num_steps (Loshchilov and Hutter 2017, eq. 5, one period)."""
    if step < num_warmup_steps:
        return warmup(step, num_warmup_steps)
    progress = min(1.0, (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps))
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def tension(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm-up, and down by steps whatever num_steps is: 1 to step 500, .8 to 1,000, .6, .4, from step 2,000 on .2.

    Of contrastive tension (Carlsson et al. 2021, appendix A.3, table 5: 1e-5 to 2e-6), as shares of the first rate.
    """
    share = max(0.2, 1.0 - 0.2 * (step // 500))
    return warmup(step, num_warmup_steps) * share


SCHEDULES = {"linear": linear, "cosine": cosine, "constant": constant, "tension": tension}
