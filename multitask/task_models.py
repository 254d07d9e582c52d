"""The models of a run with --single_task_epochs: one for each task that was better alone.

After the multitask stage each task is trained alone, from a copy of the multitask model. The
copy is kept where the task's own dev score is higher than before. All other tasks have the
multitask model.

In a run's folder `model` holds the multitask model, and `model-TASK` the model of a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from data.batching import Batch
from minbert import BertTokenizer
from multitask.heads import module_name
from multitask.model import MultitaskBert

SHARED_FOLDER = "model"
RECORD_KEY = "single_task"  # in run.json


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


class TaskModels(nn.Module):
    """A model for each task, which predicts as one MultitaskBert does.

    shared: the multitask model. alone: by task, the models of the tasks that have their own.
    """

    def __init__(self, shared: MultitaskBert, alone: Mapping[str, MultitaskBert]) -> None:
        super().__init__()
        self.shared = shared
        self.alone = nn.ModuleDict({module_name(task): model for task, model in alone.items()})
        self.tasks = shared.tasks
        self.pair_encoding = shared.pair_encoding

    def of(self, task: str) -> MultitaskBert:
        """The model that answers a task."""
        name = module_name(task)
        return cast(MultitaskBert, self.alone[name]) if name in self.alone else self.shared

    def forward(self, task: str, batch: Batch) -> Tensor:
        """The raw outputs of a batch of one task, as MultitaskBert.forward gives them."""
        return self.of(task)(task, batch)

    def save_pretrained(self, folder: Path, tokenizer: BertTokenizer) -> None:
        """Write all models into a run's folder."""
        self.shared.save_pretrained(folder / SHARED_FOLDER, tokenizer)
        for task in self.tasks:
            if module_name(task) in self.alone:
                self.of(task).save_pretrained(model_folder(folder, task), tokenizer)

    @classmethod
    def from_pretrained(cls, folder: Path, tasks: list[str], **config_overrides: Any) -> TaskModels:
        """Load the models of a run's folder, in evaluation mode. tasks: those that have their own.

        Raises ValueError as MultitaskBert.from_pretrained does.
        """
        shared = MultitaskBert.from_pretrained(folder / SHARED_FOLDER, **config_overrides)
        alone = {}
        for task in tasks:
            place = model_folder(folder, task)
            alone[task] = MultitaskBert.from_pretrained(place, **config_overrides)
        return cls(shared, alone).eval()


def model_folder(folder: Path, task: str) -> Path:
    """Where a run's folder has the model of one task."""
    return folder / f"{SHARED_FOLDER}-{task}"


# --- in run.json ----------------------------------------------------------------------------------


def stored_results(results: list[SingleTaskResult]) -> dict[str, Any]:
    """The entry of run.json: {} where no task was trained alone."""
    if not results:
        return {}
    entry = {}
    for result in results:
        entry[result.task] = {"is_kept": result.is_kept, **asdict(result)}
        del entry[result.task]["task"]
    return {RECORD_KEY: entry}


def tasks_alone(record: Mapping[str, Any]) -> list[str]:
    """The tasks that have their own model, from the content of run.json.

    Raises KeyError or TypeError where the entry is not as `stored_results` made it.
    """
    entry = record.get(RECORD_KEY, {})
    return [task for task, result in entry.items() if result["is_kept"]]


def result_table(results: list[SingleTaskResult], titles: Mapping[str, str]) -> list[list[str]]:
    """The rows of a table: each task, its scores before and after, and which model it has."""
    rows = [["each task alone", "before", "after", "model"]]
    for result in results:
        kept = "its own" if result.is_kept else "the multitask model"
        rows.append([titles[result.task], f"{result.before:.4f}", f"{result.after:.4f}", kept])
    return rows
