"""Predicts with several runs, joins the predictions, and writes and prints the results.

Legend: R runs, V runs that vote, N rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minbert.commands.files import write_json
from minbert.commands.new_folders import new_folder
from minbert.reporting import terminal
from minbert.reporting.tables import score_table
from multitask.ensemble.options import EnsembleOptions
from multitask.ensemble.voting import METHODS, Outcome, apply_method, gather_votes, make_folds
from multitask.leaderboard import (
    PREDICTED,
    FileScores,
    Paths,
    Predictions,
    default_paths,
    score_titles,
    write_files,
)
from multitask.rows import Tables, read_tables
from multitask.saved_run import (
    Record,
    all_tasks,
    notes_on_metrics,
    open_run,
    read_record,
    same_data,
)
from multitask.tasks import TASKS, Tasks, labels_of, with_overall

CAUTION = (
    "Each run kept the epoch that scored best on these same dev rows, so all of these numbers are "
    "a little high, those of the single runs too."
)
Outputs = dict[str, dict[str, np.ndarray]]  # outputs[task][split]: raw outputs of a run
Outcomes = dict[str, dict[str, Outcome]]  # outcomes[method][task]
Scores = dict[str, dict[str, float]]  # scores[row of the table][task or overall]


def join_runs(options: EnsembleOptions) -> None:
    """Predict with every run, join the predictions, write and print the results."""
    # Scores of runs on different rows cannot be compared.
    records = [read_record(folder) for folder in options.runs]
    same_data(records)
    terminal.say(*notes_on_metrics(records))
    terminal.doing("reading the data")
    tasks = all_tasks(records)
    tables = tables_of(records, tasks)
    labels = {name: labels_of(tables[name]["dev"].examples) for name in tasks}
    folds = {name: make_folds(len(labels[name]), options.folds, options.seed) for name in tasks}

    # One model is in memory at a time.
    runs = {}
    for record, voted in zip(records, voted_tasks(records), strict=True):
        trained = record.options.tasks.tasks
        votes = " ".join(voted)
        terminal.say(
            f"{record.folder}: predicting dev and test; trained on {trained}, votes on {votes}"
        )
        terminal.doing(f"opening {record.folder}")
        runs[str(record.folder)] = outputs_of(record.folder, voted)

    terminal.doing("joining the predictions")
    outcomes = join(list(runs.values()), labels, folds, tasks)
    rows = dev_scores(runs, labels, outcomes, tasks)
    # The files come before the report: printing may fail, if a pipe breaks.
    paths = write_ensemble(options, outcomes, tables, rows, tasks)
    terminal.say(report(options, outcomes, rows, paths, tasks))


def tables_of(records: Sequence[Record], tasks: Tasks) -> Tables:
    """The tables of each task, from the first run that reads it."""
    tables: Tables = {}
    for record in records:
        missing = {name: tasks[name] for name in record.tasks if name not in tables}
        tables |= read_tables(record.options.data, missing)
    return tables


# --- predicting -----------------------------------------------------------------------------------


def voted_tasks(records: Sequence[Record]) -> list[list[str]]:
    """For each run the names of the tasks in which it has a vote: those that it was trained on.

    The vote of an untrained head would be noise. A cosine that never saw a label of the task has no
    scale for it. If no run was trained on a task, all runs that read it vote in it.
    """
    # In a task that nobody was trained on, everybody votes.
    trained: set[str] = set()
    for record in records:
        trained.update(record.options.tasks.order)
    voted = []
    for record in records:
        of_run = record.options.tasks.order
        names = [name for name in record.tasks if name in of_run or name not in trained]
        voted.append(names)
    return voted


def outputs_of(folder: Path, tasks: Sequence[str] = tuple(TASKS)) -> Outputs:
    """Raw outputs of one run. Its model is dropped when this returns."""
    run = open_run(folder)
    outputs = {}
    for name in tasks:
        splits = [split for split in PREDICTED if split in run.rows[name]]
        outputs[name] = {split: run.outputs(name, split) for split in splits}
    return outputs


# --- joining --------------------------------------------------------------------------------------


def join(
    outputs: Sequence[Outputs],
    labels: dict[str, np.ndarray],
    folds: dict[str, np.ndarray],
    tasks: Tasks = TASKS,
) -> Outcomes:
    """Apply every method to every task.

    outputs: for each run, of the tasks in which it votes. labels, folds: of dev, (N,) by task name.
    A task may have no test rows.
    """
    outcomes: Outcomes = {method: {} for method in METHODS}
    for name, task in tasks.items():
        # Only runs with a vote in the task take part.
        voters = [number for number, of_run in enumerate(outputs) if name in of_run]
        dev = [outputs[number][name]["dev"] for number in voters]
        # Without test rows the dev rows stand in, and what is made of them is not used.
        split = "test" if "test" in outputs[voters[0]][name] else "dev"
        test = [outputs[number][name][split] for number in voters]
        votes = gather_votes(task, dev, test)
        # Weights of those that vote -> of all runs, 0 for the others.
        among_all = np.eye(len(outputs))[voters]  # (V, R)
        for method, entry in METHODS.items():
            outcome = apply_method(entry.weigh, task, votes, labels[name], folds[name])
            outcomes[method][name] = replace(
                outcome,
                weights=outcome.weights @ among_all,
                fold_weights=outcome.fold_weights @ among_all,
            )
    return outcomes


def dev_scores(
    runs: Mapping[str, Outputs],
    labels: Mapping[str, np.ndarray],
    outcomes: Outcomes,
    tasks: Tasks = TASKS,
) -> Scores:
    """Scores by row of the table: each run, then each method.

    A method that is fitted has two rows: out of fold, and in sample as [GEN] reports its ensemble.

    runs: outputs by the run's name, of the tasks in which it votes. labels: of dev, (N,) by task
    name.
    """
    rows = {}
    for run, outputs in runs.items():
        scores = {}
        for name, splits in outputs.items():
            predictions = tasks[name].decode(splits["dev"])
            scores[name] = tasks[name].score(predictions, labels[name])
        rows[run] = with_overall(scores)
    for method, by_task in outcomes.items():
        is_fitted = METHODS[method].is_fitted
        title = f"{method}, out of fold" if is_fitted else method
        rows[title] = with_overall({name: outcome.out_of_fold for name, outcome in by_task.items()})
        if is_fitted:
            scores = {name: outcome.in_sample for name, outcome in by_task.items()}
            rows[f"{method}, in sample"] = with_overall(scores)
    return rows


# --- results --------------------------------------------------------------------------------------


def content_of_files(method: str, num_folds: int) -> dict[str, str]:
    """A sentence for "dev" and one for "test": which weights made the files of a method."""
    if not METHODS[method].is_fitted:
        return {"dev": "the same weight for every run that votes, nothing fitted", "test": "as dev"}
    return {
        "dev": f"out of fold: each row is predicted with weights fitted on the {num_folds - 1} of "
        f"{num_folds} folds that it is not in, so that the files' score is the honest one",
        "test": "weights fitted on all of dev, whose own score with these is the one in sample",
    }


def write_ensemble(
    options: EnsembleOptions, outcomes: Outcomes, tables: Tables, rows: Scores, tasks: Tasks
) -> Paths:
    """Write the new folder with the files of the chosen method, verified, and ensemble.json.

    Returns the paths of the files.
    """
    predictions = {}
    for name, outcome in outcomes[options.method].items():
        predictions[name] = {
            "dev": Predictions(outcome.dev, outcome.dev_confidence),
            "test": Predictions(outcome.test, outcome.test_confidence),
        }
    with new_folder(options.out) as beside:
        scores = write_files(predictions, tables, default_paths(beside, tables), tasks)
        record = record_of(options, outcomes, rows, scores)
        write_json(beside / "ensemble.json", record, has_checksum=True)
    return default_paths(options.out, tables)


def record_of(
    options: EnsembleOptions, outcomes: Outcomes, rows: Scores, scores: FileScores
) -> dict[str, Any]:
    """The content of ensemble.json. scores: of the files."""
    return {
        "runs": [str(folder) for folder in options.runs],
        "method": options.method,
        "num_folds": options.folds,
        "seed": options.seed,
        "scores": scores.dev,
        **({"test_scores": scores.test} if scores.test else {}),
        "files_hold": content_of_files(options.method, options.folds),
        "dev_scores": rows,
        "caution": CAUTION,
        "weights": weights_by_task(outcomes, "weights"),
        "fold_weights": weights_by_task(outcomes, "fold_weights"),
    }


def weights_by_task(outcomes: Outcomes, field: str) -> dict[str, dict[str, Any]]:
    """A field of the outcomes as lists, by method and task."""
    weights: dict[str, dict[str, Any]] = {}
    for method, by_task in outcomes.items():
        weights[method] = {name: getattr(of, field).tolist() for name, of in by_task.items()}
    return weights


def weight_table(method: str, outcomes: Outcomes, runs: Sequence[str], tasks: Tasks) -> str:
    """The weights of the runs in each task, for the terminal."""
    columns = {name: task.title for name, task in tasks.items()}
    rows = {}
    for number, run in enumerate(runs):
        rows[run] = {name: outcomes[method][name].weights[number] for name in tasks}
    return score_table(f"weights, {method}", columns, rows)


def report(
    options: EnsembleOptions, outcomes: Outcomes, rows: Scores, paths: Paths, tasks: Tasks
) -> str:
    """The text for the user: scores, methods, weights, and where the files are."""
    is_course = all(task.is_built_in for task in tasks.values())
    lines = ["", score_table("dev", score_titles(tasks), rows), ""]
    lines += [f"{name}: {method.sentence}" for name, method in METHODS.items()]
    lines += [
        f"Out of fold: dev in {options.folds} parts, each scored with what was fitted on the "
        "others.",
        "In sample: dev scored with what was fitted on all of it. This flatters, so compare out of "
        "fold.",
        CAUTION,
        "",
        weight_table(options.method, outcomes, [str(folder) for folder in options.runs], tasks),
        f"record: {options.out / 'ensemble.json'}",
        f"{'leaderboard' if is_course else 'prediction'} files of {options.method}:",
    ]
    for splits in paths.values():
        lines += [f"  {path}" for path in splits.values()]
    for split, sentence in content_of_files(options.method, options.folds).items():
        lines.append(f"{split} files: {sentence}.")
    return "\n".join(lines)
