"""Zero-shot STS: how good an encoder's sentence vectors are, without training on labels.

N sentences or pairs, T tokens, H hidden, R rows of a batch: B sentences, or 2B for B pairs whose
sentences are encoded apart.

The cosine of a pair's two vectors is compared with its label. Alignment and uniformity (Wang and
Isola 2020) watch the two forces of a contrastive loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batching import EncodedExamples, sorted_batches
from minbert import BertModel
from minbert.bert import BertOutput
from minbert.pooling import pool, positions_read
from minbert.reporting import terminal
from minbert.training.batch_outputs import batch_outputs

Batches = Iterable[list[int]]
Progress = Callable[[list[list[int]]], Batches]  # takes the batches and yields them
Read = Callable[[BertOutput, Tensor], dict[str, Tensor]]  # a batch's output and its attention mask
SHOW_PROGRESS: Progress = partial(terminal.track, description="sentence vectors")

ALIGNED_ABOVE = 4.0  # an STS label above which a pair counts as positive for the alignment
UNIFORMITY_ROWS = 1024  # rows of the N x N matrix in memory at once


# --- the measures, on vectors ---------------------------------------------------------------------


def alignment(first: Tensor, second: Tensor) -> float:
    """The mean squared distance of positive pairs, E |x - x+|^2.

    Wang and Isola 2020, section 4.1, with alpha = 2. first, second: (N, H), brought to length 1
    here. Returns 0 (equal) to 4 (opposite); lower is better.
    """
    difference = F.normalize(first, dim=-1) - F.normalize(second, dim=-1)  # (N, H)
    return float(difference.square().sum(dim=-1).mean())


def uniformity(vectors: Tensor) -> float:
    """log E exp(-2 |x - y|^2) over all pairs x != y.

    Wang and Isola 2020, section 4.1, with t = 2. vectors: (N, H) of any floating dtype, N at least
    2, none of length 0. They are brought to length 1 here and summed in float64.

    Returns 0 where all vectors are equal, and about -4 where many of them fill the sphere. The
    least value is -4 N / (N - 1). Lower is better.
    """
    directions = F.normalize(vectors.double(), dim=-1)  # (N, H)
    # For vectors of length 1, exp(-2 |x - y|^2) = exp(4 cos - 4).
    total = 0.0
    for rows in directions.split(UNIFORMITY_ROWS):
        total += float((4 * (rows @ directions.T) - 4).exp().sum())

    # A vector beside itself does not count.
    with_itself = float((4 * directions.square().sum(dim=-1) - 4).exp().sum())
    num_pairs = len(vectors) * (len(vectors) - 1)
    return math.log((total - with_itself) / num_pairs)


def correlations(cosines: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Spearman's and Pearson's correlation of cosines with labels, each from -1 to 1.

    cosines, labels: (N,). Returns "spearman" first, then "pearson". Where all cosines are equal,
    which tells nothing, both count as 0. ValueError where all labels are equal.
    """
    from scipy.stats import pearsonr, spearmanr  # late: scipy.stats takes half a second to import

    if np.ptp(labels) == 0:
        raise ValueError(
            f"all {len(labels)} labels are {labels[0]:g}; a correlation needs different labels. "
            "Add rows with other labels."
        )
    if np.ptp(cosines) == 0:
        return {"spearman": 0.0, "pearson": 0.0}
    spearman = spearmanr(cosines, labels)
    pearson = pearsonr(cosines, labels)
    return {"spearman": float(spearman.statistic), "pearson": float(pearson.statistic)}


# --- sentences to vectors -------------------------------------------------------------------------


def encode(
    encoder: BertModel,
    rows: EncodedExamples,
    read: Read,
    precision: str,
    batches: Batches,
    with_states: bool = False,
    pooling: str = "mean",
) -> dict[str, Tensor]:
    """Encode the rows of all batches, and join the tensors that `read` makes of each batch.

    Arguments:
        read: from a batch's output and attention mask (R, T) to named tensors. Such a tensor has R
            rows, or one row for each of B pairs.
        precision: "fp32" or "bf16", of matrix products.
        batches: the numbers of the rows of each batch, in any order. No row comes twice.
        with_states: whether the output holds all hidden states.
        pooling: the vector that `read` pools, if it reads nothing else. With "mean" it may read
            every token.

    Returns the tensors by name, on the CPU, in row order. Of pairs encoded apart ("bi"), a tensor
    of R rows becomes one of 2N rows: all first sentences, then all second ones. The encoder keeps
    the mode, training or evaluation, that it had.
    """
    device = next(encoder.parameters()).device

    def compute(indices: list[int]) -> tuple[list[int], dict[str, Tensor]]:
        batch = rows.batch(indices).to(device)
        output = encoder(
            batch.input_ids,
            batch.attention_mask,
            batch.token_type_ids,
            output_hidden_states=with_states,
            positions=positions_read(batch.attention_mask, pooling),
        )
        # What is read from the states is computed in their own precision.
        with torch.autocast(device.type, enabled=False):
            tensors = read(output, batch.attention_mask)
        return indices, {name: tensor.cpu() for name, tensor in tensors.items()}

    parts: dict[str, list[list[Tensor]]] = {}  # by name: the parts of first and of second sentences
    order: list[int] = []
    for indices, tensors in batch_outputs(encoder, compute, batches, rows.num_tokens, precision):
        for name, tensor in tensors.items():
            sides = parts.setdefault(name, [[], []])
            # B rows are one side. The 2B rows of pairs read apart are two sides.
            for side, part in zip(sides, tensor.split(len(indices)), strict=False):
                side.append(part)
        order += indices

    # Batches come by length. This puts the rows of each side back into their order.
    back = torch.tensor(order).argsort()  # (N,)
    joined = {}
    for name, sides in parts.items():
        joined[name] = torch.cat([torch.cat(side)[back] for side in sides if side])
    return joined


def embed(
    encoder: BertModel,
    rows: EncodedExamples,
    pooling: str,
    precision: str,
    batch_size: int = 64,
    progress: Progress = SHOW_PROGRESS,
) -> Tensor:
    """Sentence vectors (N, H) float32 on the CPU, in row order.

    For pairs encoded apart ("bi") they are (2N, H): all first sentences, then all second ones.
    progress: receives the list of batches and yields them. Other arguments as of `encode`.
    """
    batches = progress(sorted_batches(rows.lengths, batch_size))
    tensors = encode(encoder, rows, make_reader(pooling), precision, batches, pooling=pooling)
    return tensors["vectors"]


def make_reader(pooling: str) -> Read:
    """The function that pools a batch's output to its sentence vectors, for `encode`."""

    def read(output: BertOutput, attention_mask: Tensor) -> dict[str, Tensor]:
        return {"vectors": pool(output, attention_mask, pooling)}

    return read


# --- the scores of an encoder ---------------------------------------------------------------------


def dev_labels(pairs: EncodedExamples) -> np.ndarray:
    """The labels (N,) float32 of the pairs that measure a stage. ValueError where they cannot."""
    labels = np.array([example.label for example in pairs.examples], dtype=np.float32)
    if np.ptp(labels) == 0 or labels.max() <= ALIGNED_ABOVE:
        raise ValueError(
            f"the pairs that measure the stage have labels from {labels.min():g} to "
            f"{labels.max():g}; expected are different labels, some above {ALIGNED_ABOVE:g}. Add "
            "such pairs to their file, or pass another one, as --dev or --sts_dev."
        )
    return labels


def sts_quality(
    encoder: BertModel, pairs: EncodedExamples, pooling: str, precision: str
) -> dict[str, float]:
    """Zero-shot STS: the cosine of a pair's two vectors against its label.

    pairs: labelled STS examples encoded with "bi".

    Returns spearman and pearson (-1 to 1), the alignment of the pairs labelled above 4 (0 to 4),
    and the uniformity of all sentences (0, all equal, to about -4). Where all cosines are equal,
    which tells nothing, the correlations count as 0. ValueError where no pair is labelled above 4,
    or where all labels are equal.
    """
    labels = dev_labels(pairs)
    first, second = embed(encoder, pairs, pooling, precision).chunk(2)  # (N, H) each
    cosines = F.cosine_similarity(first, second)  # (N,)
    scores = correlations(cosines.numpy(), labels)

    is_positive = torch.from_numpy(labels > ALIGNED_ABOVE)
    scores["alignment"] = alignment(first[is_positive], second[is_positive])
    scores["uniformity"] = uniformity(torch.cat([first, second]))
    return scores


def spearman_by_width(
    encoder: BertModel,
    pairs: EncodedExamples,
    pooling: str,
    precision: str,
    widths: Iterable[int],
) -> dict[int, float]:
    """Spearman's correlation as of `sts_quality`, of the first units of the vectors.

    widths: how many units. Returns the correlation for each of them.
    """
    labels = dev_labels(pairs)
    first, second = embed(encoder, pairs, pooling, precision).chunk(2)  # (N, H) each
    scores = {}
    for width in widths:
        cosines = F.cosine_similarity(first[:, :width], second[:, :width])  # (N,)
        scores[width] = correlations(cosines.numpy(), labels)["spearman"]
    return scores
