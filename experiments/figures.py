"""A page with curves and bars of finished runs: `python -m experiments.figures NAME --out PAGE`.

NAME is a file of experiments/records/, as `python -m experiments --record NAME` writes it, or the
path of a file that `python -m experiments.reports --records FILE` wrote. `python -m experiments`
writes the same page for its own runs, to OUT/ablation.html.

The bars have the three tasks over all recipes, as figure 3 of [ROB]. The curves have the dev scores
by epoch, as figure 2 of [GEN].
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.conditions import measured_on
from experiments.cut import report_of
from experiments.recipes import RECIPES
from experiments.records import RECORDS, Record, command_of, read_records
from experiments.report_tables import describe_cut, runs_by_recipe
from experiments.run_files import Scores
from experiments.tables import COLUMNS, Column, format_scores
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    PAGE_START,
    Output,
    begins_with,
    check_outputs,
)
from minbert.reporting.figures import BarPlot, Bars, Figure, Line, LinePlot
from minbert.reporting.pages import Section, write_html
from minbert.reporting.tables import NO_VALUE, Table, heading_and_numbers

# More lines in one plot are hard to tell apart.
LINES_OF_PLOT = 8

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


def bar_section(scores: ScoresOfRuns) -> Section:
    """Return the three tasks over all recipes, with a table of all scores."""
    tasks = COLUMNS[:3]
    series = tuple(bars_of(column, scores) for column in tasks)
    # Bars are equally thick, however many there are.
    aspect = 0.25 + 0.04 * len(scores) * (len(series) + 1)
    plot = BarPlot(list(scores), series, "dev score", (0.0, 1.0), aspect)

    rows = []
    for name, runs in scores.items():
        cells = []
        for column in COLUMNS:
            values = values_of(runs, column.score)
            cells.append(format_scores(values) if values else NO_VALUE)
        rows.append((name, str(len(runs)), *cells))
    titles = ("n", *(column.title for column in COLUMNS))
    table = Table(heading_and_numbers("recipe", *titles), tuple(rows))
    return Section("Scores by recipe", ABOUT_BARS, Figure((plot,), table), level=2)


# --- curves ---------------------------------------------------------------------------------------


def mean_by_epoch(histories: Sequence[History], score: str) -> dict[int, float]:
    """Return the mean score of the runs after each epoch. Some runs may have fewer epochs."""
    values: dict[int, list[float]] = {}
    for history in histories:
        for entry in history:
            if score in entry:
                values.setdefault(entry["epoch"], []).append(entry[score])
    return {epoch: statistics.mean(values[epoch]) for epoch in sorted(values)}


def curve_section(column: Column, histories: HistoriesOfRuns) -> Section | None:
    """Return one score by epoch, with a line for each recipe; None where no run has it."""
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
    if not lines:
        return None

    epochs = range(1, last + 1)
    cells = []
    for name, means in rows:
        texts = [f"{means[epoch]:.3f}" if epoch in means else NO_VALUE for epoch in epochs]
        cells.append((name, *texts))
    table = Table(heading_and_numbers("recipe", *map(str, epochs)), tuple(cells))
    plots = []
    for start in range(0, len(lines), LINES_OF_PLOT):
        part = tuple(lines[start : start + LINES_OF_PLOT])
        plots.append(LinePlot(part, "epoch", f"{column.title}, dev", aspect=0.75))
    return Section(f"{column.title} by epoch", body=Figure(tuple(plots), table))


# --- the page -------------------------------------------------------------------------------------


def build_sections(scores: ScoresOfRuns, histories: HistoriesOfRuns) -> list[Section]:
    """Return the sections of the page: bars first, then a curve for each score."""
    sections = [bar_section(scores), Section("Scores by epoch", ABOUT_CURVES, level=2)]
    for column in COLUMNS:
        section = curve_section(column, histories)
        if section is not None:
            sections.append(section)
    return sections


def write_page(path: Path, records: Sequence[Record]) -> None:
    """Write the page of recorded runs, which begins with how they were measured."""
    about = Section("How the runs were measured", " ".join(describe(records)), level=2)
    write_html(path, "Recipes compared", [about, *build_sections(*by_recipe(records))])


def describe(records: Sequence[Record]) -> list[str]:
    """Return sentences on the data, the machines and the code of recorded runs."""
    sentences = [measured_on(records).replace("`", "")]
    reports = {report_of(record["recipe"]) for record in records if "cut" in record}
    for report in sorted(reports):
        sentences.append(f"The rows of {report.upper()}: {describe_cut(report)}")
    return sentences


def keep_trained(scores: Mapping[str, Any], trained: Sequence[str]) -> dict[str, Any]:
    """Return scores without those of tasks that were not trained."""
    return {name: value for name, value in scores.items() if name in ("epoch", *trained)}


def read_runs(path: Path) -> list[Record]:
    """Return the records of runs in a file, in the order of recipes.py.

    Of runs on the cut of the two reports, those of the recipes as they are now. Raises ValueError
    where there is no file, or where it holds no runs.
    """
    if not path.is_file():
        makes = f" This command makes it: {command_of(path)}" if path.parent == RECORDS else ""
        raise ValueError(f"{path}: there is no such file.{makes}")
    records = read_records(path)
    if records and "cut" in records[0]:
        # The same runs as in the tables of the reports.
        records = list(itertools.chain.from_iterable(runs_by_recipe(records).values()))
    if not records or "epochs" not in records[0]:
        raise ValueError(f"{path} holds no runs, so there is nothing to draw.")
    rank = {name: number for number, name in enumerate(RECIPES)}
    return sorted(records, key=lambda record: rank.get(record["recipe"], len(rank)))


def by_recipe(
    records: Sequence[Record],
) -> tuple[dict[str, list[Scores]], dict[str, list[History]]]:
    """Return the scores and the histories of recorded runs, by recipe."""
    scores: dict[str, list[Scores]] = {}
    histories: dict[str, list[History]] = {}
    for record in records:
        name, trained = record["recipe"], record["trained"]
        scores.setdefault(name, []).append(keep_trained(record["scores"], trained))
        history = [keep_trained(entry, trained) for entry in record["epochs"]]
        histories.setdefault(name, []).append(history)
    return scores, histories


def records_path(name: str) -> Path:
    """Return the file of records with this name. A path that ends in .jsonl stands for itself."""
    return Path(name) if name.endswith(".jsonl") else RECORDS / f"{name}.jsonl"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m experiments.figures",
        description="Write a page with curves and bars of recorded runs.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="of a file in experiments/records/, or the path of a .jsonl file",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="PAGE", help="the HTML page to write"
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    return parser


@exit_code("python -m experiments.figures")
def main(argv: Sequence[str] | None = None) -> int:
    """Write the page."""
    arguments = build_parser().parse_args(argv)
    output = Output("--out", arguments.out, begins_with(PAGE_START))
    check_outputs([output], overwrite=arguments.overwrite)
    write_page(arguments.out, read_runs(records_path(arguments.name)))
    print(f"{arguments.out}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
