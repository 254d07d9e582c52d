"""A dev score taken apart: mistakes, confusions, and buckets of rows. Pure functions; errors.py makes pages of them.

Legend: N rows, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data.readers import Example
from multitask.probabilities import probabilities
from multitask.tasks import Task

OVERLAP_EDGES = (
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
)  # a bucket holds its lower edge; the last one, pairs of the same words
OVERLAP_NAMES = ("below 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1", "1")
Buckets = list[tuple[str, np.ndarray]]  # (name, row numbers int64); every row is in one bucket


@dataclass(frozen=True)
class Answers:
    """What a model says to the N dev rows of a task."""

    task: Task
    examples: tuple[Example, ...]  # N, labelled
    outputs: np.ndarray  # (N, C) logits, (N,) logits, or (N,) numbers, float32

    @cached_property
    def labels(self) -> np.ndarray:
        """Gold answers, float32 (N,)."""
        return np.array([example.label for example in self.examples], dtype=np.float32)

    @cached_property
    def predictions(self) -> np.ndarray:
        """As they are scored, (N,): classes, or numbers that may leave the labels' scale."""
        return self.task.decode(self.outputs)

    @cached_property
    def on_scale(self) -> np.ndarray:
        """The predictions moved to the nearer end of the labels' scale where they leave it, (N,)."""
        return np.clip(self.predictions, self.task.format.low, self.task.format.high)

    @cached_property
    def severity(self) -> np.ndarray:
        """How wrong each row is, float64 (N,), 0 where it is right.

        Classes: the probability that the model gives to its wrong answer. Numbers: the distance from the label.
        """
        if self.task.is_regression:
            return np.abs(self.on_scale.astype(np.float64) - self.labels)
        return np.where(self.predictions == self.labels, 0.0, probability_of_answer(self.outputs))


def words_of(text: str) -> list[str]:
    """The lower-cased words, as the TF-IDF baseline sees them: runs of letters, digits and underscores."""
    return re.findall(r"\w+", text.lower())


def count_words(examples: Sequence[Example]) -> np.ndarray:
    """Words of each example, of both sentences together, int64 (N,)."""
    return np.array(
        [len(words_of(f"{example.sentence_1} {example.sentence_2 or ''}")) for example in examples]
    )


def word_overlap(first: str, second: str) -> float:
    """Jaccard index of the sets of lower-cased words, shared / all, 0 to 1; 0.0 where there are no words at all."""
    words = set(words_of(first)), set(words_of(second))
    return len(words[0] & words[1]) / max(1, len(words[0] | words[1]))


def probability_of_answer(logits: np.ndarray) -> np.ndarray:
    """The probability of the more probable class, float64 (N,). logits: (N, C), or (N,) of the second of two classes.

    Softmax of (N, C) at its largest logit; for (N,) the sigmoid of the logit's size, 0.5 to 1.
    """
    found = probabilities(logits)
    return found.max(axis=1) if found.ndim == 2 else np.maximum(found, 1 - found)


def confusion_table(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """How often each class (row) was predicted as each class (column), int64 (C, C).

    labels, predictions: (N,), whole numbers 0 to C-1 of any dtype. Compare with sklearn.metrics.confusion_matrix.
    """
    counts = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(counts, (labels.astype(np.int64), predictions.astype(np.int64)), 1)
    return counts


def worst_rows(severity: np.ndarray, limit: int) -> np.ndarray:
    """Row numbers of at most `limit` mistakes, worst first, equal ones in file order. severity: (N,), 0 if right."""
    order = np.argsort(-severity, kind="stable")
    return order[severity[order] > 0][:limit]


def quartiles(values: np.ndarray) -> Buckets:
    """Four buckets of about as many rows, named by the least and the greatest value inside. values: int64 (N,).

    Equal values share a bucket, so buckets differ in size, and there are fewer where one value fills several.
    """
    edges = np.unique(
        np.quantile(values, [0.25, 0.5, 0.75, 1], method="inverted_cdf")
    )  # each one of the values
    buckets = []
    for number in range(len(edges)):
        inside = np.flatnonzero(np.searchsorted(edges, values) == number)
        low, high = values[inside].min(), values[inside].max()
        buckets.append((f"{low} to {high}" if low < high else f"{low}", inside))
    return buckets


def overlap_buckets(overlaps: np.ndarray) -> Buckets:
    """Six buckets, the same for all data, so that pages can be compared. overlaps: (N,), 0 to 1."""
    bucket = np.digitize(overlaps, OVERLAP_EDGES)
    return [(name, np.flatnonzero(bucket == number)) for number, name in enumerate(OVERLAP_NAMES)]


def point_buckets(labels: np.ndarray, low: int, high: int) -> Buckets:
    """A bucket for each point of the scale low to high; the last one holds `high` too. labels: (N,)."""
    points = np.minimum(np.floor(labels), high - 1)
    return [
        (f"{point} to {point + 1}", np.flatnonzero(points == point)) for point in range(low, high)
    ]
