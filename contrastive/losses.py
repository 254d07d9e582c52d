"""Contrastive losses: pure functions on sentence vectors.

B batch, H hidden, K hidden states of an encoder, t temperature.

A contrastive loss pulls vectors that belong together towards each other and pushes other vectors
apart. Each loss here takes vectors and returns a scalar, the mean over the batch. Its docstring
names the paper and the equation. [BSC] is Chernyavskiy et al. 2022, [CT] Carlsson et al. 2021, [SG]
Kim et al. 2021, and [ROB] a report of Stanford's course CS224N.

Vectors may have any floating dtype. Scores are computed in float32, also under autocast, or in
float64 where all vectors are float64. A cosine in bfloat16 is wrong by about 0.002. Dividing by a
temperature of 0.05 makes that 0.04.

A new method of --pretrain that is a loss on pairs of vectors is a function here, an adapter such as
loss_of_mnr that calls it, a line for the adapter in LOSSES of methods.py, and an entry of
presets.py.

Every loss raises ValueError for a temperature that is not above 0, for vectors that do not belong
together row by row, and for a word that is no choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.options import MnrOptions
from contrastive.registry import Vectors
from minbert.commands.options import MethodOptions

Similarity = Literal["cos", "dot"]
Normalisation = Literal["l2", "batch", "none"]

# --- what the losses share ------------------------------------------------------------------------


def score_dtype(first: Tensor, second: Tensor) -> torch.dtype:
    """The dtype of the scores of two sets of vectors: float64 if both are, else float32."""
    is_double = first.dtype == second.dtype == torch.float64
    return torch.float64 if is_double else torch.float32


def similarities(anchors: Tensor, candidates: Tensor, similarity: Similarity = "cos") -> Tensor:
    """Cosines, or dot products, of every anchor with every other vector.

    anchors (B, H); candidates (C, H). Returns (B, C); cosines lie in [-1, 1].
    """
    if similarity not in ("cos", "dot"):
        raise ValueError(f"similarity is '{similarity}'; it must be cos or dot.")
    dtype = score_dtype(anchors, candidates)
    anchors = anchors.to(dtype)
    candidates = candidates.to(dtype)

    if similarity == "cos":
        anchors = F.normalize(anchors, dim=-1)
        candidates = F.normalize(candidates, dim=-1)
    # Autocast would compute the product in bfloat16.
    with torch.autocast(anchors.device.type, enabled=False):
        return anchors @ candidates.T  # (B, C)


def diagonal_mask(size: int, device: torch.device) -> Tensor:
    """(B, B) bool: True where row and column have the same number."""
    return torch.eye(size, dtype=torch.bool, device=device)


def check_same_shape(first: Tensor, second: Tensor) -> None:
    """Raise ValueError where the vectors do not belong together row by row."""
    if first.shape != second.shape:
        raise ValueError(
            f"the vectors have the shapes {tuple(first.shape)} and {tuple(second.shape)}; row i of "
            "one belongs to row i of the other. Pass equal shapes."
        )


def check_positive(name: str, value: float | Tensor) -> None:
    """Raise ValueError for a number or a scalar tensor that is not finite and above 0."""
    number = value.item() if isinstance(value, torch.Tensor) else value
    if not 0 < number < torch.inf:
        raise ValueError(f"{name} is {number}; it must be a finite number above 0.")


def check_labels(vectors: Tensor, labels: Tensor) -> None:
    """Raise ValueError where there is not one label for each row of the vectors."""
    if labels.shape != vectors.shape[:1]:
        raise ValueError(
            f"labels have the shape {tuple(labels.shape)}; expected is one label for each pair, "
            f"({len(vectors)},)."
        )


# --- InfoNCE and multiple negatives ranking: softmax over rows ------------------------------------


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

    l_i = -log( exp(sim(a_i, p_i) / t) / sum_j exp(sim(a_i, p_j) / t) ), the mean over i.

    This is SimCSE's loss (Gao et al. 2021, equation 4) with sim the cosine. It is the cross-entropy
    of B questions: "which of these B positives is yours?" The answers are the diagonal.

    With hard negatives n_i, every exp(sim(a_i, n_j) / t) joins the denominator (equation 5). The
    anchor's own, j = i, is multiplied by exp(hard_negative_weight), as in the released code.

    Arguments:
        anchors, positives: (B, H), row i of both a pair that belongs together.
        temperature: above 0; a number, or a trained scalar tensor, whose gradient is finite.
        hard_negatives: (K B, H), K of each anchor: all first ones, then all second ones, and so on.
        hard_negative_weight: any number, added to the logits of an anchor's own hard negatives.
        same: (B, B) bool, True where positive j says the same as anchor i. Such a j is no negative
            of i. The diagonal does not matter.
        similarity: "cos", or "dot" for the dot product.
        same_hard: (B, K B) bool, the same for the hard negatives. Here the diagonal counts.

    Returns a scalar, at least 0. If all similarities are equal, it is log B, with hard negatives
    log (1 + K) B. Autocast changes nothing. A vector of zeros has the cosine 0.
    Raises ValueError for positives of another shape, hard negatives that are not K blocks of it
    (`check_same_shape`), another similarity, or a temperature infinite or not above 0.

    Other names: multiple negatives ranking with scale 1 / t, NT-Xent over rows only, in-batch
    softmax. Compare with `bsc` and with sentence-transformers' MultipleNegativesRankingLoss.
    """
    check_same_shape(anchors, positives)
    check_positive("temperature", temperature)
    logits = similarities(anchors, positives, similarity) / temperature  # (B, B)

    # The positive of row i stands in column i.
    targets = torch.arange(len(anchors), device=logits.device)  # (B,)
    if same is not None:
        is_other = targets != targets.unsqueeze(1)  # (B, B)
        logits = logits.masked_fill(same & is_other, -torch.inf)

    if hard_negatives is not None:
        for negatives in hard_negatives.split(len(anchors)):
            check_same_shape(anchors, negatives)
        per_anchor = len(hard_negatives) // len(anchors)  # K
        hard = similarities(anchors, hard_negatives, similarity) / temperature  # (B, K B)
        is_own = torch.eye(len(anchors), dtype=hard.dtype, device=hard.device)  # (B, B)
        hard = hard + hard_negative_weight * is_own.repeat(1, per_anchor)
        if same_hard is not None:
            hard = hard.masked_fill(same_hard, -torch.inf)
        logits = torch.cat([logits, hard], dim=1)  # (B, (1 + K) B)

    return F.cross_entropy(logits, targets)


def multiple_negatives_ranking(
    anchors: Tensor,
    positives: Tensor,
    scale: float = 20.0,
    similarity: Similarity = "cos",
    same: Tensor | None = None,
) -> Tensor:
    """`info_nce` under its other name: S(x, y) = scale x similarity, with scale = 1 / t.

    With similarity "dot" and scale 1 it is the loss of Henderson et al. 2017. With "cos" and 20 it
    is sentence-transformers' MultipleNegativesRankingLoss ([ROB] section 3.2).

    anchors, positives: (B, H), row i of both a pair that belongs together. scale: above 0.
    same: as in `info_nce`.

    Returns a scalar, at least 0. If all similarities are equal, it is log B. Compare with
    `bsc`, which also looks from y to x.
    """
    check_same_shape(anchors, positives)
    check_positive("scale", scale)
    return info_nce(anchors, positives, 1 / scale, same=same, similarity=similarity)


# --- batch-softmax contrastive loss: softmax over rows and columns --------------------------------


def bsc(
    first: Tensor,
    second: Tensor,
    temperature: float | Tensor = 0.07,
    symmetric: bool = True,
    normalise: Normalisation = "l2",
    labels: Tensor | None = None,
    same: Tensor | None = None,
    positive_above: float = 0.0,
) -> Tensor:
    """The batch-softmax contrastive loss (Chernyavskiy et al. 2022, [BSC] section 3).

    S = A B^T / t. The term of pair i is -log( exp(S_ii) / sum_j exp(S_ij) ), over its row. With
    `symmetric` it is the mean of that and of -log( exp(S_ii) / sum_j exp(S_ji) ), over its column.
    The loss is the sum of the terms, divided by B.

    Arguments:
        first, second: (B, H), row i of both a pair.
        temperature: above 0; a number, or a scalar tensor that is trained.
        symmetric: whether the softmax also runs over columns.
        normalise: "l2" makes S cosines. "batch" divides each coordinate of A and of B by its range
            over the batch (`divide_by_range`). "none" leaves the vectors as they are.
        labels: (B,), without them every pair belongs together. With them, a pair does if its label
            is above `positive_above`. Any other pair is a labelled negative: a candidate for the
            other pairs, without a term of its own. The sum is divided by B all the same.
        same: (B, B) bool, True where first i and second j are no negatives of each other. The
            diagonal does not matter.

    Returns a scalar, at least 0. If all similarities are equal, it is log B. Compare with
    `info_nce`: rows only, by default cosine, no labels. [BSC] also mixes it with `label_error`.
    """
    check_same_shape(first, second)
    check_positive("temperature", temperature)
    if normalise not in ("l2", "batch", "none"):
        raise ValueError(f"normalise is '{normalise}'; it must be l2, batch or none.")
    if labels is not None:
        check_labels(first, labels)

    if normalise == "batch":
        first = divide_by_range(first)
        second = divide_by_range(second)
    similarity: Similarity = "cos" if normalise == "l2" else "dot"
    logits = similarities(first, second, similarity) / temperature  # (B, B)
    if same is not None:
        is_other = ~diagonal_mask(len(first), same.device)
        logits = logits.masked_fill(same & is_other, -torch.inf)

    # Over each row, then over each column: how much of the softmax is on the diagonal.
    terms = -logits.log_softmax(dim=1).diagonal()  # (B,)
    if symmetric:
        terms = (terms - logits.log_softmax(dim=0).diagonal()) / 2
    if labels is not None:
        terms = terms * (labels > positive_above)
    return terms.mean()


def signed_softmax(
    first: Tensor,
    second: Tensor,
    temperature: float,
    labels: Tensor,
    same: Tensor | None = None,
) -> Tensor:
    """The contrastive loss of labelled pairs as [GEN] has it, section 4.1.

    L = 1/B sum_i s_i l_i with l_i = -log softmax_j(cos(a_i, b_j) / t)_i. s_i is 1 for a pair that
    belongs together. It is -1 for another pair, "whose contrastive loss is maximized instead".
    With cosines l_i is at most 2 / t + log B, so the loss has a lower bound.

    first, second: (B, H), row i of both a pair. labels: (B,), above 0 for a pair that belongs
    together. same: (B, B) bool, as in `bsc`. Returns a scalar. Compare with `bsc` over rows only,
    where the other pairs have no term.
    """
    is_negative = (labels <= 0).to(labels.dtype)
    minimised = bsc(first, second, temperature, symmetric=False, labels=labels, same=same)
    maximised = bsc(first, second, temperature, symmetric=False, labels=is_negative, same=same)
    return minimised - maximised


def label_error(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """The mean of (cos(a_i, b_i) - y_i)^2: how far each pair's cosine is from its label.

    [BSC] section 3 trains m x bsc + (1 - m) x label_error, with m from 0.1 to 0.9. The cosine is
    that of the vectors as they are, whatever `bsc` divides them by.

    first, second: (B, H). labels: (B,) in [0, 1]. Returns a scalar from 0 to 4.
    """
    check_same_shape(first, second)
    check_labels(first, labels)
    dtype = score_dtype(first, second)
    cosines = F.cosine_similarity(first.to(dtype), second.to(dtype), dim=-1)  # (B,)
    return F.mse_loss(cosines, labels.to(dtype))


def divide_by_range(vectors: Tensor) -> Tensor:
    """Divide each coordinate by its range, max - min, over the batch.

    (B, H) -> (B, H). A coordinate that is equal in all rows is left as it is.
    """
    spread = vectors.amax(dim=0) - vectors.amin(dim=0)  # (H,)
    return vectors / torch.where(spread > 0, spread, torch.ones_like(spread))


# --- CoSENT: the order of the labels --------------------------------------------------------------


def cosent(first: Tensor, second: Tensor, labels: Tensor, temperature: float = 0.05) -> Tensor:
    """A pair with a higher label must have a higher cosine ("cosine sentence", Su 2022).

    L = log( 1 + sum over all i, j with y_i > y_j of exp( (cos_j - cos_i) / t ) )

    cos_i is the cosine of pair i, and y_i its label. Only the order of the labels counts. Two pairs
    with equal labels are not compared.

    first, second: (B, H), row i of both a pair. labels: (B,), of any range. temperature: above 0.

    Returns a scalar, at least 0. It is no mean: with more pairs it is larger. If all cosines are
    equal, it is log(1 + n) for n comparisons, and 0 without any. Compare with `label_error`, which
    moves each cosine to its own label, and with sentence-transformers' CoSENTLoss with scale 1 / t.
    """
    check_same_shape(first, second)
    check_labels(first, labels)
    check_positive("temperature", temperature)
    dtype = score_dtype(first, second)
    cosines = F.cosine_similarity(first.to(dtype), second.to(dtype), dim=-1)  # (B,)

    # Row i, column j: whether pair i must be above pair j, and how far it is below.
    must_be_above = labels.unsqueeze(1) > labels.unsqueeze(0)  # (B, B)
    differences = (cosines.unsqueeze(0) - cosines.unsqueeze(1)) / temperature  # (B, B)
    terms = differences[must_be_above]  # (n,)
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(dim=0)


# --- Matryoshka: one loss at several widths -------------------------------------------------------


def matryoshka(
    loss: Callable[[Tensor, Tensor], Tensor],
    first: Tensor,
    second: Tensor,
    widths: Sequence[int],
) -> Tensor:
    """A loss of the vectors, plus the same loss of their first units (Kusupati et al. 2022).

    L = sum over m in widths of loss(first[:, :m], second[:, :m])

    So the first m units alone are vectors that can be compared, for each width m. This is equation
    1 of the paper with all weights c_m = 1.

    loss: from two tensors (B, m) to a scalar. first, second: (B, H). widths: each from 1 to H.
    Returns a scalar. Compare with sentence-transformers' MatryoshkaLoss. ValueError for another
    width.
    """
    check_same_shape(first, second)
    total = torch.zeros((), device=first.device)
    for width in widths:
        if not 1 <= width <= first.size(1):
            raise ValueError(
                f"a width is {width}; the vectors have {first.size(1)} units. Pass widths from 1 "
                "to that."
            )
        total = total + loss(first[:, :width], second[:, :width])
    return total


# --- contrastive tension: two encoders ------------------------------------------------------------


def contrastive_tension(
    first: Tensor, second: Tensor, is_identical: Tensor, as_printed: bool = False
) -> Tensor:
    """A sentence met with itself must score high, met with another one low.

    With z = f1(s1) . f2(s2) and s the logistic function, the term of a pair is -log s(z) if both
    sentences are the same one, and -log s(-z) otherwise (Carlsson et al. 2021, [CT] section 4,
    equation 1). The second case follows the authors' code. The paper prints s(1 - z).

    first, second: (B, H), from two independent encoders without dropout. is_identical: (B,) bool.
    as_printed: take s(1 - z) as in the paper.

    Returns a scalar, the mean over the pairs, at least 0. z = 0 gives log 2 = 0.693, without
    as_printed. The dot product is not normalised, so z has no bound. Compare with
    `contrastive_tension_in_batch`.
    """
    check_same_shape(first, second)
    dtype = score_dtype(first, second)
    z = (first.to(dtype) * second.to(dtype)).sum(dim=-1)  # (B,)
    if as_printed:
        # s(1 - z) is s(-z') with z' = z - 1.
        z = torch.where(is_identical, z, z - 1)
    return F.binary_cross_entropy_with_logits(z, is_identical.to(dtype))


def contrastive_tension_in_batch(
    first: Tensor, second: Tensor, scale: float | Tensor = 20.0
) -> Tensor:
    """Every sentence of the batch is met with itself and, as negatives, with all others.

    The softmax runs both ways: it is `bsc` with cosines and temperature 1 / scale. This variant is
    not in [CT]. It is sentence-transformers' ContrastiveTensionLossInBatchNegatives. That class
    trains log(scale). A tensor passed here is the scale itself.

    first, second: (B, H), the same B sentences through two encoders, no two of them equal.
    scale: above 0; a number, or a scalar tensor that is trained.

    Returns a scalar, at least 0. If all similarities are equal, it is log B.
    """
    check_same_shape(first, second)
    check_positive("scale", scale)
    return bsc(first, second, 1 / scale)


# --- self-guided: an encoder and its frozen copy --------------------------------------------------

# T is the encoder that is trained, F its frozen copy. c_i is T's vector of sentence i, and h_ik is
# the pooled state k of F.


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.01) -> Tensor:
    """All 2B vectors are anchors: each must find its other view among the 2B - 1 other vectors.

    SimCLR's loss (Chen et al. 2020, equation 1). With T's [CLS] and F's hidden states it is the
    plain self-guided loss (Kim et al. 2021, [SG] section 3.1, L^base without its regulariser).

    first, second: (B, H), row i of both the same sentence, and all B sentences different.
    temperature: above 0.

    Returns a scalar, the mean over the 2B anchors, at least 0. If all similarities are equal, it is
    log(2B - 1). Compare with `info_nce`: one side as anchors, B candidates, no negatives within a
    side.
    """
    check_same_shape(first, second)
    check_positive("temperature", temperature)
    vectors = torch.cat([first, second])  # (2B, H)
    logits = similarities(vectors, vectors) / temperature  # (2B, 2B)

    # A vector is no candidate for itself.
    logits = logits.masked_fill(diagonal_mask(len(vectors), logits.device), -torch.inf)

    # The other view of row i stands B rows further, or B rows before it.
    targets = torch.arange(len(vectors), device=logits.device).roll(len(first))  # (2B,)
    return F.cross_entropy(logits, targets)


def self_guided_opt1(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """Only T's vectors c_i are anchors ([SG] section 3.2, L^opt1).

    With phi(u, v) = exp(cos(u, v) / t), the term of sentence i is
    -log( phi(c_i, h_i) / (sum_{j != i} phi(c_i, c_j) + sum_j phi(c_i, h_j)) ).

    cls, hidden: (B, H), T's [CLS] and one pooled hidden state of F for B different sentences, both
    after the projection. temperature: above 0.

    Returns a scalar, the mean over i, at least 0. If all similarities are equal, it is log(2B - 1).
    Compare with `nt_xent`, in which the h_i are anchors, too.
    """
    check_same_shape(cls, hidden)
    check_positive("temperature", temperature)
    to_hidden = similarities(cls, hidden) / temperature  # (B, B)
    to_cls = similarities(cls, cls) / temperature  # (B, B)
    to_cls = to_cls.masked_fill(diagonal_mask(len(cls), to_cls.device), -torch.inf)
    logits = torch.cat([to_hidden, to_cls], dim=1)  # (B, 2B)
    return F.cross_entropy(logits, torch.arange(len(cls), device=logits.device))


def self_guided_opt2(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """Only F's hidden states are candidates ([SG] section 3.2, L^opt2).

    The term of sentence i is -log( phi(c_i, h_i) / sum_j phi(c_i, h_j) ): opt1 without the other
    c_j as negatives. This is `info_nce` between [CLS] and hidden states.

    Arguments as of `self_guided_opt1`. If all similarities are equal, it is log B.
    """
    return info_nce(cls, hidden, temperature)


def self_guided_opt3(cls: Tensor, hidden: Tensor, temperature: float = 0.01) -> Tensor:
    """All hidden states of F at once ([SG] section 3.2, L^opt3).

    With the regulariser this is the method SG-OPT. The term of sentence i and state k is
    -log( phi(c_i, h_ik) / (phi(c_i, h_ik) + sum_{m != i} sum_n phi(c_i, h_mn)) ).
    The other states of sentence i itself are neither positives nor negatives of this term.

    cls: (B, H). hidden: (B, K, H), K of F's hidden states, by default all L + 1 of its L layers.
    Both after the projection, of B different sentences. temperature: above 0.

    Returns a scalar, the mean over i and k, at least 0. If all similarities are equal, it is
    log(1 + (B - 1) K).
    With K = 1 it is `self_guided_opt2`.
    """
    check_same_shape(cls, hidden[:, 0])
    check_positive("temperature", temperature)
    batch_size, num_states, _ = hidden.shape
    logits = similarities(cls, hidden.flatten(0, 1)) / temperature  # (B, B K)
    logits = logits.unflatten(1, (batch_size, num_states))  # (B, B, K)

    # The numerator: each anchor with its own K states.
    positives = logits.diagonal(dim1=0, dim2=1).T  # (B, K)

    # The rest of the denominator: each anchor with all states of all other sentences.
    is_own = diagonal_mask(batch_size, logits.device).unsqueeze(-1)  # (B, B, 1)
    negatives = logits.masked_fill(is_own, -torch.inf).flatten(1)  # (B, B K)
    sum_of_negatives = negatives.logsumexp(dim=1, keepdim=True)  # (B, 1)

    terms = torch.logaddexp(positives, sum_of_negatives) - positives  # (B, K)
    return terms.mean()


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean cosine distance, 1 - cosine, between two vectors of one sentence.

    Reimers and Gurevych 2020, "Making Monolingual Sentence Embeddings Multilingual", equation 1,
    take the mean squared error. Between vectors of length 1 that is 2 / H times this loss.

    student, teacher: (B, H). Only the student gets a gradient. Returns a scalar, 0 to 2.
    ValueError for different shapes.
    """
    check_same_shape(student, teacher)
    dtype = score_dtype(student, teacher)
    cosines = F.cosine_similarity(student.to(dtype), teacher.detach().to(dtype), dim=-1)  # (B,)
    return (1 - cosines).mean()


# --- methods that are one of these losses ---------------------------------------------------------


def loss_of_mnr(vectors: Vectors, method_options: MethodOptions) -> Tensor:
    """--pretrain mnr. Henderson et al. write the temperature as a scale."""
    return multiple_negatives_ranking(
        vectors.anchors,
        vectors.positives,
        1 / vectors.temperature,
        cast(Similarity, method_options[MnrOptions].mnr_similarity),
        vectors.same,
    )


def loss_of_cosent(vectors: Vectors, method_options: MethodOptions) -> Tensor:
    """--pretrain cosent."""
    assert vectors.labels is not None, "cosent reads labelled pairs"
    return cosent(vectors.anchors, vectors.positives, vectors.labels, vectors.temperature)
