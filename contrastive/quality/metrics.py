"""What sentence vectors are judged by, beside quality.py: correlations by subset, cosines by label, transfer.

Pure functions on arrays; survey.py calls them. N pairs or sentences, H hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from contrastive.zero_shot import correlations

NUM_BUCKETS = 20  # of 0.25 on a scale of 0 to 5 (Carlsson et al. 2021, section 5.2)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MIN_ROWS = 3  # of a correlation: two points always lie on a line
SubsetScores = dict[
    str, dict[str, float] | None
]  # by subset; None: too few rows, or one label throughout


def label_range(labels: np.ndarray) -> tuple[float, float]:
    """The scale that labels (N,) seem to be of, the whole numbers around them: 0 to 5 for STS, 1 to 5 for SICK."""
    return float(np.floor(labels.min())), float(np.ceil(labels.max()))


def positive_above(low: float, high: float) -> float:
    """The label above which a pair counts as positive for the alignment: four fifths up the scale, 4 of 0 to 5."""
    return low + 0.8 * (high - low)


def subset_correlations(
    cosines: np.ndarray, labels: np.ndarray, subsets: Sequence[str]
) -> SubsetScores:
    """rows, spearman and pearson of each subset, in order of appearance. cosines, labels and subsets: (N,).

    None in place of numbers for a subset that has none: fewer than 3 rows, or one label throughout.
    """
    found = {}
    for name in dict.fromkeys(subsets):
        inside = np.array([subset == name for subset in subsets])
        num_rows = int(inside.sum())
        is_scored = num_rows >= MIN_ROWS and np.ptp(labels[inside]) > 0
        found[name] = (
            {"rows": num_rows, **correlations(cosines[inside], labels[inside])}
            if is_scored
            else None
        )
    return found


def aggregations(
    cosines: np.ndarray, labels: np.ndarray, of_subsets: SubsetScores
) -> dict[str, dict[str, float]]:
    """Correlations of a set under the three conventions of the literature, by name; papers mix them.

    "all": one correlation over all rows, whatever subset they are from (SimCSE and most papers since). "mean of
    subsets": the mean of the subsets' correlations. "weighted mean": the same, weighted by their rows (as the SemEval
    tasks of 2012 to 2016 were ranked). Only the first where of_subsets, from `subset_correlations`, holds no number.
    """
    scored = [scores for scores in of_subsets.values() if scores is not None]
    found = {"all": correlations(cosines, labels)}
    if scored:
        for name, weights in {
            "mean of subsets": None,
            "weighted mean": [scores["rows"] for scores in scored],
        }.items():
            found[name] = {
                key: float(np.average([scores[key] for scores in scored], weights=weights))
                for key in ("spearman", "pearson")
            }
    return found


def cosine_spread(
    cosines: np.ndarray, labels: np.ndarray, low: float, high: float, num_buckets: int = NUM_BUCKETS
) -> list[dict]:
    """How the cosines of each label bucket lie: where buckets overlap, the cosine cannot tell their labels apart.

    cosines, labels (N,), labels within low to high. Each bucket holds its upper edge, the first one `low` too (Carlsson
    et al. 2021, section 5.2): its "low" and "high", "rows", and of its cosines "mean", "deviation" (of the population)
    and "quantiles" at QUANTILES; these three are None in an empty one.
    """
    width = (high - low) / num_buckets
    # A label on an edge, such as 2.2 on a scale from 1 in steps of 0.2, must not rise above it by rounding: - 1e-9.
    bucket = np.clip(
        np.ceil((labels - low) / width - 1e-9).astype(np.int64) - 1, 0, num_buckets - 1
    )  # (N,)
    found = []
    for number in range(num_buckets):
        inside = cosines[bucket == number].astype(np.float64)
        statistics = {"mean": None, "deviation": None, "quantiles": None}
        if len(inside):
            statistics = {
                "mean": float(inside.mean()),
                "deviation": float(inside.std()),
                "quantiles": np.quantile(inside, QUANTILES).tolist(),
            }
        found.append(
            {
                "low": low + number * width,
                "high": low + (number + 1) * width,
                "rows": len(inside),
                **statistics,
            }
        )
    return found


def cosine_histogram(
    cosines: np.ndarray,
    labels: np.ndarray,
    low: float,
    high: float,
    num_bands: int = 5,
    bin_width: float = 0.05,
) -> dict[str, list]:
    """How many cosines lie where, for each of `num_bands` equal parts of the label scale; arguments as `cosine_spread`.

    "edges": of the bins, B + 1 multiples of `bin_width`, the last one 1. "bands": of the labels, K + 1. "rows": K.
    "shares": (K, B), of a band's rows; all 0 in an empty one.
    """
    edges = (
        np.arange(min(0, math.floor(float(cosines.min()) / bin_width)), round(1 / bin_width) + 1)
        * bin_width
    )
    bands = np.linspace(low, high, num_bands + 1)
    band = np.clip(
        np.searchsorted(bands, labels - 1e-9) - 1, 0, num_bands - 1
    )  # (N,), of their upper edges
    counts = np.array(
        [
            np.histogram(np.clip(cosines[band == number], edges[0], 1.0), edges)[0]
            for number in range(num_bands)
        ]
    )
    rows = counts.sum(axis=1)
    return {
        "edges": edges.round(10).tolist(),
        "bands": bands.tolist(),
        "rows": rows.tolist(),
        "shares": (counts / np.maximum(rows, 1)[:, None]).tolist(),
    }


def transfer_accuracies(
    vectors: np.ndarray, labels: np.ndarray, sentences: Sequence[str], num_folds: int, seed: int
) -> np.ndarray:
    """Accuracy on each of `num_folds` parts of a classifier of frozen vectors trained on the others: (num_folds,).

    scikit-learn's logistic regression with its own L2 penalty, C = 1, on coordinates scaled to variance 1 over the
    training part, so that the penalty means the same for every encoder (SentEval, Conneau and Kiela 2018, does likewise
    but searches the penalty). vectors (N, H), labels (N,) with at least num_folds rows each. Equal sentences share a
    part, or else the answer to one would have been seen; classes are spread evenly. `seed` draws the parts.
    """
    from sklearn.linear_model import (
        LogisticRegression,
    )  # late: scikit-learn takes a second to import
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    parts = StratifiedGroupKFold(num_folds, shuffle=True, random_state=seed)
    groups = np.unique(sentences, return_inverse=True)[1]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return cross_val_score(
        classifier, vectors, labels, groups=groups, cv=parts, error_score="raise"
    )
