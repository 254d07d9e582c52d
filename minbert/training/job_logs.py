"""Lets the jobs of a run write log.csv, and the log of TensorBoard where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from minbert.training.job import Job
from minbert.training.step_log import StepLog, StepRecord


def log_steps(jobs: Iterable[Job], folder: Path, has_tensorboard: bool) -> None:
    """Let each job write its steps. folder: of the run."""
    step_log = StepLog(folder)
    for job in jobs:
        job.on_step = step_log.write
    if has_tensorboard:
        log_to_tensorboard(jobs, folder, step_log)


def log_to_tensorboard(jobs: Iterable[Job], folder: Path, step_log: StepLog) -> None:
    """Let each job write the log of TensorBoard as well."""
    # Imported here, because few runs need it.
    from minbert.training.tensorboard import TensorBoardLog

    board = TensorBoardLog(folder)

    def write(record: StepRecord) -> None:
        step_log.write(record)
        board.write(record)

    for job in jobs:
        job.on_step = write
        job.on_evaluation = partial(board.write_scores, job.name)
