"""Rows of the two course reports compared with each other: the published difference and ours.

A row and its control differ in the choice that the report draws a conclusion about. Ours is the
mean over the seeds that both rows have, with its deviation.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments import report_tables
from experiments.recipes import RECIPES
from experiments.records import Record, read_records
from experiments.report_tables import (
    ENOUGH_SEEDS,
    TASK_COLUMNS,
    RunsByRecipe,
    closing_lines,
    counted_scores,
    runs_by_recipe,
)
from experiments.run_files import Scores
from experiments.tables import OVERALL, format_head, format_row, format_scores

# A difference that is smaller than its deviation says nothing. Above three deviations it is clear.
HINT = 1.0
CLEAR = 3.0


class Comparison(NamedTuple):
    """Two rows of a report, and what differs between them."""

    what: str
    row: str
    control: str


ROB_COMPARISONS = (
    Comparison("tasks in turn, SST and STS twice, for one task after the other", "rob-3", "rob-2"),
    Comparison("a common layer", "rob-5", "rob-3"),
    Comparison("batches of 16 for 32", "rob-4", "rob-5"),
    Comparison("dropout, five epochs, STS one more time", "rob-6", "rob-5"),
    Comparison("the task drawn for tasks in turn", "rob-7", "rob-5"),
    Comparison("batches of 64 for 32", "rob-8", "rob-7"),
    Comparison("DPH for PARA", "rob-9", "rob-8"),
    Comparison("DPHA and twice the weight for PARA", "rob-10", "rob-8"),
    Comparison("DPHA for STS, too", "rob-13", "rob-10"),
    Comparison("dropout 0.1", "rob-14", "rob-13"),
    Comparison("dropout 0.3", "rob-11", "rob-13"),
    Comparison("gradient surgery, every task in each step", "rob-12", "rob-14"),
    Comparison("supervised SimCSE before the tasks", "rob-15", "rob-14"),
)
GEN_COMPARISONS = (
    Comparison("table 1: SimCSE before SST", "gen-contrastive-first", "gen-vanilla"),
    Comparison("table 1: SST before SimCSE", "gen-supervised-first", "gen-vanilla"),
    Comparison("table 1: both at once", "gen-fusion", "gen-vanilla"),
    Comparison("table 2: pretraining on NLI", "gen-nli", "gen-baseline"),
    Comparison("table 2: pretraining on the 3 given sets", "gen-given", "gen-baseline"),
    Comparison("table 3: heads that share the first layer", "gen-first-shared", "gen-heads-shared"),
    Comparison(
        "table 3: heads that share the first layer", "gen-first-shared", "gen-heads-different"
    ),
    Comparison("table 4: negative pairs of Quora", "gen-quora-only", "gen-quora-no-negatives"),
    Comparison("table 4: SST and STS after Quora", "gen-all-given", "gen-quora-only"),
    Comparison("table 5: NLI first", "gen-nli-before-given", "gen-given-before-nli"),
    Comparison(
        "table 6: average loss for epoch round robin", "gen-baseline", "gen-epoch-round-robin"
    ),
    Comparison(
        "table 6: average loss for batch round robin", "gen-baseline", "gen-batch-round-robin"
    ),
    Comparison("table 7: gradient surgery", "gen-surgery", "gen-nli-before-given"),
    Comparison("table 8: more epochs of NLI than one", "gen-nli", "gen-nli-1-epoch"),
    Comparison("table 9: five epochs for two", "gen-given", "gen-given-2-epochs"),
    Comparison("table 9: five epochs for three", "gen-given", "gen-given-3-epochs"),
    Comparison("table 10: 2e-5 for 1e-5", "gen-given", "gen-given-lr-1e-5"),
    Comparison("table 10: 2e-5 for 3e-5", "gen-given", "gen-given-lr-3e-5"),
)


def compare(published: float, measured: Sequence[float]) -> str:
    """Return what measured differences say about a published one.

    published: a difference of two scores. measured: ours, one for each seed.
    """
    if len(measured) < ENOUGH_SEEDS:
        return "too few seeds"
    mean = statistics.mean(measured)
    deviation = statistics.stdev(measured)
    if abs(mean) < HINT * deviation or mean == 0.0:
        return "nothing"
    direction = "the same" if mean * published > 0.0 else "the opposite"
    return f"{'clearly' if abs(mean) > CLEAR * deviation else 'may be'} {direction}"


def comparison_lines(comparisons: Sequence[Comparison], runs: RunsByRecipe) -> list[str]:
    """Return a table of differences of the overall score, one row per comparison."""
    titles = ["what differs", "row", "less row", "published", "n", "measured", "direction"]
    lines = format_head(titles)
    for what, row, control in comparisons:
        published = published_overall(row) - published_overall(control)
        measured = seed_differences(runs, row, control, OVERALL, counted_scores)
        lines.append(
            format_row(
                [
                    what,
                    f"`{row}`",
                    f"`{control}`",
                    f"{published:+.3f}",
                    str(len(measured)),
                    format_scores(measured),
                    compare(published, measured),
                ]
            )
        )
    return lines


def published_overall(name: str) -> float:
    """Return the overall score of a row in its report. Raises ValueError where there is none."""
    overall = RECIPES[name].published.overall
    if overall is None:
        raise ValueError(f"the report prints no overall score of {name}.")
    return overall


def seed_differences(
    runs: RunsByRecipe,
    name: str,
    control: str,
    score: str,
    scores_of: Callable[[Record], Scores],
) -> list[float]:
    """Return a score of one recipe less that of another, for the seeds of both.

    scores_of: returns the scores of a record that are compared, such as those of training rows.
    """
    controls = {record["seed"]: record for record in runs.get(control, [])}
    differences = []
    for record in runs.get(name, []):
        if record["seed"] in controls:
            other = scores_of(controls[record["seed"]])
            differences.append(scores_of(record)[score] - other[score])
    return differences


def table_of(comparisons: Sequence[Comparison]) -> str:
    """Return the comparisons of a report as a table, with the lines below it."""
    runs = runs_by_recipe(read_records(report_tables.REPORTS))
    names = dict.fromkeys(name for _, *rows in comparisons for name in rows)
    return "\n".join([*comparison_lines(comparisons, runs), *closing_lines(runs, names)])


def rob_comparisons() -> str:
    """The conclusions of [ROB], from its table 3."""
    return table_of(ROB_COMPARISONS)


def gen_comparisons() -> str:
    """The conclusions of [GEN], from its tables 1 to 10."""
    return table_of(GEN_COMPARISONS)


# --- drawn tasks or pooled batches ----------------------------------------------------------------


def rob_differences() -> str:
    """Training scores of row 7 less those of row 5, as published and in both readings."""
    runs = runs_by_recipe(read_records(report_tables.REPORTS))
    lines = format_head(["row 7 less row 5, train", *(column.title for column in TASK_COLUMNS)])
    printed = []
    for before, after in zip(published_train("rob-5"), published_train("rob-7"), strict=True):
        printed.append(f"{after - before:+.3f}")
    lines.append(format_row(["published", *printed]))
    for name in ("rob-7", "rob-7-pooled"):
        cells = [f"`{name}` less `rob-5`"]
        for column in TASK_COLUMNS:
            values = seed_differences(runs, name, "rob-5", column.score, train_scores)
            cells.append(f"{format_scores(values)}, n {len(values)}" if values else "-")
        lines.append(format_row(cells))
    names = ["rob-5", "rob-7", "rob-7-pooled"]
    return "\n".join([*lines, *closing_lines(runs, names)])


def published_train(name: str) -> tuple[float, float, float]:
    """Return the published training scores of a row. Raises ValueError where there are none."""
    train = RECIPES[name].published.train
    if train is None:
        raise ValueError(f"the report prints no training scores of {name}.")
    return train


def train_scores(record: Record) -> Scores:
    """Return the scores of training rows."""
    scores: Scores = record["train_scores"]
    return scores


REPORT_COMPARISONS: dict[str, Callable[[], str]] = {
    "gen-comparisons": gen_comparisons,
    "rob-comparisons": rob_comparisons,
    "rob-differences": rob_differences,
}
