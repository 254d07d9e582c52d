"""Mean and standard deviation over seeds as Markdown tables, beside the published scores."""

from __future__ import annotations

import csv
import io
import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from experiments.recipes import RECIPES, Published
from experiments.run_files import Scores
from minbert.reporting.differences import estimate_over_seeds, holm, is_better_or_worse
from minbert.reporting.tables import Table, heading_and_numbers


class Column(NamedTuple):
    """A column of the table: its score in run.json, its title, and its field in `Published`."""

    score: str
    title: str
    published: str = ""  # none for a task of a user


class Labels(NamedTuple):
    """How a table names its rows and columns.

    rows: the title above the names of the rows. metrics: the metric of each task, such as
    "Pearson". A column of a user's task names it.
    """

    rows: str = "recipe"
    metrics: Mapping[str, str] = MappingProxyType({})


# By recipe the baselines of its runs, seed by seed: the scores of each by its title.
Baselines = Mapping[str, Sequence[Mapping[str, Scores]]]
COMMON_LABELS = Labels()
OVERALL = "overall_2023"
BETTER = "better"
WORSE = "worse"
CANNOT_TELL = "cannot tell"
NO_DIFFERENCE = "equal in each seed"
ABOUT_WORDS = (
    "better or worse: the interval, corrected for the number of differences, does not hold 0."
)
COLUMNS = (
    Column("sst", "SST", "sst"),
    Column("para", "PARA", "para"),
    Column("sts", "STS", "sts"),
    Column(OVERALL, "overall 2023", "overall"),
)
NOT_TASKS = {OVERALL, "overall_2024", "mean", "epoch", "step", "loss"}
TITLES_OF_STAGES = {"spearman": "Spearman, STS dev"}
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


def judge(cells: Sequence[Sequence[float]]) -> list[str]:
    """Return what each cell of a table of differences says: "better", "worse", or "" for nothing.

    The rule has a constant level, whatever the number of seeds: the t interval of the mean over the
    seeds does not hold 0. Holm's method corrects for the number of cells. The formulas stand in
    minbert/reporting/differences.py.

    cells: of each cell the differences, one for each seed. One seed says nothing.
    """
    judged = [place for place, differences in enumerate(cells) if len(differences) > 1]
    estimates = [estimate_over_seeds(cells[place]) for place in judged]
    corrected = holm([estimate.p_value for estimate in estimates])
    words = [""] * len(cells)
    for place, estimate, p_value in zip(judged, estimates, corrected, strict=True):
        if is_better_or_worse(p_value):
            words[place] = BETTER if estimate.value > 0 else WORSE
    return words


def format_difference(differences: Sequence[float]) -> str:
    """Return "mean [low, high]", the 95 % t interval over the seeds. One seed has no interval.

    differences: one for each seed. Without any, the text is "-".
    """
    if len(differences) < 2:
        return format_scores(differences)
    return f"{format_scores([statistics.mean(differences)])} {format_interval(differences)}"


def format_interval(differences: Sequence[float]) -> str:
    """Return "[low, high]", the 95 % t interval over two seeds or more."""
    low, high = estimate_over_seeds(differences).interval
    return f"[{low:.3f}, {high:.3f}]".replace("-0.000", "0.000")


def differences_of(runs: Sequence[Scores], controls: Sequence[Scores], score: str) -> list[float]:
    """Return a score of each run minus that of its control, where both have it."""
    differences = []
    for run, control in zip(runs, controls, strict=True):
        if score in run and score in control:
            differences.append(run[score] - control[score])
    return differences


def format_differences(differences: Sequence[float], word: str) -> str:
    """Return the mean with its interval, what it says, and each difference.

    differences: those of `differences_of`. The runs of one seed share the order of the rows and the
    dropout masks. So a difference holds less chance than the difference of two means. word: of
    `judge`.
    """
    if not differences:
        return "-"
    if not any(differences):
        # An interval from 0 to 0 would look like certainty.
        return NO_DIFFERENCE if len(differences) > 1 else "equal"
    listed = ", ".join(f"{difference:+.3f}" for difference in differences)
    text = format_difference(differences)
    return f"{text} ({word}): {listed}" if word else f"{text}: {listed}"


def columns_of(
    scores: Mapping[str, Sequence[Scores]], labels: Labels = COMMON_LABELS
) -> tuple[Column, ...]:
    """Return the columns for some runs: those of the course's tasks, then a user's own tasks.

    scores: by recipe, the scores of its runs. Without any task of the course, only the own tasks
    have columns.
    """
    names: dict[str, None] = {}
    for runs in scores.values():
        for run in runs:
            names |= dict.fromkeys(run)
    ours = [column.score for column in COLUMNS]
    of_users = []
    for name in names:
        if name not in NOT_TASKS and name not in ours:
            metric = labels.metrics.get(name)
            of_users.append(Column(name, f"{name} ({metric})" if metric else name))
    has_course = any(name in ours for name in names)
    return (*COLUMNS, *of_users) if has_course or not of_users else tuple(of_users)


def published_score(published: Published, column: Column) -> float | None:
    """Return what a report printed, or None."""
    return getattr(published, column.published) if column.published else None


def build_score_table(
    scores: Mapping[str, Sequence[Scores]],
    labels: Labels = COMMON_LABELS,
    baselines: Baselines = MappingProxyType({}),
) -> str:
    """Return a Markdown table with one row per recipe, and below them one per baseline.

    scores: by recipe, the dev scores of its runs, seed by seed.
    """
    columns = columns_of(scores, labels)
    lines = format_head([labels.rows, "n", *(column.title for column in columns)])
    for name, runs in scores.items():
        published = RECIPES[name].published if name in RECIPES else Published()
        cells = [name, str(len(runs))]
        for column in columns:
            values = [run[column.score] for run in runs if column.score in run]
            cells.append(format_scores(values, published_score(published, column)))
        lines.append(format_row(cells))
    lines += map(format_row, baseline_rows(baselines, columns))
    return "\n".join(lines)


def baseline_rows(baselines: Baselines, columns: Sequence[Column]) -> list[list[str]]:
    """Return a row for each baseline, or one for each recipe where they have other scores."""
    cells: dict[str, dict[str, list[str]]] = {}
    for name, runs in baselines.items():
        for title in dict.fromkeys(itertools.chain.from_iterable(runs)):
            texts = []
            for column in columns:
                of_runs = [run.get(title, {}) for run in runs]
                values = [run[column.score] for run in of_runs if column.score in run]
                # Without chance in the seeds there is no deviation.
                texts.append(format_scores(values[:1] if len(set(values)) == 1 else values))
            cells.setdefault(title, {})[name] = texts
    rows = []
    for title, of_names in cells.items():
        if len(set(map(tuple, of_names.values()))) == 1:
            rows.append([f"baseline: {title}", "-", *next(iter(of_names.values()))])
        else:
            for name, texts in of_names.items():
                rows.append([f"baseline: {title} of {name}", "-", *texts])
    return rows


class Change(NamedTuple):
    """A score of a recipe less that of the control, seed by seed, and what it says."""

    differences: list[float]
    word: str  # of `judge`


def changes_from(
    scores: Mapping[str, Sequence[Scores]], control: str
) -> dict[str, dict[str, Change]]:
    """Return the change of each score, by recipe and score. Arguments as of difference_table."""
    cells = {}
    for name, runs in scores.items():
        if name != control:
            for column in columns_of(scores):
                of_cell = differences_of(runs, scores[control], column.score)
                cells[name, column.score] = of_cell
    words = judge(list(cells.values()))

    changes: dict[str, dict[str, Change]] = {}
    for (name, score), word in zip(cells, words, strict=True):
        changes.setdefault(name, {})[score] = Change(cells[name, score], word)
    return changes


def build_difference_table(
    scores: Mapping[str, Sequence[Scores]], control: str, labels: Labels = COMMON_LABELS
) -> str:
    """Return a Markdown table of what each recipe changed in each score, seed by seed.

    Arguments as of difference_table.
    """
    table = difference_table(scores, control, labels)
    return "\n".join([*format_head(table.header), *map(format_row, table.rows)])


def difference_table(
    scores: Mapping[str, Sequence[Scores]], control: str, labels: Labels = COMMON_LABELS
) -> Table:
    """Return what each recipe changed in each score, seed by seed.

    scores: by recipe, the dev scores of its runs, seed by seed. control: the recipe whose scores
    are subtracted. It has no row of its own.
    """
    columns = columns_of(scores, labels)
    titles = ["n", *(column.title for column in columns)]
    rows = []
    for name, of_columns in changes_from(scores, control).items():
        texts = [format_differences(*of_columns[column.score]) for column in columns]
        rows.append((name, str(len(scores[name])), *texts))
    return Table(heading_and_numbers(f"{labels.rows} less {control}", *titles), tuple(rows))


# --- for a paper and a spreadsheet ----------------------------------------------------------------

CSV_HEADER = ("recipe", "seed", "score", "value", "metric")
CSV_START = "recipe,seed,score,value"  # of older versions, too
LATEX_START = "% Written by minBERT"
MINUS = re.compile(r"(?<![\w-])-(?=\d)")
LATEX_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "&%$#_{}"})


def build_csv(
    scores: Mapping[str, Sequence[Scores]],
    seeds: Sequence[int],
    metrics: Mapping[str, str],
) -> str:
    """Return a line for each score of each run: recipe or arm, seed, score, value, metric.

    The values have all their digits, for a program that computes with them. metrics: of each task.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for name, runs in scores.items():
        for seed, run in zip(seeds, runs, strict=False):
            for score, value in run.items():
                writer.writerow((name, seed, score, repr(value), metrics.get(score, "")))
    return stream.getvalue()


def build_latex(
    scores: Mapping[str, Sequence[Scores]],
    control: str = "",
    labels: Labels = COMMON_LABELS,
    baselines: Baselines = MappingProxyType({}),
) -> str:
    """Return the table of scores for LaTeX, and below it that of the differences from a control.

    Both have the lines of the package booktabs. control: as of difference_table. With "" there are
    no differences.
    """
    columns = columns_of(scores, labels)
    titles = [labels.rows, "n", *(column.title for column in columns)]
    rows = []
    for name, runs in scores.items():
        cells = [name, str(len(runs))]
        for column in columns:
            cells.append(format_scores([run[column.score] for run in runs if column.score in run]))
        rows.append(cells)
    rows += baseline_rows(baselines, columns)
    lines = [f"{LATEX_START}. Needs \\usepackage{{booktabs}}.", *latex_table(titles, rows)]
    if control:
        titles = [f"{labels.rows} less {control}", "score", "n", "mean", "95 % interval", "says"]
        about = "% Differences seed by seed, with the t interval of their mean over the seeds."
        lines += [
            "",
            about,
            "% " + ABOUT_WORDS,
            *latex_table(titles, latex_changes(scores, control, labels)),
        ]
    return "\n".join([*lines, ""])


def latex_changes(
    scores: Mapping[str, Sequence[Scores]], control: str, labels: Labels
) -> list[list[str]]:
    """Return a row for each recipe and score that both have: its difference and what it says."""
    titles = {column.score: column.title for column in columns_of(scores, labels)}
    rows = []
    for name, of_scores in changes_from(scores, control).items():
        for score, (differences, word) in of_scores.items():
            if not differences:
                continue
            interval = "-"
            says = word or CANNOT_TELL
            if not any(differences):
                says = NO_DIFFERENCE if len(differences) > 1 else "equal"
            elif len(differences) > 1:
                interval = format_interval(differences)
            mean = format_scores([statistics.mean(differences)])
            rows.append([name, titles[score], str(len(differences)), mean, interval, says])
    return rows


def latex_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a tabular: the first column stands left, the others right."""
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(titles) - 1)}}}", "\\toprule", latex_row(titles)]
    lines += ["\\midrule", *map(latex_row, rows)]
    return [*lines, "\\bottomrule", "\\end{tabular}"]


def latex_row(cells: Sequence[str]) -> str:
    """Return a row of a table of LaTeX. The signs that have a meaning there are texts."""
    texts = [cell.translate(LATEX_SIGNS).replace("±", "$\\pm$") for cell in cells]
    # In a text LaTeX prints a hyphen in place of the minus of a number.
    texts = [texts[0], *(MINUS.sub("$-$", text) for text in texts[1:])]
    return " & ".join(texts) + r" \\"


def build_train_table(
    scores: Mapping[str, Sequence[Scores]], labels: Labels = COMMON_LABELS
) -> str:
    """Return a Markdown table of scores on training rows, one row per recipe.

    scores: by recipe, what --score_train computed, seed by seed.
    """
    tasks = [column for column in columns_of(scores, labels) if column.score != OVERALL]
    lines = format_head([f"{labels.rows}, training rows", "n", *(column.title for column in tasks)])
    for name, runs in scores.items():
        published = RECIPES[name].published.train if name in RECIPES else None
        printed = dict(zip(("sst", "para", "sts"), published or (), strict=False))
        cells = [name, str(len(runs))]
        for column in tasks:
            values = [run[column.score] for run in runs if column.score in run]
            cells.append(format_scores(values, printed.get(column.score)))
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

        title = TITLES_OF_STAGES.get(score, score)
        cells = [name, str(len(records)), title, format_scores(before), format_scores(after)]
        cells += [f"{num_kept} of {len(records)}", mean_seconds]
        lines.append(format_row(cells))
    return "\n".join(lines)
