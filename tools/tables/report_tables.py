"""The tables of the two course reports: published scores beside those measured on the cut.

A cell is the mean over the seeds with its deviation, and in brackets the published score. A row
without a record says so, and its cells have a dash.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from experiments.conditions import join, measured_on
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
from experiments.records import (
    REPORTS,
    Record,
    command_of,
    group_by,
    group_records,
    newest_of,
    read_records,
)
from experiments.run_files import Scores
from experiments.tables import (
    COLUMNS,
    ENOUGH_SEEDS,
    OVERALL,
    format_head,
    format_row,
    format_scores,
)
from tools.tables.cut import REPORT_CUT, differences, is_current, option_of, report_of

TASK_COLUMNS = [column for column in COLUMNS if column.score != OVERALL]
# The order of fewer rows says nothing.
ROWS_OF_AN_ORDER = 5
CONTRASTIVE_LR = "contrastive_lr"
# Rows of [GEN] whose contrastive stage minimises every loss, and rows that maximise one.
MINIMISED = ("gen-nli", "gen-quora-no-negatives")
MAXIMISED = ("gen-quora-only", "gen-given")
OPTIMIZER_OPTIONS = {"lr", *STARTER_OPTIMIZER}
RunsByRecipe = Mapping[str, Sequence[Record]]


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


def num_seeds(records: Sequence[Record]) -> str:
    """Return the cell that counts the seeds of a row."""
    return str(len(records)) if records else "not measured yet"


def cell_of(runs: Iterable[Scores], score: str, published: float | None) -> str:
    """Return one cell: the measured mean of a score, and the published one in brackets."""
    return format_scores([run[score] for run in runs if score in run], published)


# --- below every table ----------------------------------------------------------------------------


def describe_cut(report: str) -> str:
    """Return what the runs of all rows of a report share, as a sentence or two."""
    cut = REPORT_CUT
    values = cut.values
    parts = []
    for title, rows in (("Training", cut.train), ("Dev", cut.dev)):
        counts = join(f"{rows[task]:,} of {task.upper()}" for task in rows)
        parts.append(f"{title} rows: {counts}.")
    return (
        f"{' '.join(parts)} NLI has {cut.triplets:,} triplets. All are drawn with the seed "
        f"{cut.seed}. The model is {values['model']}, with {values['max_length']} tokens at most. "
        f"The learning rates of the tasks are multiplied by {cut.lr_factors[report]:g}, those of "
        f"the contrastive stages by {cut.contrastive_lr_factor:g}. Training scores are those of "
        f"{values['score_train']} training rows of each task."
    )


def closing_lines(runs: RunsByRecipe, names: Iterable[str]) -> list[str]:
    """Return the lines below a table: the cut, the conditions and the rows without a record."""
    names = list(names)
    records: list[Record] = []
    missing = []
    for name in names:
        records += runs.get(name, [])
        if len(runs.get(name, [])) < ENOUGH_SEEDS:
            missing.append(name)
    lines = ["", describe_cut(report_of(names[0]))]
    if records:
        lines += ["", measured_on(records)]
    if missing:
        # join puts an "and" before the last name.
        counts = join(f"`{name}`" for name in missing)
        lines += [
            "",
            f"Rows with fewer than {ENOUGH_SEEDS} seeds so far: {counts}. This command measures "
            f"them: `.venv/bin/{command_of(REPORTS)}`",
        ]
    return lines


# --- the tables -----------------------------------------------------------------------------------


def dev_lines(recipes: Mapping[str, Recipe], runs: RunsByRecipe) -> list[str]:
    """Return a table of dev scores, one row per recipe."""
    lines = format_head(["row", "what it is", "n", *(column.title for column in COLUMNS)])
    for name, recipe in recipes.items():
        cells = score_cells(runs.get(name, []), recipe.published)
        lines.append(format_row([f"`{name}`", recipe.description, *cells]))
    return [*lines, *baseline_lines(recipes, runs), *order_lines(recipes, runs)]


def baseline_lines(recipes: Mapping[str, Recipe], runs: RunsByRecipe) -> list[str]:
    """Return table rows of the baselines on the same dev rows: the majority answer, and TF-IDF.

    They depend on the cut alone, so the first record that read all tasks has them.
    """
    for name in recipes:
        for record in runs.get(name, []):
            baselines = record["baselines"]
            if all(OVERALL in scores for scores in baselines.values()):
                lines = []
                for baseline, scores in baselines.items():
                    cells = [cell_of([scores], column.score, None) for column in COLUMNS]
                    lines.append(format_row([baseline, "baseline without an encoder", "", *cells]))
                return lines
    return []


def order_lines(recipes: Mapping[str, Recipe], runs: RunsByRecipe) -> list[str]:
    """Return a sentence on whether the measured scores put the rows in the report's order.

    It is Spearman's rank correlation of published and measured means, over the rows with enough
    seeds: 1 for the same order, 0 for no relation, -1 for the opposite order. Scores of untrained
    heads are left out. With few rows there is no sentence.
    """
    # Imported late: `python -m experiments --help` needs no scipy.
    from scipy.stats import spearmanr

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
            return []
        correlation = spearmanr(published, measured).statistic
        correlations.append(f"{column.title} {correlation:.2f} ({len(published)} rows)")
    return [
        "",
        "Spearman's correlation of the published with the measured means, over the rows with at "
        f"least {ENOUGH_SEEDS} seeds, without the scores of untrained heads: {join(correlations)}. "
        "1 means the same order.",
    ]


def train_lines(recipes: Mapping[str, Recipe], runs: RunsByRecipe) -> list[str]:
    """Return a table of scores on training rows, one row per recipe."""
    lines = format_head(["row", "n", *(f"{column.title}, train" for column in TASK_COLUMNS)])
    for name, recipe in recipes.items():
        records = runs.get(name, [])
        measured = [record["train_scores"] for record in records]
        cells = [f"`{name}`", num_seeds(records)]
        printed = recipe.published.train or (None, None, None)
        for column, published in zip(TASK_COLUMNS, printed, strict=True):
            cells.append(cell_of(measured, column.score, published))
        lines.append(format_row(cells))
    return lines


def table_of(
    recipes: Mapping[str, Recipe],
    make: Callable[[Mapping[str, Recipe], RunsByRecipe], list[str]],
) -> str:
    """Return one table of a report with the lines below it."""
    runs = runs_by_recipe(read_records(REPORTS))
    return "\n".join([*make(recipes, runs), *closing_lines(runs, recipes)])


def rob_dev() -> str:
    """[ROB] table 3, dev."""
    return table_of(ROB_RECIPES, dev_lines)


def rob_train() -> str:
    """[ROB] table 3, train."""
    return table_of(ROB_RECIPES, train_lines)


def gen_dev() -> str:
    """[GEN] tables 1 to 10."""
    return table_of(GEN_RECIPES, dev_lines)


def gen_train() -> str:
    """Training scores of the rows of [GEN], which its report does not print."""
    return table_of(GEN_RECIPES, train_lines)


def runs_that_differ_in(name: str, options: Collection[str]) -> list[Record]:
    """Return the records of a recipe that differ from it in some of these options at most.

    There is one for each seed and each set of values. Raises ValueError as `check_one_cut` does.
    """
    comparable = []
    for record in read_records(REPORTS):
        if record["recipe"] == name and differences(name, record["options"]).keys() <= set(options):
            comparable.append(record)

    def seed_and_values(record: Record) -> tuple[int, tuple[str, ...]]:
        return record["seed"], tuple(differences(name, record["options"]).values())

    newest = newest_of(comparable, seed_and_values)
    check_one_cut(newest)
    return sorted(newest, key=seed_and_values)


def score_cells(records: Sequence[Record], published: Published) -> list[str]:
    """Return the cells of one table row: the number of seeds, and the dev scores.

    published: the scores in brackets, where the report prints one.
    """
    measured = [counted_scores(record) for record in records]
    cells = [num_seeds(records)]
    for column in COLUMNS:
        cells.append(cell_of(measured, column.score, getattr(published, column.published)))
    return cells


def gen_rates() -> str:
    """Rows of [GEN] at every learning rate of the contrastive stage that has a record."""
    titles = ["row", "contrastive learning rate", "n", *(column.title for column in COLUMNS)]
    lines = format_head(titles)
    shown = []
    for name in (*MINIMISED, *MAXIMISED):
        by_rate = group_by(
            runs_that_differ_in(name, {CONTRASTIVE_LR}),
            lambda record: option_of(record, CONTRASTIVE_LR),
        )
        for learning_rate in sorted(by_rate):
            records = by_rate[learning_rate]
            cells = score_cells(records, Published())
            lines.append(format_row([f"`{name}`", f"{learning_rate:g}", *cells]))
            shown += records
    return with_conditions(lines, shown)


def rob_schedules() -> str:
    """Rows of [ROB] at constant learning rates, and at one that falls to 0."""
    titles = ["row", "schedule", "learning rate", "n", *(column.title for column in COLUMNS)]
    lines = format_head(titles)
    shown = []
    for name, recipe in {**ROB_RECIPES, **POOLED_RECIPES}.items():
        groups = group_by(runs_that_differ_in(name, OPTIMIZER_OPTIONS), schedule_and_rate)
        for schedule, learning_rate in sorted(groups):
            records = groups[schedule, learning_rate]
            cells = [f"`{name}`", schedule, f"{learning_rate:g}"]
            lines.append(format_row([*cells, *score_cells(records, recipe.published)]))
            shown += records
    return with_conditions(lines, shown)


def schedule_and_rate(record: Record) -> tuple[str, float]:
    """Return the learning rate schedule of a run, and its highest learning rate."""
    return option_of(record, "schedule"), option_of(record, "lr")


def with_conditions(lines: Sequence[str], records: Sequence[Record]) -> str:
    """Return a table with the line below it that says when and where it was measured."""
    if not records:
        return f"Not measured yet. This command adds it: `.venv/bin/{command_of(REPORTS)}`"
    return "\n".join([*lines, "", measured_on(records)])


def rob_readings() -> str:
    """Rows 7 to 15 of [ROB] with drawn tasks and with pooled batches."""
    runs = runs_by_recipe(read_records(REPORTS))
    titles = ["row", "batches", "n", *(f"{column.title}, train" for column in TASK_COLUMNS)]
    lines = format_head([*titles, "overall 2023, dev"])
    for row in POOLED_ROWS:
        published = RECIPES[row].published
        printed = published.train or (None, None, None)
        for name, batches in ((row, "task drawn"), (f"{row}-pooled", "pooled")):
            records = runs.get(name, [])
            cells = [f"`{name}`", batches, num_seeds(records)]
            training = [record["train_scores"] for record in records]
            for column, score in zip(TASK_COLUMNS, printed, strict=True):
                cells.append(cell_of(training, column.score, score))
            dev = [counted_scores(record) for record in records]
            cells.append(cell_of(dev, OVERALL, published.overall))
            lines.append(format_row(cells))
    names = [*POOLED_ROWS, *POOLED_RECIPES]
    return "\n".join([*lines, *closing_lines(runs, names)])


REPORT_TABLES: dict[str, Callable[[], str]] = {
    "gen-dev": gen_dev,
    "gen-rates": gen_rates,
    "gen-train": gen_train,
    "rob-dev": rob_dev,
    "rob-readings": rob_readings,
    "rob-schedules": rob_schedules,
    "rob-train": rob_train,
}
