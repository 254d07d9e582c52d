"""All numbers of one file and one encoder, as a record.

Brings together untrained_vectors.py (which sentence vectors) and the metrics of metrics.py and
zero_shot.py. The command writes the records as JSON. page.py shows them.

Legend: N pairs or sentences, H hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.quality.metrics import (
    aggregate,
    cosine_buckets,
    cosine_histogram,
    label_range,
    positive_threshold,
    subset_correlations,
    transfer_accuracies,
)
from contrastive.quality.untrained_vectors import (
    LAYER_POOLINGS,
    POOLING_NAMES,
    WHITENED,
    vector_functions,
    whiten,
)
from contrastive.quality.vector_sources import VectorSource
from contrastive.zero_shot import alignment, correlations, uniformity
from data.sentence_sets import SentenceSet
from minbert.reporting.differences import standard_error_of_share
from minbert.reporting.intervals import groups_of, standard_errors

Record = dict[str, Any]
CORRELATIONS = ("spearman", "pearson")
NO_LAYERS = "a file of word vectors has no layers"


class VectorScores(NamedTuple):
    """The cosines of N pairs, (N,) float64, and the scores of their vectors."""

    cosines: np.ndarray
    record: Record


def score_vectors(
    vectors: Tensor,
    labels: np.ndarray,
    subsets: tuple[str, ...] | None,
    threshold: float,
    groups: np.ndarray,
) -> VectorScores:
    """Score the sentence vectors of N pairs.

    vectors: (2N, H), all first sentences before all second ones. labels, subsets: (N,).
    threshold: pairs with a higher label are positive. groups: (N,), of groups_of.

    The record has the correlations by convention, "subsets", the "alignment" of the positive pairs
    (None if there are none), the "uniformity", and "standard_errors": how far chance in the rows
    moves the correlations over all of them.
    """
    first, second = vectors.chunk(2)  # (N, H) each
    # In float64, which tells cosines apart that are all near 1.
    cosines = F.cosine_similarity(first.double(), second.double()).numpy()  # (N,)

    subset_scores = subset_correlations(cosines, labels, subsets) if subsets else {}
    is_positive = torch.from_numpy(labels > threshold)  # (N,)
    record: Record = {
        **aggregate(cosines, labels, subset_scores),
        "subsets": subset_scores,
        "alignment": None,
        "uniformity": uniformity(vectors),
        "standard_errors": {
            name: standard_errors(name, [cosines], labels, groups)[0] for name in CORRELATIONS
        },
    }
    if is_positive.any():
        record["alignment"] = alignment(first[is_positive], second[is_positive])
    return VectorScores(cosines, record)


def measure_set(
    source: VectorSource,
    pairs: SentenceSet,
    scale: tuple[float, float] | None = None,
    with_baselines: bool = False,
    with_layers: bool = False,
) -> Record:
    """Measure one STS set.

    scale: the lowest and the highest label. None: the whole numbers around the labels. with_layers:
    only an encoder has them.

    The record has, among others:
    "vectors": for each kind of sentence vector the record of `score_vectors`. The encoder's own
        vector comes first. "buckets" and "histogram" (metrics.py) are about this one.
    "layers", if with_layers: for each pooling Spearman's correlation of each of the L + 1 states,
        and "layer_errors": the standard errors of these over the rows.
    "groups": of rows that share a sentence. They were drawn together for the standard errors.
    "left_out": the kinds of vectors that were not measured, with the reason.
    Raises ValueError if a label lies outside the scale.
    """
    # The labels are checked before the sentences are encoded, which takes the time.
    labels = np.array([example.label for example in pairs.examples])  # (N,) float64
    low, high = scale or label_range(labels)
    _check_labels(pairs.path, labels, low, high)
    encoded = source.encode_kinds(pairs.examples, pairs.path, with_baselines, with_layers)
    num_sentences = _count_sentences(pairs)
    vectors, left_out = _with_whitened(source, encoded.vectors, num_sentences, with_baselines)

    # Each kind of vector has its scores. The cosines by label are those of the encoder's own.
    threshold = positive_threshold(low, high)
    groups = groups_of([example.texts for example in pairs.examples])
    scores = {}
    for name, of_kind in vectors.items():
        scores[name] = score_vectors(of_kind, labels, pairs.subsets, threshold, groups)
    cosines = scores[POOLING_NAMES[source.pooling]].cosines

    record: Record = {
        "file": pairs.path,
        "rows": len(labels),
        "groups": int(groups.max()) + 1,
        "sentences": num_sentences,
        "truncated": encoded.num_truncated,
        "range": [low, high],
        "positive_above": threshold,
        "positives": int((labels > threshold).sum()),
        "vectors": {name: of_kind.record for name, of_kind in scores.items()},
        "left_out": left_out,
        "buckets": cosine_buckets(cosines, labels, low, high),
        "histogram": cosine_histogram(cosines, labels, low, high),
    }
    if encoded.layers:
        record |= _layer_correlations(encoded.layers, labels, groups)
    return record


def _check_labels(path: str, labels: np.ndarray, low: float, high: float) -> None:
    """ValueError if a label lies outside low to high."""
    if labels.min() < low or labels.max() > high:
        raise ValueError(
            f"{path}: labels are {labels.min():g} to {labels.max():g}, and --range is {low:g} to "
            f"{high:g}. Give a range that holds them, or leave --range out."
        )


def _count_sentences(pairs: SentenceSet) -> int:
    """The number of different sentences in all pairs."""
    sentences: set[str] = set()
    for example in pairs.examples:
        sentences.update(example.texts)
    return len(sentences)


def _with_whitened(
    source: VectorSource,
    encoded: Mapping[str, Tensor],
    num_sentences: int,
    with_baselines: bool,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The vectors (2N, H) by kind, with whitened ones, and the kinds left out, with the reason."""
    vectors = {}
    left_out: dict[str, str] = {}
    for name in vector_functions(source.pooling, with_baselines):
        if name in encoded:
            vectors[name] = encoded[name]
        else:
            left_out[name] = NO_LAYERS
    if not with_baselines:
        return vectors, left_out

    # With fewer sentences than units, the covariance has no inverse.
    for name in WHITENED:
        if name in left_out:
            left_out[f"{name}, whitened"] = NO_LAYERS
        elif num_sentences > source.size:
            vectors[f"{name}, whitened"] = whiten(encoded[name])
        else:
            left_out[f"{name}, whitened"] = (
                f"{num_sentences} different sentences for {source.size} units, which would make "
                "all vectors equally far from each other"
            )
    return vectors, left_out


def _layer_correlations(
    cosines: Mapping[tuple[int, str], Tensor], labels: np.ndarray, groups: np.ndarray
) -> Record:
    """Spearman's correlation of each hidden state, by pooling, and the standard errors."""
    num_states = 1 + max(state for state, _ in cosines)
    layers = {}
    errors = {}
    for pooling in LAYER_POOLINGS:
        # One number for each state, from the embeddings to the last layer.
        of_states = [cosines[state, pooling].numpy() for state in range(num_states)]
        layers[pooling] = [correlations(of_state, labels)["spearman"] for of_state in of_states]
        errors[pooling] = standard_errors("spearman", of_states, labels, groups)
    return {"layers": layers, "layer_errors": errors}


def measure_transfer(
    source: VectorSource, sentences: SentenceSet, num_folds: int, seed: int
) -> Record:
    """Measure how well a linear classifier does on the frozen vectors of one file.

    num_folds, seed: of `transfer_accuracies`. In the record, "majority" is the share of the most
    common class, "deviation" the standard deviation over the folds.
    """
    vectors, num_truncated = source.encode_examples(sentences.examples, sentences.path)  # (N, H)
    labels = np.array([example.label for example in sentences.examples]).astype(np.int64)  # (N,)
    texts = [example.sentence_1 for example in sentences.examples]
    accuracies = transfer_accuracies(vectors.numpy(), labels, texts, num_folds, seed)

    # The deviation is that of a sample of folds, hence ddof=1.
    return {
        "file": sentences.path,
        "rows": len(labels),
        "classes": list(sentences.classes),
        "folds": num_folds,
        "truncated": num_truncated,
        "majority": float(np.bincount(labels).max() / len(labels)),
        "accuracy": float(accuracies.mean()),
        "standard_error": standard_error_of_share(float(accuracies.mean()), len(labels)),
        "deviation": float(accuracies.std(ddof=1)),
        "of_folds": accuracies.tolist(),
    }
