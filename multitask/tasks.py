"""What differs between tasks in mathematics: losses, decoding and metrics, by the names of a spec.

A task is a specification (data/task_specs.py): a format of its files, a kind of answer, and a few
names. `Task` adds the functions that these names stand for. A run has the tasks that --tasks names,
as a mapping from name to Task that is made once and passed on.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from data.examples import Example
from data.options import DataOptions
from data.tables.rows import RawTable
from data.task_specs import BUILT_IN, TaskSpec, from_stored
from data.task_tables import resolve_task
from multitask.head_registry import HEADS
from multitask.losses import absolute_loss, paraphrase_loss, sentiment_loss, similarity_loss

# The tasks of the leaderboard's overall scores.
COURSE_TASKS = ("sst", "para", "sts")

Scored = Literal["predictions", "labels"]
REMEDIES: dict[Scored, str] = {
    "predictions": "The training diverged. Train again with a lower learning rate (--lr).",
    "labels": "Correct the label in its file, or leave the row out.",
}


# --- from raw outputs to predictions --------------------------------------------------------------


def most_likely_class(logits: np.ndarray) -> np.ndarray:
    """The class with the largest logit; the lowest of tied classes.

    logits: (N, C), any float dtype. Returns int64 (N,), 0 to C - 1. Raises ValueError if a logit is
    not finite.
    """
    return finite(logits, "predictions").argmax(axis=1)


def is_second_class(logits: np.ndarray) -> np.ndarray:
    """The second of two classes where its probability rounds to 1: sigmoid(logit), rounded.

    Rounding asks for the sign of the logit. A logit of 0 gives 0.5, which rounds to even: 0.
    (In float32 a logit of 1e-9 would, too.)

    logits: (N,). Returns float32 (N,) of 0.0 and 1.0. Raises ValueError if a logit is not finite.
    """
    return (finite(logits, "predictions") > 0).astype(np.float32)


def has_label(logits: np.ndarray) -> np.ndarray:
    """Which labels a row has: those whose probability, sigmoid(logit), is over one half.

    Each label is a question of its own, so a row may have several or none. Compare with
    most_likely_class, in which the labels exclude each other.

    logits: (N, C). Returns float32 (N, C) of 0.0 and 1.0. Raises ValueError if a logit is not
    finite.
    """
    return (finite(logits, "predictions") > 0).astype(np.float32)


def as_number(outputs: np.ndarray) -> np.ndarray:
    """The outputs unchanged, and not clipped to the scale of the labels.

    outputs: (N,). Returns float32 (N,). Raises ValueError if an output is not finite.
    """
    return finite(outputs, "predictions").astype(np.float32)


def finite(values: np.ndarray, kind: Scored) -> np.ndarray:
    """The values themselves. Raises ValueError with the first row that is not finite.

    values: (N,) or (N, C). kind: of the values, for the message.
    """
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values
    row = int(np.argwhere(~is_finite)[0][0])
    raise ValueError(
        f"the {kind} hold numbers that are not finite, the first in row {row}: {values[row]}. "
        f"{REMEDIES[kind]}"
    )


# --- from predictions to scores -------------------------------------------------------------------


def labels_of(examples: Sequence[Example]) -> np.ndarray:
    """The labels of N examples, float32 (N,). (N, C) of 0 and 1 where a row may have several.

    Raises ValueError for an example without a label: as nan it would count as a wrong prediction.
    """
    labels = []
    for example in examples:
        if example.answer is None:
            raise ValueError(
                f"the row with the id {example.id} has no label; each row must have one to be "
                "scored. Give a labelled file, such as the dev file."
            )
        labels.append(example.answer)
    return np.array(labels, dtype=np.float32)


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Share of the predictions that equal their label, 0 to 1.

    Both (N,). Raises ValueError for N = 0, other shapes, or a number that is not finite.
    """
    check_scored(predictions, labels)
    return float(np.mean(predictions == labels))


def macro_f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The mean over the classes of F1, 2 TP / (2 TP + FP + FN), 0 to 1.

    Classes are those that a label or a prediction has. Compare with accuracy, in which a rare class
    hardly counts, and with sklearn.metrics.f1_score(average="macro").

    Both (N,). Raises ValueError for N = 0, other shapes, or a number that is not finite.
    """
    check_scored(predictions, labels)
    scores = []
    for name in np.union1d(predictions, labels):
        # 2 TP + FP + FN is the number of predictions and of labels of the class.
        num_both = np.sum((predictions == name) & (labels == name))
        num_either = np.sum(predictions == name) + np.sum(labels == name)
        scores.append(2 * num_both / num_either)
    return float(np.mean(scores))


def matthews(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Matthews correlation of several classes, -1 to 1 (Gorodkin 2004, R_K).

    It is the correlation of the one-hot predictions with the one-hot labels. 0 where all
    predictions or all labels are one class. Compare with sklearn.metrics.matthews_corrcoef.

    Both (N,). Raises ValueError for N = 0, other shapes, or a number that is not finite.
    """
    check_scored(predictions, labels)
    # One column for each class.
    names = np.union1d(predictions, labels)
    predicted = (predictions[:, None] == names).astype(np.float64)  # (N, C)
    true = (labels[:, None] == names).astype(np.float64)  # (N, C)

    def covariance(first: np.ndarray, second: np.ndarray) -> float:
        return float(((first - first.mean(axis=0)) * (second - second.mean(axis=0))).sum())

    spread = covariance(predicted, predicted) * covariance(true, true)
    return covariance(predicted, true) / spread**0.5 if spread > 0 else 0.0


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

    check_scored(predictions, labels)
    predictions = predictions.astype(np.float64)
    labels = labels.astype(np.float64)
    if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(pearsonr(predictions, labels).statistic)


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Spearman correlation, -1 to 1: that of the ranks. Equal numbers share their mean rank.

    Arguments, errors and constant input as in `pearson`. Compare with scipy.stats.spearmanr.
    """
    # Imported late, as in `pearson`.
    from scipy.stats import rankdata

    check_scored(predictions, labels)
    return pearson(rankdata(predictions), rankdata(labels))


# Scores of rows that may have several labels. Predictions and labels are (N, C), of 0 and 1. All
# raise ValueError for N = 0, other shapes, or a number that is not finite.


def micro_f1_of_labels(predictions: np.ndarray, labels: np.ndarray) -> float:
    """F1 of all decisions together, 2 TP / (2 TP + FP + FN), 0 to 1. Frequent labels count most.

    It is 0 where no row has a label and none was predicted. Compare with sklearn.metrics.f1_score,
    average="micro".
    """
    check_scored(predictions, labels, num_axes=2)
    num_both = np.sum((predictions == 1) & (labels == 1))
    num_either = np.sum(predictions == 1) + np.sum(labels == 1)
    return float(2 * num_both / max(1, num_either))


def macro_f1_of_labels(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The mean of F1 over the labels, 0 to 1, in which a rare label counts as a frequent one does.

    A label that no row has and that was never predicted has F1 0. Compare with
    sklearn.metrics.f1_score, average="macro".
    """
    check_scored(predictions, labels, num_axes=2)
    num_both = np.sum((predictions == 1) & (labels == 1), axis=0)  # (C,)
    num_either = np.sum(predictions == 1, axis=0) + np.sum(labels == 1, axis=0)  # (C,)
    return float(np.mean(2 * num_both / np.maximum(1, num_either)))


def exact_match(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows whose labels are all right, 0 to 1.

    Compare with sklearn.metrics.accuracy_score, which counts rows with several labels so, too.
    """
    check_scored(predictions, labels, num_axes=2)
    return float(np.mean(np.all(predictions == labels, axis=1)))


def check_scored(predictions: np.ndarray, labels: np.ndarray, num_axes: int = 1) -> None:
    """ValueError if the two are not both (N,) with at least one row, or hold nan or infinity.

    A label of nan equals no prediction, so accuracy would count the row as wrong without a word.
    num_axes: 2 where both must be (N, C).
    """
    if predictions.ndim != num_axes or predictions.shape != labels.shape or not len(labels):
        shape = "(N,)" if num_axes == 1 else "(N, C)"
        raise ValueError(
            f"predictions have shape {predictions.shape}, labels {labels.shape}; both must be "
            f"{shape}, with N >= 1. Pass one prediction for each label."
        )
    finite(predictions, "predictions")
    finite(labels, "labels")


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


# --- the functions behind the names of a specification -------------------------------------------

Loss = Callable[[Tensor, Tensor], Tensor]  # (output, labels) -> scalar
# (predictions, labels), both (N,), or (N, C) where a row may have several labels
Score = Callable[[np.ndarray, np.ndarray], float]


class Metric(NamedTuple):
    """A score of predictions, and its name for tables."""

    title: str
    score: Score


LOSSES: dict[str, Loss] = {
    "cross_entropy": sentiment_loss,
    "binary_cross_entropy": paraphrase_loss,
    "mse": similarity_loss,
    "mae": absolute_loss,
}
METRICS = {
    "accuracy": Metric("accuracy", accuracy),
    "macro_f1": Metric("macro F1", macro_f1),
    "matthews": Metric("Matthews", matthews),
    "pearson": Metric("Pearson", pearson),
    "spearman": Metric("Spearman", spearman),
}
# Those of kind=multilabel.
METRICS_OF_LABELS = {
    "micro_f1": Metric("micro F1", micro_f1_of_labels),
    "macro_f1": Metric("macro F1", macro_f1_of_labels),
    "exact_match": Metric("exact match", exact_match),
}
# Raw outputs of N rows -> predictions (N,), or (N, C) of several labels, by the kind of answer.
DECODERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "classes": most_likely_class,
    "binary": is_second_class,
    "multilabel": has_label,
    "score": as_number,
}


# --- the tasks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task(TaskSpec):
    """A specification with its functions."""

    @property
    def loss(self) -> Loss:
        """(output, labels) -> scalar."""
        return LOSSES[self.loss_name]

    @property
    def decode(self) -> Callable[[np.ndarray], np.ndarray]:
        """Raw outputs of N rows -> predictions (N,), or (N, C) where a row may have several."""
        return DECODERS[self.kind]

    @property
    def score(self) -> Score:
        """(predictions, labels), as `decode` gives them -> the task's metric."""
        return self._metric.score

    @property
    def metric(self) -> str:
        """The name of the score for tables, such as "accuracy" or "Pearson"."""
        return self._metric.title

    @property
    def _metric(self) -> Metric:
        metrics = METRICS_OF_LABELS if self.is_multilabel else METRICS
        return metrics[self.metric_name]

    @property
    def header(self) -> str:
        """First line of its leaderboard file, byte for byte."""
        return f"id \t {self.column} \n"

    def names_of(self, prediction: np.ndarray) -> tuple[str, ...]:
        """The names of the labels of a row that may have several. prediction: (C,), 0 or 1."""
        return tuple(self.label_names[number] for number in np.flatnonzero(prediction))

    def label_text(self, prediction: Any) -> str:
        """A prediction for a reader: the name of the class, or the number.

        Several labels have their sign between them. The sign alone says that there is none.
        """
        if self.is_multilabel:
            separator = self.format.separator
            return separator.join(self.names_of(prediction)) or separator
        if self.is_regression:
            return f"{prediction:.4g}"
        return self.label_names[int(prediction)]


Tasks = Mapping[str, Task]


def with_functions(spec: TaskSpec) -> Task:
    """The task of a specification."""
    return Task(**vars(spec))


BUILT_IN_TASKS = {name: with_functions(spec) for name, spec in BUILT_IN.items()}
# The three of the leaderboard, which a run has if --tasks says nothing else.
TASKS = {name: BUILT_IN_TASKS[name] for name in COURSE_TASKS}


class OpenedTasks(NamedTuple):
    """The tasks of a run, and of each task of --task a line for the user and its training table."""

    tasks: dict[str, Task]
    lines: list[str]
    training_tables: dict[str, RawTable]


def open_tasks(options: DataOptions, names: Collection[str]) -> OpenedTasks:
    """The tasks with these names: built-in ones first, then those of --task in the order of flags.

    Raises ValueError where the training file of a task cannot be used.
    """
    tasks = {}
    lines = []
    training_tables = {}
    for name in options.in_order(names):
        if name in BUILT_IN_TASKS:
            tasks[name] = BUILT_IN_TASKS[name]
            continue
        # A user's task is what its training file says.
        resolved = resolve_task(options.requests[name])
        tasks[name] = with_functions(resolved.spec)
        lines.append(resolved.line)
        training_tables[name] = resolved.table
    return OpenedTasks(tasks, lines, training_tables)


def stored_tasks(content: Mapping[str, object]) -> dict[str, Task]:
    """The tasks in the content of run.json or heads.json.

    Older ones have no entry "tasks", and the three tasks of the course. Raises KeyError, TypeError
    or ValueError for specifications of another version.
    """
    if "tasks" not in content:
        return dict(TASKS)
    entries = content["tasks"]
    if not isinstance(entries, Sequence):
        raise TypeError("'tasks' is no list")
    return from_stored(entries, Task)


def answerable_tasks(read: Tasks, trained: Collection[str], head: str) -> list[str]:
    """Which of the tasks that a run reads it can answer. trained: the names in --tasks.

    The heads of all other tasks keep their random weights. Cosine heads have no weights, so they
    can answer without training.
    """
    names = []
    for name, task in read.items():
        needs_no_training = task.is_pair and not HEADS[head].has_weights
        if name in trained or needs_no_training:
            names.append(name)
    return names
