"""The metrics of sentence vectors, beside those of zero_shot.py.

Correlations by subset, the distribution of cosines by label, and transfer to a classifier. Pure
functions on arrays. Next: measurement.py.

Legend: N pairs or sentences, H hidden, B bins, K bands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from contrastive.zero_shot import correlations

NUM_BUCKETS = 20  # of 0.25 on a scale of 0 to 5 (Carlsson et al. 2021, section 5.2)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MIN_ROWS = 3  # of a correlation: two points always lie on a line

# The correlations of each subset by its name, as `subset_correlations` returns them.
SubsetScores = dict[str, dict[str, Any] | None]


def label_range(labels: np.ndarray) -> tuple[float, float]:
    """The scale of labels (N,): the whole numbers around them. 0 to 5 for STS, 1 to 5 for SICK."""
    return float(np.floor(labels.min())), float(np.ceil(labels.max()))


def positive_threshold(low: float, high: float) -> float:
    """The label above which a pair counts as positive: 80 % of the scale, which is 4 of 0 to 5."""
    return low + 0.8 * (high - low)


def subset_correlations(
    cosines: np.ndarray, labels: np.ndarray, subsets: Sequence[str]
) -> SubsetScores:
    """The rows, Spearman's and Pearson's correlation of each subset, in order of appearance.

    cosines, labels, subsets: (N,). A subset with fewer than 3 rows or with only one label has no
    correlation: its value is None.
    """
    scores: SubsetScores = {}
    for name in dict.fromkeys(subsets):
        inside = np.array([subset == name for subset in subsets])  # (N,)
        num_rows = int(inside.sum())
        if num_rows < MIN_ROWS or np.ptp(labels[inside]) == 0:
            scores[name] = None
            continue
        scores[name] = {"rows": num_rows, **correlations(cosines[inside], labels[inside])}
    return scores


def aggregate(
    cosines: np.ndarray, labels: np.ndarray, subset_scores: SubsetScores
) -> dict[str, dict[str, float]]:
    """The correlations of a set under the three conventions of the literature. Papers mix them.

    "all": one correlation over all rows of all subsets (SimCSE and most papers since).
    "mean of subsets": the mean of the correlations of the subsets.
    "weighted mean": the same, weighted by their rows (the ranking of SemEval 2012 to 2016).

    cosines, labels: (N,). subset_scores: from `subset_correlations`. If no subset has a
    correlation, the result holds only "all".
    """
    aggregated = {"all": correlations(cosines, labels)}
    scored = [scores for scores in subset_scores.values() if scores is not None]
    if not scored:
        return aggregated

    num_rows = [scores["rows"] for scores in scored]
    for convention, weights in (("mean of subsets", None), ("weighted mean", num_rows)):
        means = {}
        for key in ("spearman", "pearson"):
            values = [scores[key] for scores in scored]
            means[key] = float(np.average(values, weights=weights))
        aggregated[convention] = means
    return aggregated


def cosine_buckets(
    cosines: np.ndarray, labels: np.ndarray, low: float, high: float, num_buckets: int = NUM_BUCKETS
) -> list[dict[str, Any]]:
    """The distribution of the cosines in each bucket of labels.

    If the buckets of two labels overlap, the cosine cannot tell these labels apart. Carlsson et al.
    2021, section 5.2.

    cosines, labels: (N,), labels within low to high. A bucket holds its upper edge. The first one
    holds `low`, too. Each record has the bucket's "low", "high" and "rows", and the "mean",
    "deviation" (of the population) and "quantiles" (at QUANTILES) of its cosines. The last three
    are None in an empty bucket.
    """
    width = (high - low) / num_buckets
    # A label on an edge, such as 2.2 on a scale from 1 in steps of 0.2, must not go above the edge
    # because of rounding. Hence 1e-9 less.
    last = np.ceil((labels - low) / width - 1e-9).astype(np.int64) - 1  # (N,)
    bucket = np.clip(last, 0, num_buckets - 1)  # (N,)

    records = []
    for number in range(num_buckets):
        inside = cosines[bucket == number].astype(np.float64)
        record: dict[str, Any] = {
            "low": low + number * width,
            "high": low + (number + 1) * width,
            "rows": len(inside),
            "mean": None,
            "deviation": None,
            "quantiles": None,
        }
        if len(inside):
            record["mean"] = float(inside.mean())
            record["deviation"] = float(inside.std())
            record["quantiles"] = np.quantile(inside, QUANTILES).tolist()
        records.append(record)
    return records


def cosine_histogram(
    cosines: np.ndarray,
    labels: np.ndarray,
    low: float,
    high: float,
    num_bands: int = 5,
    bin_width: float = 0.05,
) -> dict[str, list]:
    """A histogram of the cosines for each of `num_bands` equal parts of the label scale.

    cosines, labels: (N,), labels within low to high. The record has
    "edges": of the bins, B + 1 multiples of `bin_width`. The last one is 1.
    "bands": of the labels, K + 1 numbers.
    "rows": K numbers of rows.
    "shares": (K, B), shares of a band's rows. All are 0 in an empty band.
    """
    first_bin = min(0, math.floor(float(cosines.min()) / bin_width))
    edges = np.arange(first_bin, round(1 / bin_width) + 1) * bin_width  # (B + 1,)
    bands = np.linspace(low, high, num_bands + 1)  # (K + 1,)
    # A band holds its upper edge, as a bucket does.
    band = np.clip(np.searchsorted(bands, labels - 1e-9) - 1, 0, num_bands - 1)  # (N,)

    counts = []
    for number in range(num_bands):
        # A cosine can exceed 1 by rounding.
        inside = np.clip(cosines[band == number], edges[0], 1.0)
        counts.append(np.histogram(inside, edges)[0])
    table = np.array(counts)  # (K, B)
    num_rows = table.sum(axis=1)  # (K,)
    shares = table / np.maximum(num_rows, 1)[:, None]  # (K, B)
    return {
        "edges": edges.round(10).tolist(),
        "bands": bands.tolist(),
        "rows": num_rows.tolist(),
        "shares": shares.tolist(),
    }


def transfer_accuracies(
    vectors: np.ndarray, labels: np.ndarray, sentences: Sequence[str], num_folds: int, seed: int
) -> np.ndarray:
    """The cross-validated accuracies of a linear classifier on frozen vectors, (num_folds,).

    The classifier is scikit-learn's logistic regression with its own L2 penalty, C = 1. The
    coordinates are scaled to variance 1 over the training folds, so the penalty means the same for
    every encoder. SentEval (Conneau and Kiela 2018) does likewise but searches the penalty.

    vectors: (N, H). labels: (N,), each class with at least num_folds rows. sentences: N texts.
    Equal sentences are in one fold, or else the classifier would have seen the answer. The classes
    are spread evenly. seed: of the random folds.
    """
    # Imported late: scikit-learn takes a second.
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = StratifiedGroupKFold(num_folds, shuffle=True, random_state=seed)
    groups = np.unique(sentences, return_inverse=True)[1]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return cross_val_score(
        classifier, vectors, labels, groups=groups, cv=folds, error_score="raise"
    )
