"""Intervals: how far chance in the rows and in the seeds moves a score or a difference.

A score on a few hundred rows would be another one on other rows, and after training with another
seed.

Chance in the rows is measured by a bootstrap. Rows are drawn with replacement, as many as there
are, and the score is computed anew. Rows that share a text are drawn together, for they are wrong
together: two pairs with the same question, or a sentence that stands in the file twice.

Chance in the seeds is measured by several runs. Both sources meet in `Estimate`, as readers and
cases do in medical studies (Obuchowski and Rockette 1995): the variance of a mean over runs is that
between the runs, plus what the rows do to all runs alike. A t interval follows. Few seeds make it
wide, so its level stays the same.

Legend: N rows, G groups of rows, K runs, R resamples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from minbert.reporting.differences import LEVEL, Estimate, Interval

NUM_RESAMPLES = 1000
MAX_SHARE = 0.1  # see groups_of
MAX_NUMBERS = 2_000_000  # of a block of weights, 16 MB


# --- resampling rows ------------------------------------------------------------------------------


def groups_of(texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The group of each row, int (N,), 0 to G - 1. Rows that share a text are one group.

    Rows that are linked by other rows are one group, too. If one group has more than MAX_SHARE of
    the rows, there are too few groups to draw from, and each row is a group of its own.

    texts: of each of N rows, one or two.
    """
    # Imported late: scipy takes half a second.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number_of_text: dict[str, int] = {}
    rows = []
    columns = []
    for row, of_row in enumerate(texts):
        for text in of_row:
            rows.append(row)
            columns.append(len(texts) + number_of_text.setdefault(text, len(number_of_text)))
    # A graph of rows and texts, with a line from each row to its texts.
    size = len(texts) + len(number_of_text)
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    components = connected_components(graph, directed=False)[1][: len(texts)]
    groups = np.unique(components, return_inverse=True)[1]
    if np.bincount(groups).max() > MAX_SHARE * len(texts):
        return np.arange(len(texts))
    return groups


def draw_weights(groups: np.ndarray, num_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each row stands in each resample, in blocks of float64 (r, N).

    groups: (N,), of groups_of. G groups are drawn with replacement.
    """
    generator = np.random.default_rng(seed)
    num_groups = int(groups.max()) + 1
    block = max(1, MAX_NUMBERS // len(groups))
    for start in range(0, num_resamples, block):
        size = min(block, num_resamples - start)
        counts = np.empty((size, num_groups))
        for row in range(size):
            drawn = generator.integers(num_groups, size=num_groups)
            counts[row] = np.bincount(drawn, minlength=num_groups)
        yield counts[:, groups]


def resample(
    metric_name: str,
    predictions: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> np.ndarray:
    """The scores of K runs on resampled rows, float64 (R, K). All runs get the same resamples.

    metric_name: of WEIGHTED_SCORES. predictions: (K, N). labels, groups: (N,). With a last axis of
    C labels, predictions are (K, N, C) and labels (N, C), and the metric is of
    WEIGHTED_SCORES_OF_LABELS. seed: of the draws, so that the same files give the same interval.
    """
    score = (WEIGHTED_SCORES if labels.ndim == 1 else WEIGHTED_SCORES_OF_LABELS)[metric_name]
    blocks = []
    for weights in draw_weights(groups, num_resamples, seed):
        of_runs = [score(of_run, labels, weights) for of_run in predictions]
        blocks.append(np.stack(of_runs, axis=1))  # (r, K)
    return np.concatenate(blocks)


# --- scores of weighted rows ----------------------------------------------------------------------
# Each gives what multitask/tasks.py gives for a table in which a row stands `weights` times.
# predictions, labels: (N,). weights: (R, N). Returns (R,).


def weighted_accuracy(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The share of right predictions."""
    return weights @ (predictions == labels) / weights.sum(axis=1)


class ClassCounts(NamedTuple):
    """Numbers of rows by class, each (R, C): right ones, those with the prediction, the label."""

    right: np.ndarray
    predicted: np.ndarray
    labelled: np.ndarray


def count_classes(predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> ClassCounts:
    """Count the rows of each class in each resample."""
    names = np.union1d(predictions, labels)
    is_predicted = (predictions[:, None] == names).astype(np.float64)  # (N, C)
    is_label = (labels[:, None] == names).astype(np.float64)  # (N, C)
    return ClassCounts(
        weights @ (is_predicted * is_label), weights @ is_predicted, weights @ is_label
    )


def weighted_macro_f1(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The mean of F1 over the classes that a resample has."""
    counts = count_classes(predictions, labels, weights)
    either = counts.predicted + counts.labelled
    scores = 2 * counts.right / np.maximum(either, 1)
    return scores.sum(axis=1) / (either > 0).sum(axis=1)


def weighted_matthews(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Matthews correlation, 0 where all predictions or all labels are one class."""
    counts = count_classes(predictions, labels, weights)
    num_rows = weights.sum(axis=1)
    both = counts.right.sum(axis=1) * num_rows - (counts.predicted * counts.labelled).sum(axis=1)
    of_predictions = num_rows**2 - (counts.predicted**2).sum(axis=1)
    of_labels = num_rows**2 - (counts.labelled**2).sum(axis=1)
    return ratio(both, np.sqrt(of_predictions * of_labels))


def weighted_pearson(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Pearson correlation, 0 where predictions or labels are constant."""
    # Numbers around 0 lose no digits when the squares of the means are subtracted.
    x = predictions.astype(np.float64) - predictions.mean(dtype=np.float64)
    y = labels.astype(np.float64) - labels.mean(dtype=np.float64)
    num_rows = weights.sum(axis=1)
    moments = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1) / num_rows[:, None]  # (R, 5)
    mean_x, mean_y, xx, yy, xy = moments.T
    spread = np.maximum(xx - mean_x**2, 0) * np.maximum(yy - mean_y**2, 0)
    return ratio(xy - mean_x * mean_y, np.sqrt(spread))


def weighted_spearman(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Spearman correlation: the ranks are those within each resample."""
    places_of_predictions = np.unique(predictions, return_inverse=True)[1]
    places_of_labels = np.unique(labels, return_inverse=True)[1]
    scores = []
    for row in weights:
        of_predictions = ranks_in(places_of_predictions, row)
        of_labels = ranks_in(places_of_labels, row)
        scores.append(weighted_pearson(of_predictions, of_labels, row[None])[0])
    return np.array(scores)


def ranks_in(places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rank of each value among the weighted ones, (N,). Equal values share their mean rank.

    places: of each value among the different ones, int (N,).
    """
    counts = np.bincount(places, weights)
    return (np.cumsum(counts) - counts / 2)[places]


def weighted_f1(predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """F1 of the class 1, 0 where nothing is predicted and labelled as 1."""
    right = weights @ ((predictions == 1) & (labels == 1))
    either = weights @ (predictions == 1) + weights @ (labels == 1)
    return ratio(2 * right, either)


def weighted_average_precision(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The mean precision over the recall of class 1, 0 without a row of it.

    predictions: the higher, the likelier is class 1. Equal ones are cut together, as scikit-learn
    does.
    """
    order = np.argsort(-predictions, kind="stable")
    is_last = np.append(np.diff(predictions[order]) != 0, True)  # of equal predictions, (N,)
    of_class = np.cumsum(weights[:, order] * (labels[order] == 1), axis=1)[:, is_last]
    of_all = np.cumsum(weights[:, order], axis=1)[:, is_last]
    precision = of_class / np.maximum(of_all, 1)
    gained = np.diff(of_class, axis=1, prepend=0)
    return ratio((gained * precision).sum(axis=1), of_class[:, -1])


def ratio(numbers: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """numbers / divisors, 0 where a divisor is 0 or rounding alone. Both (R,)."""
    return np.where(divisors > 1e-12, numbers / np.maximum(divisors, 1e-12), 0.0)


# Of several labels in a row: predictions and labels are (N, C).


def count_labels(predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> ClassCounts:
    """Count the rows of each label in each resample."""
    return ClassCounts(weights @ (predictions * labels), weights @ predictions, weights @ labels)


def weighted_micro_f1_of_labels(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """F1 of all decisions together."""
    counts = count_labels(predictions, labels, weights)
    either = (counts.predicted + counts.labelled).sum(axis=1)
    return 2 * counts.right.sum(axis=1) / np.maximum(either, 1)


def weighted_macro_f1_of_labels(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The mean of F1 over all labels."""
    counts = count_labels(predictions, labels, weights)
    either = counts.predicted + counts.labelled
    return (2 * counts.right / np.maximum(either, 1)).mean(axis=1)


def weighted_exact_match(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The share of rows whose labels are all right."""
    return weights @ np.all(predictions == labels, axis=1) / weights.sum(axis=1)


WEIGHTED_SCORES_OF_LABELS = {
    "micro_f1": weighted_micro_f1_of_labels,
    "macro_f1": weighted_macro_f1_of_labels,
    "exact_match": weighted_exact_match,
}
WEIGHTED_SCORES = {
    "accuracy": weighted_accuracy,
    "macro_f1": weighted_macro_f1,
    "matthews": weighted_matthews,
    "pearson": weighted_pearson,
    "spearman": weighted_spearman,
    # Of pairs that contrastive.quality classifies.
    "f1": weighted_f1,
    "average_precision": weighted_average_precision,
}


# --- rows and seeds together ----------------------------------------------------------------------


def estimate_difference(
    scores: tuple[np.ndarray, np.ndarray],
    resampled: tuple[np.ndarray, np.ndarray],
    num_groups: int,
) -> Estimate:
    """The mean score of the second system's runs minus that of the first one's.

    scores: of the runs of both, (K,) and (L,). resampled: on the same rows, (R, K) and (R, L).
    Raises ValueError unless both have one run, or both several.
    """
    first, second = scores
    num_first, num_second = len(first), len(second)
    value = float(np.mean(second) - np.mean(first))
    if num_first == num_second == 1:
        differences = resampled[1] - resampled[0]
        return Estimate(value, float(covariance_of(differences, num_groups)[0, 0]), num_groups)
    if min(num_first, num_second) == 1:
        raise ValueError(
            "one side has one run and the other side several. Give one run on each side, or "
            "several on each, for chance in the seeds is measured on both."
        )

    # What the rows do to all runs of a system alike is the covariance of two of its runs. What
    # they do to both systems alike does not change the difference.
    covariance = covariance_of(np.concatenate(resampled, axis=1), num_groups)  # (K + L, K + L)
    shared = mean_off_diagonal(covariance[:num_first, :num_first])
    shared += mean_off_diagonal(covariance[num_first:, num_first:])
    shared -= 2 * float(covariance[:num_first, num_first:].mean())

    # What the rows do to each run by itself is part of the variance between the runs.
    degrees = num_first + num_second - 2
    squares = float(np.sum((first - first.mean()) ** 2) + np.sum((second - second.mean()) ** 2))
    between = squares / degrees * (1 / num_first + 1 / num_second)
    return Estimate(value, max(shared, 0.0), num_groups, between, degrees)


def covariance_of(resampled: np.ndarray, num_groups: int) -> np.ndarray:
    """The covariances of K runs over the resamples (R, K): (K, K)."""
    covariance = np.atleast_2d(np.cov(resampled, rowvar=False))
    # A bootstrap of G groups divides by G, not by G - 1.
    return covariance * num_groups / max(1, num_groups - 1)


def standard_errors(
    metric_name: str, predictions: Sequence[np.ndarray], labels: np.ndarray, groups: np.ndarray
) -> list[float]:
    """How far chance in the rows moves each of K scores: K standard errors.

    metric_name, labels, groups: of `resample`. predictions: K arrays (N,).
    """
    resampled = resample(metric_name, np.stack(predictions), labels, groups)
    variances = np.diag(covariance_of(resampled, int(groups.max()) + 1))
    errors: list[float] = np.sqrt(variances).tolist()
    return errors


def mean_off_diagonal(matrix: np.ndarray) -> float:
    """The mean of all numbers of a matrix (K, K) but those on its diagonal."""
    size = len(matrix)
    return float(matrix.sum() - np.trace(matrix)) / (size * (size - 1))


def score_interval(
    metric_name: str, score: float, resampled: np.ndarray, num_groups: int, num_rows: int
) -> Interval:
    """The interval of one score of one run, inside the range of its metric.

    Accuracy: Wilson's interval, which also has a width where every row is right. Other scores: the
    middle LEVEL of the resampled ones, (R,).
    """
    if metric_name != "accuracy":
        return middle_of(resampled)
    size = float(num_rows)
    if num_groups < num_rows:
        # As many single rows as would vary as much as these groups do.
        variance = float(resampled.var())
        size = score * (1 - score) / variance if variance else float(num_groups)
    return wilson(score, size)


def wilson(share: float, size: float) -> Interval:
    """The interval of a share of `size` rows (Wilson 1927).

    Compare with scipy's binomtest(...).proportion_ci(method="wilson"), for whole numbers.
    """
    from scipy.stats import norm

    z = float(norm.ppf((1 + LEVEL) / 2))
    middle = share + z**2 / (2 * size)
    half = z * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    low = (middle - half) / (1 + z**2 / size)
    high = (middle + half) / (1 + z**2 / size)
    return Interval(max(low, 0.0), min(high, 1.0))


def middle_of(resampled: np.ndarray) -> Interval:
    """The quantiles of resampled scores (R,) that hold the middle LEVEL."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
