"""--single_task_epochs: after all tasks together each task is trained alone.

It starts from a copy of the multitask model. The copy is kept where the task's own dev score is
higher than before. All other tasks have the multitask model.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from minbert.reporting.pages import Section
from minbert.reporting.tables import Table, aligned, heading_and_numbers
from minbert.training import processes
from minbert.training.job import Job, Progress, equal_weights
from multitask.evaluation import evaluate
from multitask.leaderboard import score_titles
from multitask.options import MultitaskOptions
from multitask.plan import Plan, StageParts, Train, TrainedTasks
from multitask.rows import num_tokens
from multitask.sampling import mt_dnn
from multitask.stage import batch_makers, build_optimizer, weight_average
from multitask.task_models import RECORD_KEY, TaskModels, tasks_alone
from multitask.tasks import Tasks


@dataclass(frozen=True)
class SingleTaskResult:
    """What training one task alone has brought.

    before, after: the task's dev score of the multitask model, and the best one of its own epochs.
    epochs: the scores after each evaluation. best_step: that of the best one.
    """

    task: str
    before: float
    after: float
    epochs: list[dict[str, Any]]
    best_step: int

    @property
    def is_kept(self) -> bool:
        """Whether the task keeps its own model. Of equal scores the multitask model stays."""
        return self.after > self.before

    @property
    def stored(self) -> dict[str, Any]:
        """The result as run.json holds it, under the name of the task."""
        values = {"is_kept": self.is_kept, **asdict(self)}
        del values["task"]
        return values


def single_task_job(parts: StageParts, task: str) -> Job:
    """The job of one task alone.

    It has its own optimizer, and the dev score of the task selects its best epoch. One task has
    one gradient, so there is no surgery.
    """
    job = parts.job
    model = parts.model
    fine_tuning = parts.options.fine_tuning
    fine_tuning = replace(fine_tuning, lr=fine_tuning.single_task_lr)
    of_task = {task: parts.rows[task]}
    make_batches = batch_makers(of_task, fine_tuning.batch_size, fine_tuning.max_tokens)

    def evaluate_task() -> dict[str, float]:
        dev = {task: parts.rows[task]["dev"]}
        return processes.from_first(lambda: evaluate(model, dev, job.precision))

    return replace(
        job,
        name=f"single-{task}",
        folder=job.folder.with_name(f"single-{task}"),
        epochs=fine_tuning.single_task_epochs,
        optimizer=build_optimizer(model, fine_tuning, parts.training),
        plan=lambda epoch, generator: mt_dnn(make_batches, generator),
        evaluate=evaluate_task,
        score=task,
        evaluation_tokens=num_tokens(of_task, "dev"),
        closing_tokens=0,
        average=weight_average(fine_tuning, model),
        weigh=equal_weights,
        surgery=None,
    )


class SingleTasks(Plan):
    """Each task alone. Afterwards the model has the weights again that all tasks share."""

    @staticmethod
    def is_asked_for(options: MultitaskOptions) -> bool:
        """Whether --single_task_epochs has a number of epochs."""
        return options.fine_tuning.single_task_epochs > 0

    def __init__(self, parts: StageParts) -> None:
        self.model = parts.model
        self.tasks = list(dict.fromkeys(parts.options.tasks.order))
        self.jobs = [single_task_job(parts, task) for task in self.tasks]
        self.results: list[SingleTaskResult] = []  # filled by `train`

    def train(self, train: Train, trained: TrainedTasks) -> TrainedTasks:
        """Train each task from the model that all tasks share, and keep what is better."""
        shared = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        alone = {}
        for task, job in zip(self.tasks, self.jobs, strict=True):
            self.model.load_state_dict(shared)
            result = result_of(task, trained.scores[task], train(job))
            job.release()
            if result.is_kept:
                alone[task] = copy.deepcopy(self.model)
            self.results.append(result)
        self.model.load_state_dict(shared)
        return replace(trained, models=TaskModels(self.model, alone))

    def stored(self) -> dict[str, Any]:
        """The result of each task."""
        return {RECORD_KEY: {result.task: result.stored for result in self.results}}

    @staticmethod
    def printed(record: Mapping[str, Any], tasks: Tasks) -> str:
        """The score of each task before and after."""
        results = record.get(RECORD_KEY)
        return aligned(result_table(results, score_titles(tasks))) if results else ""

    @staticmethod
    def sections(record: Mapping[str, Any], tasks: Tasks) -> list[Section]:
        """The same as a section."""
        results = record.get(RECORD_KEY)
        if not results:
            return []
        prose = (
            "After the multitask stage each task was trained alone, from a copy of the multitask "
            "model. It keeps the copy where its dev score is higher."
        )
        titles = {name: task.title for name, task in tasks.items()}
        _, *rows = result_table(results, titles)
        columns = heading_and_numbers("task", "dev before", "dev after", "model")
        return [Section("Each task alone", prose, Table(columns, tuple(map(tuple, rows))), level=2)]

    @staticmethod
    def note(record: Mapping[str, Any]) -> str:
        """The tasks that have a model of their own."""
        names = ", ".join(tasks_alone(record))
        return f"These tasks have an encoder of their own: {names}." if names else ""


def result_of(task: str, before: float, progress: Progress) -> SingleTaskResult:
    """The result of a task. before: its dev score of the multitask model."""
    after = cast(float, progress.best_score)
    return SingleTaskResult(task, before, after, progress.history, progress.best_step)


def result_table(
    results: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]
) -> list[list[str]]:
    """The rows of a table: each task, its scores before and after, and which model it has.

    results: of run.json, by task. titles: of the first column, by task.
    """
    rows = [["each task alone", "before", "after", "model"]]
    for task, result in results.items():
        kept = "its own" if result["is_kept"] else "the multitask model"
        rows.append([titles[task], f"{result['before']:.4f}", f"{result['after']:.4f}", kept])
    return rows
