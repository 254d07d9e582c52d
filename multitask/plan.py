"""What a training method must be that needs jobs of its own: a plan.

The multitask stage of a run is a list of plans. Each one trains its jobs, and hands the models on
to the next one. plan_registry.py lists the plans.

Fusion training is no plan. It adds a loss to the jobs: `StageParts.companion`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from minbert.reporting.pages import Section
from minbert.training.job import Job, Progress
from minbert.training.options import TrainingOptions
from multitask.model import MultitaskBert
from multitask.options import MultitaskOptions
from multitask.rows import EncodedTables
from multitask.stage import build_job
from multitask.task_models import TaskModels
from multitask.tasks import Tasks

Train = Callable[[Job], Progress]  # trains a job to its end, as loop.fit does


@dataclass
class StageParts:
    """The parts from which all plans build their jobs."""

    options: MultitaskOptions
    training: TrainingOptions
    model: MultitaskBert  # that all jobs train, in place
    rows: EncodedTables
    folder: Path  # of the run
    companion: nn.Module | None = None  # of fusion training, see stage.build_job

    @cached_property
    def job(self) -> Job:
        """The job of all tasks together. Other jobs differ from it in a few fields."""
        return self.build_job(0)

    def build_job(self, number: int) -> Job:
        """The same job with another seed. number: of the training, from 0."""
        return build_job(
            self.options,
            self.training,
            self.model,
            self.rows,
            self.folder,
            self.companion,
            number,
        )


@dataclass(frozen=True)
class TrainedTasks:
    """What the plans have left so far.

    models: that answer. scores: on dev, of `models.shared`. epochs, best_step: the scores after
    each evaluation of the first training of all tasks, and the step of its best model. seconds: of
    all plans, known at the end.
    """

    models: TaskModels
    scores: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_step: int = 0
    seconds: float = 0.0


class Plan(ABC):
    """A training method of the multitask stage. `__init__` builds its jobs from the parts."""

    jobs: list[Job]  # in the order of their training
    seconds: float = 0.0  # that `train` takes beside its jobs

    @staticmethod
    @abstractmethod
    def is_asked_for(options: MultitaskOptions) -> bool:
        """Whether the options ask for this plan."""

    @abstractmethod
    def __init__(self, parts: StageParts) -> None:
        """Build the jobs. No plan has trained the model yet."""

    @abstractmethod
    def train(self, train: Train, trained: TrainedTasks) -> TrainedTasks:
        """Train the jobs with `train`; returns what is left afterwards.

        trained: what the plans before this one have left. Its model is that of the jobs.
        """

    def stored(self) -> dict[str, Any]:
        """The entries of run.json, once the plan has trained."""
        return {}

    # --- from run.json to what a person reads. The record may be that of a run without the plan ---

    @staticmethod
    def printed(record: Mapping[str, Any], tasks: Tasks) -> str:
        """A table for the terminal, with what there is to say about it; "" for nothing.

        record: the content of run.json. tasks: of the run.
        """
        return ""

    @staticmethod
    def sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
        """Sections of report.html, after the one with the scores."""
        return []

    @staticmethod
    def note(record: Mapping[str, Any]) -> str:
        """A sentence on the weights for the model card, or ""."""
        return ""
