"""What a benchmark measured: comparisons, checks and notes, as one line of JSON.

The line is all that comes back from the process of a benchmark. report.py makes Markdown from it.
"""

from __future__ import annotations

import operator
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, NamedTuple

from minbert.training.code_version import code_version, name_of
from tools.benchmarks.timing import relative_spread

RELATIONS = {">=": operator.ge, "<=": operator.le}


class Goal(NamedTuple):
    """A goal of a ratio, such as (">=", 5.0)."""

    relation: str
    number: float

    def is_met(self, value: float) -> bool:
        """Return whether the value reaches the goal."""
        return RELATIONS[self.relation](value, self.number)


class Spread(NamedTuple):
    """The distance of the outer quartiles over the median, of each side's measurements."""

    ours: float
    peer: float


@dataclass(frozen=True)
class Check:
    """A number with its own goal. relation: ">=" or "<="."""

    what: str
    value: float
    relation: str
    goal: float

    def as_json(self) -> dict[str, Any]:
        """Return the check for the closing line."""
        is_met = Goal(self.relation, self.goal).is_met(self.value)
        return asdict(self) | {"is_met": is_met}


@dataclass(frozen=True)
class Comparison:
    """Our median and the peer's, in one unit. The ratio is ours : peer.

    n: number of measurements of each side. goal: of the ratio, or None.
    """

    what: str
    unit: str
    ours: float
    peer: float
    n: int
    spread: Spread
    goal: Goal | None = None

    @classmethod
    def of(
        cls,
        what: str,
        unit: str,
        ours: Sequence[float],
        peer: Sequence[float],
        goal: Goal | None = None,
        per: float | None = None,
        scale: float = 1.0,
    ) -> Comparison:
        """Return the comparison of two series of measurements.

        per: number of things that were done in each measurement of seconds. The comparison then is
            of things per second.
        scale: factor of the measurements, where `per` is None.
        """

        def in_unit(measurements: Sequence[float]) -> float:
            # One slow round changes a mean, and not a median.
            median = statistics.median(measurements)
            return per / median if per else median * scale

        spread = Spread(relative_spread(ours), relative_spread(peer))
        return cls(what, unit, in_unit(ours), in_unit(peer), len(ours), spread, goal)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison for the closing line."""
        # For a rate it should be high, and for a time or a size low.
        ratio = self.ours / self.peer
        is_met = self.goal.is_met(ratio) if self.goal else None
        return asdict(self) | {"ratio": ratio, "is_met": is_met}


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of our code, Python, torch and `packages`, without importing them."""
    # The commit of our code stands beside the numbers that it gave.
    numbers = {"minBERT": name_of(code_version()), "python": platform.python_version()}
    for package in ("torch", *packages):
        numbers[package] = metadata.version(package)
    return numbers


def json_line(
    name: str,
    comparisons: Sequence[Comparison],
    package_versions: dict[str, str],
    checks: Sequence[Check] = (),
    notes: Sequence[str] = (),
    share_of_limit: float | None = None,
    limit: float | None = None,
) -> dict[str, Any]:
    """Return the closing line.

    "ours", "peer", "ratio", "n" and "unit" are those of the first comparison. All of them stand in
    "comparisons".

    share_of_limit: 0 to 1, of `limit` in FLOP/s. None where the work is not matrix products.
    """
    compared = [comparison.as_json() for comparison in comparisons]
    # The first comparison is the one that the benchmark is about.
    first = {key: compared[0][key] for key in ("ours", "peer", "ratio", "n", "unit")}
    return {
        "name": name,
        **first,
        "share_of_limit": share_of_limit,
        "limit": limit,
        "versions": package_versions,
        "comparisons": compared,
        "checks": [check.as_json() for check in checks],
        "notes": list(notes),
    }
