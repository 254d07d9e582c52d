"""Scores of an encoder, with what chance in the rows and in the seeds does to them.

They come from a record of contrastive.quality, and papers.py records them. A cell of a table has
the mean over the seeds, and an interval that holds both sources of chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.paper_recipes import AVERAGE, PEARSON, paper_name
from minbert.reporting.differences import Estimate, standard_error_of_share

COPIES = ("first", "second")
BUCKET_FIELDS = ("low", "high", "rows", "mean", "deviation")


class Score(NamedTuple):
    """A score with its standard error over the rows; None where it is not known.

    num_groups: of rows, or of questions, that were drawn for the error.
    """

    value: float
    error: float | None = None
    num_groups: int = 0


def average_of(scores: Sequence[Score]) -> Score:
    """The mean of scores on different sets. The rows of one set are drawn apart from the others."""
    value = statistics.fmean(score.value for score in scores)
    errors = [score.error for score in scores if score.error is not None]
    if len(errors) < len(scores):
        return Score(value)
    error = math.sqrt(sum(error**2 for error in errors)) / len(scores)
    return Score(value, error, sum(score.num_groups for score in scores))


def mean_on_same_rows(scores: Sequence[Score]) -> Score:
    """The mean of scores on the same rows, which move all of them alike."""
    value = statistics.fmean(score.value for score in scores)
    errors = [score.error for score in scores if score.error is not None]
    error = statistics.fmean(errors) if len(errors) == len(scores) else None
    return Score(value, error, scores[0].num_groups)


def estimate_of(scores: Sequence[Score]) -> Estimate:
    """The mean over the seeds, with the chance in both.

    The rows move all seeds nearly alike, because all of them are measured on the same rows. Here
    they count as moving them exactly alike, so the interval is a little too wide.
    """
    value = statistics.fmean(score.value for score in scores)
    errors = [score.error for score in scores if score.error is not None]
    row_variance = 0.0
    num_groups = 0
    if len(errors) == len(scores):
        row_variance = statistics.fmean(error**2 for error in errors)
        num_groups = min(score.num_groups for score in scores)
    if len(scores) == 1:
        return Estimate(value, row_variance, num_groups)
    between = statistics.variance([score.value for score in scores]) / len(scores)
    return Estimate(value, row_variance, num_groups, between, len(scores) - 1)


def cell_of(scores: Sequence[Score], published: float | None) -> str:
    """The mean over the seeds, its interval if rows or seeds give one, and the published figure."""
    if not scores:
        return "-"
    estimate = estimate_of(scores)
    text = f"{estimate.value:.3f}"
    if estimate.num_groups or estimate.degrees_of_seeds:
        low, high = estimate.interval
        text += f" [{low:.3f}, {high:.3f}]"
    return text if published is None else f"{text} ({published:.3f})"


# --- of one encoder -------------------------------------------------------------------------------


def scores_in(record: Mapping[str, Any], vector: str) -> dict[str, Score]:
    """The scores of a record of contrastive.quality, by the name of the set or task.

    A set has Spearman's correlation, and behind all of them stand those of Pearson.
    vector: the kind of sentence vector; "" for the encoder's own. ValueError where a set has none.
    """
    scores = {}
    pearson = {}
    for name, of_set in record["sets"].items():
        kind = vector or next(iter(of_set["vectors"]))
        if kind not in of_set["vectors"]:
            reason = of_set["left_out"].get(kind, "it is no kind of vector there")
            file = of_set["file"]
            raise ValueError(
                f"{file}: there is no {kind} ({reason}). Pass a larger file, or more --rows."
            )
        of_kind = of_set["vectors"][kind]
        title = paper_name(name)
        values = of_kind["all"]
        errors = of_kind["standard_errors"]
        groups = of_set["groups"]
        scores[title] = Score(values["spearman"], errors["spearman"], groups)
        pearson[title + PEARSON] = Score(values["pearson"], errors["pearson"], groups)
    for name, task in record.get("senteval", {}).items():
        scores[name] = Score(task["accuracy"], task["standard_error"], task["tested"])
    if len(scores) > 1:
        scores[AVERAGE] = average_of(list(scores.values()))
    if len(pearson) > 1:
        pearson[AVERAGE + PEARSON] = average_of(list(pearson.values()))
    scores |= pearson
    for name, pairs in record.get("pairs", {}).items():
        for title, error in pairs["standard_errors"].items():
            scores[f"{name} {title.replace('_', ' ')}"] = Score(
                pairs[title], error, pairs["groups"]
            )
    for name, ranking in record.get("ranking", {}).items():
        for title, error in ranking["standard_errors"].items():
            scores[f"{name} {title}"] = Score(ranking[title], error, ranking["questions"])
    return scores


def scores_without_encoder(record: Mapping[str, Any]) -> dict[str, Score]:
    """What needs no encoder on the labelled pairs of a record, by the names of `scores_in`.

    Accuracy is that of the more common answer. F1 and average precision are those of an answer
    that calls every pair positive. With the share p of positive pairs: F1 = 2 p / (1 + p), whose
    derivative is 2 / (1 + p)^2, and the average precision is p.
    """
    scores = {}
    for name, pairs in record.get("pairs", {}).items():
        share = pairs["positives"] / pairs["rows"]
        error = standard_error_of_share(share, pairs["rows"])
        of_pairs = {
            "average_precision": (share, error),
            "accuracy": (max(share, 1 - share), error),
            "f1": (2 * share / (1 + share), 2 * error / (1 + share) ** 2),
        }
        for title in pairs["standard_errors"]:
            value, error_of_title = of_pairs[title]
            scores[f"{name} {title.replace('_', ' ')}"] = Score(
                value, error_of_title, pairs["groups"]
            )
    return scores


def states_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """What --layers adds to a record, of the first set of contrastive.quality.

    "layers": Spearman's correlation of each hidden state, by pooling. "layer_errors": the standard
    errors of these. "groups": of rows, that were drawn for them. "buckets": the mean cosine of the
    sentence vectors in each bucket of labels with its deviation, None in an empty one.
    """
    of_set = next(iter(record["sets"].values()))
    buckets = []
    for bucket in of_set["buckets"]:
        buckets.append({name: bucket[name] for name in BUCKET_FIELDS})
    parts = {name: of_set[name] for name in ("layers", "layer_errors", "groups")}
    return {**parts, "buckets": buckets}


# --- of two copies --------------------------------------------------------------------------------


def copies_in_order(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, Score]]:
    """The scores of two copies as [CT] prints them: the worse one, the better one, their mean.

    The average of the first score's kind decides which copy is the worse one. "difference" is that
    of the pair ([CT] table 7). Both copies are measured on the same rows, so the error of their
    difference is not known.
    """
    key = AVERAGE if AVERAGE in scores[COPIES[0]] else next(iter(scores[COPIES[0]]))
    worse, better = sorted(scores.values(), key=lambda of_copy: of_copy[key].value)
    means = {}
    differences = {}
    for name, low in worse.items():
        high = better[name]
        means[name] = mean_on_same_rows([low, high])
        differences[name] = Score(high.value - low.value)
    return {
        "worse copy": dict(worse),
        "better copy": dict(better),
        "mean of both": means,
        "difference": differences,
    }


# --- in a record ----------------------------------------------------------------------------------


def recorded(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, Any]:
    """The fields of a record that hold scores: their values, errors and numbers of groups.

    scores: by the name of the copy, of which "" is the only encoder.
    """
    values = {}
    errors = {}
    groups: dict[str, int] = {}
    for copy, of_copy in scores.items():
        name = copy or "encoder"
        values[name] = {title: score.value for title, score in of_copy.items()}
        errors[name] = {title: score.error for title, score in of_copy.items()}
        groups |= {title: score.num_groups for title, score in of_copy.items()}
    return {"scores": values, "row_errors": errors, "row_groups": groups}


def scores_of_record(record: Mapping[str, Any]) -> dict[str, dict[str, Score]]:
    """The scores of a record by copy, as `recorded` wrote them. Older records have no errors."""
    groups = record.get("row_groups", {})
    scores = {}
    for copy, values in record["scores"].items():
        errors = record.get("row_errors", {}).get(copy, {})
        of_copy = {}
        for name, value in values.items():
            of_copy[name] = Score(value, errors.get(name), groups.get(name, 0))
        scores[copy] = of_copy
    return scores
