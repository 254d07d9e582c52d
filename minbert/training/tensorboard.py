"""The log for TensorBoard: what log.csv holds, and the scores of each evaluation, as curves.

Each stage is a run of its own in TensorBoard, because its steps are counted from 1. A resumed run
writes the log of its stage anew, from log.csv, so its curves are those of a run without a stop.
`tensorboard --logdir runs/NAME` draws them while the run goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.reporting.event_file import EventFile
from minbert.training.step_log import LOG_FILE, StepRecord, read_log

FOLDER = "tensorboard"  # in the folder of a run
NO_SCORES = ("epoch", "step", "loss")  # entries of a history that are no scores


class TensorBoardLog:
    """The folder tensorboard/ in the folder of a run, with a folder for each stage in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        self.step_log = folder / LOG_FILE
        self.files: dict[str, EventFile] = {}  # by stage
        self.num_scored: dict[str, int] = {}  # evaluations that are written, by stage

    def write(self, record: StepRecord) -> None:
        """Write the numbers of one step."""
        self.open(record.stage, record.step)
        self.add(record)

    def add(self, record: StepRecord) -> None:
        """Write the numbers of one step of a stage that is open."""
        values = {
            "loss": record.loss,
            "learning_rate": record.learning_rate,
            "gradient_norm": record.gradient_norm,
        }
        for task, loss in record.losses.items():
            values[f"loss_of_task/{task}"] = loss
        for name, value in values.items():
            self.files[record.stage].add_scalar(name, value, record.step)

    def write_scores(self, stage: str, history: Sequence[Mapping[str, Any]]) -> None:
        """Write the scores of the evaluations that are new in the history of a stage."""
        # A run that was stopped in an evaluation begins with that one, behind its step.
        self.open(stage, history[-1]["step"] + 1)
        file = self.files[stage]
        for entry in history[self.num_scored.get(stage, 0) :]:
            for name, value in entry.items():
                if name not in NO_SCORES:
                    file.add_scalar(f"dev/{name}", value, entry["step"])
        self.num_scored[stage] = len(history)
        file.flush()  # also the last steps: every stage ends with an evaluation

    def open(self, stage: str, step: int) -> None:
        """Begin the log of a stage, if that is not done yet, with the steps before `step`."""
        if stage in self.files:
            return
        folder = self.folder / stage
        shutil.rmtree(folder, ignore_errors=True)
        self.files[stage] = EventFile(folder)
        for record in read_log(self.step_log):
            if record.stage == stage and record.step < step:
                self.add(record)
