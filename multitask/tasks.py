"""The three tasks, and everything that differs between them.

A task is a format of its files, a kind of answer, and a few names. The kind decides loss, decoding
and score. docs/tour.md says what a fourth task needs beside an entry of TASKS.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from data.readers import PARA, SST, STS, Format
from multitask.head_registry import HEADS
from multitask.losses import paraphrase_loss, sentiment_loss, similarity_loss

# The tasks of the leaderboard's overall scores.
COURSE_TASKS = ("sst", "para", "sts")


# --- from raw outputs to predictions --------------------------------------------------------------


def most_likely_class(logits: np.ndarray) -> np.ndarray:
    """The class with the largest logit; the lowest of tied classes.

    logits: (N, C), any float dtype. Returns int64 (N,), 0 to C - 1. Raises ValueError if a logit is
    not finite.
    """
    return finite(logits).argmax(axis=1)


def is_second_class(logits: np.ndarray) -> np.ndarray:
    """The second of two classes where its probability rounds to 1: sigmoid(logit), rounded.

    Rounding asks for the sign of the logit. A logit of 0 gives 0.5, which rounds to even: 0.
    (In float32 a logit of 1e-9 would, too.)

    logits: (N,). Returns float32 (N,) of 0.0 and 1.0. Raises ValueError if a logit is not finite.
    """
    return (finite(logits) > 0).astype(np.float32)


def as_number(outputs: np.ndarray) -> np.ndarray:
    """The outputs unchanged, and not clipped to the scale of the labels.

    outputs: (N,). Returns float32 (N,). Raises ValueError if an output is not finite.
    """
    return finite(outputs).astype(np.float32)


def finite(values: np.ndarray) -> np.ndarray:
    """The values themselves. Raises ValueError with the first row that is not finite."""
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values
    row = int(np.argwhere(~is_finite)[0][0])
    raise ValueError(
        f"row {row} holds {values[row]}; only finite numbers can be scored. The model has diverged"
        ": go back to the last good checkpoint, or lower the learning rate."
    )


# --- from predictions to scores -------------------------------------------------------------------


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Share of the predictions that equal their label, 0 to 1.

    Both (N,). Raises ValueError for N = 0 or other shapes.
    """
    check_shapes(predictions, labels)
    return float(np.mean(predictions == labels))


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Pearson correlation, -1 to 1, computed in float64 for every dtype.

    If predictions or labels are constant (or N = 1), the correlation is 0/0. It counts as 0.0, the
    score of predictions that tell nothing. A nan would be dangerous: every comparison with it is
    false. A first epoch with nan would stay the best for ever, and a later one would go unnoticed.

    Both (N,). Raises ValueError for N = 0, other shapes, or a number that is not finite. Compare
    with scipy.stats.pearsonr.
    """
    # Imported late: scipy takes half a second, and `--help` must answer at once.
    from scipy.stats import pearsonr

    check_shapes(predictions, labels)
    predictions = finite(predictions).astype(np.float64)
    labels = finite(labels).astype(np.float64)
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(pearsonr(predictions, labels).statistic)


def check_shapes(predictions: np.ndarray, labels: np.ndarray) -> None:
    """ValueError if the two are not both (N,) with at least one row."""
    if predictions.ndim != 1 or predictions.shape != labels.shape or not len(labels):
        raise ValueError(
            f"predictions have shape {predictions.shape}, labels {labels.shape}; both need (N,), "
            "N >= 1"
        )


def overall_2023(scores: dict[str, float]) -> float:
    """The mean of the 2023 leaderboard: (SST + PARA + STS) / 3.

    scores: one per task name. Raises KeyError if one is missing.
    """
    return (scores["sst"] + scores["para"] + scores["sts"]) / 3


def overall_2024(scores: dict[str, float]) -> float:
    """The mean of the 2024 leaderboard: (SST + PARA + (STS + 1) / 2) / 3.

    The correlation is moved to 0..1, the range of an accuracy. Arguments as in overall_2023.
    """
    return (scores["sst"] + scores["para"] + (scores["sts"] + 1) / 2) / 3


def with_overall(scores: dict[str, float]) -> dict[str, float]:
    """The scores by task name, then both overall scores if no task of the course is missing."""
    if not scores.keys() >= set(COURSE_TASKS):
        return dict(scores)
    return {**scores, "overall_2023": overall_2023(scores), "overall_2024": overall_2024(scores)}


# --- kinds of answers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of answer: how it is trained, decoded and scored."""

    loss: Callable[[Tensor, Tensor], Tensor]  # (output, labels) -> scalar
    decode: Callable[[np.ndarray], np.ndarray]  # raw outputs of N rows -> predictions (N,)
    score: Callable[[np.ndarray, np.ndarray], float]  # (predictions, labels), both (N,)
    metric: Literal["accuracy", "Pearson"]


KINDS = {
    # One of several classes: C logits.
    "classes": Kind(sentiment_loss, most_likely_class, accuracy, "accuracy"),
    # Yes or no: one logit.
    "binary": Kind(paraphrase_loss, is_second_class, accuracy, "accuracy"),
    # A number on a scale.
    "number": Kind(similarity_loss, as_number, pearson, "Pearson"),
}


# --- the tasks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A task: its files, its kind of answer, and its names."""

    name: str  # "sst", "para" or "sts": the key in TASKS, in options and in file names
    title: str  # for tables
    format: Format  # columns and labels of its files
    kind: Literal["classes", "binary", "number"]  # a key of KINDS
    column: str  # of the predictions in its leaderboard file
    label_names: tuple[str, ...] = ()  # of its classes, lowest label first; () for a number

    @property
    def loss(self) -> Callable[[Tensor, Tensor], Tensor]:
        """(output, labels) -> scalar."""
        return KINDS[self.kind].loss

    @property
    def decode(self) -> Callable[[np.ndarray], np.ndarray]:
        """Raw outputs of N rows -> predictions (N,)."""
        return KINDS[self.kind].decode

    @property
    def score(self) -> Callable[[np.ndarray, np.ndarray], float]:
        """(predictions, labels), both (N,) -> accuracy or correlation."""
        return KINDS[self.kind].score

    @property
    def metric(self) -> str:
        """The name of the score: "accuracy" or "Pearson"."""
        return KINDS[self.kind].metric

    @property
    def header(self) -> str:
        """First line of its leaderboard file, byte for byte."""
        return f"id \t {self.column} \n"

    @property
    def num_outputs(self) -> int:
        """Outputs per example. Several come as (B, C), one comes as (B,)."""
        return int(self.format.high - self.format.low) + 1 if self.kind == "classes" else 1

    @property
    def start(self) -> float:
        """The first answer of an untrained head: the middle of a scale, or a logit of 0."""
        return (self.format.low + self.format.high) / 2 if self.is_regression else 0.0

    @property
    def is_pair(self) -> bool:
        """Whether an example is two sentences."""
        return self.format.is_pair

    @property
    def is_regression(self) -> bool:
        """Whether its labels are numbers on a scale, scored by correlation, and not classes."""
        return self.kind == "number"


# "Similiary" is the course's spelling, and the leaderboard's reader expects it.
TASKS = {
    "sst": Task(
        "sst",
        "SST",
        SST,
        "classes",
        "Predicted_Sentiment",
        ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    ),
    "para": Task(
        "para",
        "PARA",
        PARA,
        "binary",
        "Predicted_Is_Paraphrase",
        ("not a paraphrase", "paraphrase"),
    ),
    "sts": Task("sts", "STS", STS, "number", "Predicted_Similiary"),
}


def answerable_tasks(tasks: Collection[str], head: str) -> list[str]:
    """The tasks that a run with these --tasks and this --head can answer.

    The heads of all other tasks keep their random weights. Cosine heads have no weights, so they
    can answer without training.
    """
    names = []
    for name, task in TASKS.items():
        needs_no_training = task.is_pair and not HEADS[head].has_weights
        if name in tasks or needs_no_training:
            names.append(name)
    return names
