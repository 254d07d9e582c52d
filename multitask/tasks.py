"""The three tasks, and everything that differs between them. Next: losses.py, sampling.py; then predictions.py.

[ROB], [GEN]: two reports of the course (experiments/recipes.py); [CT]: contrastive tension, Carlsson et al. 2021.
Legend: N rows. docs/tour.md says what a fourth task needs beside an entry of TASKS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from data.readers import PARA, SST, STS, Format
from multitask.losses import paraphrase_loss, sentiment_loss, similarity_loss

COURSE = {"sst", "para", "sts"}  # the tasks of the leaderboard's overall scores


@dataclass(frozen=True)
class Task:
    """What a task is: its files, its model output, and what becomes of that output."""

    name: str  # "sst", "para" or "sts": the key in TASKS, in options and in file names
    title: str  # for tables
    format: Format  # columns and labels of its files
    num_outputs: int  # per example: 5 outputs come as (B, 5), 1 output as (B,)
    loss: Callable[[Tensor, Tensor], Tensor]  # (output, labels) -> scalar
    decode: Callable[[np.ndarray], np.ndarray]  # raw outputs of N rows -> predictions (N,)
    score: Callable[[np.ndarray, np.ndarray], float]  # (predictions, labels), both (N,)
    metric: Literal["accuracy", "Pearson"]
    header: str  # first line of its leaderboard file, byte for byte
    start: float = (
        0.0  # what the head says before it has learned: of a regression the middle of its scale
    )

    @property
    def is_pair(self) -> bool:
        """Whether an example is two sentences."""
        return self.format.is_pair

    @property
    def is_regression(self) -> bool:
        """Whether its labels are numbers on a scale, scored by correlation, and not classes."""
        return self.metric == "Pearson"


def most_likely_class(logits: np.ndarray) -> np.ndarray:
    """logits (N, C), any float dtype -> int64 (N,), 0 to C-1; the lowest of tied classes. ValueError if not finite."""
    return _finite(logits).argmax(axis=1)


def is_paraphrase(logits: np.ndarray) -> np.ndarray:
    """logits (N,) -> float32 (N,) of 0.0 and 1.0: sigmoid(logit) rounded. ValueError if a logit is not finite.

    Rounding asks for the logit's sign; 0 gives 0.5, which rounds to even, 0. (In float32 so would a logit of 1e-9.)
    """
    return (_finite(logits) > 0).astype(np.float32)


def as_number(outputs: np.ndarray) -> np.ndarray:
    """outputs (N,) -> float32 (N,), unchanged and not clipped to 0..5. ValueError if an output is not finite."""
    return _finite(outputs).astype(np.float32)


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Share of predictions that equal their label, 0 to 1. Both (N,). Raises ValueError for N = 0 or other shapes."""
    _check_shapes(predictions, labels)
    return float(np.mean(predictions == labels))


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Pearson correlation, -1 to 1, computed in float64 whatever comes in. Both (N,).

    If predictions or labels are constant (or N = 1), the correlation is 0/0. It counts as 0.0, the score of
    predictions that tell nothing: a nan compares false with everything, so as a first score it would be the best
    epoch for ever, and as a later one it would pass unseen.
    Raises ValueError for N = 0, other shapes, or a number that is not finite. Compare with scipy.stats.pearsonr.
    """
    from scipy.stats import pearsonr  # late: half a second that `--help` does not need

    _check_shapes(predictions, labels)
    predictions, labels = (_finite(values).astype(np.float64) for values in (predictions, labels))
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(pearsonr(predictions, labels).statistic)


def overall_2023(scores: dict[str, float]) -> float:
    """The 2023 leaderboard's mean, (SST + PARA + STS) / 3. scores: one per task name; KeyError if one is missing."""
    return (scores["sst"] + scores["para"] + scores["sts"]) / 3


def overall_2024(scores: dict[str, float]) -> float:
    """The 2024 leaderboard's mean, with the correlation moved to 0..1: (SST + PARA + (STS + 1) / 2) / 3."""
    return (scores["sst"] + scores["para"] + (scores["sts"] + 1) / 2) / 3


def with_overall(scores: dict[str, float]) -> dict[str, float]:
    """The scores by task name, then "overall_2023" and "overall_2024" where none of the course's tasks is missing."""
    if not scores.keys() >= COURSE:
        return dict(scores)
    return {**scores, "overall_2023": overall_2023(scores), "overall_2024": overall_2024(scores)}


def learned(tasks: Sequence[str], head: str) -> list[str]:
    """The tasks that a run with these --tasks and this --head can answer; all other heads keep their random weights.

    Cosine heads of PARA and STS have no weights to learn.
    """
    return [
        name for name, task in TASKS.items() if name in tasks or (task.is_pair and head == "cosine")
    ]


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ValueError(
            f"row {row} holds {values[row]}; only finite numbers can be scored. The model has diverged: "
            "go back to the last good checkpoint, or lower the learning rate."
        )
    return values


def _check_shapes(predictions: np.ndarray, labels: np.ndarray) -> None:
    if predictions.ndim != 1 or predictions.shape != labels.shape or not len(labels):
        raise ValueError(
            f"predictions have shape {predictions.shape}, labels {labels.shape}; both need (N,), N >= 1"
        )


# "Similiary" is the course's spelling, and the leaderboard's reader wants it so.
TASKS: dict[str, Task] = {
    "sst": Task(
        "sst",
        "SST",
        SST,
        5,
        sentiment_loss,
        most_likely_class,
        accuracy,
        "accuracy",
        "id \t Predicted_Sentiment \n",
    ),
    "para": Task(
        "para",
        "PARA",
        PARA,
        1,
        paraphrase_loss,
        is_paraphrase,
        accuracy,
        "accuracy",
        "id \t Predicted_Is_Paraphrase \n",
    ),
    "sts": Task(
        "sts",
        "STS",
        STS,
        1,
        similarity_loss,
        as_number,
        pearson,
        "Pearson",
        "id \t Predicted_Similiary \n",
        start=2.5,
    ),
}
