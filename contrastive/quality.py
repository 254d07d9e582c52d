"""Did it help at all? Zero-shot STS, alignment and uniformity of an encoder's sentence vectors. Next: pretrain.py.

N sentences or pairs, T tokens, H hidden.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batching import EncodedExamples, sorted_batches
from minbert import BertModel, runtime
from minbert.pooling import pool

POSITIVE_ABOVE = 4.0  # an STS label above which a pair counts as positive for the alignment


def alignment(first: Tensor, second: Tensor) -> float:
    """Mean squared distance of positive pairs, E |x - x+|^2 (Wang and Isola 2020, section 4.1, alpha = 2).

    first, second (N, H), normalised inside; the result is 0 (equal) to 4 (opposite), lower is better.
    """
    return float((F.normalize(first, dim=-1) - F.normalize(second, dim=-1)).square().sum(dim=-1).mean())


def uniformity(vectors: Tensor) -> float:
    """log E exp(-2 |x - y|^2) over all pairs x != y (Wang and Isola 2020, section 4.1, t = 2).

    vectors (N, H), N at least 2, normalised inside; 0 where all are equal, towards -4 where they fill the sphere.
    """
    distances = torch.pdist(F.normalize(vectors, dim=-1))  # (N (N - 1) / 2,)
    return float(distances.square().mul(-2).exp().mean().log())


@torch.no_grad()
def embed(encoder: BertModel, rows: EncodedExamples, pooling: str, precision: str, batch_size: int = 64) -> Tensor:
    """Sentence vectors (N, H) float32 on the CPU, in row order; the encoder is left in the mode it came in.

    For pairs encoded apart ("bi") they are (2N, H): all first sentences, then all second ones.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    sides: list[list[Tensor]] = [[], []]
    order: list[int] = []
    for indices in sorted_batches(rows.lengths, batch_size):
        batch = rows.batch(indices).to(device)
        with runtime.autocast(device, precision):
            output = encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        vectors = pool(output, batch.attention_mask, pooling).cpu()  # (R, H)
        for side, part in enumerate(vectors.split(len(indices))):
            sides[side].append(part)
        order += indices
    encoder.train(was_training)
    back = torch.tensor(order).argsort()
    return torch.cat([torch.cat(parts)[back] for parts in sides if parts])


def sts_quality(encoder: BertModel, pairs: EncodedExamples, pooling: str, precision: str) -> dict[str, float]:
    """Zero-shot STS: the cosine of a pair's two vectors against its label, no training on labels.

    pairs: labelled STS examples encoded with "bi". Returns pearson and spearman (-1 to 1), alignment of the pairs
    labelled above 4 (0 to 4), uniformity of all sentences (-4 to 0). Raises ValueError where no pair is labelled above
    4 or all have one label. Where the cosines are all equal, which tells nothing, the correlations count as 0.
    """
    from scipy.stats import pearsonr, spearmanr  # late: scipy.stats takes half a second to import

    first, second = embed(encoder, pairs, pooling, precision).chunk(2)  # (N, H) each
    labels = np.array([example.label for example in pairs.examples], dtype=np.float32)  # (N,)
    if np.ptp(labels) == 0 or labels.max() <= POSITIVE_ABOVE:
        raise ValueError(f"the STS dev file has labels {labels.min():g} to {labels.max():g}; its zero-shot scores need "
                         f"different ones, and some above {POSITIVE_ABOVE:g}. Add such pairs, or drop --pretrain.")
    cosines = F.cosine_similarity(first, second).numpy()  # (N,)
    is_constant = np.ptp(cosines) == 0
    positive = torch.from_numpy(labels > POSITIVE_ABOVE)
    return {
        "spearman": 0.0 if is_constant else float(spearmanr(cosines, labels).statistic),
        "pearson": 0.0 if is_constant else float(pearsonr(cosines, labels).statistic),
        "alignment": alignment(first[positive], second[positive]),
        "uniformity": uniformity(torch.cat([first, second])),
    }
