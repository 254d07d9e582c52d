"""The models of a run in which some tasks have their own, as --single_task_epochs leaves them.

In a run's folder `model` holds the multitask model, and `model-TASK` the model of a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from data.batching import Batch
from minbert import BertTokenizer
from multitask.heads import module_name
from multitask.model import MultitaskBert

SHARED_FOLDER = "model"
RECORD_KEY = "single_task"  # in run.json: by task, what its own training has brought


class TaskModels(nn.Module):
    """A model for each task, which predicts as one MultitaskBert does.

    shared: the multitask model. alone: by task, the models of the tasks that have their own.
    """

    def __init__(self, shared: MultitaskBert, alone: Mapping[str, MultitaskBert]) -> None:
        super().__init__()
        self.shared = shared
        self.tasks_alone = list(alone)  # those that have a model of their own
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
        for task in self.tasks_alone:
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


def tasks_alone(record: Mapping[str, Any]) -> list[str]:
    """The tasks that have their own model, from the content of run.json.

    Raises KeyError or TypeError where the entry is not as SingleTasks.stored made it.
    """
    entry = record.get(RECORD_KEY, {})
    return [task for task, result in entry.items() if result["is_kept"]]
