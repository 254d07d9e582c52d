"""Classification by threshold, and ranking: what [BSC] measures beside the correlations of STS.

Both are functions of the cosines alone. Metrics are scikit-learn's. Next: senteval.py.

Legend: N pairs or candidates, Q questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch.nn.functional as F

from contrastive.quality.options import Cutoffs
from contrastive.quality.vector_sources import VectorSource
from data.ranking_sets import Question, RankingSet
from data.training_texts import TrainingText
from minbert.reporting.intervals import groups_of, standard_errors

DEFAULT_CUTOFFS = Cutoffs()
ABOVE_ALL = 2.0  # a threshold that no cosine reaches


class Thresholds(NamedTuple):
    """The cosines from which a pair counts as positive, for each metric its best one."""

    accuracy: float
    f1: float


# --- classification by threshold ------------------------------------------------------------------


def best_thresholds(cosines: np.ndarray, labels: np.ndarray) -> Thresholds:
    """The thresholds with the highest accuracy and the highest F1 on these pairs.

    cosines: (N,). labels: (N,), 0 or 1, and both of them. Of equal thresholds the highest counts.
    """
    from sklearn.metrics import precision_recall_curve, roc_curve  # late: it takes a second

    # A pair is positive from a threshold on. The first one is above all cosines: infinity, which
    # JSON does not have.
    false_rates, true_rates, thresholds = roc_curve(labels, cosines, drop_intermediate=False)
    num_positives = labels.sum()
    num_negatives = len(labels) - num_positives
    num_right = true_rates * num_positives + (1 - false_rates) * num_negatives
    accuracy = float(thresholds[int(num_right.argmax())])
    accuracy = ABOVE_ALL if np.isinf(accuracy) else accuracy

    precision, recall, thresholds = precision_recall_curve(labels, cosines)
    sums = np.maximum(precision + recall, np.finfo(float).tiny)
    f1 = (2 * precision * recall / sums)[:-1]  # the last one has no threshold
    highest_first = f1[::-1]
    return Thresholds(accuracy, float(thresholds[::-1][int(highest_first.argmax())]))


def classification_scores(
    cosines: np.ndarray, labels: np.ndarray, thresholds: Thresholds | None
) -> dict[str, float]:
    """Average precision, and with thresholds accuracy and F1, each 0 to 1.

    cosines: (N,). labels: (N,), 0 or 1. thresholds: found on other pairs; None: none are known.
    """
    from sklearn.metrics import accuracy_score, average_precision_score, f1_score

    scores = {"average_precision": float(average_precision_score(labels, cosines))}
    if thresholds is not None:
        scores["accuracy"] = float(accuracy_score(labels, cosines >= thresholds.accuracy))
        scores["f1"] = float(f1_score(labels, cosines >= thresholds.f1))
    return scores


def classification_errors(
    pairs: ClassifiedPairs, thresholds: Thresholds | None
) -> dict[str, float]:
    """The standard errors over the pairs of `classification_scores`, by the same names."""
    cosines, labels, groups = pairs
    predictions = {"average_precision": cosines}
    if thresholds is not None:
        predictions["accuracy"] = (cosines >= thresholds.accuracy).astype(np.int64)
        predictions["f1"] = (cosines >= thresholds.f1).astype(np.int64)
    errors = {}
    for name, of_pairs in predictions.items():
        errors[name] = standard_errors(name, [of_pairs], labels, groups)[0]
    return errors


def pair_cosines(source: VectorSource, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """The cosines (N,) float64 of pairs of texts. Each different text is encoded once."""
    texts = list(dict.fromkeys([*first, *second]))
    row_of = {text: row for row, text in enumerate(texts)}
    vectors, _ = source.encode(texts)
    directions = F.normalize(vectors.double(), dim=-1)
    left = directions[[row_of[text] for text in first]]  # (N, H)
    right = directions[[row_of[text] for text in second]]
    return (left * right).sum(dim=-1).numpy()


class ClassifiedPairs(NamedTuple):
    """Pairs with their cosines, labels and groups, (N,) each. groups: of groups_of."""

    cosines: np.ndarray
    labels: np.ndarray
    groups: np.ndarray


def classify(source: VectorSource, pairs: TrainingText) -> ClassifiedPairs:
    """The cosines of labelled pairs."""
    assert pairs.labels is not None, "the command has checked that there are labels"
    first = [row[0] for row in pairs.rows]
    second = [row[1] for row in pairs.rows]
    labels = np.array(pairs.labels).astype(np.int64)
    cosines = pair_cosines(source, first, second)
    return ClassifiedPairs(cosines, labels, groups_of(pairs.rows))


# --- ranking --------------------------------------------------------------------------------------


def question_scores(
    cosines: np.ndarray, is_right: np.ndarray, cutoffs: Cutoffs = DEFAULT_CUTOFFS
) -> dict[str, float]:
    """The scores of one ranking, each 0 to 1.

    cosines, is_right: (N,) of the candidates of one question, some right and some wrong. A wrong
    candidate with the same cosine as a right one counts as before it, so that equal vectors gain
    nothing. Average precision and nDCG treat ties as scikit-learn does: alike, and as their mean.

    P@k is the number of right ones among the first k, divided by k, also where there are fewer
    candidates than k (as in trec_eval).
    """
    from sklearn.metrics import average_precision_score, ndcg_score

    ranked = is_right[np.lexsort((is_right, -cosines))]  # (N,), the nearest candidate first
    scores = {
        "MAP": float(average_precision_score(is_right, cosines)),
        "MRR": 1 / (1 + int(ranked.argmax())),
    }
    for k in cutoffs.precision:
        scores[f"P@{k}"] = float(ranked[:k].sum() / k)
    for k in cutoffs.gain:
        scores[f"nDCG@{k}"] = float(ndcg_score([is_right], [cosines], k=k))
    return scores


def ranking_scores(
    cosines: Sequence[np.ndarray],
    questions: Sequence[Question],
    cutoffs: Cutoffs = DEFAULT_CUTOFFS,
) -> dict[str, Any]:
    """The mean scores of all questions that can be ranked.

    cosines: for each question (N,). A question without a right answer, or without a wrong one, says
    nothing of a ranking. It is left out, as in the usual form of TREC-QA, and counted.
    "standard_errors" are those over the questions, None for a single one.
    """
    scores: dict[str, list[float]] = {}
    for of_question, question in zip(cosines, questions, strict=True):
        if question.can_be_ranked:
            of_one = question_scores(of_question, np.array(question.is_right), cutoffs)
            for name, value in of_one.items():
                scores.setdefault(name, []).append(value)
    means: dict[str, Any] = {name: float(np.mean(values)) for name, values in scores.items()}
    errors = {}
    for name, values in scores.items():
        # Questions are drawn, and each of them with all of its candidates.
        errors[name] = float(np.std(values, ddof=1) / np.sqrt(len(values))) if values[1:] else None
    without_right = sum(not any(question.is_right) for question in questions)
    only_right = sum(all(question.is_right) for question in questions)
    return {
        **means,
        "standard_errors": errors,
        "questions": len(questions) - without_right - only_right,
        "without_right": without_right,
        "only_right": only_right,
    }


def rank(
    source: VectorSource, ranking: RankingSet, cutoffs: Cutoffs = DEFAULT_CUTOFFS
) -> dict[str, Any]:
    """Rank the candidates of each question by their cosine with it; returns the scores."""
    first = []
    second = []
    for question in ranking.questions:
        first += [question.text] * len(question.candidates)
        second += question.candidates
    cosines = pair_cosines(source, first, second)
    ends = np.cumsum([len(question.candidates) for question in ranking.questions])
    parts = np.split(cosines, ends[:-1])
    return {"file": ranking.path, **ranking_scores(parts, ranking.questions, cutoffs)}
