"""What a run leaves behind: the six leaderboard files, verified, and the closing table. The last file of the room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data.batching import EncodedExamples
from data.readers import Table
from minbert.commands.options import AUTO
from minbert.reporting.tables import score_table
from multitask.baselines import majority_score, tfidf_score
from multitask.evaluation import predict
from multitask.model import MultitaskBert
from multitask.options import PredictionFileOptions
from multitask.prediction_files import score_predictions, verify_predictions, write_predictions
from multitask.tasks import TASKS, with_overall

PREDICTED = ("dev", "test")
SCORE_TITLES = {
    **{task.name: f"{task.title} {task.metric}" for task in TASKS.values()},
    "overall_2023": "overall 2023",
    "overall_2024": "overall 2024",
}


def default_paths(folder: Path) -> dict[str, dict[str, Path]]:
    """The six files inside a run's folder, as paths[task][split]."""
    return {
        task: {split: folder / "predictions" / f"{task}-{split}-output.csv" for split in PREDICTED}
        for task in TASKS
    }


def output_paths(options: PredictionFileOptions, folder: Path) -> dict[str, dict[str, Path]]:
    """Where the six files go, as paths[task][split]: as --sst_dev_out and its like say, or into the run."""
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
    tables,
    paths: dict[str, dict[str, Path]],
    precision: str,
) -> dict[str, float]:
    """Predict dev and test, write the six files, read them back, verify every id; dev scores are those of the files."""
    values = {
        name: {
            split: task.decode(predict(model, name, rows[name][split], precision))
            for split in PREDICTED
        }
        for name, task in TASKS.items()
    }
    return write_files(values, tables, paths)


def write_files(
    values: dict[str, dict[str, np.ndarray]],
    tables: dict[str, dict[str, Table]],
    paths: dict[str, dict[str, Path]],
) -> dict[str, float]:
    """Write the six files, read them back, verify every id; returns the scores of the dev files, with both overall.

    values[task][split]: predictions (N,) in the order of the rows of tables[task][split]. Raises ValueError as
    write_predictions and verify_predictions do.
    """
    scores = {}
    for name, task in TASKS.items():
        for split in PREDICTED:
            ids = [example.id for example in tables[name][split].examples]
            write_predictions(paths[name][split], task, ids, values[name][split])
            verify_predictions(paths[name][split], task, ids)
        scores[name] = score_predictions(paths[name]["dev"], task, tables[name]["dev"])
    return with_overall(scores)


def baseline_scores(tables) -> dict[str, dict[str, float]]:
    """Majority and TF-IDF dev scores, as scores[baseline][task or overall]."""
    found = {}
    for name, function in {"majority": majority_score, "TF-IDF": tfidf_score}.items():
        scores = {
            task.name: function(
                task, tables[task.name]["train"].examples, tables[task.name]["dev"].examples
            )
            for task in TASKS.values()
        }
        found[name] = with_overall(scores)
    return found


def closing_table(
    scores: dict[str, float],
    baselines: dict[str, dict[str, float]],
    known: Sequence[str] = tuple(TASKS),
) -> str:
    """Dev scores beside the baselines, a line a task, then both overall scores.

    known: the tasks that the run can answer (tasks.learned); the others have a dash, and a line that says why.
    """
    columns = {"minBERT": with_overall({name: scores[name] for name in known}), **baselines}
    rows = {
        title: {name: column[key] for name, column in columns.items() if key in column}
        for key, title in SCORE_TITLES.items()
    }
    untrained = [task.title for name, task in TASKS.items() if name not in known]
    note = f"\n–: not trained; the files of {', '.join(untrained)} hold what an untrained head says"
    return score_table("dev", dict(zip(columns, columns, strict=True)), rows) + note * bool(
        untrained
    )
