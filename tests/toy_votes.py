"""Made-up outputs of made-up runs, and altered records of real ones.

For the tests of voting and ensembles.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from minbert.commands.files import read_json
from multitask.ensemble.voting import METHODS, apply_method, gather_votes, make_folds
from multitask.tasks import TASKS

NUM_ROWS = 60
NUM_RUNS = 3
EVERY_METHOD_AND_TASK = []
for _method in METHODS:
    EVERY_METHOD_AND_TASK += [(_method, _task) for _task in TASKS]


def make_outputs(
    task: str,
    num_runs: int = NUM_RUNS,
    num_rows: int = NUM_ROWS,
    seed: int = 0,
    signal: float = 1.0,
):
    """(labels (N,), raw outputs of each run): noise around the label, more in each further run."""
    generator = np.random.default_rng(seed)
    size = (num_rows, 5) if task == "sst" else num_rows
    noise = [generator.normal(size=size) for _ in range(num_runs)]
    if task == "sst":
        labels = generator.integers(0, 5, num_rows)
        truth = 2.0 * np.eye(5)[labels]
    elif task == "para":
        labels = generator.integers(0, 2, num_rows)
        truth = 2.0 * labels - 1
    else:
        labels = generator.uniform(0, 5, num_rows)
        truth = labels

    outputs = []
    for number, of_run in enumerate(noise, start=1):
        outputs.append((signal * truth + number * of_run).astype(np.float32))
    return labels.astype(np.float32), outputs


def make_votes(task: str, **settings):
    """(votes (R, N, 5) or (R, N), labels (N,)) of `make_outputs`."""
    labels, outputs = make_outputs(task, **settings)
    return gather_votes(TASKS[task], outputs, outputs).dev, labels


def apply_to(method: str, task: str, labels, outputs, seed: int = 3):
    """The outcome of a method on the raw outputs of each run, as dev and as test, in five folds."""
    votes = gather_votes(TASKS[task], outputs, outputs)
    folds = make_folds(len(labels), 5, seed)
    return apply_method(METHODS[method].weigh, TASKS[task], votes, labels, folds)


def altered(run: Path, folder: Path, alter) -> Path:
    """A copy of a run whose run.json went through `alter`."""
    path = Path(shutil.copytree(run, folder)) / "run.json"
    record = read_json(path)
    alter(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    return folder
