"""A page with curves and bars of recorded runs: `python -m tools.tables.figures NAME --out PAGE`.

NAME is a file of experiments/records/, as `python -m experiments --record NAME` writes it, or the
path of a file that `python -m tools.tables.reports --records FILE` wrote. `python -m experiments`
writes the same page for its own runs, to OUT/ablation.html.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.figures import History, build_sections, keep_trained
from experiments.recipes import RECIPES
from experiments.records import RECORDS, Record, command_of, read_records
from experiments.run_files import Scores
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
from minbert.reporting.pages import Section, write_html
from tools.tables.conditions import measured_on
from tools.tables.cut import describe_cut, report_of
from tools.tables.report_rows import runs_by_recipe


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
        prog="python -m tools.tables.figures",
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


@exit_code("python -m tools.tables.figures")
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
