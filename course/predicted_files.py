"""The files that `python -m course.predict` writes: what a finished run says of other data."""

from __future__ import annotations

from pathlib import Path

from course.options import PredictOptions
from data.examples import BUILT_IN_FILES, Table
from data.readers import read_examples
from minbert.commands.outputs import Output, begins_with, check_outputs
from minbert.reporting import terminal
from multitask.evaluation import predict
from multitask.leaderboard import PREDICTED, Paths, default_paths, to_predictions, write_file
from multitask.prediction_files import score_predictions
from multitask.rows import Tables, encode_tables
from multitask.saved_run import Record, can_answer, open_model, read_record
from multitask.tasks import Task, Tasks


def write_all(options: PredictOptions) -> None:
    """Write the files and print a line for each. ValueError where a file cannot be used."""
    terminal.doing("reading the data")
    run = read_record(options.run)
    tasks = course_tasks(run)
    paths = default_paths(options.out, dict.fromkeys(tasks, PREDICTED))
    sources = data_files(run, tasks, options.data_dir)
    check_paths(paths, sources, run, tasks, options.overwrite)
    tables = read_tables(sources, tasks, is_tolerant(run, options))
    terminal.doing("opening the model")
    for line in write_predictions(run, tasks, tables, paths):
        terminal.say(line)


def is_tolerant(run: Record, options: PredictOptions) -> bool:
    """Whether malformed dev rows are skipped: where this command or the run was asked to."""
    return options.drop_bad_rows or run.options.data.drop_bad_rows


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
