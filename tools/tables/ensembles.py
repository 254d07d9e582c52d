"""Records finished ensembles: `python -m tools.tables.ensembles DIR...`.

DIR is the --out of a `python -m multitask.ensemble`. A row of the table holds the ensembles that
were recorded with one --title: one each, or several that share no run. Only several say how much
the scores depend on the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from experiments.records import (
    RECORDS,
    Record,
    add_records,
    as_read,
    check_file,
    group_by,
    group_records,
    newest_of,
    read_records,
    record_of,
)
from experiments.results import join
from experiments.run_files import read_json
from experiments.run_files import read_record as read_run
from experiments.tables import COLUMNS, OVERALL
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.options import NONE

ENSEMBLES = RECORDS / "course-ensembles.jsonl"
# The rows of ensemble.json that are compared. Those in sample flatter, so they are left out.
ROWS = ("best, out of fold", "average", "weighted, out of fold")
# Files with the rows on which ensembles are scored, by the option that names them.
DEV_FILES = tuple(f"{column.score}_dev" for column in COLUMNS if column.score != OVERALL)
# What a record keeps of each run.
KEPT = ("command", "seed", "options", "data", "scores", "machine", "versions", "code")


def record_ensemble(folder: Path, title: str, day: date) -> Record:
    """Return the record of a finished ensemble.

    folder: with its ensemble.json, which names the folders of its runs. title: of its row. The
    record holds the dev scores of the ensemble's methods, and seed, options, scores and machine of
    each run. Raises ValueError where a file is missing or damaged.
    """
    if not (folder / "ensemble.json").is_file():
        raise ValueError(
            f"{folder} has no ensemble.json. Give the --out of a finished "
            "`python -m multitask.ensemble`."
        )
    content = read_json(folder / "ensemble.json", "dev_scores")
    scores = {row: content["dev_scores"].get(row, {}) for row in ROWS}
    lacking = [row for row in ROWS if OVERALL not in scores[row]]
    if lacking or "runs" not in content:
        raise ValueError(
            f"{folder} has no {OVERALL} score of {join(lacking)}. The table compares ensembles of "
            "all three tasks."
        )
    runs = read_members(folder, content["runs"])
    kept = []
    for run in runs:
        record = record_of(run, day)
        kept.append({name: record[name] for name in KEPT})
    return {
        "title": title,
        "folds": [content["num_folds"], content["seed"]],
        "dev_files": dev_files(runs),
        "scores": scores,
        "runs": kept,
        "date": day.isoformat(),
    }


def read_members(folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the run.json of each run of an ensemble.

    folder: of the ensemble. names: the folders of its runs. Raises ValueError for one that is gone.
    """
    runs = []
    for name in names:
        if not (Path(name) / "run.json").is_file():
            raise ValueError(
                f"{name} has no run.json, and {folder / 'ensemble.json'} names it as a run. Bring "
                "it back, or start this command in the folder where the ensemble was made."
            )
        runs.append(read_run(Path(name)))
    return runs


def dev_files(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what tells dev rows apart: their files' SHA-256 by option, and --dev-rows.

    runs: the content of run.json of each.
    """
    files = {}
    for run in runs:
        files["dev_rows"] = str(run["options"].get("dev_rows", NONE))
        for option in DEV_FILES:
            path = run["options"].get(option)
            if path in run["files"]:
                files[option] = run["files"][path]
    return files


def check_title(title: str) -> None:
    """Raise ValueError for a title that is no cell of a Markdown table."""
    if not title.strip() or not title.isprintable() or set(title) & set("|<>`"):
        raise ValueError(
            f"--title {title!r} cannot be the cell of a table. Name the ensemble in plain words, "
            "without line breaks and without | < > `."
        )


def check_table(records: Sequence[Record]) -> None:
    """Raise ValueError where ensembles cannot stand in one table.

    All are scored on the same dev rows, with the same folds, and each has one title. For those of
    a row see `check_row`.
    """
    for name, words in (("dev_files", "other dev rows"), ("folds", "other folds")):
        for other in records[1:]:
            if other[name] != records[0][name]:
                raise ValueError(
                    f"the ensemble {other['title']!r} was scored with {words} than "
                    f"{records[0]['title']!r}. Give --records another file."
                )
    for group in group_by(records, lambda record: str(record["runs"])).values():
        if len(group) > 1:
            titles = join(f"{record['title']!r}" for record in group)
            raise ValueError(
                f"an ensemble has the titles {titles}. It counts once: use its first title, or "
                "remove its first line from the file of records."
            )
    for title, group in group_records(records, "title").items():
        check_row(title, group)


def check_row(title: str, records: Sequence[Record]) -> None:
    """Raise ValueError where ensembles cannot stand in one row.

    They have the same number of runs and share none: they would be no two samples.
    """
    if len({len(record["runs"]) for record in records}) > 1:
        raise ValueError(
            f"the ensembles of {title!r} have different numbers of runs. Give one of them another "
            "--title."
        )
    seen: list[object] = []
    for record in records:
        for run in record["runs"]:
            key = (run["seed"], run["options"], run["data"], run["scores"])
            if key in seen:
                raise ValueError(
                    f"two ensembles of {title!r} share a run, which has the seed {run['seed']}. "
                    "Give one of them another --title."
                )
            seen.append(key)


def distinct(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of an ensemble that was recorded again later."""
    return newest_of(records, lambda record: (record["title"], str(record["runs"])))


@exit_code("python -m tools.tables.ensembles")
def main(argv: Sequence[str] | None = None) -> int:
    """Add the records of ensembles. Raises ValueError where one of them cannot be read."""
    parser = Parser(
        prog="python -m tools.tables.ensembles",
        description="Record finished ensembles for the table in docs/results/methods.md.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="--out of a multitask.ensemble"
    )
    parser.add_argument("--title", required=True, help="of the table's row")
    parser.add_argument(
        "--records", type=Path, default=ENSEMBLES, metavar="FILE", help="default: %(default)s"
    )
    options: argparse.Namespace = parser.parse_args(argv)
    check_title(options.title)
    check_file(options.records, "title", "ensembles")
    records = [record_ensemble(folder, options.title, date.today()) for folder in options.folders]
    # Refused before anything is written.
    known = read_records(options.records)
    check_table(distinct([*known, *map(as_read, records)]))
    print(f"{add_records(options.records, records)} new records in {options.records}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
