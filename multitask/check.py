"""Leaderboard files of any origin, scored (dev) or verified (test): `python -m multitask.check FILE...`.

The task is told by a file's header, the rows it is for by its ids. Before: predictions.py, which reads as strictly.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from data.readers import COURSE_FILES, Table, read_examples
from multitask.prediction_files import (
    find_task,
    read_predictions,
    score_predictions,
    verify_predictions,
)
from multitask.tasks import TASKS, Task, overall_2023, overall_2024

SAMPLE_DIR = Path(__file__).parent.parent / "data" / "sample"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files named on the command line; returns the exit code, 2 if one of them was refused."""
    parser = argparse.ArgumentParser(
        prog="python -m multitask.check",
        allow_abbrev=False,
        description="Score (dev) or verify (test) prediction files.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="prediction file of any task, told by its header"
    )
    parser.add_argument(
        "--gold",
        help="labelled file to score against; default: the one of --data-dir with these ids",
    )
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
    options = parser.parse_args(arguments)
    scores, num_refused = {}, 0
    for file in options.files:
        try:
            task = find_task(file)
            split, table = _find_table(file, task, options)
            if split == "test":
                verify_predictions(file, task, [example.id for example in table.examples])
                result = "every id once, no labels to score against"
            else:
                score = score_predictions(file, task, table)
                scores.setdefault(task.name, []).append(score)
                result = f"{task.metric} {score:.4f}"
            dropped = (
                f" ({len(table.dropped)} rows of {table.path} dropped)" if table.dropped else ""
            )
            print(f"{file}: {task.title} {split}, {len(table.examples):,} rows{dropped}, {result}")
        except ValueError as error:
            num_refused += 1
            print(f"refused: {error}", file=sys.stderr)
    if scores.keys() == TASKS.keys() and all(len(of_task) == 1 for of_task in scores.values()):
        of_task = {name: score for name, (score,) in scores.items()}
        print(
            f"overall 2023: {overall_2023(of_task):.4f}, overall 2024: {overall_2024(of_task):.4f}"
        )
    return 2 if num_refused else 0


def _find_table(file: str, task: Task, options: argparse.Namespace) -> tuple[str, Table]:
    """The rows a prediction file is for: those of --gold, or of the split with which it shares the most ids."""
    if options.gold:
        return "gold", read_examples(options.gold, task.format, drop_bad_rows=options.drop_bad_rows)
    ids = read_predictions(file, task).keys()
    tables = {
        split: read_examples(
            options.data_dir / COURSE_FILES[task.name][split],
            task.format,
            labelled=split == "dev",
            drop_bad_rows=options.drop_bad_rows,
        )
        for split in ("dev", "test")
    }
    shared = {
        split: len(ids & {example.id for example in table.examples})
        for split, table in tables.items()
    }
    split = max(shared, key=shared.get)
    if not shared[split]:
        raise ValueError(
            f"{file}: none of its {len(ids)} ids is in the {task.title} dev or test file of "
            f"{options.data_dir}. Pass the folder it was predicted from as --data-dir."
        )
    return split, tables[split]


if __name__ == "__main__":
    sys.exit(main())
