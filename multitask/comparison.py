"""Two systems on the same dev rows: what `compare` reads, and what it says.

Legend: N rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.examples import Example
from data.tables.reader import read_table
from data.tables.spreadsheets import safe_cell
from minbert.commands.files import read_json
from multitask.checked_files import find_rows, find_run
from multitask.command_options import CheckOptions, CompareOptions
from multitask.leaderboard import default_paths, score_titles
from multitask.prediction_files import check_as_written, verify_predictions
from multitask.rows import read_tables
from multitask.saved_run import all_tasks, can_answer, read_record, same_data
from multitask.score_intervals import (
    Comparison,
    ResampledScores,
    compare_scores,
    resample_scores,
    with_overall_scores,
)
from multitask.tasks import Task, Tasks

NAMES = ("A", "B")


class Predictions(NamedTuple):
    """What several runs or files say of the dev rows of one task."""

    examples: Sequence[Example]  # N
    values: list[np.ndarray]  # of each run or file, (N,)


class Compared(NamedTuple):
    """All that is compared, by task."""

    tasks: Tasks
    predictions: dict[str, Predictions]


def compare(options: CompareOptions) -> str:
    """Compare the two systems. Returns a text for the user, or JSON.

    Raises ValueError for runs or files that cannot be compared.
    """
    first, second = options.sides
    paths = [*first, *second]
    if all(path.is_dir() for path in paths):
        compared = read_runs(paths)
    elif any(path.is_dir() for path in paths):
        run = next(path for path in paths if path.is_dir())
        file = next(path for path in paths if not path.is_dir())
        raise ValueError(
            f"{run} is a folder, and {file} is a file. Give runs alone, or files alone. A pattern "
            f"that ends with a slash, such as {run.parent / '*'}/, matches folders alone."
        )
    else:
        compared = read_files(paths, options)

    scores: dict[str, ResampledScores] = {}
    for name, of_task in compared.predictions.items():
        scores[name] = resample_scores(compared.tasks[name], of_task.values, of_task.examples)
    scores = with_overall_scores(scores)
    # The two overall scores hold the same three tasks, so one of them is enough.
    scores.pop("overall_2024", None)
    places = range(len(paths))
    comparisons = compare_scores(scores, places[: len(first)], places[len(first) :])
    titles = score_titles({name: compared.tasks[name] for name in compared.predictions})
    if options.json:
        return to_json(options, scores, comparisons)
    return to_text(options, titles, scores, comparisons)


# --- reading --------------------------------------------------------------------------------------


def read_runs(folders: Sequence[Path]) -> Compared:
    """The dev predictions that finished runs wrote, of the tasks that all of them can answer.

    Raises ValueError where the runs were scored on different rows, share no task, or where a file
    is not as its run wrote it.
    """
    records = [read_record(folder) for folder in folders]
    same_data(records)
    tasks = all_tasks(records)
    shared = []
    for name in tasks:
        if all(name in record.tasks and can_answer(record, name) for record in records):
            shared.append(name)
    if not shared:
        raise ValueError("the runs share no task that all of them were trained on.")

    data = records[0].options.data
    tables = read_tables(data, {name: tasks[name] for name in shared})
    predictions = {}
    for name in shared:
        examples = tables[name]["dev"].examples
        values = []
        for record in records:
            path = default_paths(record.folder, {name: ["dev"]})[name]["dev"]
            if not path.is_file():
                raise ValueError(
                    f"{path}: the predictions of the run are not there. Give the files themselves, "
                    "if they were written to another place."
                )
            check_as_written(path, read_json(record.folder / "run.json"))
            values.append(read_values(path, tasks[name], examples))
        predictions[name] = Predictions(examples, values)
    return Compared(tasks, predictions)


def read_values(path: Path, task: Task, examples: Sequence[Example]) -> np.ndarray:
    """The predictions in a file, float32 (N,) or (N, C), in the order of the rows."""
    ids = [example.id for example in examples]
    if task.is_built_in:
        by_id = verify_predictions(path, task, ids, is_dev=True)
        return np.array([by_id[row_id] for row_id in ids], dtype=np.float32)

    # The table of an own task has its rows in their order, and classes by their names.
    rows = [row.fields for row in read_table(path).rows]
    if [fields[0] for fields in rows] != [safe_cell(row_id) for row_id in ids]:
        raise ValueError(f"{path}: its ids are not those of the dev rows. Start the run anew.")
    texts = [fields[1] for fields in rows]
    if task.is_multilabel:
        label_sets = [read_label_set(text, task) for text in texts]
        return np.array(label_sets, dtype=np.float32)
    class_of = {safe_cell(name): number for number, name in enumerate(task.label_names)}
    if task.is_regression:
        return np.array([float(text) for text in texts], dtype=np.float32)
    return np.array([class_of[text] for text in texts], dtype=np.float32)


def read_label_set(text: str, task: Task) -> list[bool]:
    """For each label of the task whether a cell of the predictions names it."""
    names = text.split(task.format.separator)
    # A sign before the first name keeps a spreadsheet from reading a formula.
    return [name in names or safe_cell(name) == names[0] for name in task.label_names]


def read_files(paths: Sequence[Path], options: CompareOptions) -> Compared:
    """The predictions in leaderboard files of one task. ValueError where the rows differ."""
    check = CheckOptions(tuple(map(str, paths)), gold=options.gold, data_dir=options.data_dir)
    tasks_and_rows = [find_rows(str(path), check, find_run(path)) for path in paths]
    task, rows = tasks_and_rows[0]
    for path, (other_task, other_rows) in zip(paths, tasks_and_rows, strict=True):
        if (other_task.name, other_rows.table.path) != (task.name, rows.table.path):
            raise ValueError(
                f"{paths[0]} predicts {task.title} ({rows.table.path}), and {path} predicts "
                f"{other_task.title} ({other_rows.table.path}). Give files for the same rows."
            )
    if rows.split == "test":
        raise ValueError(
            f"{paths[0]} predicts {rows.table.path}, which has no labels. Give files for labelled "
            "rows, or the labels as --gold."
        )
    examples = rows.table.examples
    values = [read_values(path, task, examples) for path in paths]
    return Compared({task.name: task}, {task.name: Predictions(examples, values)})


# --- saying ---------------------------------------------------------------------------------------


def to_text(
    options: CompareOptions,
    titles: Mapping[str, str],
    scores: Mapping[str, ResampledScores],
    comparisons: Mapping[str, Comparison],
) -> str:
    """Who is compared, then a line for each score."""
    lines = []
    for name, side in zip(NAMES, options.sides, strict=True):
        lines.append(f"{name}: {', '.join(map(str, side))}")
    num_first = len(options.sides[0])
    for name, comparison in comparisons.items():
        values = scores[name].scores
        means = f"{values[:num_first].mean():.4f} and {values[num_first:].mean():.4f}"
        words = comparison.words(NAMES, options.within)
        lines.append(f"{titles[name]}, {scores[name].num_rows:,} rows, {means}: {words}")
    num_lines = f", corrected for {len(comparisons)} scores" if len(comparisons) > 1 else ""
    sources = "rows and seeds" if len(options.sides[0]) > 1 else "rows; one run each, no seeds"
    lines.append(f"(95 % intervals over {sources}{num_lines})")
    return "\n".join(lines)


def to_json(
    options: CompareOptions,
    scores: Mapping[str, ResampledScores],
    comparisons: Mapping[str, Comparison],
) -> str:
    """The same for a program."""
    content: dict[str, object] = {}
    for name, side in zip(NAMES, options.sides, strict=True):
        content[name] = [str(path) for path in side]
    for name, comparison in comparisons.items():
        content[name] = {
            "rows": scores[name].num_rows,
            "scores": scores[name].scores.tolist(),
            **comparison.stored(),
            "words": comparison.words(NAMES, options.within),
        }
    return json.dumps(content, indent=1)
