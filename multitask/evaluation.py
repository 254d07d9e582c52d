"""The only way to predict and to score, for dev and test alike.

Legend: N examples, C classes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from data.batching import EncodedExamples, sorted_batches
from data.examples import evenly_spaced
from minbert.reporting import terminal
from minbert.training.batch_outputs import batch_outputs
from multitask.model import MultitaskBert
from multitask.options import FineTuningOptions
from multitask.task_models import TaskModels
from multitask.tasks import COURSE_TASKS, labels_of, with_overall


def predict(
    model: MultitaskBert | TaskModels,
    task: str,
    rows: EncodedExamples,
    precision: str,
    batch_size: int = 64,
    chosen: np.ndarray | None = None,
) -> np.ndarray:
    """Compute the raw outputs of all rows, in evaluation mode. The model's mode is put back.

    precision: "fp32" or "bf16", of matrix products. A model in int8 keeps its own. chosen: the
    numbers of the rows to predict instead of all. Returns float32 in row order: (N, C) for several
    classes, (N,) otherwise. Raises ValueError for pairs in another encoding than the model's: it
    would read them as something else.
    """
    if model.tasks[task].is_pair and rows.pair_encoding != model.pair_encoding:
        raise ValueError(
            f"the pairs are encoded '{rows.pair_encoding}', this model reads "
            f"'{model.pair_encoding}'; make them with EncodedExamples(..., "
            "pair_encoding=model.pair_encoding)."
        )
    device = next(model.parameters()).device

    def compute(numbers: list[int]) -> Tensor:
        return model(task, rows.batch(numbers).to(device)).float()

    # Batches of similar length have little padding, but they are not in row order.
    lengths = rows.lengths if chosen is None else rows.lengths[chosen]
    batches = sorted_batches(lengths, batch_size)
    numbers = batches if chosen is None else [chosen[indices].tolist() for indices in batches]
    tracked = terminal.track(numbers, f"predictions of {model.tasks[task].title}")
    is_packed = len(batches) > 1
    outputs = batch_outputs(model, compute, tracked, rows.num_tokens, precision, is_packed)

    # One copy at the end: with a GPU, each copy would wait for its batch.
    in_batch_order = torch.cat(outputs).cpu().numpy()
    return in_batch_order[np.argsort(np.concatenate(batches))]


def evaluate(
    model: MultitaskBert | TaskModels, rows: dict[str, EncodedExamples], precision: str
) -> dict[str, float]:
    """Score each task in `rows`, which are labelled.

    If the three tasks of the course are among them, the result also holds both overall scores. For
    any other set of two or more tasks, it holds their mean.
    """
    scores = {}
    for name, task_rows in rows.items():
        task = model.tasks[name]
        predictions = task.decode(predict(model, name, task_rows, precision))
        scores[name] = task.score(predictions, labels_of(task_rows.examples))

    with_means = with_overall(scores)
    if len(scores) > 1 and scores.keys() != set(COURSE_TASKS):
        with_means["mean"] = sum(scores.values()) / len(scores)
    return with_means


def score_training_rows(
    options: FineTuningOptions,
    model: MultitaskBert | TaskModels,
    rows: dict[str, EncodedExamples],
    precision: str,
) -> dict[str, float]:
    """Score the tasks on the training rows that --score_train chooses; {} where it is none.

    The scores have the names of `evaluate`. A label of a class may be a probability. Such a row has
    no right answer, so it is left out.
    """
    scores = {}
    for name, task_rows in rows.items():
        task = model.tasks[name]
        labels = labels_of(task_rows.examples)
        usable = np.arange(len(labels))
        if task.kind in ("classes", "binary"):
            usable = usable[labels % 1 == 0]
        places = evenly_spaced(range(len(usable)), options.num_scored_rows(len(usable)))
        chosen = usable[list(places)]
        if len(chosen):
            outputs = predict(model, name, task_rows, precision, chosen=chosen)
            scores[name] = task.score(task.decode(outputs), labels[chosen])
    return with_overall(scores)
