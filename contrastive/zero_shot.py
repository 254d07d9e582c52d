"""Did it help at all? Zero-shot STS, alignment and uniformity of an encoder's sentence vectors. Next: stage.py.

N sentences or pairs, T tokens, H hidden, R rows of a batch: B sentences, or 2B for B pairs encoded apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batching import EncodedExamples, sorted_batches
from minbert import BertModel
from minbert.bert import BertOutput
from minbert.fast import positions_read
from minbert.pooling import pool
from minbert.training import runtime

ALIGNED_ABOVE = 4.0  # an STS label above which a pair counts as positive for the alignment


def alignment(first: Tensor, second: Tensor) -> float:
    """Mean squared distance of positive pairs, E |x - x+|^2 (Wang and Isola 2020, section 4.1, alpha = 2).

    first, second (N, H), normalised inside; the result is 0 (equal) to 4 (opposite), lower is better.
    """
    return float(
        (F.normalize(first, dim=-1) - F.normalize(second, dim=-1)).square().sum(dim=-1).mean()
    )


def uniformity(vectors: Tensor) -> float:
    """log E exp(-2 |x - y|^2) over all pairs x != y (Wang and Isola 2020, section 4.1, t = 2).

    vectors (N, H), N at least 2, of any floating dtype, none of length 0, normalised inside, summed in float64. 0 where
    all are equal, about -4 where many fill the sphere, -4 N / (N - 1) at least; lower is better.
    """
    directions = F.normalize(vectors.double(), dim=-1)
    # exp(-2 |x - y|^2) = exp(4 cos - 4), a few rows at a time; each vector beside itself does not count
    total = sum(
        float((4 * (rows @ directions.T) - 4).exp().sum()) for rows in directions.split(1024)
    )
    own = float((4 * directions.square().sum(dim=-1) - 4).exp().sum())
    return math.log((total - own) / (len(vectors) * (len(vectors) - 1)))


def correlations(cosines: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Spearman's and Pearson's correlation of cosines with labels, both (N,), each -1 to 1; "spearman" is first.

    Where the cosines are all equal, which tells nothing, both count as 0. The labels must differ, else ValueError.
    """
    from scipy.stats import pearsonr, spearmanr  # late: scipy.stats takes half a second to import

    if np.ptp(labels) == 0:
        raise ValueError(
            f"all {len(labels)} labels are {labels[0]:g}; a correlation needs different ones. Add rows."
        )
    if np.ptp(cosines) == 0:
        return {"spearman": 0.0, "pearson": 0.0}
    return {
        "spearman": float(spearmanr(cosines, labels).statistic),
        "pearson": float(pearsonr(cosines, labels).statistic),
    }


@torch.no_grad()
def encode(
    encoder: BertModel,
    rows: EncodedExamples,
    read: Callable[[BertOutput, Tensor], dict[str, Tensor]],
    precision: str,
    batch_size: int = 64,
    with_states: bool = False,
    progress: Callable = iter,
    pooling: str = "mean",
) -> dict[str, Tensor]:
    """What `read` makes of each batch, joined on the CPU in row order; the encoder is left in the mode it came in.

    read: from a batch's output and attention mask (R, T) to named tensors of R rows, or of one for each of B pairs.
    with_states: whether the output holds all hidden states. Of pairs encoded apart ("bi"), a tensor of R rows becomes
    one of 2N: all first sentences, then all second ones. progress: is given the list of batches and yields them, as
    tqdm does. pooling: what `read` pools by where it reads nothing else; with "mean" it may read every token.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    parts: dict[str, list[list[Tensor]]] = {}
    order: list[int] = []
    for indices in progress(sorted_batches(rows.lengths, batch_size)):
        batch = rows.batch(indices).to(device)
        with runtime.autocast(device, precision):
            output = encoder(
                batch.input_ids,
                batch.attention_mask,
                batch.token_type_ids,
                with_states,
                positions_read(batch.attention_mask, pooling),
            )
        for name, tensor in read(output, batch.attention_mask).items():
            # B rows are one side; the 2B rows of pairs read apart are two, first sentences and second ones
            for side, part in zip(
                parts.setdefault(name, [[], []]), tensor.cpu().split(len(indices)), strict=False
            ):
                side.append(part)
        order += indices
    encoder.train(was_training)
    back = torch.tensor(order).argsort()
    return {
        name: torch.cat([torch.cat(side)[back] for side in sides if side])
        for name, sides in parts.items()
    }


def embed(
    encoder: BertModel,
    rows: EncodedExamples,
    pooling: str,
    precision: str,
    batch_size: int = 64,
    progress: Callable = iter,
) -> Tensor:
    """Sentence vectors (N, H) float32 on the CPU, in row order; the encoder is left in the mode it came in.

    For pairs encoded apart ("bi") they are (2N, H): all first sentences, then all second ones. progress: is given the
    list of batches and yields them, as tqdm does.
    """
    return encode(
        encoder,
        rows,
        lambda output, mask: {"vectors": pool(output, mask, pooling)},
        precision,
        batch_size,
        progress=progress,
        pooling=pooling,
    )["vectors"]


def dev_labels(pairs: EncodedExamples) -> np.ndarray:
    """The labels (N,) float32 of pairs that shall judge a stage; ValueError where they cannot."""
    labels = np.array([example.label for example in pairs.examples], dtype=np.float32)
    if np.ptp(labels) == 0 or labels.max() <= ALIGNED_ABOVE:
        raise ValueError(
            f"the STS dev rows have labels {labels.min():g} to {labels.max():g}; needed are different "
            f"ones, some above {ALIGNED_ABOVE:g}. Add such pairs, raise --dev_rows, or drop --pretrain."
        )
    return labels


def sts_quality(
    encoder: BertModel, pairs: EncodedExamples, pooling: str, precision: str
) -> dict[str, float]:
    """Zero-shot STS: the cosine of a pair's two vectors against its label, no training on labels.

    pairs: labelled STS examples encoded with "bi". Returns pearson and spearman (-1 to 1), alignment of the pairs
    labelled above 4 (0 to 4), uniformity of all sentences (0, all equal, to about -4). Raises ValueError where no pair
    is labelled above 4 or all have one label. Where the cosines are all equal, which tells nothing, the correlations
    count as 0.
    """
    labels = dev_labels(pairs)
    first, second = embed(encoder, pairs, pooling, precision).chunk(2)  # (N, H) each
    positive = torch.from_numpy(labels > ALIGNED_ABOVE)
    scores = correlations(F.cosine_similarity(first, second).numpy(), labels)
    return scores | {
        "alignment": alignment(first[positive], second[positive]),
        "uniformity": uniformity(torch.cat([first, second])),
    }
