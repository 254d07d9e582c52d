"""The only way to predict and to score, for dev and test alike. Next: predictions.py, which writes the files.

N examples.
"""

from __future__ import annotations

import numpy as np
import torch

from data.batching import EncodedExamples, sorted_batches
from data.readers import Table
from minbert.training import runtime
from multitask.model import MultitaskBert
from multitask.tasks import COURSE, TASKS, with_overall


@torch.no_grad()
def predict(
    model: MultitaskBert, task: str, rows: EncodedExamples, precision: str, batch_size: int = 64
) -> np.ndarray:
    """Raw outputs float32 in row order: (N, 5) for "sst", (N,) for the others. The model's mode is put back.

    ValueError for pairs in another encoding than the model's, which it would read as something else.
    """
    if TASKS[task].is_pair and rows.pair_encoding != model.pair_encoding:
        raise ValueError(
            f"the pairs are encoded '{rows.pair_encoding}', this model reads '{model.pair_encoding}'; "
            "make them with EncodedExamples(..., pair_encoding=model.pair_encoding)."
        )
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    outputs, order = [], []
    for indices in sorted_batches(rows.lengths, batch_size):
        with runtime.autocast(device, precision):
            outputs.append(model(task, rows.batch(indices).to(device)).float())
        order += indices
    model.train(was_training)
    return (
        torch.cat(outputs).cpu().numpy()[np.argsort(order)]
    )  # one copy: a GPU would be waited for at each


def labels_of(rows: EncodedExamples | Table) -> np.ndarray:
    """The labels as float32 (N,)."""
    return np.array([example.label for example in rows.examples], dtype=np.float32)


def evaluate(
    model: MultitaskBert, rows: dict[str, EncodedExamples], precision: str
) -> dict[str, float]:
    """The score of each task in `rows`, which are labelled: accuracy, accuracy, Pearson correlation.

    With just the course's three tasks both overall scores too; with any other two or more, their mean.
    """
    scores = {
        name: TASKS[name].score(
            TASKS[name].decode(predict(model, name, task_rows, precision)), labels_of(task_rows)
        )
        for name, task_rows in rows.items()
    }
    if scores.keys() == COURSE:
        return with_overall(scores)
    return scores | ({"mean": sum(scores.values()) / len(scores)} if len(scores) > 1 else {})
