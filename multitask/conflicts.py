"""How often the gradients of two tasks point in opposite directions, as a table and a plot.

The numbers are the log of surgery.py. Legend: S steps, P pairs of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minbert.reporting.figures import Figure, Line, LinePlot
from minbert.reporting.images import write_png
from minbert.reporting.tables import Table, heading_and_numbers
from multitask.combining import GradientSurgery
from multitask.tasks import TASKS, Tasks

NUM_POINTS = 60  # of a curve: the cosine of a single step is noise


class ConflictReport(NamedTuple):
    """The log for run.json, and the text to print. Both are empty without a surgery."""

    record: list[dict]
    text: str


def report(surgery: GradientSurgery | None, folder: Path, tasks: Tasks = TASKS) -> ConflictReport:
    """Draw folder/conflicts.png and sum up the conflicts of a run. tasks: of the run."""
    if surgery is None:
        return ConflictReport([], "")
    path = folder / "conflicts.png"
    draw_conflicts(surgery, path, tasks)
    conflicts = surgery.conflicts()
    return ConflictReport(conflicts, f"{conflict_table(conflicts, tasks)}\nfigure: {path}\n\n")


def conflict_table(conflicts: Sequence[Mapping[str, Any]], tasks: Tasks = TASKS) -> str:
    """A line for each pair of tasks, as GradientSurgery.conflicts lists them."""
    lines = [f"{'gradients of':<16}{'steps':>10}{'conflicts':>12}{'mean cosine':>14}"]
    for entry in conflicts:
        pair = _titles(entry["tasks"], tasks)
        share = f"{entry['conflicts']:.1%}"
        lines.append(f"{pair:<16}{entry['steps']:>10,}{share:>12}{entry['cosine']:>14.4f}")
    return "\n".join(lines)


def draw_conflicts(surgery: GradientSurgery, path: Path, tasks: Tasks = TASKS) -> None:
    """Draw `conflict_plots` into a PNG file."""
    write_png(path, conflict_plots(surgery, tasks))


def conflict_plots(surgery: GradientSurgery, tasks: Tasks = TASKS) -> tuple[LinePlot, LinePlot]:
    """The mean cosine and the share of conflicts of each pair of tasks over the steps."""
    # NaN means that a step does not have both tasks.
    cosines = surgery.state_dict()["cosines"].numpy()  # (S, P)
    means = []
    shares = []
    for number, pair in enumerate(surgery.pairs):
        steps = np.flatnonzero(~np.isnan(cosines[:, number]))
        if not len(steps):
            continue
        name = _titles([surgery.tasks[task] for task in pair], tasks)
        pieces = np.array_split(steps, min(NUM_POINTS, len(steps)))
        # A point is in the middle of its steps, which are counted from 1.
        middles = [float(piece.mean() + 1) for piece in pieces]
        values = [cosines[piece, number] for piece in pieces]
        means.append(Line(middles, [float(piece.mean()) for piece in values], name))
        percent = [float(100 * (piece < 0).mean()) for piece in values]
        shares.append(Line(middles, percent, name))

    return (
        _plot(means, "mean cosine of the gradients"),
        _plot(shares, "conflicts (% of the steps)"),
    )


def _plot(lines: Sequence[Line], label: str) -> LinePlot:
    changes = [f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in lines]
    return LinePlot(
        tuple(lines),
        "step",
        label,
        starts_at_zero=True,
        aspect=0.75,
        summary=f"{', '.join(changes)}.",
    )


def conflict_figure(
    conflicts: Sequence[Mapping[str, Any]], surgery: GradientSurgery, tasks: Tasks = TASKS
) -> Figure:
    """The plots with a table, for a page. conflicts: as GradientSurgery.conflicts lists them."""
    rows = []
    for entry in conflicts:
        pair = _titles(entry["tasks"], tasks)
        share = f"{entry['conflicts']:.1%}"
        rows.append((pair, f"{entry['steps']:,}", share, f"{entry['cosine']:.4f}"))
    columns = heading_and_numbers("gradients of", "steps", "conflicts", "mean cosine")
    return Figure(conflict_plots(surgery, tasks), Table(columns, tuple(rows)))


def _titles(names: Sequence[str], tasks: Tasks) -> str:
    return " and ".join(tasks[name].title for name in names)
