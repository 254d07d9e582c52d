"""The results of a run: its prediction files, verified, and the closing table.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.examples import Example, Table
from minbert.commands.options import AUTO
from minbert.commands.outputs import Output, begins_with, check_outputs
from minbert.reporting.tables import score_table
from multitask.baselines import answers_of, majority_predictions, tfidf_predictions
from multitask.evaluation import predict
from multitask.model import MultitaskBert
from multitask.options import PredictionFileOptions
from multitask.prediction_files import (
    score_predictions,
    verify_predictions,
    write_predictions,
    write_table,
)
from multitask.probabilities import confidences, probabilities
from multitask.rows import EncodedTables, Tables
from multitask.score_intervals import compare_scores, resample_scores, with_overall_scores
from multitask.task_models import TaskModels
from multitask.tasks import (
    BUILT_IN_TASKS,
    COURSE_TASKS,
    TASKS,
    Task,
    Tasks,
    labels_of,
    with_overall,
)

PREDICTED = ("dev", "test")
OVERALL_TITLES = {"overall_2023": "overall 2023", "overall_2024": "overall 2024"}
Baseline = Callable[[Task, Sequence[Example], Sequence[Example]], np.ndarray]
TFIDF = "TF-IDF"
BASELINES: dict[str, Baseline] = {"majority": majority_predictions, TFIDF: tfidf_predictions}
INTERVAL_TITLE = "95 % interval"
NUM_DIGITS = 3  # of the ends of an interval in a table


Paths = dict[str, dict[str, Path]]  # [task][split]


class Predictions(NamedTuple):
    """The predictions of one split.

    values: (N,) in the order of the rows, or (N, C) of several labels. confidence: of each its
    probability (N,), or None for a score.
    """

    values: np.ndarray
    confidence: np.ndarray | None = None


class FileScores(NamedTuple):
    """The scores of the files by task: of dev with both overall scores, and of labelled tests."""

    dev: dict[str, float]
    test: dict[str, float]


class RunResults(NamedTuple):
    """The scores of a run's files, and what the model said of the dev rows.

    dev_outputs: raw, by task, (N, C) or (N,).
    """

    scores: FileScores
    dev_outputs: dict[str, np.ndarray]


def score_titles(tasks: Tasks) -> dict[str, str]:
    """The name of each score for tables: of each task, then of the overall scores if there are any.

    An overall score needs the three tasks of the course.
    """
    titles = {name: f"{task.title} {task.metric}" for name, task in tasks.items()}
    return titles | OVERALL_TITLES if titles.keys() >= set(COURSE_TASKS) else titles


def default_paths(folder: Path, splits: Mapping[str, Collection[str]]) -> Paths:
    """The prediction files inside a run's folder. splits: of each task those that it has."""
    paths: Paths = {}
    for task, of_task in splits.items():
        paths[task] = {}
        for split in PREDICTED:
            if split in of_task:
                paths[task][split] = folder / "predictions" / f"{task}-{split}-output.csv"
    return paths


def output_paths(
    options: PredictionFileOptions, folder: Path, splits: Mapping[str, Collection[str]]
) -> Paths:
    """Where the prediction files go.

    They go into the run unless --sst_dev_out and its like say another place.
    """
    paths = default_paths(folder, splits)
    for task, of_task in paths.items():
        for split in of_task:
            path = options.path_of(task, split)
            if path != AUTO:
                of_task[split] = Path(path)
    return paths


def check_output_paths(
    options: PredictionFileOptions,
    paths: Paths,
    folder: Path,
    inputs: Iterable[str],
    model_folder: Path,
) -> None:
    """ValueError for a path of --sst_dev_out and its like that cannot or must not be written.

    paths: those of `output_paths`. folder: of the run. inputs: all files that the run reads.
    """
    outputs = []
    for task, default_of_split in default_paths(folder, paths).items():
        for split, default in default_of_split.items():
            if options.path_of(task, split) != AUTO:
                flag = f"--{task}_{split}_out"
                is_ours = begins_with(BUILT_IN_TASKS[task].header)
                outputs.append(Output(flag, paths[task][split], is_ours, default))
    check_outputs(outputs, inputs, [folder, model_folder], options.overwrite)


def write_results(
    model: MultitaskBert | TaskModels,
    rows: EncodedTables,
    tables: Tables,
    paths: Paths,
    precision: str,
) -> RunResults:
    """Predict dev and test of the model's tasks and write the files.

    rows, tables and paths: by [task][split]. precision: "fp32" or "bf16".
    """
    predictions: dict[str, dict[str, Predictions]] = {}
    dev_outputs = {}
    for name, task in model.tasks.items():
        predictions[name] = {}
        for split in paths[name]:
            outputs = predict(model, name, rows[name][split], precision)
            predictions[name][split] = to_predictions(task, outputs)
            if split == "dev":
                dev_outputs[name] = outputs
    return RunResults(write_files(predictions, tables, paths, model.tasks), dev_outputs)


def to_predictions(task: Task, outputs: np.ndarray) -> Predictions:
    """The predictions in raw outputs, (N, C) or (N,)."""
    values = task.decode(outputs)
    if task.is_regression:
        return Predictions(values)
    shares = probabilities(outputs, task.is_multilabel)
    return Predictions(values, confidences(shares, task.is_multilabel))


def write_files(
    predictions: dict[str, dict[str, Predictions]],
    tables: Tables,
    paths: Paths,
    tasks: Tasks,
) -> FileScores:
    """Write the prediction files, read those of a leaderboard back, and verify every id.

    predictions[task][split]: in the order of the rows of tables[task][split].

    Raises ValueError as write_predictions and verify_predictions do.
    """
    dev = {}
    test = {}
    for name, task in tasks.items():
        for split, path in paths[name].items():
            write_file(path, task, tables[name][split], predictions[name][split])
        if task.is_built_in:
            # The score of the file, not of the values in memory: a leaderboard computes it, too.
            dev[name] = score_predictions(paths[name]["dev"], task, tables[name]["dev"])
            continue
        dev[name] = score_of(task, tables[name]["dev"], predictions[name]["dev"])
        # The test file of a user may have labels.
        if "test" in paths[name] and tables[name]["test"].examples[0].answer is not None:
            test[name] = score_of(task, tables[name]["test"], predictions[name]["test"])
    return FileScores(with_overall(dev), test)


def write_file(path: Path, task: Task, table: Table, predictions: Predictions) -> None:
    """Write one file: for a leaderboard, and verified, or for a spreadsheet."""
    ids = [example.id for example in table.examples]
    if not task.is_built_in:
        write_table(path, task, ids, predictions.values, predictions.confidence)
        return
    write_predictions(path, task, ids, predictions.values)
    # Reading back notices a full disk or a wrong row now, and not after an upload.
    verify_predictions(path, task, ids)


def score_of(task: Task, table: Table, predictions: Predictions) -> float:
    """The task's score of predictions against a labelled table."""
    return task.score(predictions.values.astype(np.float32), labels_of(table.examples))


BaselinePredictions = dict[str, dict[str, np.ndarray]]  # [baseline][task]: (N,)


def predict_baselines(
    tables: Tables, tasks: Tasks = TASKS, split: str = "dev"
) -> BaselinePredictions:
    """What the majority answer and TF-IDF say of the rows of a split."""
    predictions: BaselinePredictions = {}
    for title, predict_rows in BASELINES.items():
        predictions[title] = {}
        for name, task in tasks.items():
            train = tables[name]["train"].examples
            rows = tables[name][split].examples
            predictions[title][name] = predict_rows(task, train, rows)
    return predictions


def baseline_scores(
    predictions: BaselinePredictions, tables: Tables, tasks: Tasks = TASKS, split: str = "dev"
) -> dict[str, dict[str, float]]:
    """The scores of the baselines on a split, as scores[baseline][task or overall]."""
    baselines = {}
    for title, of_tasks in predictions.items():
        scores = {}
        for name, values in of_tasks.items():
            labels = answers_of(tasks[name], tables[name][split].examples)
            scores[name] = tasks[name].score(values, labels)
        baselines[title] = with_overall(scores)
    return baselines


class Chance(NamedTuple):
    """What chance in the dev rows does to the scores of a run, by task or overall, for run.json.

    intervals: [low, high] of each score. against_tfidf: the difference to TF-IDF.
    """

    intervals: dict[str, list[float]]
    against_tfidf: dict[str, dict[str, Any]]


def measure_chance(
    dev_outputs: Mapping[str, np.ndarray],
    baselines: BaselinePredictions,
    tables: Tables,
    tasks: Tasks,
    known: Collection[str],
) -> Chance:
    """The intervals of the dev scores, and what they say beside TF-IDF, if it is a baseline.

    dev_outputs: raw, by task, (N, C) or (N,). known: the tasks that the run can answer.
    """
    of_tasks = {}
    for name in known:
        task = tasks[name]
        predictions = [task.decode(dev_outputs[name])]
        if TFIDF in baselines:
            predictions.append(baselines[TFIDF][name])
        of_tasks[name] = resample_scores(task, predictions, tables[name]["dev"].examples)
    scores = with_overall_scores(of_tasks)
    intervals = {name: list(score.interval(0)) for name, score in scores.items()}
    if TFIDF not in baselines:
        return Chance(intervals, {})
    # Both overall scores hold the same three tasks, so one of them is compared.
    scores.pop("overall_2024", None)
    compared = compare_scores(scores, first=[1], second=[0])
    return Chance(intervals, {name: line.stored() for name, line in compared.items()})


def known_scores(scores: Mapping[str, float], known: Collection[str]) -> dict[str, float]:
    """The scores of the tasks that a run can answer, with the overall scores if these are all.

    known: the names of these tasks.
    """
    # An overall score needs all tasks. with_overall leaves it out if one is not known.
    return with_overall({name: scores[name] for name in scores if name in known})


def closing_table(
    scores: dict[str, float],
    baselines: dict[str, dict[str, float]],
    tasks: Tasks = TASKS,
    known: Collection[str] | None = None,
    chance: Chance | None = None,
) -> str:
    """Dev scores beside the baselines: a line per task, then both overall scores.

    tasks: of the run. known: those that the run can answer (tasks.answerable_tasks), or None for
    all. The others have a dash, and a last line says why. chance: None for a run of an older
    version, which has no intervals.
    """
    answered = [name for name in tasks if known is None or name in known]
    columns: dict[str, Mapping[str, float | str]] = {"minBERT": known_scores(scores, answered)}
    if chance is not None:
        columns[INTERVAL_TITLE] = interval_cells(chance.intervals)
    columns |= baselines
    rows = {}
    for key, title in score_titles(tasks).items():
        rows[title] = {name: column[key] for name, column in columns.items() if key in column}
    headings = {name: name for name in columns}
    table = score_table("dev", headings, rows)

    lines = [table]
    untrained = [task.title for name, task in tasks.items() if name not in answered]
    if untrained:
        names = ", ".join(untrained)
        lines.append(f"–: not trained; the files of {names} hold what an untrained head says")
    if chance is not None:
        lines += lines_on_tfidf(chance, score_titles(tasks), baselines.get(TFIDF, {}))
    return "\n".join(lines)


def interval_cells(intervals: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """The intervals for a table."""
    cells = {}
    for name, (low, high) in intervals.items():
        cells[name] = f"{low:.{NUM_DIGITS}f} to {high:.{NUM_DIGITS}f}"
    return cells


def lines_on_tfidf(
    chance: Chance, titles: Mapping[str, str], of_tfidf: Mapping[str, float]
) -> list[str]:
    """Lines on the scores whose difference to TF-IDF can't be told from chance, if any.

    The intervals in the table may seem to say another thing. Then a line says why.
    titles: of the scores. of_tfidf: its scores.
    """
    untold = []
    outside = []  # not told, although TF-IDF lies outside the interval
    inside = []  # told, although TF-IDF lies inside the interval
    for name, title in titles.items():
        difference = chance.against_tfidf.get(name)
        if difference is None:
            continue
        # As the table shows them. The end of an interval at 1 is a little less than 1.
        low, high = (round(end, NUM_DIGITS) for end in chance.intervals[name])
        is_inside = low <= of_tfidf[name] <= high
        if not difference["is_told"]:
            untold.append(title)
            outside += [] if is_inside else [title]
        elif is_inside:
            inside.append(title)

    lines = []
    if untold:
        line = f"The difference to TF-IDF can't be told from chance: {', '.join(untold)}."
        if "overall_2024" in titles:
            line += " That of overall 2024 was not tested, for it has the same tasks."
        lines.append(line)
    if outside:
        num_tested = len(chance.against_tfidf)
        correction = f", and {num_tested} differences are tested at once" if num_tested > 1 else ""
        lines.append(
            f"TF-IDF is outside the interval of {', '.join(outside)}. But its score is uncertain, "
            f"too{correction}."
        )
    if inside:
        lines.append(
            f"TF-IDF is inside the interval of {', '.join(inside)}. But both answered the same "
            "rows, so their difference is known better than each score."
        )
    return lines


def score_lines(
    split: str,
    scores: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    tasks: Tasks,
) -> list[str]:
    """A line for each score of test files that have labels, or of training rows.

    baselines: their scores on the same rows, if there are any, by title and task.
    """
    titles = score_titles(tasks)
    lines = []
    for name, score in scores.items():
        simple = [f"{title} {of_tasks[name]:.4f}" for title, of_tasks in baselines.items()]
        beside = f" ({', '.join(simple)})" if simple else ""
        lines.append(f"{split}: {titles[name]} {score:.4f}{beside}")
    return lines
