"""The dev rows of a task with a model's outputs, and the worst mistakes among them.

Legend: N rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data.examples import Example
from minbert.reporting.pages import Section
from minbert.reporting.tables import Column, ColumnKind, Table
from multitask.probabilities import confidences, probabilities
from multitask.tasks import Task, labels_of


@dataclass(frozen=True)
class DevOutputs:
    """The N dev rows of a task, and the outputs of a model for them."""

    task: Task
    examples: tuple[Example, ...]  # N, labelled
    outputs: np.ndarray  # float32: logits (N, C), logits (N,) of two classes, or numbers (N,)

    @cached_property
    def labels(self) -> np.ndarray:
        """The gold labels, float32 (N,), or (N, C) of several."""
        return labels_of(self.examples)

    @cached_property
    def predictions(self) -> np.ndarray:
        """The predictions that are scored, (N,): classes, or numbers that may leave the scale.

        (N, C) of several labels.
        """
        return self.task.decode(self.outputs)

    @cached_property
    def clipped(self) -> np.ndarray:
        """The predictions (N,). Those beyond an end of the labels' scale are moved to that end."""
        return np.clip(self.predictions, self.task.format.low, self.task.format.high)

    @cached_property
    def severity(self) -> np.ndarray:
        """How wrong each row is, float64 (N,). 0 means that the row is right.

        Classes: the probability that the model gives to its wrong answer.
        Several labels: the largest probability that it gives to a wrong decision.
        Numbers: the distance between prediction and label, on the scale.
        """
        if self.task.is_regression:
            return np.abs(self.clipped.astype(np.float64) - self.labels)
        is_right = self.predictions == self.labels
        if self.task.is_multilabel:
            shares = probabilities(self.outputs, is_multilabel=True)  # (N, C)
            return np.where(is_right, 0.0, np.maximum(shares, 1 - shares)).max(axis=1)
        return np.where(is_right, 0.0, prediction_probability(self.outputs))


def prediction_probability(logits: np.ndarray) -> np.ndarray:
    """The probability of the more probable class, float64 (N,).

    logits: (N, C), or (N,) for the second of two classes.
    """
    return confidences(probabilities(logits))


def worst_rows(severity: np.ndarray, limit: int) -> np.ndarray:
    """The row numbers of at most `limit` mistakes, the worst first, equal ones in file order.

    severity: (N,), 0 for a row that is right.
    """
    order = np.argsort(-severity, kind="stable")
    mistakes = order[severity[order] > 0]
    return mistakes[:limit]


def worst_section(dev: DevOutputs, limit: int) -> Section:
    """The worst mistakes with their texts, gold labels and predictions."""
    worst = worst_rows(dev.severity, limit)
    if not len(worst):
        return Section("Worst mistakes", "No row is wrong.")

    is_class = not dev.task.is_regression
    order = (
        "by the probability that the model gave to its wrong answer"
        if is_class
        else "by the distance between gold label and prediction"
    )
    num_mistakes = int(np.sum(dev.severity > 0))
    prose = f"{len(worst):,} of {num_mistakes:,} mistakes, the worst first: {order}."

    titles = ("sentence 1", "sentence 2") if dev.task.is_pair else ("sentence",)
    columns = [Column(title, "sentence") for title in titles]
    kind: ColumnKind = "words" if is_class else "number"
    columns += [Column("gold", kind), Column("prediction", kind)]
    columns += [Column("confidence" if is_class else "off by"), Column("id", "identifier")]
    rows = [_mistake(dev, row) for row in worst]
    return Section("Worst mistakes", prose, Table(tuple(columns), tuple(rows)))


def _mistake(dev: DevOutputs, row: int) -> tuple[str, ...]:
    """The cells of one mistake."""
    example = dev.examples[row]
    gold = dev.labels[row]
    prediction = dev.clipped[row]
    names = dev.task.label_names
    # A class is shown by its name, a number with its sign of error.
    if names:
        answers = (dev.task.label_text(gold), dev.task.label_text(prediction))
        cells = (*answers, f"{dev.severity[row]:.4f}")
    else:
        cells = (f"{gold:.2f}", f"{prediction:.2f}", f"{prediction - gold:+.2f}")
    return (*example.texts, *cells, example.id)
