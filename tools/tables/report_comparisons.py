"""Rows of the two course reports compared with each other: the published difference and ours.

A row and its control differ in the choice that the report draws a conclusion about. Ours is the
mean over the seeds that both rows have, with its deviation.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from experiments.conditions import join
from experiments.recipes import RECIPES
from experiments.records import Record, group_by, read_records
from experiments.run_files import Scores
from experiments.tables import (
    CLEARLY,
    COLUMNS,
    ENOUGH_SEEDS,
    OVERALL,
    Answer,
    Column,
    format_head,
    format_row,
    format_scores,
    strength_of,
)
from tools.tables import report_tables
from tools.tables.cut import is_current
from tools.tables.report_tables import (
    TASK_COLUMNS,
    RunsByRecipe,
    closing_lines,
    counted_scores,
    runs_by_recipe,
)


class Comparison(NamedTuple):
    """Two rows of a report, all that differs between them, and the score that is compared."""

    what: str
    row: str
    control: str
    score: str = OVERALL


ROB_COMPARISONS = (
    Comparison("tasks in turn, SST and STS twice, for one task after the other", "rob-3", "rob-2"),
    Comparison("a common layer with dropout before it, PARA third for last", "rob-5", "rob-3"),
    Comparison("batches of 16 for 32", "rob-4", "rob-5"),
    Comparison(
        "dropout after the common layer, five epochs for three, PARA last", "rob-6", "rob-5"
    ),
    Comparison("the task drawn for tasks in turn, five epochs for three", "rob-7", "rob-5"),
    Comparison("batches of 64 for 32", "rob-8", "rob-7"),
    Comparison("DPH for PARA", "rob-9", "rob-8", "para"),
    Comparison("DPHA for PARA, and twice its weight", "rob-10", "rob-8"),
    Comparison("DPHA for STS, too", "rob-13", "rob-10", "sts"),
    Comparison("dropout 0.3 for 0.5", "rob-11", "rob-13"),
    Comparison("dropout 0.1 for 0.5", "rob-14", "rob-13"),
    Comparison(
        "gradient surgery, every task in each step, batches of 8 for 64, no double weight",
        "rob-12",
        "rob-14",
    ),
    Comparison("supervised SimCSE before the tasks, four epochs for five", "rob-15", "rob-14"),
)
GEN_COMPARISONS = (
    Comparison("table 1: SimCSE before SST", "gen-contrastive-first", "gen-vanilla"),
    Comparison("table 1: SST before SimCSE", "gen-supervised-first", "gen-vanilla"),
    Comparison("table 1: SimCSE on SST's sentences in each step", "gen-fusion", "gen-vanilla"),
    Comparison("table 2: pretraining on NLI", "gen-nli", "gen-baseline"),
    Comparison("table 2: pretraining on the 3 given sets", "gen-given", "gen-baseline"),
    Comparison("table 2: the 3 given sets for NLI", "gen-given", "gen-nli"),
    Comparison("table 2: SST alone for all tasks", "gen-given-sst", "gen-given", "sst"),
    Comparison("table 2: PARA alone for all tasks", "gen-given-para", "gen-given", "para"),
    Comparison("table 2: STS alone for all tasks", "gen-given-sts", "gen-given", "sts"),
    Comparison(
        "table 3: PARA and STS share one layer for all", "gen-first-shared", "gen-heads-shared"
    ),
    Comparison(
        "table 3: PARA and STS share one layer for none", "gen-first-shared", "gen-heads-different"
    ),
    Comparison("table 4: negative pairs of Quora", "gen-quora-only", "gen-quora-no-negatives"),
    Comparison("table 4: SST and STS after Quora", "gen-all-given", "gen-quora-only"),
    Comparison("table 5: NLI before the 3 given sets", "gen-nli-before-given", "gen-given"),
    Comparison("table 5: NLI after the 3 given sets", "gen-given-before-nli", "gen-given"),
    Comparison("table 5: NLI before for after", "gen-nli-before-given", "gen-given-before-nli"),
    Comparison(
        "table 6: average loss, larger sets cut, for epoch round robin on all rows",
        "gen-baseline",
        "gen-epoch-round-robin",
    ),
    Comparison(
        "table 6: average loss for batch round robin", "gen-baseline", "gen-batch-round-robin"
    ),
    Comparison("table 7: gradient surgery", "gen-surgery", "gen-nli-before-given"),
    Comparison("table 8: three epochs on NLI for one", "gen-nli", "gen-nli-1-epoch"),
    Comparison("table 9: three epochs for two", "gen-given-3-epochs", "gen-given-2-epochs"),
    Comparison("tables 2 and 9: five epochs for two", "gen-given", "gen-given-2-epochs"),
    Comparison("table 10: 2e-5 for 1e-5", "gen-given", "gen-given-lr-1e-5"),
    Comparison("table 10: 3e-5 for 2e-5", "gen-given-lr-3e-5", "gen-given"),
)
SAME = "the same"
OPPOSITE = "the opposite"
NOTHING = "nothing"
TOO_FEW = "too few seeds"
UNPUBLISHED = "none published"


def compare(published: float, measured: Sequence[float]) -> str:
    """Return the direction of measured differences beside the published one.

    published: a difference of two scores. measured: ours, one for each seed.
    """
    if len(measured) < ENOUGH_SEEDS:
        return TOO_FEW
    if round(published, 3) == 0.0:  # The reports print three decimals.
        return UNPUBLISHED
    strength = strength_of(measured)
    if not strength:
        return NOTHING
    direction = SAME if statistics.mean(measured) * published > 0.0 else OPPOSITE
    return f"{CLEARLY if strength == CLEARLY else 'may be'} {direction}"


def comparison_lines(comparisons: Sequence[Comparison], runs: RunsByRecipe) -> list[str]:
    """Return a table with one row per comparison, and the sentences that sum it up."""
    titles = ["what differs", "row", "less row", "score", "published", "n", "measured", "direction"]
    lines = format_head(titles)
    directions = []
    for comparison in comparisons:
        what, row, control, score = comparison
        column = column_of(score)
        published = published_difference(comparison)
        measured = measured_differences(comparison, runs)
        directions.append(compare(published, measured))
        cells = [what, f"`{row}`", f"`{control}`", column.title]
        cells += [f"{published:+.3f}", str(len(measured))]
        lines.append(format_row([*cells, format_scores(measured), directions[-1]]))
    return [*lines, "", count_directions(directions), *device_lines(comparisons, runs)]


def measured_differences(comparison: Comparison, runs: RunsByRecipe) -> list[float]:
    """Return our differences of a comparison, one for each seed that both rows have."""
    _, row, control, score = comparison
    return seed_differences(runs, row, control, score, counted_scores)


def published_difference(comparison: Comparison) -> float:
    """Return the difference of two printed scores."""
    column = column_of(comparison.score)
    row, control = (published_score(name, column) for name in (comparison.row, comparison.control))
    return row - control


def column_of(score: str) -> Column:
    """Return the column of a score."""
    return next(column for column in COLUMNS if column.score == score)


def count_directions(directions: Sequence[str]) -> str:
    """Return a sentence with the number of lines for each direction."""
    counts = []
    for word, text in (
        (SAME, "with the published direction"),
        (OPPOSITE, "with the opposite one"),
        (NOTHING, "that say nothing"),
    ):
        number = sum(direction.endswith(word) for direction in directions)
        clear = directions.count(f"{CLEARLY} {word}")
        counts.append(f"{number} {text}" + (f" ({clear} clearly)" if clear else ""))
    return f"Of {len(directions)} differences: {join(counts)}."


def device_lines(comparisons: Sequence[Comparison], runs: RunsByRecipe) -> list[str]:
    """Return the lines that name seeds whose two runs had different kinds of device.

    Runs on a GPU began with rounded weights, so the difference of such a seed holds more chance.
    """
    pairs = []
    for _, row, control, _ in comparisons:
        devices = {run["seed"]: run["machine"]["device"] for run in runs.get(control, [])}
        for run in runs.get(row, []):
            device = run["machine"]["device"]
            if devices.get(run["seed"], device) != device:
                pairs.append(f"`{row}` less `{control}` (seed {run['seed']})")
    if not pairs:
        return []
    return ["", f"One of the two runs was on a GPU, and the other was not: {join(pairs)}."]


def published_score(name: str, column: Column) -> float:
    """Return a score of a row in its report. Raises ValueError where there is none."""
    score: float | None = getattr(RECIPES[name].published, column.published)
    if score is None:
        raise ValueError(f"the report prints no {column.title} of {name}.")
    return score


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
    names = dict.fromkeys(itertools.chain.from_iterable(pair[1:3] for pair in comparisons))
    return "\n".join([*comparison_lines(comparisons, runs), *closing_lines(runs, names)])


def rob_comparisons() -> str:
    """The conclusions of [ROB], from its table 3."""
    return table_of(ROB_COMPARISONS)


def gen_comparisons() -> str:
    """The conclusions of [GEN], from its tables 1 to 10."""
    return table_of(GEN_COMPARISONS)


def comparison_answers() -> list[Answer]:
    """Return a row for each report that was measured: how many differences have its direction."""
    runs = runs_by_recipe(read_records(report_tables.REPORTS))
    answers = []
    for report, comparisons in (("rob", ROB_COMPARISONS), ("gen", GEN_COMPARISONS)):
        directions = []
        for comparison in comparisons:
            measured = measured_differences(comparison, runs)
            directions.append(compare(published_difference(comparison), measured))
        if set(directions) <= {TOO_FEW, UNPUBLISHED}:
            continue
        question = f"Do our measurements agree with the course report {report.upper()}?"
        answers.append(Answer(question, count_directions(directions), f"../papers/{report}.md"))
    return answers


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


# --- one seed on two devices ----------------------------------------------------------------------


def report_devices() -> str:
    """Scores of a run on a GPU less those of the same run on a CPU, for each seed that has both.

    They show how much chance is left in a score, whatever the seed. Raises ValueError as
    `check_one_cut` does.
    """
    runs = [record for record in read_records(report_tables.REPORTS) if is_current(record)]
    report_tables.check_one_cut(runs)
    by_run = group_by(runs, report_tables.name_and_seed)
    lines = format_head(["row", "seed", *(column.title for column in COLUMNS)])
    shown: list[Record] = []
    for (name, seed), group in by_run.items():
        newest = {run["machine"]["device"]: run for run in group}
        if {"cpu", "cuda"} <= newest.keys():
            pair = [newest["cuda"], newest["cpu"]]
            on_gpu, on_cpu = map(counted_scores, pair)
            scores = [column.score for column in COLUMNS]
            cells = [f"{on_gpu[score] - on_cpu[score]:+.3f}" for score in scores]
            lines.append(format_row([f"`{name}`", str(seed), *cells]))
            shown += pair
    return report_tables.with_conditions(lines, shown)


REPORT_COMPARISONS: dict[str, Callable[[], str]] = {
    "gen-comparisons": gen_comparisons,
    "report-devices": report_devices,
    "rob-comparisons": rob_comparisons,
    "rob-differences": rob_differences,
}
