"""The closing line of a benchmark as a table, and how busy the machine was before."""

from __future__ import annotations

import os
from typing import Any

HEAD = [
    "| ours : peer | ours | peer | unit | ratio | goal | n | spread |",
    "|---|---|---|---|---|---|---|---|",
]


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
    """Return the table of a closing line, with checks and notes below it."""
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


def busy_cores() -> float:
    """Return how many processes wanted to run in the last minute, on average.

    0 where the system does not tell it.
    """
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
