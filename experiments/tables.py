"""Mean and standard deviation over seeds as Markdown tables, beside the published scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.recipes import RECIPES, Published
from experiments.run_files import Scores


class Column(NamedTuple):
    """A column of the table: its score in run.json, its title, and its field in `Published`."""

    score: str
    title: str
    published: str


OVERALL = "overall_2023"
# What a difference says, by its mean in standard deviations over the seeds: nothing up to the first
# one, a hint up to the second one, and more than a hint above it. docs/results/methods.md has the
# rule in words.
HINT = 1.0
CLEAR = 3.0
ENOUGH_SEEDS = 3  # fewer say nothing
MAY = "may"
CLEARLY = "clearly"
COLUMNS = (
    Column("sst", "SST", "sst"),
    Column("para", "PARA", "para"),
    Column("sts", "STS", "sts"),
    Column(OVERALL, "overall 2023", "overall"),
)
# "handed on": how many runs trained their tasks on the stage's encoder.
STAGE_TITLES = ("stage", "n", "score", "before", "after", "handed on", "seconds")


def format_row(cells: Sequence[str]) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def format_head(titles: Sequence[str]) -> list[str]:
    """Return the two lines that begin a Markdown table."""
    return [format_row(titles), "|---" * len(titles) + "|"]


def format_scores(scores: Sequence[float], published: float | None = None) -> str:
    """Return "mean ± standard deviation (published)" with three decimals.

    The deviation is that of a sample (divided by n - 1). It is left out for one score. The
    brackets are left out where nothing was published. Without scores the mean is "-".
    """
    # A mean of -0.0004 is written as 0.000.
    text = f"{statistics.mean(scores):.3f}".replace("-0.000", "0.000") if scores else "-"
    if len(scores) > 1:
        text += f" ± {statistics.stdev(scores):.3f}"
    if published is not None:
        text += f" ({published:.3f})"
    return text


def strength_of(differences: Sequence[float]) -> str:
    """Return what differences say: "clearly", "may", or "" for nothing.

    differences: one for each seed. Those of fewer than three seeds say nothing.
    """
    if len(differences) < ENOUGH_SEEDS:
        return ""
    mean = abs(statistics.mean(differences))
    deviation = statistics.stdev(differences)
    if mean == 0.0 or mean < HINT * deviation:
        return ""
    return CLEARLY if mean > CLEAR * deviation else MAY


def format_difference(differences: Sequence[float]) -> str:
    """Return "mean ± standard deviation", and in brackets what it says, if anything.

    differences: one for each seed.
    """
    strength = strength_of(differences)
    return format_scores(differences) + (f" ({strength})" if strength else "")


def differences_of(runs: Sequence[Scores], controls: Sequence[Scores], score: str) -> list[float]:
    """Return a score of each run minus that of its control, where both have it."""
    differences = []
    for run, control in zip(runs, controls, strict=True):
        if score in run and score in control:
            differences.append(run[score] - control[score])
    return differences


def format_differences(runs: Sequence[Scores], controls: Sequence[Scores], score: str) -> str:
    """Return a score of each run minus that of the control run with the same seed.

    The text has mean, deviation, what they say, and each difference. The runs of one seed share
    the order of the rows and the dropout masks. So a difference holds less chance than the
    difference of two means.
    Returns "-" where no pair of runs has the score.
    """
    differences = differences_of(runs, controls, score)
    if not differences:
        return "-"
    listed = ", ".join(f"{difference:+.3f}" for difference in differences)
    return f"{format_difference(differences)}: {listed}"


def build_score_table(scores: Mapping[str, Sequence[Scores]]) -> str:
    """Return a Markdown table with one row per recipe.

    scores: by recipe, the dev scores of its runs, seed by seed.
    """
    lines = format_head(["recipe", "n", *(column.title for column in COLUMNS)])
    for name, runs in scores.items():
        published = RECIPES[name].published if name in RECIPES else Published()
        cells = [name, str(len(runs))]
        for column in COLUMNS:
            values = [run[column.score] for run in runs if column.score in run]
            cells.append(format_scores(values, getattr(published, column.published)))
        lines.append(format_row(cells))
    return "\n".join(lines)


def build_difference_table(scores: Mapping[str, Sequence[Scores]], control: str) -> str:
    """Return a Markdown table of what each recipe changed in each score, seed by seed.

    scores: by recipe, the dev scores of its runs, seed by seed. control: the recipe whose scores
    are subtracted. It has no row of its own.
    """
    titles = [f"recipe less {control}", "n", *(column.title for column in COLUMNS)]
    lines = format_head(titles)
    for name, runs in scores.items():
        if name == control:
            continue
        cells = [name, str(len(runs))]
        for column in COLUMNS:
            cells.append(format_differences(runs, scores[control], column.score))
        lines.append(format_row(cells))
    return "\n".join(lines)


def build_train_table(scores: Mapping[str, Sequence[Scores]]) -> str:
    """Return a Markdown table of scores on training rows, one row per recipe.

    scores: by recipe, what --score_train computed, seed by seed.
    """
    tasks = [column for column in COLUMNS if column.score != OVERALL]
    lines = format_head(["recipe, training rows", "n", *(column.title for column in tasks)])
    for name, runs in scores.items():
        published = RECIPES[name].published.train if name in RECIPES else None
        cells = [name, str(len(runs))]
        for column, printed in zip(tasks, published or (None, None, None), strict=True):
            values = [run[column.score] for run in runs if column.score in run]
            cells.append(format_scores(values, printed))
        lines.append(format_row(cells))
    return "\n".join(lines)


def build_stage_table(stages: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Return a Markdown table of what each stage of --pretrain did to the encoder.

    stages: by recipe and stage, the records of its runs. A record has "before" and "after", each
    with scores by name. The table shows the first of them. It is the Spearman correlation of
    zero-shot STS dev for contrastive stages, and the loss on held-out text for mlm.
    """
    lines = format_head(STAGE_TITLES)
    for name, records in stages.items():
        # A stage is measured by several scores. The first one is its main score.
        score = next(iter(records[0]["before"]))
        before = [record["before"][score] for record in records]
        after = [record["after"][score] for record in records]
        num_kept = sum(record["is_kept"] for record in records)

        # A stage whose encoder was deleted has no seconds.
        seconds = [record["seconds"] for record in records if "seconds" in record]
        mean_seconds = f"{statistics.mean(seconds):.0f}" if seconds else "-"

        cells = [name, str(len(records)), score, format_scores(before), format_scores(after)]
        cells += [f"{num_kept} of {len(records)}", mean_seconds]
        lines.append(format_row(cells))
    return "\n".join(lines)
