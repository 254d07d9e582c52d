"""Several finished runs -> one set of predictions: `python -m multitask.ensemble RUN RUN... --out DIR`.

Opens one run after the other, predicts dev and test, prints the dev scores of the runs and of three ways to join them
(voting.py), and writes the six leaderboard files of one of them, with ensemble.json. Before: finished.py, voting.py.

Legend: N rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from data.readers import Table
from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.files import write_json
from minbert.commands.paths import check_writable
from minbert.reporting.tables import score_table
from multitask.ensemble.voting import METHODS, Outcome, apply_method, gather_votes, make_folds
from multitask.evaluation import labels_of
from multitask.leaderboard import PREDICTED, SCORE_TITLES, default_paths, write_files
from multitask.saved_run import Record, open_run, read_record, same_data
from multitask.stage import read_tables
from multitask.tasks import TASKS, with_overall

CAUTION = (
    "Each run kept the epoch that scored best on these same dev rows, so all of these numbers are a little "
    "high, those of the single runs too."
)
Outputs = dict[str, dict[str, np.ndarray]]  # outputs[task][split]: raw outputs of a run
Tables = dict[str, dict[str, Table]]  # tables[task][split]
Outcomes = dict[str, dict[str, Outcome]]  # outcomes[method][task]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with code 2 and a message for a wrong flag."""
    parser = argparse.ArgumentParser(
        prog="python -m multitask.ensemble",
        allow_abbrev=False,
        description="Join the predictions of several finished runs on the same data.",
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folder of a finished run; two at least"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/ensemble"),
        metavar="DIR",
        help="new folder for files and ensemble.json (%(default)s)",
    )
    parser.add_argument(
        "--method",
        choices=tuple(METHODS),
        default="average",
        help="what the files hold (%(default)s)",
    )
    parser.add_argument(
        "--folds",
        type=int,
        default=5,
        help="parts of dev; what is fitted is scored on the part left out (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=11711, help="seed of the folds (%(default)s)")
    return parser.parse_args(arguments)


def check_request(given: argparse.Namespace) -> list[Record]:
    """The records of the runs; ValueError for what can be refused before a model is opened."""
    if given.out.exists():
        raise ValueError(
            f"{given.out} exists; --out is made anew, so that no file of another ensemble stays in it. "
            "Choose another folder, or remove that one."
        )
    check_writable(given.out)
    if len(given.runs) < 2:
        found = f"only {given.runs[0]}" if given.runs else "no run"
        raise ValueError(
            f"{found} is given; an ensemble needs two runs at least. Name the folders of finished runs, "
            "such as runs/A runs/B; one run alone has its six files already."
        )
    for number, folder in enumerate(given.runs):
        if folder.resolve() in [other.resolve() for other in given.runs[:number]]:
            raise ValueError(f"{folder} is given twice, and would count twice. Name each run once.")
    check_at_least(given, {"folds": 2, "seed": 0})
    records = [read_record(folder) for folder in given.runs]
    same_data(records)
    return records


def voted_tasks(records: Sequence[Record]) -> list[list[str]]:
    """For each run the names of the tasks in which it has a vote: those that it was trained on.

    The vote of a head that never learned would be noise, and a cosine that never saw a label of the task has no scale
    for it. A task that no run was trained on gets the votes of all.
    """
    known = [[name for name in TASKS if name in run.options.tasks.order] for run in records]
    nobodys = set(TASKS).difference(*known)
    return [[name for name in TASKS if name in of_run or name in nobodys] for of_run in known]


def outputs_of(folder: Path, tasks: Sequence[str] = tuple(TASKS)) -> Outputs:
    """Raw outputs of one run, whose model is dropped when this returns."""
    run = open_run(folder)
    return {name: {split: run.outputs(name, split) for split in PREDICTED} for name in tasks}


def join(
    outputs: Sequence[Outputs], labels: dict[str, np.ndarray], folds: dict[str, np.ndarray]
) -> Outcomes:
    """Every method on every task.

    outputs: for each run, of the tasks in which it votes. labels, folds: of dev, (N,) by task name.
    """
    outcomes = {name: {} for name in METHODS}
    for name, task in TASKS.items():
        voters = [number for number, of_run in enumerate(outputs) if name in of_run]
        votes = gather_votes(
            task, *([outputs[number][name][split] for number in voters] for split in PREDICTED)
        )
        among_all = np.eye(len(outputs))[
            voters
        ]  # (V, R): weights of those that vote -> of all runs, 0 for the others
        for method, of_method in METHODS.items():
            found = apply_method(of_method.weigh, task, votes, labels[name], folds[name])
            outcomes[method][name] = replace(
                found,
                weights=found.weights @ among_all,
                fold_weights=found.fold_weights @ among_all,
            )
    return outcomes


def dev_scores(
    runs: dict[str, Outputs], labels: dict[str, np.ndarray], outcomes: Outcomes
) -> dict[str, dict[str, float]]:
    """Scores by row of the table: each run, of what it votes in, then each method, out of fold where it is fitted.

    runs: outputs by the run's name. labels: of dev, (N,) by task name.
    """
    rows = {
        run: with_overall(
            {
                name: TASKS[name].score(TASKS[name].decode(splits["dev"]), labels[name])
                for name, splits in outputs.items()
            }
        )
        for run, outputs in runs.items()
    }
    for method, of_task in outcomes.items():
        title = f"{method}, out of fold" if METHODS[method].is_fitted else method
        rows[title] = with_overall({name: of_task[name].out_of_fold for name in TASKS})
    return rows


def what_files_hold(method: str, num_folds: int) -> dict[str, str]:
    """A sentence for "dev" and one for "test": with which weights the files of a method were made."""
    if not METHODS[method].is_fitted:
        return {"dev": "the same weight for every run that votes, nothing fitted", "test": "as dev"}
    return {
        "dev": f"out of fold: each row is predicted with weights fitted on the {num_folds - 1} of {num_folds} "
        "folds that it is not in, so that the files' score is the honest one",
        "test": "weights fitted on all of dev, whose own score with these would flatter and is not given",
    }


def write_ensemble(
    given: argparse.Namespace, outcomes: Outcomes, tables: Tables, rows: dict[str, dict[str, float]]
) -> None:
    """Write the six files of the chosen method, verified, then ensemble.json: it is there where all else is."""
    values = {
        name: {"dev": chosen.dev, "test": chosen.test}
        for name, chosen in outcomes[given.method].items()
    }
    scores = write_files(values, tables, default_paths(given.out))
    write_json(
        given.out / "ensemble.json",
        {
            "runs": list(map(str, given.runs)),
            "method": given.method,
            "num_folds": given.folds,
            "seed": given.seed,
            "scores": scores,
            "files_hold": what_files_hold(given.method, given.folds),
            "dev_scores": rows,
            "caution": CAUTION,
            **{
                kind: {
                    method: {name: getattr(of_task[name], kind).tolist() for name in TASKS}
                    for method, of_task in outcomes.items()
                }
                for kind in ("weights", "fold_weights")
            },
        },
    )


@exit_code("python -m multitask.ensemble")
def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    records = check_request(given)
    tables = read_tables(records[0].options.data)
    labels = {name: labels_of(tables[name]["dev"]) for name in TASKS}
    folds = {
        name: make_folds(len(of_task), given.folds, given.seed) for name, of_task in labels.items()
    }
    runs = {}
    for record, tasks in zip(records, voted_tasks(records), strict=True):
        print(
            f"{record.folder}: predicting dev and test; trained on {record.options.tasks.tasks}, votes on",
            *tasks,
        )
        runs[str(record.folder)] = outputs_of(record.folder, tasks)
    outcomes = join(list(runs.values()), labels, folds)
    rows = dev_scores(runs, labels, outcomes)
    write_ensemble(given, outcomes, tables, rows)  # before it is said: a pipe may break
    print(f"\n{score_table('dev', SCORE_TITLES, rows)}\n")
    print(*(f"{name}: {method.sentence}" for name, method in METHODS.items()), sep="\n")
    print(
        f"Out of fold: dev in {given.folds} parts, each scored with what was fitted on the others.\n{CAUTION}\n"
    )
    weights = {
        run: {name: outcomes[given.method][name].weights[number] for name in TASKS}
        for number, run in enumerate(runs)
    }
    print(
        score_table(
            f"weights, {given.method}", {name: task.title for name, task in TASKS.items()}, weights
        )
    )
    print(
        f"record: {given.out / 'ensemble.json'}\nleaderboard files of {given.method}:",
        *(path for splits in default_paths(given.out).values() for path in splits.values()),
        sep="\n  ",
    )
    for split, sentence in what_files_hold(given.method, given.folds).items():
        print(f"{split} files: {sentence}.")


if __name__ == "__main__":
    sys.exit(main())
