"""Score (dev) or verify (test) leaderboard files: `python -m multitask.check FILE...`.

The files may come from anywhere. The header of a file tells its task. Its ids
tell which rows it is for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from data.columns import ColumnNames
from data.readers import BUILT_IN_FILES, Table, read_examples
from minbert.commands import streams
from minbert.commands.ending import exit_code
from minbert.commands.files import read_json
from minbert.commands.flags import Parser
from minbert.commands.texts import as_message
from multitask.prediction_files import (
    find_tasks,
    is_as_written,
    read_predictions,
    score_predictions,
    verify_predictions,
)
from multitask.tasks import TASKS, Task, overall_2023, overall_2024

COLUMN_FLAGS = {
    "--id": "ids (default: id)",
    "--text": "sentences, or first sentences (default: those of the course)",
    "--text-pair": "second sentences (default: sentence2)",
    "--label": "labels (default: those of the course)",
}
SAMPLE_DIR = Path(__file__).parent.parent / "data" / "sample"


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m multitask.check",
        allow_abbrev=False,
        description="Score (dev) or verify (test) prediction files.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="prediction file of any task, told by its header"
    )
    parser.add_argument(
        "--gold",
        help="labelled file to score against, in any format; default: the one of --data-dir with "
        "these ids",
    )
    for flag, what in COLUMN_FLAGS.items():
        parser.add_argument(flag, metavar="COLUMN", help=f"column of --gold with the {what}")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=SAMPLE_DIR,
        help="folder of the course's files (%(default)s)",
    )
    parser.add_argument(
        "--drop-bad-rows",
        action="store_true",
        help="skip and count malformed rows of labelled files",
    )
    return parser


@exit_code("python -m multitask.check")
def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files on the command line. Returns the exit code: 2 if one of them was refused."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if column_names(options).are_given and not options.gold:
        parser.error("--id, --text, --text-pair and --label name columns of --gold; pass it, too.")
    scores: dict[str, list[float]] = {}
    num_refused = 0
    for file in options.files:
        try:
            checked = check_file(file, options)
        except ValueError as error:
            # The other files may still be good.
            num_refused += 1
            streams.say(f"refused: {error}")
            continue
        print(as_message(checked.line))
        if checked.score is not None:
            scores.setdefault(checked.task.name, []).append(checked.score)

    # Both overall scores need exactly one dev file of each task.
    is_one_of_each = scores.keys() == TASKS.keys() and all(len(s) == 1 for s in scores.values())
    if is_one_of_each:
        by_task = {name: of_files[0] for name, of_files in scores.items()}
        first = f"overall 2023: {overall_2023(by_task):.4f}"
        print(f"{first}, overall 2024: {overall_2024(by_task):.4f}")
    return 2 if num_refused else 0


class Checked(NamedTuple):
    """The result of one file."""

    task: Task
    line: str  # for the user
    score: float | None  # None for a test file


def check_file(file: str, options: argparse.Namespace) -> Checked:
    """Score or verify one file. Raises ValueError if it is refused."""
    task, rows = find_rows(file, options)
    score = None
    if rows.split == "test":
        verify_predictions(file, task, [example.id for example in rows.table.examples])
        result = "every id once, no labels to score against"
    else:
        score = score_predictions(file, task, rows.table)
        result = f"{task.metric} {score:.4f}"

    num_dropped = len(rows.table.dropped)
    dropped = f" ({num_dropped} rows of {rows.table.path} dropped)" if num_dropped else ""
    num_rows = f"{len(rows.table.examples):,} rows{dropped}"
    line = f"{file}: {task.title} {rows.split}, {num_rows}, {result}{note_of_change(Path(file))}"
    return Checked(task, line, score)


def note_of_change(path: Path) -> str:
    """A note where a file in the folder of a run is not one that the run wrote."""
    record = path.absolute().parent.parent / "run.json"
    if path.absolute().parent.name != "predictions" or not record.is_file():
        return ""
    try:
        is_unchanged = is_as_written(path, read_json(record))
    except (OSError, ValueError, AttributeError):
        return f"; {record} cannot be read, so nobody knows whether the run wrote this file"
    return "" if is_unchanged else "; NOT as the run wrote it: it was edited or is damaged"


class SplitRows(NamedTuple):
    """The rows that a prediction file is for."""

    split: str  # "dev", "test", or "gold" of --gold
    table: Table


def find_rows(file: str, options: argparse.Namespace) -> tuple[Task, SplitRows]:
    """The task of a file and its rows: those of --gold, or of the split that shares most ids.

    SST and CFIMDB have the same header. Their ids, or the labels of --gold, tell which it is.
    """
    tasks = find_tasks(file)
    if options.gold:
        task = narrowest(file, tasks, options)
        return task, SplitRows("gold", read_gold(task, options))

    # The file may be of dev or of test. Count the ids that it shares with each.
    ids = read_predictions(file, tasks[0]).keys()
    candidates: list[tuple[int, Task, SplitRows]] = []
    for task in tasks:
        for split in ("dev", "test"):
            path = options.data_dir / BUILT_IN_FILES[task.name][split]
            # Few folders have CFIMDB.
            if task is not tasks[0] and not path.exists():
                continue
            table = read_examples(
                path, task.format, labelled=split == "dev", drop_bad_rows=options.drop_bad_rows
            )
            num_shared = len(ids & {example.id for example in table.examples})
            candidates.append((num_shared, task, SplitRows(split, table)))

    num_shared, task, rows = max(candidates, key=lambda candidate: candidate[0])
    if not num_shared:
        raise ValueError(
            f"{file}: none of its {len(ids)} ids is in the {task.title} dev or test file of "
            f"{options.data_dir}. Pass the folder it was predicted from as --data-dir."
        )
    return task, rows


def column_names(options: argparse.Namespace) -> ColumnNames:
    """The names of the columns of --gold that the user passed."""
    return ColumnNames(options.text, options.text_pair, options.label, options.id)


def read_gold(task: Task, options: argparse.Namespace) -> Table:
    """The rows of --gold as those of a task. Raises ValueError where they are not."""
    names = column_names(options)
    return read_examples(
        options.gold, task.format, drop_bad_rows=options.drop_bad_rows, names=names
    )


def narrowest(file: str, tasks: list[Task], options: argparse.Namespace) -> Task:
    """The task with the fewest classes that the labels of --gold and the predictions allow."""
    for task in sorted(tasks, key=lambda task: task.num_outputs)[:-1]:
        try:
            read_predictions(file, task)
            read_gold(task, options)
        except ValueError:
            continue
        return task
    return max(tasks, key=lambda task: task.num_outputs)


if __name__ == "__main__":
    sys.exit(main())
