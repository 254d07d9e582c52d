"""What a benchmark found: comparisons, checks and notes; as one line of JSON, as Markdown, as a report of all.

The Markdown is made from the JSON, which is all that comes back from the process of a benchmark.
"""

from __future__ import annotations

import operator
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

from benchmarks.sides import spread
from minbert.training.code_version import code_version, name_of

RELATIONS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Check:
    """A number that has a goal of its own: what it is, the number, ">=" or "<=", the goal."""

    what: str
    value: float
    relation: str
    goal: float

    def as_json(self) -> dict:
        return asdict(self) | {"is_met": RELATIONS[self.relation](self.value, self.goal)}


@dataclass(frozen=True)
class Comparison:
    """Our median and the peer's, in one unit, of n measurements each; the ratio is ours : peer.

    spread: the distance of the outer quartiles over the median, of ours and of the peer. goal: of the ratio, such as
    (">=", 5.0).
    """

    what: str
    unit: str
    ours: float
    peer: float
    n: int
    spread: tuple[float, float]
    goal: tuple[str, float] | None = None

    @classmethod
    def of(
        cls,
        what: str,
        unit: str,
        ours: Sequence[float],
        peer: Sequence[float],
        goal: tuple[str, float] | None = None,
        per: float | None = None,
        scale: float = 1.0,
    ) -> Comparison:
        """From measurements. With `per`, so many things in each measurement in seconds, they become things a second;
        else they are multiplied by `scale`."""
        medians = [statistics.median(values) for values in (ours, peer)]
        numbers = [per / median if per else median * scale for median in medians]
        return cls(what, unit, *numbers, len(ours), (spread(ours), spread(peer)), goal)

    def as_json(self) -> dict:
        ratio = self.ours / self.peer
        is_met = RELATIONS[self.goal[0]](ratio, self.goal[1]) if self.goal else None
        return asdict(self) | {"ratio": ratio, "is_met": is_met}


def versions(*packages: str) -> dict[str, str]:
    """The versions of our code, Python, torch and `packages`, without importing them."""
    return {
        "minBERT": name_of(code_version()),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("torch", *packages)},
    }


def json_line(
    name: str,
    comparisons: Sequence[Comparison],
    found_versions: dict[str, str],
    checks: Sequence[Check] = (),
    notes: Sequence[str] = (),
    share_of_limit: float | None = None,
    limit: float | None = None,
) -> dict:
    """The closing line. ours, peer, ratio and n are those of the first comparison; all stand in "comparisons".

    share_of_limit: 0 to 1, of `limit` in FLOP/s, None where the work is not matrix products.
    """
    found = [comparison.as_json() for comparison in comparisons]
    first = {key: found[0][key] for key in ("ours", "peer", "ratio", "n", "unit")}
    return {
        "name": name,
        **first,
        "share_of_limit": share_of_limit,
        "limit": limit,
        "versions": found_versions,
        "comparisons": found,
        "checks": [check.as_json() for check in checks],
        "notes": list(notes),
    }


def shown(value: float) -> str:
    """Five digits, with commas for thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"


def verdict(relation: str, goal: float, is_met: bool) -> str:
    return f"{relation} {goal:g}: {'met' if is_met else 'not met'}"


def markdown(line: dict) -> list[str]:
    """A benchmark's part of the report, from its line of JSON."""
    lines = [
        "| ours : peer | ours | peer | unit | ratio | goal | n | spread |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in line["comparisons"]:
        goal = verdict(*each["goal"], each["is_met"]) if each["goal"] else ""
        spreads = ", ".join(f"{value:.1%}" for value in each["spread"]) if each["n"] > 1 else "-"
        lines.append(
            f"| {each['what']} | {shown(each['ours'])} | {shown(each['peer'])} | {each['unit']} | "
            f"{each['ratio']:.3f} | {goal} | {each['n']} | {spreads} |"
        )
    details = []
    for each in line["checks"]:
        goal = verdict(each["relation"], each["goal"], each["is_met"])
        details.append(f"{each['what']}: {shown(each['value'])} (goal {goal})")
    if line["share_of_limit"] is not None:
        details.append(
            f"ours reaches {line['share_of_limit']:.1%} of the {line['limit'] / 1e9:,.0f} GFLOP/s of matrix "
            "products, measured in the same run"
        )
    details += [
        *line["notes"],
        "versions: " + ", ".join(f"{name} {number}" for name, number in line["versions"].items()),
    ]
    return [*lines, "", *(f"- {detail}" for detail in details)]


def processor() -> str:
    """The processor's name, as far as the system tells."""
    path = Path("/proc/cpuinfo")
    names = (
        [
            text.partition(":")[2].strip()
            for text in path.read_text().splitlines()
            if text.startswith("model name")
        ]
        if path.is_file()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def busy_cores() -> float:
    """How many processes wanted to run in the last minute, on average; 0 where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def report(
    lines: dict[str, dict | None],
    questions: dict[str, str],
    settings: str,
    load: float,
    when: datetime,
) -> str:
    """The dated document of a run of all benchmarks; None stands for one that failed."""
    parts = [
        f"# Benchmarks · {when:%Y-%m-%d %H:%M}",
        "",
        f"{settings}. {processor()}, {os.cpu_count()} cores, {platform.system()}; before the start "
        f"{load:.1f} processes wanted to run. The sides take turns; ours and peer are medians of n, spread is the "
        "distance of the outer quartiles over the median, of ours and of the peer. How to read it: "
        "`benchmarks/README.md`.",
        "",
    ]
    for name, line in lines.items():
        body = markdown(line) if line else ["It failed; its message stood in the terminal."]
        parts += [f"## {name}", "", questions[name], "", *body, ""]
    return "\n".join(parts)
