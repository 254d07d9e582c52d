"""One set, one encoder -> a record of numbers, which survey.py writes as JSON and pages.py shows.

Brings together states.py (which sentence vectors), quality.py and scores.py (what they are judged by). N pairs or
sentences, H hidden, L layers.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.quality.metrics import (
    aggregations,
    cosine_histogram,
    cosine_spread,
    label_range,
    positive_above,
    subset_correlations,
    transfer_accuracies,
)
from contrastive.quality.untrained_vectors import (
    NAMES,
    SURVEYED,
    WHITENED,
    kinds_of,
    survey_cosines,
    whiten,
)
from contrastive.zero_shot import alignment, correlations, embed, encode, uniformity
from data.batching import EncodedExamples
from data.sentence_sets import SentenceSet
from minbert import BertModel, BertTokenizer
from minbert.bert import BertOutput


def score_vectors(
    vectors: Tensor, labels: np.ndarray, subsets: tuple[str, ...] | None, above: float
) -> tuple[np.ndarray, dict]:
    """Cosines (N,) float64 of N pairs, and what they and the vectors are worth, as a record.

    vectors (2N, H): all first sentences, then all second ones; labels and subsets (N,). The record holds correlations
    by convention, "subsets", "alignment" of the pairs labelled more than `above` (None where there are none) and
    "uniformity".
    """
    first, second = vectors.chunk(2)  # (N, H) each
    cosines = F.cosine_similarity(
        first.double(), second.double()
    ).numpy()  # exact where all are near 1
    of_subsets = subset_correlations(cosines, labels, subsets) if subsets else {}
    positive = torch.from_numpy(labels > above)
    return cosines, {
        **aggregations(cosines, labels, of_subsets),
        "subsets": of_subsets,
        "alignment": alignment(first[positive], second[positive]) if positive.any() else None,
        "uniformity": uniformity(vectors),
    }


def measure_set(
    encoder: BertModel, tokenizer: BertTokenizer, pairs: SentenceSet, options, with_layers: bool
) -> dict:
    """Everything about one STS set. options: pooling, baselines, range, precision, max_length, batch_size, as given.

    "vectors": for each kind of sentence vector the record of `score_vectors`; the encoder's own kind stands first, and
    "buckets" (`cosine_spread`) and "histogram" (`cosine_histogram`) are of that. "layers": with_layers, for each
    pooling Spearman's correlation over all rows, a list of L + 1. "left_out": kinds that were not measured, with the
    reason. Raises ValueError where a label lies outside options.range.
    """
    labels = np.array([example.label for example in pairs.examples])  # (N,) float64
    low, high = options.range or label_range(labels)
    if labels.min() < low or labels.max() > high:
        raise ValueError(
            f"{pairs.path}: labels are {labels.min():g} to {labels.max():g}, and --range is {low:g} to "
            f"{high:g}. Give a range that holds them, or leave --range out."
        )
    rows = EncodedExamples(pairs.examples, tokenizer, options.max_length, pair_encoding="bi")
    kinds = kinds_of(options.pooling, options.baselines)

    def read(output: BertOutput, attention_mask: Tensor) -> dict:
        vectors = {name: make(output, attention_mask) for name, make in kinds.items()}
        return vectors | (
            survey_cosines(output.hidden_states, attention_mask) if with_layers else {}
        )

    found = encode(
        encoder, rows, read, options.precision, options.batch_size, options.baselines or with_layers
    )
    num_sentences = len({sentence for each in pairs.examples for sentence in each.texts})
    vectors, left_out = {name: found[name] for name in kinds}, {}
    for name in WHITENED if options.baselines else ():
        if num_sentences > encoder.config.hidden_size:
            vectors[f"{name}, whitened"] = whiten(found[name])
        else:
            left_out[f"{name}, whitened"] = (
                f"{num_sentences} different sentences for {encoder.config.hidden_size} "
                "units, which would make all vectors equally far from each other"
            )
    above = positive_above(low, high)
    scored = {
        name: score_vectors(each, labels, pairs.subsets, above) for name, each in vectors.items()
    }
    record = {
        "file": pairs.path,
        "rows": len(labels),
        "sentences": num_sentences,
        "truncated": rows.num_truncated,
        "range": [low, high],
        "positive_above": above,
        "positives": int((labels > above).sum()),
        "vectors": {name: scores for name, (_, scores) in scored.items()},
        "left_out": left_out,
        "buckets": cosine_spread(scored[NAMES[options.pooling]][0], labels, low, high),
        "histogram": cosine_histogram(scored[NAMES[options.pooling]][0], labels, low, high),
    }
    if with_layers:
        record["layers"] = {
            name: [
                correlations(found[state, name].numpy(), labels)["spearman"]
                for state in range(encoder.config.num_hidden_layers + 1)
            ]
            for name in SURVEYED
        }
    return record


def measure_transfer(
    encoder: BertModel, tokenizer: BertTokenizer, sentences: SentenceSet, options
) -> dict:
    """How well a linear classifier of the frozen vectors does on one file, as a record: `transfer_accuracies`.

    options: pooling, folds, seed, precision, max_length, batch_size, as given. "majority" is the share of the commonest
    class.
    """
    rows = EncodedExamples(sentences.examples, tokenizer, options.max_length)
    vectors = embed(
        encoder, rows, options.pooling, options.precision, options.batch_size
    ).numpy()  # (N, H)
    labels = np.array([example.label for example in sentences.examples]).astype(np.int64)  # (N,)
    accuracies = transfer_accuracies(
        vectors,
        labels,
        [example.sentence_1 for example in sentences.examples],
        options.folds,
        options.seed,
    )
    return {
        "file": sentences.path,
        "rows": len(labels),
        "classes": list(sentences.classes),
        "folds": options.folds,
        "truncated": rows.num_truncated,
        "majority": float(np.bincount(labels).max() / len(labels)),
        "accuracy": float(accuracies.mean()),
        "deviation": float(accuracies.std(ddof=1)),
        "of_folds": accuracies.tolist(),
    }
