"""The closing lines of benchmarks as Markdown, and the dated report of all of them."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

HEAD = [
    "| ours : peer | ours | peer | unit | ratio | goal | n | spread |",
    "|---|---|---|---|---|---|---|---|",
]


class Conditions(NamedTuple):
    """How the benchmarks of a report were run.

    settings: the flags in words. busy_cores: see `busy_cores`, before the start.
    """

    settings: str
    busy_cores: float
    start: datetime


def format_number(value: float) -> str:
    """Return a number with five digits, and with commas for thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"


def format_goal(relation: str, goal: float, is_met: bool) -> str:
    """Return a goal and whether it is met, such as ">= 5: met"."""
    return f"{relation} {goal:g}: {'met' if is_met else 'not met'}"


def format_comparison(comparison: dict[str, Any]) -> str:
    """Return a row of the table from a comparison of the closing line."""
    goal = ""
    if comparison["goal"]:
        relation, number = comparison["goal"]
        goal = format_goal(relation, number, comparison["is_met"])
    # One measurement has no spread.
    spread = "-"
    if comparison["n"] > 1:
        spread = ", ".join(f"{value:.1%}" for value in comparison["spread"])
    cells = [
        comparison["what"],
        format_number(comparison["ours"]),
        format_number(comparison["peer"]),
        comparison["unit"],
        f"{comparison['ratio']:.3f}",
        goal,
        str(comparison["n"]),
        spread,
    ]
    return f"| {' | '.join(cells)} |"


def format_line(line: dict[str, Any]) -> list[str]:
    """Return a benchmark's part of the report, from its closing line."""
    # Under the table: checks, the share of the limit, notes, versions.
    details = []
    for check in line["checks"]:
        goal = format_goal(check["relation"], check["goal"], check["is_met"])
        details.append(f"{check['what']}: {format_number(check['value'])} (goal {goal})")
    if line["share_of_limit"] is not None:
        details.append(
            f"ours reaches {line['share_of_limit']:.1%} of the {line['limit'] / 1e9:,.0f} GFLOP/s "
            "of matrix products, measured in the same run"
        )
    details += line["notes"]
    versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items())
    details.append(f"versions: {versions}")

    rows = [format_comparison(comparison) for comparison in line["comparisons"]]
    return [*HEAD, *rows, "", *(f"- {detail}" for detail in details)]


def format_report(
    lines: dict[str, dict[str, Any] | None], questions: dict[str, str], conditions: Conditions
) -> str:
    """Return the dated document of a run of all benchmarks.

    lines: the closing lines by benchmark; None stands for one that failed.
    questions: what each benchmark asks.
    """
    parts = [
        f"# Benchmarks · {conditions.start:%Y-%m-%d %H:%M}",
        "",
        f"{conditions.settings}. {processor_name()}, {os.cpu_count()} cores, {platform.system()}; "
        f"before the start {conditions.busy_cores:.1f} processes wanted to run. The sides take "
        "turns; ours and peer are medians of n, spread is the distance of the outer quartiles over "
        "the median, of ours and of the peer. How to read it: `tools/benchmarks/README.md`.",
        "",
    ]
    for name, line in lines.items():
        # A benchmark whose peer is not installed fails, and the others go on.
        body = ["It failed; its message stood in the terminal."]
        if line is not None:
            body = format_line(line)
        parts += [f"## {name}", "", questions[name], "", *body, ""]
    return "\n".join(parts)


def processor_name() -> str:
    """Return the processor's name, as far as the system tells it."""
    # platform.processor() is empty on many Linux systems.
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def busy_cores() -> float:
    """Return how many processes wanted to run in the last minute, on average.

    0 where the system does not tell it.
    """
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
