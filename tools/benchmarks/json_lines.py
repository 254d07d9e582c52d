"""A series of runs that continues where it was stopped, and the means of its scores.

Every run writes one line of JSON to a file. A run whose line is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from data.examples import Table
from data.options import DataOptions
from minbert.commands.files import write_text
from minbert.commands.outputs import Output, check_outputs
from multitask.rows import read_tables

Line = dict[str, Any]


def read_tables_or_exit(
    parser: argparse.ArgumentParser, data_dir: str, train_rows: str = "none"
) -> dict[str, dict[str, Table]]:
    """Return the nine files of a folder as tables[task][split].

    Ends the program with a message of `parser` where one of them cannot be used.
    """
    try:
        return read_tables(DataOptions(data_dir=data_dir, train_rows=train_rows).with_files())
    except ValueError as error:
        parser.error(str(error))


def add_data_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the folder with the data."""
    parser.add_argument("--data-dir", required=True, help="folder with the nine course files")


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the file with the lines."""
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="file of the results, a line of JSON each; is added to",
    )


def add_seeds_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the seeds."""
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])


def format_mean(values: Sequence[float]) -> str:
    """Return "mean ± standard deviation" with four digits.

    One value has no deviation. Without values the text is "-".
    """
    if not values:
        return "-"
    deviation = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}"


def check_lines(path: Path, names: Collection[str]) -> None:
    """Raise ValueError if results cannot or must not be added to a file.

    names: what each line of the command holds. A file with other lines belongs to somebody else.
    """

    def is_ours(path: Path) -> bool:
        with open(path, encoding="utf-8", errors="replace") as file:
            first = file.readline()
        try:
            return set(names) <= set(json.loads(first))
        except (ValueError, TypeError, RecursionError):
            return False

    check_outputs([Output("--out", path, is_ours)])


def has_identity(line: Line, identity: Line) -> bool:
    """Return whether a line is that of the run with this identity."""
    return identity.items() <= line.items()


def run_missing(path: Path, identities: Iterable[Line], run: Callable[..., Line]) -> list[Line]:
    """Call `run(**identity)` for each identity that no line of the file has. Return all lines.

    run: returns a line that holds its identity. It is written as soon as it is there.
    """
    lines: list[Line] = []
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        # A kill may have cut the last line short.
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            write_text(path, complete)
        lines = [json.loads(line) for line in complete.splitlines()]
    for identity in identities:
        if any(has_identity(line, identity) for line in lines):
            continue
        line = run(**identity)
        lines.append(line)
        text = json.dumps(line)
        # Appended at once: a series that is stopped loses no finished run.
        with open(path, "a") as file:
            file.write(text + "\n")
        print(text, flush=True)
    return lines
