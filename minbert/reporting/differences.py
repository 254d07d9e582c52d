"""A score or a difference with what chance does to it: its interval, its p value, and words.

All intervals hold the true value in 95 of 100 cases (LEVEL). intervals.py measures the variances
that they are made of. A difference is called better or worse by one rule, here: its interval does
not hold 0, after Holm's correction where several differences stand in one table.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 0.95
EXPONENT = 1.5  # see Estimate
MAX_SEEDS = 100  # more are not asked for

# Differences below this one hardly matter: a point of accuracy.
MARGIN = 0.01


class Interval(NamedTuple):
    """From low to high."""

    low: float
    high: float


def standard_error_of_share(share: float, num_rows: int) -> float:
    """How far chance in the rows moves a share of them, such as an accuracy."""
    return math.sqrt(share * (1 - share) / num_rows)


class Estimate(NamedTuple):
    """A score or a difference, with what chance does to it.

    The variances are those of `value`. The seeds count less with a power of their share, for a t
    interval by Satterthwaite's rule is too narrow where few seeds meet many rows. With EXPONENT the
    interval misses the true value in 4 to 6 of 100 cases, whatever the share, from two seeds on
    each side on. `python -m tools.calibration` measures it.
    """

    value: float
    row_variance: float  # what the rows do to all runs alike
    num_groups: int = 0  # that were resampled; 0: the rows are taken as they are
    seed_variance: float = 0.0  # between the runs
    degrees_of_seeds: int = 0  # degrees of freedom of seed_variance; 0: one run, no seeds

    @property
    def standard_error(self) -> float:
        """Of both sources together."""
        return math.sqrt(self.row_variance + self.seed_variance)

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level reaches to each side."""
        from scipy.stats import t

        of_rows = t.ppf((1 + level) / 2, max(1, self.num_groups - 1))
        if not self.degrees_of_seeds:
            return float(of_rows)
        of_seeds = t.ppf((1 + level) / 2, self.degrees_of_seeds)
        variance = self.row_variance + self.seed_variance
        share = (self.seed_variance / variance) ** EXPONENT if variance else 0.0
        # Without resampled rows the seeds are the only source, and the share is 1.
        return float(of_seeds if not self.num_groups else of_rows + (of_seeds - of_rows) * share)

    @property
    def interval(self) -> Interval:
        """The values that hold the true one in LEVEL of all cases."""
        half = self.quantile(LEVEL) * self.standard_error
        return Interval(self.value - half, self.value + half)

    @property
    def p_value(self) -> float:
        """Of the two-sided test that the true value is 0: its widest interval ends at 0."""
        from scipy.optimize import brentq

        if self.standard_error == 0:
            return 1.0 if self.value == 0 else 0.0
        statistic = abs(self.value) / self.standard_error
        largest = 1 - 1e-12
        if self.quantile(largest) <= statistic:
            return 1 - largest
        level = brentq(lambda level: self.quantile(level) - statistic, 0.0, largest)
        return float(1 - level)


def estimate_over_seeds(differences: Sequence[float]) -> Estimate:
    """The mean of K >= 2 differences, one for each seed, where only scores are known.

    Its interval is the t interval of a mean. It holds for the rows that were scored, and says
    nothing about others.
    """
    between = statistics.variance(differences) / len(differences)
    value = statistics.fmean(differences)
    return Estimate(value, 0.0, 0, between, len(differences) - 1)


# --- words ----------------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for the number of comparisons in one table (Holm 1979), in their order.

    With them, a table without any true difference says "better" somewhere in 5 of 100 cases.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def is_better_or_worse(p_value: float) -> bool:
    """Whether there is a difference. p_value: corrected where several stand in a table."""
    return p_value <= 1 - LEVEL


def describe_difference(
    difference: Estimate,
    names: tuple[str, str],
    p_value: float | None = None,
    margin: float = MARGIN,
) -> str:
    """What a difference says in words.

    difference: the second system minus the first one. names: of both. p_value: corrected, where the
    difference is one of several. margin: smaller differences count as none.
    """
    first, second = names
    low, high = difference.interval
    if is_better_or_worse(difference.p_value if p_value is None else p_value):
        better = second if difference.value > 0 else first
        bounds = sorted((abs(low), abs(high)))
        if low <= 0 <= high:  # never without a correction
            bounds[0] = 0.0
        return (
            f"{better} is better by {abs(difference.value):.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}]"
        )
    if max(abs(low), abs(high)) <= margin:
        return f"the same within {margin:g}"
    seen = f"{difference.value:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"cannot tell ({seen}): {what_it_needs(difference, margin)}"


def what_it_needs(difference: Estimate, margin: float) -> str:
    """How many more rows or seeds would likely tell, in words.

    The interval must be as narrow as the difference that was seen, or as the rest of the margin.
    """
    target = max(abs(difference.value), margin - abs(difference.value))
    ways = []
    for_rows = (target / difference.quantile(LEVEL)) ** 2 - difference.seed_variance
    if for_rows > 0:
        factor = difference.row_variance / for_rows
        ways.append(f"{round_up(difference.num_groups * (factor - 1)):,} more rows")
    if difference.degrees_of_seeds:
        # More seeds also make the quantile smaller.
        num_seeds = 1 + difference.degrees_of_seeds // 2
        for more in range(1, MAX_SEEDS):
            variance = difference.seed_variance * num_seeds / (num_seeds + more)
            degrees = difference.degrees_of_seeds + 2 * more
            then = difference._replace(seed_variance=variance, degrees_of_seeds=degrees)
            if then.quantile(LEVEL) * then.standard_error <= target:
                ways.append("1 more seed" if more == 1 else f"{more} more seeds")
                break
    if not ways:
        return "more rows and more seeds are needed"
    verb = "is" if ways == ["1 more seed"] else "are"
    return f"about {' or '.join(ways)} {verb} needed"


def round_up(number: float) -> int:
    """A number of rows to two digits, at least 1."""
    if number <= 1:
        return 1
    step = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / step) * step
