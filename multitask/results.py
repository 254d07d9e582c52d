"""What a run leaves behind: the six leaderboard files, verified, and the closing table. The last file of the room."""

from __future__ import annotations

from pathlib import Path

from data.batching import EncodedExamples
from multitask.baselines import majority_score, tfidf_score
from multitask.evaluate import predict
from multitask.model import MultitaskBert
from multitask.predictions import score_predictions, verify_predictions, write_predictions
from multitask.tasks import TASKS, overall_2023, overall_2024

SPLITS = ("dev", "test")


def output_paths(options, folder: Path) -> dict[str, dict[str, Path]]:
    """Where the six files go, as paths[task][split]: as given by --sst_dev_out and its siblings, or into the run."""
    given = {task: {split: getattr(options, f"{task}_{split}_out") for split in SPLITS} for task in TASKS}
    return {task: {split: folder / "predictions" / f"{task}-{split}-output.csv" if path == "auto" else Path(path)
                   for split, path in splits.items()} for task, splits in given.items()}


def write_results(
    model: MultitaskBert, rows: dict[str, dict[str, EncodedExamples]], tables, paths: dict[str, dict[str, Path]],
    precision: str,
) -> dict[str, float]:
    """Predict dev and test, write the six files, read them back, verify every id; dev scores are those of the files."""
    scores = {}
    for name, task in TASKS.items():
        for split in SPLITS:
            examples = rows[name][split].examples
            values = task.decode(predict(model, name, rows[name][split], precision))
            write_predictions(paths[name][split], task, [example.id for example in examples], values)
            verify_predictions(paths[name][split], task, [example.id for example in examples])
        scores[name] = score_predictions(paths[name]["dev"], task, tables[name]["dev"])
    return {**scores, "overall_2023": overall_2023(scores), "overall_2024": overall_2024(scores)}


def baseline_scores(tables) -> dict[str, dict[str, float]]:
    """Majority and TF-IDF dev scores, as scores[baseline][task or overall]."""
    found = {}
    for name, function in {"majority": majority_score, "TF-IDF": tfidf_score}.items():
        scores = {task.name: function(task, tables[task.name]["train"].examples, tables[task.name]["dev"].examples)
                  for task in TASKS.values()}
        found[name] = {**scores, "overall_2023": overall_2023(scores), "overall_2024": overall_2024(scores)}
    return found


def closing_table(scores: dict[str, float], baselines: dict[str, dict[str, float]]) -> str:
    """Dev scores beside the baselines, a line a task, then both overall scores."""
    titles = {task.name: f"{task.title} {task.metric}" for task in TASKS.values()}
    titles |= {"overall_2023": "overall 2023", "overall_2024": "overall 2024"}
    lines = [f"{'dev':<16}{'minBERT':>10}" + "".join(f"{name:>10}" for name in baselines)]
    for key, title in titles.items():
        columns = [scores, *baselines.values()]
        lines.append(f"{title:<16}" + "".join(f"{column[key]:>10.4f}" for column in columns))
    return "\n".join(lines)
