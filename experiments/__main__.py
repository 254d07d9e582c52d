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
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from command_line.course_flags import translate
from experiments import papers
from experiments.checks import check_same, check_series, find_doubts
from experiments.comparable import check_fits, check_new
from experiments.controls import METHODS, check_flags, check_methods, check_sample
from experiments.figures import bar_plot
from experiments.flags import parse_flags
from experiments.recipes import COMPARISONS, RECIPES, values_of
from experiments.records import COMMANDS, RECORDS, add_records, read_records, record_of
from experiments.results import Results
from experiments.run_files import read_record
from experiments.series import Arm, Series, advice_after, parse_seeds, run_process
from experiments.tables import CSV_START, LATEX_START, build_csv, build_latex
from minbert.commands.ending import exit_code
from minbert.commands.files import write_text
from minbert.commands.flags import parse_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import PAGE_START, Output, begins_with, check_outputs
from minbert.reporting import terminal
from minbert.reporting.images import write_pdf
from minbert.reporting.pages import write_html
from minbert.training.code_version import code_version

# Flags of run_multitask.py that this command sets itself.
REPEATED_FLAGS = {"task", "plugin"}  # of run_multitask.py, which may be given several times
SET_FLAGS = ("--recipe", "--seed", "--name", "--output-dir", "--output_dir", "--resume")


PROGRAM = "python -m experiments"


@dataclass(frozen=True)
class ExperimentsOptions(CommandOptions):
    """The command line of this command."""

    names: tuple[str, ...] = positional(
        "NAME...", "recipes, see run_multitask.py --list-recipes", is_required=False
    )
    arm: tuple[str, ...] = argument(
        (),
        "a row of your own, by a name and the flags of its runs, such as "
        "--arm 'simcse=--pretrain simcse'. The flag may be given several times. NAME= has no flags "
        "of its own",
        "NAME=FLAGS",
    )
    seeds: str = argument("0,1,2", "separated by commas")
    out: Path = argument(Path("runs/ablation"), "folder of all runs", "DIR")
    against: str | None = argument(
        None,
        "one of the recipes or arms: a second table has the differences from it, task by task and "
        "seed by seed",
        "NAME",
    )
    record: str | None = argument(
        None, "add each finished run to experiments/records/NAME.jsonl", "NAME"
    )
    with_: str = argument(
        "",
        "flags for every run, in quotes and after an equals sign: --with='--model minilm "
        "--epochs 2'",
        "'FLAGS'",
    )


class Request(NamedTuple):
    """What a command line asks for.

    against: the recipe of --against; "": none. records: the file of --record, or None.
    """

    series: Series
    against: str
    records: Path | None


def parse(argv: Sequence[str] | None) -> Request:
    """Return what the command line asks for. ValueError for what cannot be run."""
    description = "Run recipes over several seeds and compare them."
    options = parse_command(ExperimentsOptions, PROGRAM, description, argv)
    # A run translates the flags of a course. Its options have the names of our flags.
    flags = translate(shlex.split(options.with_))
    for name in options.names:
        values_of(name)
    arms = tuple(parse_arm(text) for text in options.arm)
    names = (*options.names, *(arm.name for arm in arms))
    series = Series(names, parse_seeds(options.seeds), options.out, tuple(flags), arms)
    records = path_of_records(options.record or "", series)
    against = options.against or ""
    problem = find_problem(series, against)
    if problem:
        raise ValueError(problem)
    return Request(series, against, records)


def parse_arm(text: str) -> Arm:
    """Return the arm in a value of --arm. ValueError for a name that a folder cannot have."""
    name, equals, flags = text.partition("=")
    if not equals or not re.fullmatch(r"[\w-]+", name, re.ASCII):
        raise ValueError(
            f"--arm is '{text}'; it is a name of letters, digits, - and _, then = and flags, such "
            "as simcse='--pretrain simcse'."
        )
    if name in RECIPES or name in COMPARISONS:
        raise ValueError(f"--arm {name}: a recipe has this name. Choose another one.")
    return Arm(name, tuple(translate(shlex.split(flags))))


def path_of_records(name: str, series: Series) -> Path | None:
    """Return the file of --record NAME, or None for no name.

    Raises ValueError where the runs of the series do not belong into this file.
    """
    if not name:
        return None
    if series.arms:
        raise ValueError("--record is for recipes, which others can run again. Drop --arm.")
    if not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"--record is '{name}'; it is a name of letters, digits, - and _.")
    if name in COMMANDS:
        raise ValueError(
            f"--record is {name}, a file that another command writes: {COMMANDS[name]}. Choose "
            "another name."
        )
    path = RECORDS / f"{name}.jsonl"
    known = read_records(path)
    # Other commands that take a name may have made the file.
    if any("recipe" not in record for record in known):
        raise ValueError(f"{path} holds records that are no runs of a recipe. Choose another name.")
    if name == METHODS.stem:
        check_flags(series)
        check_sample(known)
    check_fits(series, path, known)
    return path


def find_problem(series: Series, against: str) -> str:
    """Return what is wrong with a series and what to do, or "" where it can be run."""
    if not series.names:
        return "no recipe is named, and no --arm. Name one at least."
    repeated = [name for name in series.names if series.names.count(name) > 1]
    if repeated:
        return f"{repeated[0]} is given twice, and would count twice. Name each recipe once."
    if against not in ("", *series.names):
        return f"--against is {against}, which is not among the recipes to run; add it to them."
    for place, flags in (("--with", series.flags), *series.arms):
        taken = [flag for flag in flags if flag.split("=")[0] in SET_FLAGS]
        if taken:
            return f"{taken[0]} is set by this command itself; drop it from {place}."
    for arm in series.arms:
        twice = parse_flags(arm.flags).keys() & parse_flags(series.flags).keys() - REPEATED_FLAGS
        if twice:
            return f"--{min(twice)} stands in --with and in --arm {arm.name}. Drop one of the two."
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
        check_same(series.recipe_of(name), series.folders(name), series.flags_of(name))
    return code


@exit_code(PROGRAM, "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all runs are finished, else that of the run that failed.

    The rows of the three papers have a command of their own, which takes over here.
    """
    words = sys.argv[1:] if argv is None else argv
    if papers.is_for_papers(words):
        return papers.main(words)
    request = parse(argv)
    check_series(request.series)
    path = table_path(request.series)
    tables = Output("--out", path, begins_with("| recipe", "| arm |"))
    page = Output("--out", path.with_suffix(".html"), begins_with(PAGE_START))
    rows = Output("--out", path.with_suffix(".csv"), begins_with(CSV_START))
    latex = Output("--out", path.with_suffix(".tex"), begins_with(LATEX_START))
    figure = Output("--out", path.with_suffix(".pdf"), begins_with("%PDF"))
    check_outputs([tables, page, rows, latex, figure], overwrite=None)
    # In a terminal each run shows its own bar. In a log it has its own file.
    with terminal.session("reading the runs", has_bar=False):
        return run_series(*request)


def table_path(series: Series) -> Path:
    """The file of the tables. The page with the curves stands beside it."""
    return series.out / "ablation.md"


def add_record(path: Path, run: dict[str, Any]) -> None:
    """Add the record of a finished run to a file.

    run: the content of its run.json. Raises ValueError where it does not fit the records there.
    """
    record = record_of(run, date.today())
    known = read_records(path)
    # Only now is it known what the run has read, and what it put in place of "auto".
    check_new(path, known, record)
    if path.stem == METHODS.stem:
        check_methods([*known, record])
    add_records(path, [record])


def run_series(series: Series, against: str, records: Path | None) -> int:
    """Run what is missing and print the tables. Arguments as of Request."""
    code_now = code_version()
    results = Results(series, against)

    # Seed by seed, so that a series that is stopped has something of every recipe.
    for seed in series.seeds:
        for name in series.names:
            folder = series.folder(name, seed)
            code = finish_run(series, name, seed, terminal.say)
            if code:
                terminal.complain(
                    f"{folder}: ended with code {code}; its message is above. {advice_after(code)}"
                )
                return code
            record = read_record(folder)
            results.add(name, folder, record)
            scores = results.scores[name][-1]
            listed = ", ".join(f"{score} {value:.4f}" for score, value in scores.items())
            terminal.say(f"{folder}: {listed}")
            terminal.say(*find_doubts(series, name, folder, record, code_now))
            # At once, so that a series that is stopped keeps what it has measured.
            if records is not None:
                add_record(records, record)

    tables = results.tables()
    conditions = results.conditions()
    path = table_path(series)
    text = "\n\n".join([*tables, *results.notes(), " ".join(conditions)])
    write_text(path, text + "\n")
    page = path.with_suffix(".html")
    terminal.doing("drawing the curves")
    write_html(page, "Recipes compared", results.sections())
    write_text(path.with_suffix(".csv"), build_csv(results.scores, series.seeds, results.metrics))
    write_text(
        path.with_suffix(".tex"),
        build_latex(results.scores, against, results.labels, results.baselines),
    )
    write_pdf(path.with_suffix(".pdf"), [bar_plot(results.scores, results.labels)])
    files = (
        f"These tables are also in {path}, and curves and bars in {page}. Beside them stand "
        "ablation.csv with each score, ablation.tex for LaTeX, and the bars as ablation.pdf."
    )
    # The tables stand last, where a person looks first.
    paragraphs = ["\n".join([*conditions, files]), *results.notes(), *tables]
    terminal.say("\n" + "\n\n".join(paragraphs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
