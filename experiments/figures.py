"""Curves and bars of finished runs, as `python -m experiments` writes them to OUT/ablation.html.

The bars have the three tasks over all recipes, as figure 3 of [ROB]. The curves have the dev scores
by epoch, as figure 2 of [GEN].
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.run_files import Scores
from experiments.tables import COMMON_LABELS, OVERALL, Column, Labels, columns_of, format_scores
from minbert.reporting.figures import BarPlot, Bars, Figure, Line, LinePlot
from minbert.reporting.pages import Section
from minbert.reporting.tables import NO_VALUE, Table, heading_and_numbers

# More lines in one plot are hard to tell apart.
LINES_OF_PLOT = 8

LEAST_HEIGHT = 0.1  # of the axis of a score. Closer lines look as close as they are

# Of one run: an entry for each epoch, with "epoch" and the dev scores after it.
History = Sequence[Mapping[str, Any]]
# By recipe, one value for each run.
ScoresOfRuns = Mapping[str, Sequence[Scores]]
HistoriesOfRuns = Mapping[str, Sequence[History]]

ABOUT_BARS = (
    "Mean dev scores over the seeds. The thin lines are standard deviations. A task that a recipe "
    "does not train has no bar, because an untrained head says nothing."
)
ABOUT_CURVES = "Dev scores after each epoch, as the mean over the seeds."


def values_of(runs: Sequence[Scores], score: str) -> list[float]:
    """Return the scores of the runs that have this score."""
    return [run[score] for run in runs if score in run]


# --- bars -----------------------------------------------------------------------------------------


def bars_of(column: Column, scores: ScoresOfRuns) -> Bars:
    """Return the bars of one score, one for each recipe."""
    heights = []
    deviations = []
    notes = []
    for name, runs in scores.items():
        values = values_of(runs, column.score)
        heights.append(statistics.mean(values) if values else 0.0)
        deviations.append(statistics.stdev(values) if len(values) > 1 else 0.0)
        notes.append(f"{name}, {column.title}: {format_scores(values)}" if values else "")
    return Bars(column.title, heights, notes, deviations)


def bar_plot(scores: ScoresOfRuns, labels: Labels = COMMON_LABELS) -> BarPlot:
    """Return the bars of all tasks over all recipes."""
    tasks = [column for column in columns_of(scores, labels) if column.score != OVERALL]
    series = tuple(bars_of(column, scores) for column in tasks)
    # Bars are equally thick, however many there are.
    aspect = 0.25 + 0.04 * len(scores) * (len(series) + 1)
    return BarPlot(list(scores), series, "dev score", (0.0, 1.0), aspect)


def bar_section(scores: ScoresOfRuns, labels: Labels = COMMON_LABELS) -> Section:
    """Return the tasks over all recipes, with a table of all scores."""
    columns = columns_of(scores, labels)
    plot = bar_plot(scores, labels)

    rows = []
    for name, runs in scores.items():
        cells = []
        for column in columns:
            values = values_of(runs, column.score)
            cells.append(format_scores(values) if values else NO_VALUE)
        rows.append((name, str(len(runs)), *cells))
    titles = ("n", *(column.title for column in columns))
    table = Table(heading_and_numbers(labels.rows, *titles), tuple(rows))
    return Section(f"Scores by {labels.rows}", ABOUT_BARS, Figure((plot,), table), level=2)


# --- curves ---------------------------------------------------------------------------------------


def mean_by_epoch(histories: Sequence[History], score: str) -> dict[int, float]:
    """Return the mean score of the runs after each epoch. Some runs may have fewer epochs."""
    values: dict[int, list[float]] = {}
    for history in histories:
        for entry in history:
            if score in entry:
                values.setdefault(entry["epoch"], []).append(entry[score])
    return {epoch: statistics.mean(values[epoch]) for epoch in sorted(values)}


def curve_section(
    column: Column, histories: HistoriesOfRuns, labels: Labels = COMMON_LABELS
) -> Section | None:
    """Return one score by epoch, with a line for each recipe; None where no run has two epochs.

    One epoch is a point, and the bars show it.
    """
    lines = []
    rows = []
    last = 0
    for name, runs in histories.items():
        means = mean_by_epoch(runs, column.score)
        if not means:
            continue
        notes = [f"{name}, epoch {epoch}: {value:.3f}" for epoch, value in means.items()]
        lines.append(Line(list(means), list(means.values()), name, notes))
        rows.append((name, means))
        last = max(last, *means)
    if last < 2:
        return None

    epochs = range(1, last + 1)
    cells = []
    for name, means in rows:
        texts = [f"{means[epoch]:.3f}" if epoch in means else NO_VALUE for epoch in epochs]
        cells.append((name, *texts))
    table = Table(heading_and_numbers(labels.rows, *map(str, epochs)), tuple(cells))
    plots = []
    for start in range(0, len(lines), LINES_OF_PLOT):
        part = tuple(lines[start : start + LINES_OF_PLOT])
        title = f"{column.title}, dev"
        plots.append(LinePlot(part, "epoch", title, least_height=LEAST_HEIGHT, aspect=0.75))
    return Section(f"{column.title} by epoch", body=Figure(tuple(plots), table))


# --- the page -------------------------------------------------------------------------------------


def build_sections(
    scores: ScoresOfRuns, histories: HistoriesOfRuns, labels: Labels = COMMON_LABELS
) -> list[Section]:
    """Return the sections of the page: bars first, then a curve for each score."""
    curves = []
    for column in columns_of(scores, labels):
        section = curve_section(column, histories, labels)
        if section is not None:
            curves.append(section)
    if curves:
        curves.insert(0, Section("Scores by epoch", ABOUT_CURVES, level=2))
    return [bar_section(scores, labels), *curves]


def keep_trained(scores: Mapping[str, Any], trained: Sequence[str]) -> dict[str, Any]:
    """Return scores without those of tasks that were not trained."""
    return {name: value for name, value in scores.items() if name in ("epoch", *trained)}
