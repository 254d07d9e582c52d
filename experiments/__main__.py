"""Run recipes over several seeds and compare them: `python -m experiments NAME... --seeds 0,1,2`.

Each run is `run_multitask.py --recipe NAME --seed SEED` in a process of its own. Its folder is
OUT/NAME-seedSEED, and its output goes to OUT/NAME-seedSEED.log. All runs get the flags of --with.

A finished run is not run again, and an interrupted one continues. So the same command continues a
series that was stopped.

At the end the command prints mean and standard deviation of the dev scores beside the published
ones. It writes the same tables to OUT/ablation.md, and curves and bars to OUT/ablation.html.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from experiments.checks import check_same, check_series, find_doubts
from experiments.figures import History, keep_trained, write_page
from experiments.recipes import published_tasks, values_of
from experiments.records import RECORDS, add_records, record_of
from experiments.run_files import (
    Scores,
    dev_scores,
    read_record,
    stage_records,
    train_scores,
)
from experiments.series import Series, parse_seeds, run_process
from experiments.tables import build_score_table, build_stage_table, build_train_table
from minbert.commands.ending import exit_code
from minbert.commands.files import write_text
from minbert.commands.flags import Parser
from minbert.commands.outputs import PAGE_START, Output, begins_with, check_outputs
from minbert.reporting import terminal
from minbert.training.code_version import code_version

# Flags of run_multitask.py that this command sets itself.
SET_FLAGS = ("--recipe", "--seed", "--name", "--output-dir", "--output_dir", "--resume")


@dataclass
class Results:
    """What the finished runs of a series say.

    scores: by recipe, the dev scores of its runs, seed by seed.
    histories: by recipe, the dev scores after each epoch of its runs.
    train: by recipe, the scores on training rows, of runs with --score_train.
    stages: by recipe and stage of --pretrain, the records of that stage.
    """

    scores: dict[str, list[Scores]] = field(default_factory=dict)
    histories: dict[str, list[History]] = field(default_factory=dict)
    train: dict[str, list[Scores]] = field(default_factory=dict)
    stages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, name: str, folder: Path, record: dict[str, Any]) -> None:
        """Add one finished run of a recipe."""
        trained = list(dev_scores(record))
        self.scores.setdefault(name, []).append(dev_scores(record, published_tasks(name)))
        history = [keep_trained(entry, trained) for entry in record.get("epochs", [])]
        self.histories.setdefault(name, []).append(history)
        if train_scores(record):
            self.train.setdefault(name, []).append(train_scores(record))
        for stage, stage_record in stage_records(folder, record).items():
            self.stages.setdefault(f"{name}: {stage}", []).append(stage_record)


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m experiments",
        description="Run recipes over several seeds and compare them.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="recipes, see run_multitask.py --list-recipes"
    )
    parser.add_argument(
        "--seeds", default="0,1,2", help="separated by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/ablation"),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="NAME",
        help="one of the recipes: the table gets a column with the differences from it, seed by "
        "seed",
    )
    parser.add_argument(
        "--record",
        default="",
        metavar="NAME",
        help="add each finished run to experiments/records/NAME.jsonl",
    )
    parser.add_argument(
        "--with",
        default="",
        dest="flags",
        metavar="'FLAGS'",
        help="flags for every run, in quotes and after an equals sign: "
        "--with='--model minilm --epochs 2'",
    )
    return parser


class Request(NamedTuple):
    """What a command line asks for.

    against: the recipe of --against; "": none. records: the file of --record, or None.
    """

    series: Series
    against: str
    records: Path | None


def parse(argv: Sequence[str] | None) -> Request:
    """Return what the command line asks for.

    A wrong argument ends the program with exit code 2 and a message.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        flags = shlex.split(arguments.flags)
        for name in arguments.names:
            values_of(name)
        seeds = parse_seeds(arguments.seeds)
    except ValueError as error:
        parser.error(str(error))
    series = Series(tuple(arguments.names), seeds, arguments.out, tuple(flags))

    problem = find_problem(series, arguments.against)
    if problem:
        parser.error(problem)
    name = arguments.record
    if name and not re.fullmatch(r"[\w-]+", name):
        parser.error(f"--record is '{name}'; it is a name of letters, digits, - and _.")
    return Request(series, arguments.against, RECORDS / f"{name}.jsonl" if name else None)


def find_problem(series: Series, against: str) -> str:
    """Return what is wrong with a series and what to do, or "" where it can be run."""
    repeated = [name for name in series.names if series.names.count(name) > 1]
    if repeated:
        return f"{repeated[0]} is given twice, and would count twice. Name each recipe once."
    if against not in ("", *series.names):
        return f"--against is {against}, which is not among the recipes to run; add it to them."
    taken = [flag for flag in series.flags if flag.split("=")[0] in SET_FLAGS]
    if taken:
        return f"{taken[0]} is set by this command itself; drop it from --with."
    return ""


def finish_run(series: Series, name: str, seed: int, log: Callable[[str], None]) -> int:
    """Bring one run to its end and return its exit code; 0 where it was finished before.

    log: is told which run begins. Raises ValueError where the finished run does not belong to the
    series.
    """
    command = series.command(name, seed)
    if command is None:
        return 0
    folder = series.folder(name, seed)
    output = folder.with_name(f"{folder.name}.log")
    log(f"{folder}: running, its output in {output}")
    terminal.doing(f"{folder} is running")
    code = run_process(command, output)
    terminal.doing(f"reading {folder}")
    if code == 0:
        check_same(name, series.folders(name), series.flags)
    return code


def describe_failure(folder: Path, code: int) -> str:
    """Return the message about a run that ended with another exit code than 0."""
    # 1 is a diverged loss and 2 a wrong input: the same command would fail in the same way.
    is_refused = code in (1, 2)
    advice = "Mend what it names first" if is_refused else "The same command goes on from here"
    return f"{folder}: ended with code {code}; its message is above. {advice}."


@exit_code("python -m experiments", "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all runs are finished, else that of the run that failed."""
    request = parse(argv)
    check_series(request.series)
    path = table_path(request.series)
    tables = Output("--out", path, begins_with("| recipe |"))
    page = Output("--out", path.with_suffix(".html"), begins_with(PAGE_START))
    check_outputs([tables, page])
    # In a terminal each run shows its own bar. In a log it has its own file.
    with terminal.session("reading the runs", has_bar=False):
        return run_series(*request)


def table_path(series: Series) -> Path:
    """The file of the tables. The page with the curves stands beside it."""
    return series.out / "ablation.md"


def run_series(series: Series, against: str, records: Path | None) -> int:
    """Run what is missing and print the tables. Arguments as of Request."""
    code_now = code_version()
    results = Results()

    # Seed by seed, so that a series that is stopped has something of every recipe.
    for seed in series.seeds:
        for name in series.names:
            folder = series.folder(name, seed)
            code = finish_run(series, name, seed, terminal.say)
            if code:
                terminal.complain(describe_failure(folder, code))
                return code
            record = read_record(folder)
            results.add(name, folder, record)
            scores = results.scores[name][-1]
            listed = ", ".join(f"{score} {value:.4f}" for score, value in scores.items())
            terminal.say(f"{folder}: {listed}")
            terminal.say(*find_doubts(series, name, folder, record, code_now))
            if records is not None:
                add_records(records, [record_of(record, date.today())])

    text = build_score_table(results.scores, against)
    if results.train:
        text += f"\n\n{build_train_table(results.train)}"
    if results.stages:
        text += f"\n\n{build_stage_table(results.stages)}"
    path = table_path(series)
    write_text(path, text + "\n")
    page = path.with_suffix(".html")
    terminal.doing("drawing the curves")
    write_page(page, results.scores, results.histories)
    terminal.say(
        f"\n{text}\n\nmean ± standard deviation over seeds, in brackets the published figure; also "
        f"in {path}, and with curves and bars in {page}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
