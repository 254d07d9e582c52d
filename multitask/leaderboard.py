"""The results of a run: the six leaderboard files, verified, and the closing table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from data.batching import EncodedExamples
from data.readers import Example, Table
from minbert.commands.options import AUTO
from minbert.reporting.tables import score_table
from multitask.baselines import majority_score, tfidf_score
from multitask.evaluation import predict
from multitask.model import MultitaskBert
from multitask.options import PredictionFileOptions
from multitask.prediction_files import score_predictions, verify_predictions, write_predictions
from multitask.tasks import TASKS, Task, with_overall

PREDICTED = ("dev", "test")
SCORE_TITLES = {
    **{task.name: f"{task.title} {task.metric}" for task in TASKS.values()},
    "overall_2023": "overall 2023",
    "overall_2024": "overall 2024",
}
Baseline = Callable[[Task, Sequence[Example], Sequence[Example]], float]
BASELINES: dict[str, Baseline] = {"majority": majority_score, "TF-IDF": tfidf_score}


def default_paths(folder: Path) -> dict[str, dict[str, Path]]:
    """The six files inside a run's folder, as paths[task][split]."""
    paths: dict[str, dict[str, Path]] = {}
    for task in TASKS:
        paths[task] = {}
        for split in PREDICTED:
            paths[task][split] = folder / "predictions" / f"{task}-{split}-output.csv"
    return paths


def output_paths(options: PredictionFileOptions, folder: Path) -> dict[str, dict[str, Path]]:
    """Where the six files go, as paths[task][split].

    They go into the run unless --sst_dev_out and its like say another place.
    """
    paths = default_paths(folder)
    for task, splits in paths.items():
        for split in splits:
            path = options.path_of(task, split)
            if path != AUTO:
                splits[split] = Path(path)
    return paths


def write_results(
    model: MultitaskBert,
    rows: dict[str, dict[str, EncodedExamples]],
    tables: dict[str, dict[str, Table]],
    paths: dict[str, dict[str, Path]],
    precision: str,
) -> dict[str, float]:
    """Predict dev and test and write the six files. Returns the scores of write_files.

    rows, tables and paths: by [task][split]. precision: "fp32" or "bf16".
    """
    values: dict[str, dict[str, np.ndarray]] = {}
    for name, task in TASKS.items():
        values[name] = {}
        for split in PREDICTED:
            outputs = predict(model, name, rows[name][split], precision)
            values[name][split] = task.decode(outputs)
    return write_files(values, tables, paths)


def write_files(
    values: dict[str, dict[str, np.ndarray]],
    tables: dict[str, dict[str, Table]],
    paths: dict[str, dict[str, Path]],
) -> dict[str, float]:
    """Write the six files, read them back, and verify every id.

    values[task][split]: predictions (N,) in the order of the rows of tables[task][split].

    Returns the scores of the dev files, with both overall scores. Raises ValueError as
    write_predictions and verify_predictions do.
    """
    scores = {}
    for name, task in TASKS.items():
        # Reading back notices a full disk or a wrong row now, and not after an upload.
        for split in PREDICTED:
            ids = [example.id for example in tables[name][split].examples]
            write_predictions(paths[name][split], task, ids, values[name][split])
            verify_predictions(paths[name][split], task, ids)
        # The score of the file, not of the values in memory: it is what a leaderboard computes.
        scores[name] = score_predictions(paths[name]["dev"], task, tables[name]["dev"])
    return with_overall(scores)


def baseline_scores(tables: dict[str, dict[str, Table]]) -> dict[str, dict[str, float]]:
    """Majority and TF-IDF dev scores, as scores[baseline][task or overall]."""
    baselines = {}
    for title, score in BASELINES.items():
        scores = {}
        for name, task in TASKS.items():
            train = tables[name]["train"].examples
            scores[name] = score(task, train, tables[name]["dev"].examples)
        baselines[title] = with_overall(scores)
    return baselines


def closing_table(
    scores: dict[str, float],
    baselines: dict[str, dict[str, float]],
    known: Sequence[str] = tuple(TASKS),
) -> str:
    """Dev scores beside the baselines: a line per task, then both overall scores.

    known: the tasks that the run can answer (tasks.answerable_tasks). The others have a dash, and a
    last line says why.
    """
    # An overall score needs all tasks. with_overall leaves it out if one is not known.
    known_scores = with_overall({name: scores[name] for name in known})
    columns = {"minBERT": known_scores, **baselines}
    rows = {}
    for key, title in SCORE_TITLES.items():
        rows[title] = {name: column[key] for name, column in columns.items() if key in column}
    headings = {name: name for name in columns}
    table = score_table("dev", headings, rows)

    untrained = [task.title for name, task in TASKS.items() if name not in known]
    if not untrained:
        return table
    names = ", ".join(untrained)
    return f"{table}\n–: not trained; the files of {names} hold what an untrained head says"
