"""The rows of the two course reports' tables: published scores beside those measured on the cut.

A cell is the mean over the seeds with its deviation, and in brackets the published score. A row
without a record says so, and its cells have a dash. A comparison has two rows of a report that
differ in the choice that the report draws a conclusion about.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from experiments.recipes import (
    GEN_RECIPES,
    POOLED_RECIPES,
    POOLED_ROWS,
    RECIPES,
    ROB_RECIPES,
    STARTER_OPTIMIZER,
    Published,
    Recipe,
    published_tasks,
)
from experiments.records import Record, command_of, group_by, group_records, newest_of
from experiments.results import join
from experiments.run_files import Scores
from experiments.tables import (
    BETTER,
    COLUMNS,
    OVERALL,
    Column,
    format_difference,
    format_scores,
    judge,
)
from tools.tables.conditions import measured_on
from tools.tables.cut import REPORTS, describe_cut, differences, is_current, option_of, report_of
from tools.tables.rows import Content, Entry, Row, pairs_of

RECIPES_OF: dict[str, Mapping[str, Recipe]] = {"rob": ROB_RECIPES, "gen": GEN_RECIPES}
TASK_COLUMNS = [column for column in COLUMNS if column.score != OVERALL]
# The order of fewer rows says nothing.
ROWS_OF_AN_ORDER = 5
CONTRASTIVE_LR = "contrastive_lr"
OPTIMIZER_OPTIONS = {"lr", *STARTER_OPTIMIZER}

# --- the runs of a row ----------------------------------------------------------------------------


def runs_by_recipe(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of each recipe, one for a seed, in the order of the seeds.

    A record of a recipe that was changed since is left out. Raises ValueError as `check_one_cut`
    does.
    """
    current = [record for record in records if is_current(record)]
    newest = newest_of(current, name_and_seed)
    check_one_cut(newest)
    return group_records(sorted(newest, key=name_and_seed), "recipe")


def name_and_seed(record: Record) -> tuple[str, int]:
    """Return what tells the runs of one cut apart."""
    return record["recipe"], record["seed"]


def check_one_cut(records: Iterable[Record]) -> None:
    """Raise ValueError where records come from several cuts: one table must not mix them."""
    for field, content in (("cut", "cuts of the data"), ("triplets", "files of triplets")):
        digests = {record[field] for record in records if field in record}
        if len(digests) > 1:
            raise ValueError(
                f"the records are of {len(digests)} {content} ({join(sorted(digests))}). Keep "
                "those of one in the file. Measure the others with --records and another file."
            )


def runs_that_differ_in(
    name: str, options: Collection[str], records: Iterable[Record]
) -> list[Record]:
    """Return the records of a recipe that differ from it in some of these options at most.

    There is one for each seed and each set of values. Raises ValueError as `check_one_cut` does.
    """
    comparable = []
    for record in records:
        if record["recipe"] == name and differences(name, record["options"]).keys() <= set(options):
            comparable.append(record)

    def seed_and_values(record: Record) -> tuple[int, tuple[str, ...]]:
        return record["seed"], tuple(differences(name, record["options"]).values())

    newest = newest_of(comparable, seed_and_values)
    check_one_cut(newest)
    return sorted(newest, key=seed_and_values)


# --- the scores of a run --------------------------------------------------------------------------


def counted_scores(record: Record) -> Scores:
    """Return the dev scores of the tasks that were trained or that the report prints."""
    return scores_of_tasks(record, {*record["trained"], *published_tasks(record["recipe"])})


def trained_scores(record: Record) -> Scores:
    """Return the dev scores without those of untrained heads."""
    return scores_of_tasks(record, record["trained"])


def scores_of_tasks(record: Record, names: Collection[str]) -> Scores:
    """Return the dev scores of some tasks, with their mean where all three are among them."""
    # Imported late, because it imports torch.
    from multitask.tasks import with_overall

    tasks = [column.score for column in TASK_COLUMNS if column.score in names]
    return with_overall({task: record["scores"][task] for task in tasks})


def counted(records: Iterable[Record]) -> list[Record]:
    """Return records with their counted scores in the place of all."""
    return [{**record, "scores": counted_scores(record)} for record in records]


# --- published beside measured --------------------------------------------------------------------


def report_row(
    name: str, records: Sequence[Record], published: Published | None = None, **values: Any
) -> Row:
    """Return the row of a recipe. published: the scores in brackets. values: as those of Row."""
    published = published or Published()
    printed: dict[str, float | None] = {}
    for column in COLUMNS:
        printed[f"scores.{column.score}"] = getattr(published, column.published)
    for column, score in zip(TASK_COLUMNS, published.train or (None, None, None), strict=True):
        printed[f"train_scores.{column.score}"] = score
    count = str(len(records)) if records else "not measured yet"
    return Row(
        f"`{name}`",
        counted(records),
        published=printed,
        values=values,
        count=count,
        may_lack=True,
    )


def recipe_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each recipe of a report."""
    runs = runs_by_recipe(records)
    rows = []
    for name, recipe in RECIPES_OF[entry["report"]].items():
        description = recipe.description
        row = report_row(name, runs.get(name, []), recipe.published, description=description)
        rows.append(row)
    return rows


def baseline_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return the rows of the recipes, and those of the baselines on the same dev rows.

    The majority answer and TF-IDF depend on the cut alone. So the first record that read all tasks
    has them.
    """
    rows = recipe_rows(entry, records)
    values = {"description": "baseline without an encoder"}
    for row in rows:
        for record in row.records:
            baselines = record["baselines"]
            if all(OVERALL in scores for scores in baselines.values()):
                for title, scores in baselines.items():
                    rows.append(Row(title, [{"scores": scores}], values=values, count=""))
                return rows
    return rows


def reading_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return rows 7 to 15 of [ROB] with drawn tasks and with pooled batches."""
    runs = runs_by_recipe(records)
    rows = []
    for drawn in POOLED_ROWS:
        for name, batches in ((drawn, "task drawn"), (f"{drawn}-pooled", "pooled")):
            published = RECIPES[drawn].published
            rows.append(report_row(name, runs.get(name, []), published, batches=batches))
    return rows


def rate_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return rows of [GEN] at every learning rate of the contrastive stage that has a record."""
    rows = []
    for name in entry["recipes"]:
        runs = runs_that_differ_in(name, {CONTRASTIVE_LR}, records)
        by_rate = group_by(runs, lambda record: option_of(record, CONTRASTIVE_LR))
        for learning_rate in sorted(by_rate):
            rows.append(report_row(name, by_rate[learning_rate], learning_rate=learning_rate))
    return rows


def schedule_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return rows of [ROB] at constant learning rates, and at one that falls to 0."""
    rows = []
    for name, recipe in {**ROB_RECIPES, **POOLED_RECIPES}.items():
        runs = runs_that_differ_in(name, OPTIMIZER_OPTIONS, records)
        groups = group_by(
            runs, lambda record: (option_of(record, "schedule"), option_of(record, "lr"))
        )
        for schedule, learning_rate in sorted(groups):
            values = {"schedule": schedule, "learning_rate": learning_rate}
            group = groups[schedule, learning_rate]
            rows.append(report_row(name, group, recipe.published, **values))
    return rows


def order(content: Content) -> str:
    """Return a sentence on whether the measured scores put the rows in the report's order.

    It is Spearman's rank correlation of published and measured means, over the rows with enough
    seeds: 1 for the same order, 0 for no relation, -1 for the opposite order. Scores of untrained
    heads are left out. With few rows there is no sentence.
    """
    from scipy.stats import spearmanr

    runs = runs_by_recipe(content.records)
    recipes = RECIPES_OF[content.entry["report"]]
    rows = [name for name in recipes if len(runs.get(name, [])) >= ENOUGH_SEEDS]
    correlations = []
    for column in COLUMNS:
        published, measured = [], []
        for name in rows:
            score = getattr(recipes[name].published, column.published)
            trained = [trained_scores(record) for record in runs[name]]
            values = [scores[column.score] for scores in trained if column.score in scores]
            if score is not None and values:
                published.append(score)
                measured.append(statistics.mean(values))
        if len(published) < ROWS_OF_AN_ORDER:
            return ""
        correlation = spearmanr(published, measured).statistic
        correlations.append(f"{column.title} {correlation:.2f} ({len(published)} rows)")
    return (
        "Spearman's correlation of the published with the measured means, over the rows with at "
        f"least {ENOUGH_SEEDS} seeds, without the scores of untrained heads: {join(correlations)}. "
        "1 means the same order."
    )


def names_of(entry: Entry) -> list[str]:
    """Return the recipes that a table is about."""
    if "compared_rows" in entry:
        names = []
        for comparison in entry["compared_rows"]:
            names += [comparison["row"], comparison["less"]]
        return list(dict.fromkeys(names))
    return entry.get("recipes") or list(RECIPES_OF[entry["report"]])


def closing(content: Content) -> str:
    """Return the cut, the conditions, and which rows have few seeds."""
    runs = runs_by_recipe(content.records)
    names = names_of(content.entry)
    records: list[Record] = []
    missing = []
    for name in names:
        records += runs.get(name, [])
        if len(runs.get(name, [])) < ENOUGH_SEEDS:
            missing.append(name)
    paragraphs = [describe_cut(report_of(names[0]))]
    if records:
        paragraphs.append(measured_on(records))
    if missing:
        # join puts an "and" before the last name.
        listed = join(f"`{name}`" for name in missing)
        paragraphs.append(
            f"Rows with fewer than {ENOUGH_SEEDS} seeds so far: {listed}. This command measures "
            f"them: `.venv/bin/{command_of(REPORTS)}`"
        )
    return "\n\n".join(paragraphs)


# --- two rows compared ----------------------------------------------------------------------------

SAME = "the same"
OPPOSITE = "the opposite"
NOTHING = "cannot tell"
ENOUGH_SEEDS = 3  # tables name the rows that have fewer
TOO_FEW = "too few seeds"
UNPUBLISHED = "none published"


def compare(published: float, measured: Sequence[float], word: str) -> str:
    """Return the direction of measured differences beside the published one.

    published: a difference of two scores. measured: ours, one for each seed. word: what they say,
    of `judge`.
    """
    if len(measured) < ENOUGH_SEEDS:
        return TOO_FEW
    if round(published, 3) == 0.0:  # The reports print three decimals.
        return UNPUBLISHED
    if not word:
        return NOTHING
    return SAME if (word == BETTER) == (published > 0.0) else OPPOSITE


def comparison_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each comparison: the published difference, ours, and their directions."""
    runs = runs_by_recipe(records)
    compared = entry["compared_rows"]
    cells = []
    for comparison in compared:
        score = comparison.get("score", OVERALL)
        row, control = comparison["row"], comparison["less"]
        cells.append(seed_differences(runs, row, control, score, counted_scores))

    rows = []
    for comparison, measured, word in zip(compared, cells, judge(cells), strict=True):
        row, control = comparison["row"], comparison["less"]
        column = column_of(comparison.get("score", OVERALL))
        published = published_score(row, column) - published_score(control, column)
        values = {
            **comparison,
            "score": column.title,
            "published": f"{published:+.3f}",
            "n": len(measured),
            "measured": format_difference(measured),
            "direction": compare(published, measured, word),
        }
        rows.append(Row(comparison["what"], values=values))
    return rows


def column_of(score: str) -> Column:
    """Return the column of a score."""
    return next(column for column in COLUMNS if column.score == score)


def published_score(name: str, column: Column) -> float:
    """Return a score of a row in its report. Raises ValueError where there is none."""
    score: float | None = getattr(RECIPES[name].published, column.published)
    if score is None:
        raise ValueError(f"the report prints no {column.title} of {name}.")
    return score


def seed_differences(
    runs: Mapping[str, Sequence[Record]],
    name: str,
    control: str,
    score: str,
    scores_of: Callable[[Record], Scores],
) -> list[float]:
    """Return a score of one recipe less that of another, for the seeds of both.

    scores_of: returns the scores of a record that are compared, such as those of training rows.
    """
    pairs = pairs_of(runs.get(name, []), runs.get(control, []))
    return [scores_of(run)[score] - scores_of(other)[score] for run, other in pairs]


def directions(content: Content) -> str:
    """Return a sentence with the number of comparisons for each direction."""
    return count_directions([row.values["direction"] for row in content.rows])


def count_directions(directions: Sequence[str]) -> str:
    """Return a sentence with the number of times that each direction is there."""
    counts = []
    for word, text in (
        (SAME, "with the published direction"),
        (OPPOSITE, "with the opposite one"),
        (NOTHING, "that can't be told from chance"),
    ):
        counts.append(f"{directions.count(word)} {text}")
    return f"Of {len(directions)} differences: {join(counts)}."


def mixed_devices(content: Content) -> str:
    """Return which seeds had different kinds of device in the two runs of a comparison.

    Runs on a GPU began with rounded weights, so the difference of such a seed holds more chance.
    """
    runs = runs_by_recipe(content.records)
    pairs = []
    for comparison in content.entry["compared_rows"]:
        row, control = comparison["row"], comparison["less"]
        devices = {run["seed"]: run["machine"]["device"] for run in runs.get(control, [])}
        for run in runs.get(row, []):
            device = run["machine"]["device"]
            if devices.get(run["seed"], device) != device:
                pairs.append(f"`{row}` less `{control}` (seed {run['seed']})")
    if not pairs:
        return ""
    return f"One of the two runs was on a GPU, and the other was not: {join(pairs)}."


def train_difference_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return training scores of a row less those of another, as published and in two readings."""
    runs = runs_by_recipe(records)
    control, row, *_ = entry["recipes"]
    before, after = RECIPES[control].published.train, RECIPES[row].published.train
    if before is None or after is None:
        raise ValueError(f"the report prints no training scores of {control} or of {row}.")
    printed = {}
    for column, first, second in zip(TASK_COLUMNS, before, after, strict=True):
        printed[column.score] = f"{second - first:+.3f}"
    rows = [Row("published", values=printed)]
    for name in entry["recipes"][1:]:
        cells = {}
        for column in TASK_COLUMNS:
            score = column.score
            values = seed_differences(runs, name, control, score, lambda run: run["train_scores"])
            cells[score] = f"{format_scores(values)}, n {len(values)}" if values else "-"
        rows.append(Row(f"`{name}` less `{control}`", values=cells))
    return rows


def device_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return scores of a run on a GPU less those of the same run on a CPU, where there are both.

    They show how much chance is left in a score, whatever the seed. Raises ValueError as
    `check_one_cut` does.
    """
    runs = [record for record in records if is_current(record)]
    check_one_cut(runs)
    rows = []
    for (name, seed), group in group_by(runs, name_and_seed).items():
        newest = {run["machine"]["device"]: run for run in group}
        if {"cpu", "cuda"} <= newest.keys():
            pair = [newest["cuda"], newest["cpu"]]
            on_gpu, on_cpu = map(counted_scores, pair)
            cells = {
                column.score: f"{on_gpu[column.score] - on_cpu[column.score]:+.3f}"
                for column in COLUMNS
            }
            rows.append(Row(f"`{name}`", pair, values={"seed": seed, **cells}))
    return rows


REPORT_ROWS: Mapping[str, Callable[[Entry, Sequence[Record]], list[Row]]] = {
    "recipes": recipe_rows,
    "recipes and baselines": baseline_rows,
    "readings": reading_rows,
    "rates": rate_rows,
    "schedules": schedule_rows,
    "comparisons": comparison_rows,
    "training differences": train_difference_rows,
    "devices": device_rows,
}
REPORT_NOTES: Mapping[str, Callable[[Content], str]] = {
    "order": order,
    "closing": closing,
    "directions": directions,
    "mixed_devices": mixed_devices,
}
