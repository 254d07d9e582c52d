"""Contrastive formulas as pure functions on embeddings. Next: methods.py, which makes the embeddings.

B batch, H hidden, K hidden states of an encoder. Vectors may be of any floating dtype; they are scored in float32, or
in float64 where all are, also under autocast: bfloat16's cosines are 0.002 off, a temperature of 0.05 makes it 0.04.
Every loss is a scalar of that dtype, the mean over the batch. A temperature that is not positive, vectors that
do not belong together row by row, and a switch of another name are a ValueError. [SG], [CT], [BSC] stand for the papers
named in the docstrings.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Similarity = Literal["cos", "dot"]


def similarities(anchors: Tensor, others: Tensor, similarity: Similarity = "cos") -> Tensor:
    """(B, H), (C, H) -> (B, C): cosines, or dot products, of every anchor with every other vector."""
    if similarity not in ("cos", "dot"):
        raise ValueError(f"similarity is '{similarity}'; it is cos or dot.")
    dtype = torch.float64 if anchors.dtype == others.dtype == torch.float64 else torch.float32
    anchors, others = anchors.to(dtype), others.to(dtype)
    if similarity == "cos":
        anchors, others = F.normalize(anchors, dim=-1), F.normalize(others, dim=-1)
    with torch.autocast(anchors.device.type, enabled=False):
        return anchors @ others.T


def check(first: Tensor, second: Tensor, **positive: float | Tensor) -> None:
    """ValueError where the vectors do not belong together row by row, or a number or scalar tensor is not above 0."""
    if first.shape != second.shape:
        raise ValueError(
            f"the vectors have the shapes {tuple(first.shape)} and {tuple(second.shape)}; row i of one "
            "belongs to row i of the other. Give equal shapes."
        )
    for name, value in positive.items():
        number = value.item() if torch.is_tensor(value) else value
        if not 0 < number < torch.inf:
            raise ValueError(f"{name} is {number}; it must be a finite number above 0.")


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    temperature: float | Tensor = 0.05,
    hard_negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
    same: Tensor | None = None,
    similarity: Similarity = "cos",
    same_hard: Tensor | None = None,
) -> Tensor:
    """Each anchor must find its own positive among all positives of the batch.

    l_i = -log( exp(sim(a_i, p_i) / t) / sum_j exp(sim(a_i, p_j) / t) ), mean over i (SimCSE, Gao et al. 2021, eq. 4);
    sim is the cosine, or with similarity "dot" the dot product. With hard_negatives n (B, H) every
    exp(sim(a_i, n_j) / t) joins the sum, that of the own one, j = i, multiplied by exp(hard_negative_weight) (eq. 5 and
    the released code). Others call it multiple negatives ranking with scale 1 / t,
    NT-Xent over rows only, or in-batch softmax.

    anchors, positives (B, H); temperature > 0, a number or a scalar tensor that learns; same (B, B) bool, True where j
    says the same as i and so is no negative of it (the diagonal does not matter); same_hard (B, B) bool, likewise for
    the hard negatives, diagonal included. At least 0; log B, with hard negatives log 2B, is what unrelated vectors
    give. Compare with bsc, which adds columns, and sentence-transformers' MultipleNegativesRankingLoss.
    """
    check(anchors, positives, temperature=temperature)
    logits = similarities(anchors, positives, similarity) / temperature  # (B, B)
    targets = torch.arange(
        len(anchors), device=logits.device
    )  # (B,): the positive of row i stands in column i
    if same is not None:
        logits = logits.masked_fill(same & (targets != targets.unsqueeze(1)), -torch.inf)
    if hard_negatives is not None:
        check(anchors, hard_negatives)
        hard = similarities(anchors, hard_negatives, similarity) / temperature  # (B, B)
        hard = hard + hard_negative_weight * torch.eye(
            len(anchors), dtype=hard.dtype, device=hard.device
        )
        if same_hard is not None:
            hard = hard.masked_fill(same_hard, -torch.inf)
        logits = torch.cat([logits, hard], dim=1)  # (B, 2B)
    return F.cross_entropy(logits, targets)


def multiple_negatives_ranking(
    anchors: Tensor,
    positives: Tensor,
    scale: float = 20.0,
    similarity: Similarity = "cos",
    same: Tensor | None = None,
) -> Tensor:
    """info_nce by its other name: S(x, y) = scale x similarity, scale = 1 / temperature (Henderson et al. 2017).

    anchors, positives (B, H), row i of both a pair that belongs together; scale above 0; `same` as in info_nce. At
    least 0; log B for unrelated vectors. With similarity "dot" and scale 1 it is the paper's own, with "cos" and 20
    sentence-transformers' MultipleNegativesRankingLoss ([ROB] section 3.2). Compare with bsc, which also looks from y
    to x.
    """
    check(anchors, positives, scale=scale)
    return info_nce(anchors, positives, 1 / scale, same=same, similarity=similarity)


def bsc(
    first: Tensor,
    second: Tensor,
    temperature: float | Tensor = 0.07,
    symmetric: bool = True,
    normalise: Literal["l2", "batch", "none"] = "l2",
    labels: Tensor | None = None,
    align: float | None = None,
    same: Tensor | None = None,
    positive_above: float = 0.0,
) -> Tensor:
    """Batch-softmax contrastive loss with its variations (Chernyavskiy et al., [BSC] section 3).

    S = A B^T / t; l_i = -log softmax_j(S_ij)_i over rows; symmetric: the mean of that over rows and over columns.
    normalise: "l2" (cosine), "batch" (each coordinate of A and of B divided by its range, max - min, over the batch;
    a coordinate without range is left as it is) or "none".
    labels (B,): a pair labelled above positive_above belongs together; any other one is a labelled negative, which is a
    candidate for the others and has no term of its own. The sum of the terms is divided by B all the same.
    align m in [0, 1]: m x BSC + (1 - m) x the mean of (cos(a_i, b_i) - y_i)^2, which needs labels in [0, 1]; of a_i and
    b_i as they are, whatever `normalise` does to them for S.
    same (B, B) bool, True where first i and second j are no negatives of each other (the diagonal does not matter).

    first, second (B, H). At least 0. Compare with info_nce: rows only, cosine, no labels.
    """
    check(first, second, temperature=temperature)
    if normalise not in ("l2", "batch", "none"):
        raise ValueError(f"normalise is '{normalise}'; it is l2, batch or none.")
    if labels is not None and labels.shape != first.shape[:1]:
        raise ValueError(
            f"labels have the shape {tuple(labels.shape)}; needed is one for each pair, ({len(first)},)."
        )
    compared = (by_range(first), by_range(second)) if normalise == "batch" else (first, second)
    logits = similarities(*compared, "cos" if normalise == "l2" else "dot") / temperature  # (B, B)
    if same is not None:
        logits = logits.masked_fill(
            same & ~torch.eye(len(first), dtype=torch.bool, device=same.device), -torch.inf
        )
    terms = -logits.log_softmax(dim=1).diagonal()  # (B,)
    if symmetric:
        terms = (terms - logits.log_softmax(dim=0).diagonal()) / 2
    if labels is not None:
        terms = terms * (labels > positive_above)
    loss = terms.mean()
    if align is None:
        return loss
    if labels is None or not 0 <= align <= 1:
        raise ValueError(
            f"align is {align}, labels are {'missing' if labels is None else 'given'}; needed are a "
            "number from 0 to 1, and labels in [0, 1], to which it pulls the diagonal."
        )
    cosines = F.cosine_similarity(first.to(loss.dtype), second.to(loss.dtype), dim=-1)  # (B,)
    return align * loss + (1 - align) * F.mse_loss(cosines, labels.to(loss.dtype))


def by_range(vectors: Tensor) -> Tensor:
    """(B, H) -> (B, H): each coordinate divided by its max - min over the batch."""
    spread = vectors.amax(dim=0) - vectors.amin(dim=0)  # (H,)
    return vectors / torch.where(spread > 0, spread, torch.ones_like(spread))


def contrastive_tension(first: Tensor, second: Tensor, is_identical: Tensor) -> Tensor:
    """-log s(z) for a sentence met with itself, -log s(-z) otherwise, z = f1(s1) . f2(s2), s the logistic function.

    The mean over the B pairs (Carlsson et al. 2021, [CT] section 4, equation 1, as its code computes it; the paper
    prints s(1 - z) for the second case). The dot product is not normalised, so z has no bound. first, second (B, H),
    from two independent encoders without dropout; is_identical (B,) bool. At least 0; log 2 = 0.693 for z = 0.
    """
    check(first, second)
    dtype = torch.float64 if first.dtype == second.dtype == torch.float64 else torch.float32
    z = (first.to(dtype) * second.to(dtype)).sum(dim=-1)  # (B,)
    return F.binary_cross_entropy_with_logits(z, is_identical.to(dtype))


def contrastive_tension_in_batch(
    first: Tensor, second: Tensor, scale: float | Tensor = 20.0
) -> Tensor:
    """Every sentence of the batch is met with itself and, as negatives, with all others: softmax both ways.

    Not in [CT]: a variant of sentence-transformers, ContrastiveTensionLossInBatchNegatives, which learns log(scale)
    where a tensor given here is the scale itself. first, second (B, H), the same B sentences, no two of them equal,
    through two encoders; scale above 0, a number or a scalar tensor. At least 0; log B for unrelated vectors. It is bsc
    with l2, symmetric, temperature 1 / scale.
    """
    check(first, second, scale=scale)
    return bsc(first, second, 1 / scale)


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.01) -> Tensor:
    """All 2B vectors are anchors; the positive of one is its other view, all 2B - 2 others are negatives.

    Chen et al. 2020, SimCLR, equation 1, the mean over the 2B anchors; with T's [CLS] and F's hidden states it is the
    plain self-guided loss (Kim et al. 2021, [SG] section 3.1, L^base without its regulariser). first, second (B, H),
    row i of both the same sentence, no two of them equal (text.py sees to that); temperature > 0. At least 0;
    log(2B - 1) for unrelated vectors. Compare with info_nce: one side as anchors, B candidates, no negatives within a
    side.
    """
    check(first, second, temperature=temperature)
    vectors = torch.cat([first, second])  # (2B, H)
    logits = similarities(vectors, vectors) / temperature  # (2B, 2B)
    logits = logits.masked_fill(
        torch.eye(len(vectors), dtype=torch.bool, device=logits.device), -torch.inf
    )
    return F.cross_entropy(
        logits, torch.arange(len(vectors), device=logits.device).roll(len(first))
    )


def self_guided_opt1(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """phi(c_i, h_i) / (sum_{j != i} phi(c_i, c_j) + sum_j phi(c_i, h_j)): only c_i as anchors ([SG] 3.2, L^opt1).

    phi(u, v) = exp(cos(u, v) / t), the loss is the mean over i of -log of the fraction: NT-Xent without h as anchors.
    cls, hidden (B, H): T's [CLS] and one pooled hidden state of F of B different sentences, both after the projection;
    temperature > 0. At least 0; log(2B - 1) for unrelated vectors.
    """
    check(cls, hidden, temperature=temperature)
    among = similarities(cls, cls) / temperature  # (B, B)
    among = among.masked_fill(
        torch.eye(len(cls), dtype=torch.bool, device=among.device), -torch.inf
    )
    logits = torch.cat([similarities(cls, hidden) / temperature, among], dim=1)  # (B, 2B)
    return F.cross_entropy(logits, torch.arange(len(cls), device=logits.device))


def self_guided_opt2(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """phi(c_i, h_i) / sum_j phi(c_i, h_j) ([SG] section 3.2, L^opt2): opt1 without the other c_j as negatives.

    It is info_nce between [CLS] and hidden states, all B of them candidates. Arguments as of opt1; log B for unrelated
    vectors.
    """
    return info_nce(cls, hidden, temperature)


def self_guided_opt3(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """phi(c_i, h_ik) / (phi(c_i, h_ik) + sum_{m != i} sum_n phi(c_i, h_mn)), mean over i and k ([SG] 3.2, L^opt3).

    All hidden states at once: the own other layers are neither positives nor negatives of a term. With the regulariser
    this is SG-OPT. cls (B, H), hidden (B, K, H), K = L + 1 states, both after the projection, of B different sentences;
    temperature > 0. At least 0; log(1 + (B - 1) K) for unrelated vectors. With K = 1 it is opt2.
    """
    check(cls, hidden[:, 0], temperature=temperature)
    batch_size, num_states, _ = hidden.shape
    logits = (similarities(cls, hidden.flatten(0, 1)) / temperature).unflatten(
        1, (batch_size, num_states)
    )  # (B, B, K)
    own = logits.diagonal(dim1=0, dim2=1).T  # (B, K)
    is_own = torch.eye(batch_size, dtype=torch.bool, device=logits.device).unsqueeze(
        -1
    )  # (B, B, 1)
    others = (
        logits.masked_fill(is_own, -torch.inf).flatten(1).logsumexp(dim=1, keepdim=True)
    )  # (B, 1)
    return (torch.logaddexp(own, others) - own).mean()
