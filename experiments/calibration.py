"""Probabilities that mean what they say, and thresholds for errors that cost differently.

A model may say 0.99 and be right in nine of ten rows. One number, the temperature, corrects that on
dev rows without changing which class is the most probable one (Guo et al. 2017). A threshold then
follows from what the two kinds of errors cost.

Legend: N rows, C classes, L labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from multitask.probabilities import probabilities
from multitask.tasks import Task

NUM_BINS = 10
NUM_FOLDS = 5
LOWEST, HIGHEST = -4.0, 4.0  # of the logarithm of the temperature
SMALLEST = 1e-12  # probability in a logarithm


class Quality(NamedTuple):
    """How good probabilities are: their log loss, and their calibration error, both at least 0."""

    log_loss: float
    calibration_error: float


class Calibration(NamedTuple):
    """The temperature of all rows, and the quality of probabilities before and after.

    after: with temperatures that were fitted without the rows that they are measured on.
    """

    temperature: float
    before: Quality
    after: Quality


def calibrate(
    task: Task, logits: np.ndarray, labels: np.ndarray, groups: np.ndarray
) -> Calibration:
    """Fit the temperature of a task's logits, and measure it on rows that it was not fitted on.

    logits: (N, C), (N,) or (N, L). labels: (N,) or (N, L). groups: (N,), of intervals.groups_of:
    rows of one group stay together. Raises ValueError for fewer than two groups.
    """
    from sklearn.model_selection import GroupKFold

    num_folds = min(NUM_FOLDS, len(np.unique(groups)))
    if num_folds < 2:
        raise ValueError(f"{task.title} has {len(labels)} dev rows; a temperature needs more.")
    held_out = np.empty(logits.shape)
    for train, rest in GroupKFold(num_folds).split(logits, groups=groups):
        held_out[rest] = logits[rest] / fit_temperature(task, logits[train], labels[train])
    return Calibration(
        fit_temperature(task, logits, labels),
        quality_of(task, probabilities(logits, task.is_multilabel), labels),
        quality_of(task, probabilities(held_out, task.is_multilabel), labels),
    )


def fit_temperature(task: Task, logits: np.ndarray, labels: np.ndarray) -> float:
    """The T > 0 with which the probabilities of logits / T have the lowest log loss.

    Over 1: the model was too sure. Where all decisions are right, each smaller T has a lower log
    loss, and rows say nothing about T. It then stays 1. Compare with
    CalibratedClassifierCV(method="temperature") of scikit-learn. Arguments as of calibrate.
    """
    from scipy.optimize import minimize_scalar

    if are_all_right(task, logits, labels):
        return 1.0

    def loss_at(logarithm: float) -> float:
        shares = probabilities(logits / np.exp(logarithm), task.is_multilabel)
        return log_loss(task, shares, labels)

    # The log loss is convex in 1 / T, so it has one minimum.
    best = minimize_scalar(loss_at, bounds=(LOWEST, HIGHEST), method="bounded")
    return float(np.exp(best.x))


def are_all_right(task: Task, logits: np.ndarray, labels: np.ndarray) -> bool:
    """Whether each decision is the label. Arguments as of calibrate."""
    shares = probabilities(logits, task.is_multilabel)
    return bool(decisions_of(task, shares, labels).is_right.all())


class Decisions(NamedTuple):
    """The confidence of each decision and whether it is right, both (N,), or (N x L,) of labels."""

    confidence: np.ndarray
    is_right: np.ndarray


def decisions_of(task: Task, shares: np.ndarray, labels: np.ndarray) -> Decisions:
    """The decisions that follow from probabilities. Arguments as of log_loss."""
    if task.kind == "classes":
        return Decisions(shares.max(axis=1), shares.argmax(axis=1) == labels)
    confidence = np.maximum(shares, 1 - shares).ravel()
    return Decisions(confidence, ((shares > 0.5) == (labels > 0.5)).ravel())


def log_loss(task: Task, shares: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log(probability of the label), over rows, or over rows and several labels.

    shares: probabilities (N, C), (N,) or (N, L). labels: (N,) or (N, L). Compare with
    sklearn.metrics.log_loss.
    """
    if task.kind == "classes":
        of_label = shares[np.arange(len(labels)), labels.astype(np.int64)]
    else:
        of_label = np.where(labels > 0.5, shares, 1 - shares)
    return float(-np.log(np.maximum(of_label, SMALLEST)).mean())


def quality_of(task: Task, shares: np.ndarray, labels: np.ndarray) -> Quality:
    """The log loss, and the calibration error of the decisions. Arguments as of log_loss."""
    decisions = decisions_of(task, shares, labels)
    return Quality(log_loss(task, shares, labels), calibration_error(*decisions))


def calibration_error(confidence: np.ndarray, is_right: np.ndarray) -> float:
    """How far confidence and the share of right answers are apart (ECE, Guo et al. 2017).

        sum over bins of (rows of the bin / N) |share of right answers - mean confidence|

    The bins hold equally many rows. confidence: (N,), 0 to 1. is_right: (N,) of bool.
    """
    order = np.argsort(confidence, kind="stable")
    error = 0.0
    for rows in np.array_split(order, min(NUM_BINS, len(order))):
        error += len(rows) * abs(is_right[rows].mean() - confidence[rows].mean())
    return float(error / len(order))


# --- thresholds -----------------------------------------------------------------------------------


class Costs(NamedTuple):
    """What an error costs: a row with the label that is missed, and one that is named falsely."""

    missed: float
    false: float

    @property
    def threshold(self) -> float:
        """The probability from which naming the label is cheaper: false / (false + missed).

        A row with probability p costs (1 - p) x false if it is named and p x missed if not (Elkan
        2001, equation 2).
        """
        return self.false / (self.false + self.missed)


def cost_at(threshold: float, shares: np.ndarray, labels: np.ndarray, costs: Costs) -> float:
    """The mean cost of a row if the label is named from a threshold on.

    shares: the probability of the label, (N,). labels: (N,), 0 or 1.
    """
    is_named = shares > threshold
    num_missed = np.sum(~is_named & (labels > 0.5))
    num_false = np.sum(is_named & (labels <= 0.5))
    return float(num_missed * costs.missed + num_false * costs.false) / len(labels)


class Coverage(NamedTuple):
    """If only rows with at least this confidence are answered: how many, and how well."""

    confidence: float
    answered: float  # share of all rows
    accuracy: float  # of these


def coverages(confidence: np.ndarray, is_right: np.ndarray) -> list[Coverage]:
    """The share of rows that is answered, and its accuracy, for some least confidences.

    A person then answers the other rows. confidence: (N,). is_right: (N,) of bool.
    """
    kept = []
    for least in (0.0, 0.5, 0.7, 0.8, 0.9, 0.95):
        rows = confidence >= least
        if rows.any():
            kept.append(Coverage(least, float(rows.mean()), float(is_right[rows].mean())))
    return kept
