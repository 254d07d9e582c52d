"""Learning-rate schedules. Each is a pure function of the step and returns a factor in [0, 1].

The loop multiplies the peak learning rate by the factor before every step. Next: tokenizer.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def warmup(step: int, num_warmup_steps: int) -> float:
    """Rise linearly from 1/w at step 0 to 1 at step w - 1. With w = 0 the factor is always 1."""
    if num_warmup_steps == 0:
        return 1.0
    return min(1.0, (step + 1) / num_warmup_steps)


def constant(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm up, then stay at 1."""
    return warmup(step, num_warmup_steps)


def linear(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm up, then go down in a straight line (Devlin et al. 2019, appendix A.2).

    The line is at 1 at step w = num_warmup_steps. It would reach 0 at step num_steps, and stays
    there. The warm-up may be as long as the run, or longer; from step num_steps on, the factor is 0
    all the same. Compare with transformers.get_linear_schedule_with_warmup, whose warm-up starts at
    0 and so is one step behind.
    """
    remaining = (num_steps - step) / max(1, num_steps - num_warmup_steps)
    return min(warmup(step, num_warmup_steps), max(0.0, remaining))


def cosine(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm up, then go down half a cosine (Loshchilov and Hutter 2017, equation 5, one period).

    The cosine is at 1 at step w = num_warmup_steps. It would reach 0 at step num_steps, and stays
    there. The warm-up may be as long as the run, or longer. Then the factor is that of the warm-up
    before step w, and 0 after it. No run takes step w itself there, so it may be 1 or 0. Compare
    with transformers.get_cosine_schedule_with_warmup, whose warm-up is one step behind.
    """
    if step < num_warmup_steps:
        return warmup(step, num_warmup_steps)
    progress = (step - num_warmup_steps) / max(1, num_steps - num_warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


def tension(step: int, num_steps: int, num_warmup_steps: int = 0) -> float:
    """Warm up, then go down in steps that do not depend on num_steps.

    The factor is 1 before step 500, then 0.8, 0.6 and 0.4 for 500 steps each, and 0.2 from step
    2,000 on. These are the learning rates of contrastive tension (Carlsson et al. 2021, appendix
    A.3, table 5: 1e-5 to 2e-6) as shares of the first one.
    """
    share = max(0.2, 1.0 - 0.2 * (step // 500))
    return warmup(step, num_warmup_steps) * share


SCHEDULES: dict[str, Callable[..., float]] = {
    "linear": linear,
    "cosine": cosine,
    "constant": constant,
    "tension": tension,
}
