"""Predictions and scores of a student's multitask model.

The model has the three methods of the course: predict_sentiment, predict_paraphrase and
predict_similarity. Loaders give the batches of course/datasets.py. Our own model is evaluated by
multitask/evaluation.py.

The years return the same numbers in another order, so each has a file of its own: cs224n_2023.py
and cs224n_2024.py.

B rows, C classes, N rows of a loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from course.datasets import Batch
from multitask.tasks import TASKS, macro_f1

Loader = Iterable[Batch]
# The methods of a student's model, by task.
METHODS = {"sst": "predict_sentiment", "para": "predict_paraphrase", "sts": "predict_similarity"}


class Answers(NamedTuple):
    """What a model says about the rows of a loader, in its order.

    values: N predictions. labels: N labels, or none for a test file. ids and texts: N, where the
    batches have them.
    """

    values: list[Any]
    labels: list[Any]
    ids: list[str]
    texts: list[str]

    def score(self, task: str) -> float:
        """Accuracy of sst and para, Pearson correlation of sts."""
        return TASKS[task].score(np.array(self.values), np.array(self.labels))


@torch.no_grad()
def answer(task: str, loader: Loader, model: nn.Module, device: torch.device | str) -> Answers:
    """Predict all rows of a loader in evaluation mode, in which the model then stays.

    task: sst, para or sts.
    """
    model.eval()
    outputs = []
    collected = Answers([], [], [], [])
    for batch in loader:
        outputs.append(output_of(task, batch, model, device).float().cpu())
        if "labels" in batch:
            collected.labels.extend(batch["labels"].flatten().tolist())
        collected.ids.extend(batch["sent_ids"])
        collected.texts.extend(batch.get("sents", ()))
    decoded = TASKS[task].decode(torch.cat(outputs).numpy())
    collected.values.extend(decoded)
    return collected


def output_of(task: str, batch: Batch, model: nn.Module, device: torch.device | str) -> Tensor:
    """The raw outputs of a batch: logits (B, C) of sst, and one number for each pair (B,)."""
    method: Callable[..., Tensor] = getattr(model, METHODS[task])
    names = ["token_ids", "attention_mask"]
    if task != "sst":
        names = ["token_ids_1", "attention_mask_1", "token_ids_2", "attention_mask_2"]
    output = method(*(batch[name].to(device) for name in names))
    return output if task == "sst" else output.flatten()


def model_eval_sst(
    dataloader: Loader, model: nn.Module, device: torch.device | str
) -> tuple[float, float, list[Any], list[Any], list[str], list[str]]:
    """Score SST. Returns accuracy, macro F1, predictions, labels, sentences and ids."""
    answers = answer("sst", dataloader, model, device)
    f1 = macro_f1(np.array(answers.values), np.array(answers.labels))
    return (answers.score("sst"), f1, *answers[:2], answers.texts, answers.ids)
