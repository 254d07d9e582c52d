"""The rule that chooses how the film sentences of the sample get their classes.

People said whether a film sentence is positive, and nobody said how strongly. Two shares decide
(tools/sample/reviews.py). They were first set after a look at scores on the course's dev files.
This rule was written down before anything was measured for it, and it reads bundled text alone:

1. The candidates are all pairs of the shares in NEUTRAL and STRONG.
2. The class of a product sentence comes from human grades, whatever the shares are. So the product
   sentences of all three splits are the measure, and no run is trained on them. Their number is too
   small in dev alone. They are left out of the dev rows that choose the best epoch, too.
3. The default job is trained on the rest of SST alone, with the seeds of FIRST_SEEDS for each
   candidate. The score is macro-F1 on the product sentences. No score on other data is looked at.
4. The candidates with the NUM_FINALISTS highest means are trained with LAST_SEED, and so is the
   pair FIRST, which the sample had before. Only they can be chosen.
5. The highest mean is the best. FIRST stays if its mean is at most one pooled standard deviation
   below the best: so small a difference is no reason to change data. The deviation is pooled over
   the seeds of all candidates.

The rule chose another pair. It was worse on a test file with which nothing was chosen, so the
sample keeps FIRST (docs/log/2026-11-26-shares-by-rule.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tools.sample.shares import Shares

NEUTRAL = (0.05, 0.10, 0.15, 0.20, 0.25)
STRONG = (0.15, 0.25, 0.35)
FIRST = Shares(neutral=0.15, strong=0.25)
FIRST_SEEDS = (1, 2)
LAST_SEED = 3
NUM_FINALISTS = 3
NUM_SEEDS = len(FIRST_SEEDS) + 1

# The scores of each pair of shares, one for each seed.
ScoresOf = Mapping[Shares, Sequence[float]]


class Choice(NamedTuple):
    """What the rule says.

    best: the pair with the highest mean. margin: its mean minus that of FIRST. deviation: pooled.
    chosen: the pair of the sample.
    """

    best: Shares
    margin: float
    deviation: float
    chosen: Shares


def candidates() -> list[Shares]:
    """Return all pairs of shares."""
    pairs = []
    for neutral in NEUTRAL:
        pairs += [Shares(neutral, strong) for strong in STRONG]
    return pairs


def finalists(scores: ScoresOf) -> list[Shares]:
    """Return the pairs that are trained with one more seed, best first. FIRST is among them."""
    means = {pair: statistics.mean(values) for pair, values in scores.items()}
    ranked = sorted(means, key=lambda pair: means[pair], reverse=True)
    chosen = ranked[:NUM_FINALISTS]
    return chosen if FIRST in chosen else [*chosen, FIRST]


def pooled_deviation(groups: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation within the groups: sqrt(sum (n-1) s^2 / sum (n-1)).

    Raises ValueError where no group has two values.
    """
    several = [values for values in groups if len(values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    if not freedom:
        raise ValueError("a standard deviation needs a candidate with two seeds.")
    squares = sum((len(values) - 1) * statistics.variance(values) for values in several)
    return math.sqrt(squares / freedom)


def choose_shares(scores: ScoresOf) -> Choice:
    """Apply the last step of the rule.

    Raises ValueError where FIRST lacks a seed.
    """
    complete = {pair: values for pair, values in scores.items() if len(values) >= NUM_SEEDS}
    if FIRST not in complete:
        raise ValueError(f"the rule compares with {FIRST}, which lacks one of {NUM_SEEDS} seeds.")
    means = {pair: statistics.mean(values) for pair, values in complete.items()}
    best = max(means, key=lambda pair: means[pair])
    margin = means[best] - means[FIRST]
    deviation = pooled_deviation(list(scores.values()))
    chosen = FIRST if margin <= deviation else best
    return Choice(best, margin, deviation, chosen)
