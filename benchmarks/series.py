"""A series of runs that goes on where it was stopped, one line of JSON a run in a file that is added to; its means."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from command_line.options import Options
from data.readers import Table
from multitask.stage import read_tables


def course_tables(
    parser: argparse.ArgumentParser, data_dir: str, train_rows: str = "none"
) -> dict[str, dict[str, Table]]:
    """The nine files of a folder as tables[task][split]; ends with a message of `parser` where one cannot be used."""
    try:
        return read_tables(Options(data_dir=data_dir, train_rows=train_rows).with_files())
    except ValueError as error:
        parser.error(str(error))


def shown_mean(values: Sequence[float]) -> str:
    """Mean ± standard deviation with four digits; of a single value that alone, of none "-"."""
    deviation = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}" if values else "-"


def go_on(path: Path, todo: Iterable[dict], run: Callable[..., dict]) -> list[dict]:
    """`run(**identity)` for each identity of `todo` that no line of `path` has; returns all lines.

    What a run returns has to hold its identity. A line is written as soon as it is there.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    for identity in todo:
        if not any(identity.items() <= line.items() for line in lines):
            lines.append(run(**identity))
            with open(path, "a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
            print(json.dumps(lines[-1]), flush=True)
    return lines
