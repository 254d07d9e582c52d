"""The plans of the multitask stage, and a run's stage as the list of those that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minbert.reporting import terminal
from minbert.reporting.pages import Section
from minbert.training.job import Job, Progress
from minbert.training.loop import fit
from multitask.heads_first import HeadsFirst
from multitask.plan import Plan, StageParts, TrainedTasks
from multitask.single_tasks import SingleTasks
from multitask.soup import AllTasks
from multitask.task_models import TaskModels
from multitask.tasks import Tasks

# In the order of their training.
PLANS: list[type[Plan]] = [HeadsFirst, AllTasks, SingleTasks]


@dataclass(frozen=True)
class TaskStage:
    """The multitask stage of a run: the plans that its options ask for, and their parts."""

    parts: StageParts
    plans: list[Plan]

    @classmethod
    def of(cls, parts: StageParts) -> TaskStage:
        """The stage that the options in `parts` ask for, with its jobs."""
        return cls(parts, [plan(parts) for plan in PLANS if plan.is_asked_for(parts.options)])

    @property
    def jobs(self) -> list[Job]:
        """All jobs, in the order of their training."""
        jobs = []
        for plan in self.plans:
            jobs += plan.jobs
        return jobs

    def train(self, is_resumed: bool) -> TrainedTasks:
        """Let each plan train its jobs. On resume, each job goes on where it stopped."""
        seconds = 0.0

        def train_job(job: Job) -> Progress:
            nonlocal seconds
            terminal.title(f"Stage {job.name}")
            progress = fit(job, is_resumed)
            seconds += progress.seconds
            return progress

        trained = TrainedTasks(TaskModels(self.parts.model, {}))
        for plan in self.plans:
            trained = plan.train(train_job, trained)
            seconds += plan.seconds
        return replace(trained, seconds=seconds)

    def stored(self) -> dict[str, Any]:
        """The entries of all plans in run.json."""
        entries = {}
        for plan in self.plans:
            entries.update(plan.stored())
        return entries


# --- from run.json to what a person reads ---------------------------------------------------------


def printed(record: Mapping[str, Any], tasks: Tasks) -> list[str]:
    """The tables that the plans print. record: the content of run.json. tasks: of the run."""
    return [text for plan in PLANS if (text := plan.printed(record, tasks))]


def sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
    """What report.html shows of the plans of a run."""
    shown = []
    for plan in PLANS:
        shown += plan.sections(record, tasks)
    return shown


def notes(record: Mapping[str, Any]) -> list[str]:
    """The sentences of the model card on the plans of a run."""
    return [note for plan in PLANS if (note := plan.note(record))]
