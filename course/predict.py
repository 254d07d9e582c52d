"""Predict other data with a finished run, as leaderboard files: `python -m course.predict RUN`.

A run writes the files of a leaderboard for the data that it was trained with. This command writes
them for other data files without training again: for all dev rows after a run with --dev-rows, or
for the course's files after a trial with others.

Next: submit.py, which verifies the files and writes the zip.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from data.examples import BUILT_IN_FILES, Table
from data.readers import read_examples
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    Output,
    begins_with,
    check_outputs,
)
from minbert.reporting import terminal
from multitask.evaluation import predict
from multitask.leaderboard import PREDICTED, Paths, default_paths, to_predictions, write_file
from multitask.prediction_files import score_predictions
from multitask.rows import Tables, encode_tables
from multitask.saved_run import Record, can_answer, open_model, read_record
from multitask.tasks import Task, Tasks


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m course.predict",
        description="Predict other data with a finished run, and write the files of a leaderboard.",
        epilog="course.submit takes the folder of --out together with --data-dir.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--data-dir",
        "--data_dir",
        type=Path,
        metavar="DIR",
        help="folder of the dev and test files (default: those of the run, with all their rows)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="the files are DIR/predictions/TASK-SPLIT-output.csv",
    )
    parser.add_argument(
        "--drop-bad-rows",
        "--drop_bad_rows",
        action="store_true",
        help="skip malformed dev rows, as the run did if it had this flag",
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    return parser


@exit_code("python -m course.predict")
def main(argv: Sequence[str] | None = None) -> None:
    """Write the files and print a line for each. Exit code 2 where a file cannot be used."""
    arguments = build_parser().parse_args(argv)
    with terminal.session("reading the data"):
        run = read_record(arguments.run)
        tasks = course_tasks(run)
        paths = default_paths(arguments.out, dict.fromkeys(tasks, PREDICTED))
        sources = data_files(run, tasks, arguments.data_dir)
        check_paths(paths, sources, run, tasks, arguments.overwrite)
        tables = read_tables(sources, tasks, is_tolerant(run, arguments))
        terminal.doing("opening the model")
        for line in write_predictions(run, tasks, tables, paths):
            terminal.say(line)


def is_tolerant(run: Record, arguments: argparse.Namespace) -> bool:
    """Whether malformed dev rows are skipped: where this command or the run was asked to."""
    return arguments.drop_bad_rows or run.options.data.drop_bad_rows


def course_tasks(run: Record) -> Tasks:
    """Return the tasks of a run that have a leaderboard. Raises ValueError where there are none."""
    tasks = {name: task for name, task in run.tasks.items() if task.is_built_in}
    if not tasks:
        names = ", ".join(run.tasks)
        raise ValueError(
            f"{run.folder} has no task of the course, but {names}. `python -m multitask.predict` "
            "predicts rows of any task."
        )
    return tasks


def data_files(run: Record, tasks: Tasks, data_dir: Path | None) -> dict[str, dict[str, Path]]:
    """Return the dev and test file of each task: in the folder, or those of the run."""
    files: dict[str, dict[str, Path]] = {}
    for name in tasks:
        files[name] = {}
        for split in PREDICTED:
            if data_dir is None:
                files[name][split] = Path(run.options.data.file_of(name, split))
            else:
                files[name][split] = data_dir / BUILT_IN_FILES[name][split]
    return files


def check_paths(
    paths: Paths,
    sources: dict[str, dict[str, Path]],
    run: Record,
    tasks: Tasks,
    overwrite: bool,
) -> None:
    """Raise ValueError for an output that cannot or must not be written."""
    outputs = []
    inputs: list[Path] = []
    for name, of_task in paths.items():
        is_ours = begins_with(tasks[name].header)
        outputs += [Output("--out", path, is_ours) for path in of_task.values()]
        inputs += sources[name].values()
    check_outputs(outputs, inputs, [run.folder], overwrite)


def read_tables(sources: dict[str, dict[str, Path]], tasks: Tasks, drops_bad_rows: bool) -> Tables:
    """Read all rows of the data files. Raises ValueError for one that cannot be read."""
    tables: Tables = {}
    for name, of_task in sources.items():
        tables[name] = {}
        for split, path in of_task.items():
            is_dev = split == "dev"
            tables[name][split] = read_examples(
                path, tasks[name].format, labelled=is_dev, drop_bad_rows=drops_bad_rows and is_dev
            )
    return tables


def write_predictions(run: Record, tasks: Tasks, tables: Tables, paths: Paths) -> list[str]:
    """Predict every table and write its file. Returns a line for each file."""
    model, tokenizer = open_model(run)
    rows = encode_tables(tables, tokenizer, run.options.data.max_length, model.pair_encoding)
    lines = []
    for name, task in tasks.items():
        for split, table in tables[name].items():
            outputs = predict(model, name, rows[name][split], run.options.training.precision)
            path = paths[name][split]
            write_file(path, task, table, to_predictions(task, outputs))
            lines.append(describe_file(run, task, split, table, path))
    return lines


def describe_file(run: Record, task: Task, split: str, table: Table, path: Path) -> str:
    """Return the line for the user: the file, its rows, and the score of dev rows."""
    line = f"{path}: {len(table.examples):,} rows"
    if table.dropped:
        line += f" ({len(table.dropped)} rows of {table.path} dropped)"
    if not can_answer(run, task.name):
        return f"{line}, what an untrained head says"
    if split == "dev":
        line += f", {task.metric} {score_predictions(path, task, table):.4f}"
    return line


if __name__ == "__main__":
    sys.exit(main())
