"""Measures the rows of the two course reports: `python -m tools.tables.reports rob --data-dir DIR`.

Every recipe is run on the same cut of the course's data (cut.py) with every seed, all seeds of a
recipe before the next one. The record of a run is added to experiments/records/reports.jsonl as
soon as the run is finished. Then its folder is removed, because its weights are large.

Two rows with the same options are one run, which is recorded for both. A run that has a record on
this cut is not run again, and an interrupted one continues. So the same command continues a series
that was stopped. Several of these commands may share one --out: each takes the next run that nobody
works on.

--records names another file for the records. A new file holds none, so everything is measured.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from filelock import Timeout

from experiments.recipes import (
    GEN_RECIPES,
    POOLED_RECIPES,
    RECIPES,
    ROB_RECIPES,
)
from experiments.records import (
    Record,
    add_records,
    check_file,
    read_records,
    record_of,
)
from experiments.run_files import read_json, read_record
from experiments.series import Series, parse_seeds, run_process
from minbert.commands.ending import FAILS_AGAIN, exit_code
from minbert.commands.flags import Parser
from minbert.commands.locks import locked
from minbert.reporting import terminal
from tools.tables.cut import (
    REPORTS,
    Digests,
    differences,
    flags_of,
    is_current,
    needs_triplets,
    values_on_cut,
    write_cut,
)

GROUPS = {"rob": [*ROB_RECIPES, *POOLED_RECIPES], "gen": list(GEN_RECIPES)}


class Request(NamedTuple):
    """What a command line asks for. cut: the digests of the cut, which is written by now."""

    names: list[str]
    seeds: list[int]
    out: Path
    records: Path
    cut: Digests
    is_kept: bool


# --- the command line -----------------------------------------------------------------------------


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m tools.tables.reports",
        description="Measure the rows of the two course reports on a fixed cut of the data.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="recipes, or rob or gen: all rows")
    parser.add_argument(
        "--data-dir",
        "--data_dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with the course's nine files",
    )
    parser.add_argument(
        "--nli", type=Path, metavar="FILE", help="triplets, for the recipes that read them"
    )
    parser.add_argument(
        "--seeds", default="0,1,2", help="separated by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/reports"),
        metavar="DIR",
        help="folder of the cut and of the unfinished runs (default: %(default)s)",
    )
    parser.add_argument(
        "--records",
        type=Path,
        default=REPORTS,
        metavar="FILE",
        help="file of the records (default: experiments/records/reports.jsonl, from which the "
        "tables of the documents are written)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folders of finished runs, with their weights"
    )
    return parser


def parse(argv: Sequence[str] | None) -> Request:
    """Return what the command line asks for, and write the cut.

    A wrong argument ends the program with exit code 2 and a message.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    # A run starts in a process of its own, and gets whole paths.
    out = arguments.out.resolve()
    try:
        names = expand(arguments.names)
        check_file(arguments.records, "cut", "rows of the reports")
        check_triplets(names, arguments.nli)
        seeds = parse_seeds(arguments.seeds)
        cut = write_cut(arguments.data_dir, arguments.nli, out / "data")
    except ValueError as error:
        parser.error(str(error))
    return Request(names, list(seeds), out, arguments.records.resolve(), cut, arguments.keep)


def expand(names: Iterable[str]) -> list[str]:
    """Return the recipes behind names and groups, each once, in the order of the request.

    Raises ValueError for a name that is no published recipe.
    """
    expanded: list[str] = []
    for name in names:
        if name not in GROUPS and name not in RECIPES:
            similar = get_close_matches(name, [*GROUPS, *RECIPES], n=1)
            hint = f"Did you mean {similar[0]}? " if similar else ""
            raise ValueError(
                f"'{name}' is no row of a report. {hint}Name {', '.join(GROUPS)} or a published "
                "recipe of run_multitask.py --list-recipes."
            )
        expanded += GROUPS.get(name, [name])
    return list(dict.fromkeys(expanded))


def check_triplets(names: Iterable[str], triplets: Path | None) -> None:
    """Raise ValueError where a recipe reads triplets and there is no file of them."""
    for name in names:
        if triplets is None and needs_triplets(name):
            raise ValueError(f"{name} reads triplets; add --nli FILE, or leave this recipe out.")


# --- the runs -------------------------------------------------------------------------------------


def cut_of(request: Request, name: str) -> dict[str, str]:
    """Return the digests of what a recipe reads of the cut, as its record holds them."""
    read = {"cut": request.cut.course}
    if needs_triplets(name) and request.cut.triplets is not None:
        read["triplets"] = request.cut.triplets
    return read


def find_record(request: Request, name: str, seed: int) -> Record | None:
    """Return the record of a run of this recipe and seed on this cut, or None."""
    wanted = {"recipe": name, "seed": seed, **cut_of(request, name)}
    for record in read_records(request.records):
        is_same = all(record.get(field) == value for field, value in wanted.items())
        if is_same and is_current(record):
            return record
    return None


def share_record(request: Request, name: str, seed: int) -> bool:
    """Record a run of another recipe with the same options for this one, too.

    The run would have the same bits. Returns whether there is such a run.
    """
    for other in RECIPES:
        if other == name or values_on_cut(other) != values_on_cut(name):
            continue
        record = find_record(request, other, seed)
        if record is not None:
            add_records(request.records, [record | {"recipe": name, "run_of": other}])
            terminal.say(f"{name}-seed{seed}: the same options as {other}, and so the same run")
            return True
    return False


def measure(request: Request, name: str, seed: int) -> int:
    """Bring one run to its end and record it. Returns the exit code of the run.

    Raises ValueError where the run was begun with other options.
    """
    series = Series((name,), (seed,), request.out, flags_of(name, request.out / "data"))
    folder = series.folder(name, seed)
    if (folder / "options.json").is_file():
        options = read_json(folder / "options.json", "options")["options"]
        changes = differences(name, options)
        if changes:
            raise ValueError(
                f"{folder} was begun with other options: {'; '.join(changes.values())}. Remove it."
            )

    command = series.command(name, seed)
    if command is not None:
        log = folder.with_name(f"{folder.name}.log")
        terminal.say(f"{folder.name}: running, its output and an estimate of its time in {log}")
        terminal.doing(f"{folder.name} is running")
        code = run_process(command, log)
        if code:
            return code

    record = record_of(read_record(folder), date.today()) | cut_of(request, name)
    add_records(request.records, [record])
    scores = ", ".join(f"{score} {value:.4f}" for score, value in record["scores"].items())
    terminal.say(f"{folder.name}: {record['minutes']} minutes, {scores}")
    if not request.is_kept:
        shutil.rmtree(folder)
    return 0


def run_all(request: Request) -> int:
    """Measure what has no record yet. Returns 0, or the exit code of a run that failed."""
    failure = 0
    for name in request.names:
        for seed in request.seeds:
            try:
                with locked(request.out / f"{name}-seed{seed}.lock", timeout=0):
                    if find_record(request, name, seed):
                        terminal.say(f"{name}-seed{seed}: has a record in {request.records}")
                        continue
                    if share_record(request, name, seed):
                        continue
                    code = measure(request, name, seed)
            except Timeout:
                terminal.say(f"{name}-seed{seed}: another process works on it")
                continue
            if code in FAILS_AGAIN:
                # The other rows do not depend on this one.
                failure = code
                log = request.out / f"{name}-seed{seed}.log"
                terminal.complain(
                    f"{name}-seed{seed}: failed with code {code}. Its message is above, and its "
                    f"output is in {log}."
                )
            elif code:
                terminal.complain(f"{name}-seed{seed}: stopped with code {code}.")
                return code
    return failure


@exit_code("python -m tools.tables.reports", "Stopped. The same command goes on from here.")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when no run failed, else that of one that did.

    A run that another process works on is left to it.
    """
    request = parse(argv)
    with terminal.session("reading the records", has_bar=False):
        return run_all(request)


if __name__ == "__main__":
    sys.exit(main())
