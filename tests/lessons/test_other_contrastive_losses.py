"""contrastive/losses.py: every loss but plain info_nce, which test_contrastive_losses.py holds.

Each formula is checked by a slow loop, by hand, against its other names, by finite differences and
by its properties.
"""

import math
import re

import pytest
import torch
import torch.nn.functional as F

from contrastive.losses import (
    bsc,
    contrastive_tension,
    contrastive_tension_in_batch,
    cosent,
    distillation,
    divide_by_range,
    info_nce,
    label_error,
    matryoshka,
    multiple_negatives_ranking,
    nt_xent,
    self_guided_opt1,
    self_guided_opt2,
    self_guided_opt3,
    signed_softmax,
)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def cosine(u, v) -> float:
    return float(u @ v / (u.norm() * v.norm()))


def dot(u, v) -> float:
    return float(u @ v)


def phi(u, v, temperature=0.5) -> float:
    return math.exp(cosine(u, v) / temperature)


# Anchors, positives and hard negatives of B = 4 sentences, and K = 3 hidden states of each.
A = draw(4, 5)
P = draw(4, 5, seed=1)
N = draw(4, 5, seed=2)
HIDDEN = draw(4, 3, 5, seed=3)
LABELS = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)
SCORES = torch.tensor([0.4, 1.0, 0.4, 0.0], dtype=torch.float64)

# --- slow loops: each formula word by word --------------------------------------------------------


def slow_hard_negatives(weight, *all_negatives):
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i], P[j]) for j in range(4))
        for negatives in all_negatives:
            for j in range(4):
                below += phi(A[i], negatives[j]) * (math.exp(weight) if i == j else 1)
        total -= math.log(phi(A[i], P[i]) / below)
    return total / 4


def test_hard_negatives_that_say_the_same_are_no_candidates():
    """Here the diagonal counts: a contradiction may have the text of its own anchor."""
    same_hard = torch.zeros(4, 4, dtype=torch.bool)
    same_hard[0, 0] = True
    same_hard[1, 2] = True
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i], P[j]) for j in range(4))
        below += sum(phi(A[i], N[j]) for j in range(4) if not same_hard[i, j])
        total -= math.log(phi(A[i], P[i]) / below)
    loss = info_nce(A, P, 0.5, hard_negatives=N, same_hard=same_hard)
    assert loss.item() == pytest.approx(total / 4, rel=1e-12)


def slow_bsc(similarity, symmetric, labels=None):
    total = 0.0
    for i in range(4):
        rows = sum(math.exp(similarity(A[i], P[j]) / 0.5) for j in range(4))
        columns = sum(math.exp(similarity(A[j], P[i]) / 0.5) for j in range(4))
        own = math.exp(similarity(A[i], P[i]) / 0.5)
        term = -math.log(own / rows)
        if symmetric:
            term = (term - math.log(own / columns)) / 2
        if labels is None or labels[i] > 0:
            total += term
    return total / 4


def slow_nt_xent():
    vectors = [*A, *P]
    total = 0.0
    for i in range(8):
        above = phi(vectors[i], vectors[(i + 4) % 8])
        below = sum(phi(vectors[i], vectors[j]) for j in range(8) if j != i)
        total -= math.log(above / below)
    return total / 8


def slow_opt1():
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i], A[j]) for j in range(4) if j != i)
        below += sum(phi(A[i], P[j]) for j in range(4))
        total -= math.log(phi(A[i], P[i]) / below)
    return total / 4


def slow_opt2(width=5):
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i][:width], P[j][:width]) for j in range(4))
        total -= math.log(phi(A[i][:width], P[i][:width]) / below)
    return total / 4


def slow_cosent():
    total = 1.0
    for i in range(4):
        for j in range(4):
            if SCORES[i] > SCORES[j]:
                total += phi(A[j], P[j]) / phi(A[i], P[i])
    return math.log(total)


def slow_opt3():
    total = 0.0
    for i in range(4):
        for k in range(3):
            own = phi(A[i], HIDDEN[i, k])
            others = 0.0
            for m in range(4):
                for n in range(3):
                    others += phi(A[i], HIDDEN[m, n]) if m != i else 0.0
            total -= math.log(own / (own + others))
    return total / 12


SLOW_LOOPS = {
    "hard": (
        lambda: info_nce(A, P, 0.5, hard_negatives=N),
        lambda: slow_hard_negatives(0.0, N),
    ),
    "two-hard-weight": (
        lambda: info_nce(A, P, 0.5, torch.cat([N, HIDDEN[:, 0]]), 1.5),
        lambda: slow_hard_negatives(1.5, N, HIDDEN[:, 0]),
    ),
    "cosent": (lambda: cosent(A, P, SCORES, 0.5), slow_cosent),
    "matryoshka": (
        lambda: matryoshka(lambda a, p: info_nce(a, p, 0.5), A, P, (2, 5)),
        lambda: slow_opt2(2) + slow_opt2(5),
    ),
    "bsc": (lambda: bsc(A, P, 0.5), lambda: slow_bsc(cosine, True)),
    "bsc-rows": (lambda: bsc(A, P, 0.5, symmetric=False), lambda: slow_bsc(cosine, False)),
    "bsc-dot": (lambda: bsc(A, P, 0.5, normalise="none"), lambda: slow_bsc(dot, True)),
    "bsc-labels": (
        lambda: bsc(A, P, 0.5, labels=LABELS),
        lambda: slow_bsc(cosine, True, LABELS),
    ),
    "nt-xent": (lambda: nt_xent(A, P, 0.5), slow_nt_xent),
    "opt1": (lambda: self_guided_opt1(A, P, 0.5), slow_opt1),
    "opt2": (lambda: self_guided_opt2(A, P, 0.5), slow_opt2),
    "opt3": (lambda: self_guided_opt3(A, HIDDEN, 0.5), slow_opt3),
}


@pytest.mark.parametrize("name", SLOW_LOOPS)
def test_equal_to_a_slow_loop(name):
    loss, slow_loss = SLOW_LOOPS[name]
    assert loss().item() == pytest.approx(slow_loss(), rel=1e-12)  # float64


# --- by hand --------------------------------------------------------------------------------------

E1 = torch.tensor([[1.0, 0], [0, 1]])  # the two axes
E2 = torch.tensor([[0.0, 1], [1, 0]])  # the axes exchanged


def test_two_axes_by_hand():
    """t = 1, cosines 0 and 1: e = exp 1."""
    e = math.e
    # With itself as positive: e above, e and 1 below. Hard negatives add e and 1 once more.
    assert info_nce(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1) / e))
    hard = info_nce(E1, E1, 1.0, hard_negatives=E1)
    assert hard.item() == pytest.approx(math.log((2 * e + 2) / e))

    # The cosine of a pair is 0, that of the wrong pairs is 1.
    assert bsc(E1, E2, 1.0).item() == pytest.approx(math.log(e + 1))
    labelled = bsc(E1, E2, 1.0, labels=torch.tensor([1.0, 0]))
    assert labelled.item() == pytest.approx(math.log(e + 1) / 2)
    assert contrastive_tension_in_batch(E1, E2, 1.0).item() == pytest.approx(math.log(e + 1))

    assert nt_xent(E1, E1, 1.0).item() == pytest.approx(math.log((e + 2) / e))
    assert self_guided_opt1(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1 + 1) / e))
    # The other c is no candidate.
    assert self_guided_opt2(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1) / e))
    # c_1 has own states with e and 1, and those of the other sentence with 1 and e.
    states = torch.stack([E1, E2], dim=1)
    expected = (math.log((e + e + 1) / e) + math.log(1 + e + 1)) / 2
    assert self_guided_opt3(E1, states, 1.0).item() == pytest.approx(expected)

    assert multiple_negatives_ranking(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1) / e))
    by_dot = multiple_negatives_ranking(E1, 2 * E1, 1.0, "dot")
    assert by_dot.item() == pytest.approx(math.log((e**2 + 1) / e**2))


def test_cosent_by_hand():
    """t = 1, cosines 1 and 0. The pair of the higher label is above the other one, or below it."""
    first, second = torch.tensor([[1.0, 0], [1, 0]]), E1
    right = cosent(first, second, torch.tensor([0.9, 0.2]), 1.0)
    assert right.item() == pytest.approx(math.log(1 + math.exp(0 - 1)))
    wrong = cosent(first, second, torch.tensor([0.2, 0.9]), 1.0)
    assert wrong.item() == pytest.approx(math.log(1 + math.exp(1 - 0)))
    # Only the order of the labels counts, and equal labels are not compared.
    assert torch.equal(cosent(first, second, torch.tensor([3.0, 2.0]), 1.0), right)
    assert cosent(first, second, torch.tensor([0.5, 0.5]), 1.0).item() == 0


def softplus(z: float) -> float:
    return math.log(1 + math.exp(z))


def test_contrastive_tension_by_hand():
    """A table of four dot products: with itself 0 and 2, with another 0 and 3."""
    first = torch.tensor([[1.0, 0], [2, 0], [1, 0], [3, 0]])
    second = torch.tensor([[0.0, 1], [1, 0], [0, 1], [1, 0]])
    identical = torch.tensor([True, True, False, False])
    expected = (softplus(0) + softplus(-2) + softplus(0) + softplus(3)) / 4
    assert contrastive_tension(first, second, identical).item() == pytest.approx(expected)

    # The negative control: positives and negatives exchanged.
    wrong = (softplus(0) + softplus(2) + softplus(0) + softplus(-3)) / 4
    assert contrastive_tension(first, second, ~identical).item() == pytest.approx(wrong)
    assert wrong != pytest.approx(expected)

    # As printed, -log s(1 - z) for the two pairs of different sentences.
    printed = contrastive_tension(first, second, identical, as_printed=True).item()
    of_others = softplus(-1) + softplus(2)  # -log s(1) and -log s(-2)
    assert printed == pytest.approx((softplus(0) + softplus(-2) + of_others) / 4)


def test_align_by_hand():
    """m = .25: a quarter of the loss of two axes, the rest the mean of 0 and (1 - .4)^2."""
    labels = torch.tensor([1.0, 0.4])
    expected = 0.25 * math.log((math.e + 1) / math.e) + 0.75 * (0.0 + 0.36) / 2
    mixed = 0.25 * bsc(E1, E1, 1.0, labels=labels) + 0.75 * label_error(E1, E1, labels)
    assert mixed.item() == pytest.approx(expected)


def test_the_label_error_is_of_the_vectors_as_they_are():
    """cos (1, 2), (1, 1) = 3 / sqrt(5 x 2), labelled 1. cos (3, 1), (2, 5) = 11 / sqrt(10 x 29), 0.

    Divided by their range, (1, 2) and (3, 1) are (.5, 2) and (1.5, 1), with other cosines.
    """
    a = torch.tensor([[1.0, 2], [3, 1]])
    b = torch.tensor([[1.0, 1], [2, 5]])
    cosines = [3 / math.sqrt(5 * 2), 11 / math.sqrt(10 * 29)]
    expected = ((1 - cosines[0]) ** 2 + cosines[1] ** 2) / 2
    assert label_error(a, b, torch.tensor([1.0, 0.0])).item() == pytest.approx(expected)


def test_normalising_over_the_batch_by_hand():
    # Ranges above and below 1, and a coordinate that is equal in all rows.
    vectors = torch.tensor([[1.0, 10, 3, 0.25], [3, 30, 3, 0.75]])
    assert divide_by_range(vectors).tolist() == [[0.5, 0.5, 3, 0.5], [1.5, 1.5, 3, 1.5]]

    # By their range a is (0, 0), (1, 1) and b is (1, 0), (0, 1). The scores are (0, 0), (1, 1).
    a = torch.tensor([[0.0, 0], [2, 4]])
    b = torch.tensor([[3.0, 0], [0, 7]])
    rows = 2 * math.log(2)
    columns = 2 * math.log(1 + math.e) - 1
    assert bsc(a, b, 1.0, normalise="batch").item() == pytest.approx((rows + columns) / 4)


# --- one formula under two names ------------------------------------------------------------------


def test_names_of_one_formula():
    ranking = multiple_negatives_ranking(A, P, scale=20)
    torch.testing.assert_close(ranking, info_nce(A, P, 0.05))
    by_dot = multiple_negatives_ranking(A, P, 1.0, "dot")
    torch.testing.assert_close(by_dot, F.cross_entropy(A @ P.T, torch.arange(4)))
    torch.testing.assert_close(bsc(A, P, 0.1, symmetric=False), info_nce(A, P, 0.1))
    torch.testing.assert_close(contrastive_tension_in_batch(A, P, 10.0), bsc(A, P, 0.1))
    both_ways = (info_nce(A, P, 0.1) + info_nce(P, A, 0.1)) / 2
    torch.testing.assert_close(bsc(A, P, 0.1), both_ways)


class ReadyVectors(torch.nn.Module):
    """In place of sentence-transformers' model: the vectors are there already."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}

    def get_embedding_dimension(self):
        return 5


def test_equal_to_sentence_transformers():
    losses = pytest.importorskip(
        "sentence_transformers.losses", reason="sentence-transformers is the reference"
    )
    reference = losses.MultipleNegativesRankingLoss(ReadyVectors())
    a, p, n = (tensor.float() for tensor in (A, P, N))
    ours = {2: info_nce(a, p), 3: info_nce(a, p, hard_negatives=n)}
    for num_columns, loss in ours.items():
        columns = [{"vectors": tensor} for tensor in (a, p, n)[:num_columns]]
        torch.testing.assert_close(loss, reference(columns, None), rtol=1e-5, atol=1e-6)  # fp32

    columns = [{"vectors": a}, {"vectors": p}]
    scores = SCORES.float()
    torch.testing.assert_close(
        cosent(a, p, scores), losses.CoSENTLoss(ReadyVectors())(columns, scores)
    )
    model = ReadyVectors()
    inner = losses.MultipleNegativesRankingLoss(model)
    theirs = losses.MatryoshkaLoss(model, inner, [2, 3, 5])
    torch.testing.assert_close(matryoshka(info_nce, a, p, (2, 3, 5)), theirs(columns, None))


# --- properties -----------------------------------------------------------------------------------


def some_labels(a):
    """1 for all anchors but one. They follow from the anchors, so they move with them."""
    return (a[:, 0] > a[:, 0].min()).double()


def aligned(a, p, normalise):
    """[BSC]'s full loss with m = .3 and labels of .5."""
    labels = torch.full((len(a),), 0.5, dtype=a.dtype)
    loss = bsc(a, p, 0.5, normalise=normalise, labels=labels)
    return 0.3 * loss + 0.7 * label_error(a, p, labels)


def with_hard_negatives(a, p, weight):
    return info_nce(a, p, 0.5, hard_negatives=a.flip(1), hard_negative_weight=weight)


def all_identical(a):
    return torch.ones(len(a), dtype=torch.bool)


def one_identical(a):
    return a[:, 0] == a[:, 0].min()


PAIRWISE = {
    "hard": lambda a, p: with_hard_negatives(a, p, 0.0),
    "hard-weight": lambda a, p: with_hard_negatives(a, p, 2.0),
    "bsc": lambda a, p: bsc(a, p, 0.5),
    "bsc-align": lambda a, p: aligned(a, p, "l2"),
    "bsc-batch": lambda a, p: bsc(a, p, 0.5, normalise="batch"),
    "bsc-none": lambda a, p: bsc(a, p, 0.5, normalise="none"),
    "bsc-rows-labels": lambda a, p: bsc(a, p, 0.5, symmetric=False, labels=some_labels(a)),
    "bsc-labels": lambda a, p: bsc(a, p, 0.5, labels=some_labels(a)),
    "bsc-batch-align": lambda a, p: aligned(a, p, "batch"),
    "mnr": lambda a, p: multiple_negatives_ranking(a, p, 2.0),
    "mnr-dot": lambda a, p: multiple_negatives_ranking(a, p, 1.0, "dot"),
    "cosent": lambda a, p: cosent(a, p, some_labels(a), 0.5),
    "matryoshka": lambda a, p: matryoshka(nt_xent, a, p, (2, 5)),
    "ct": lambda a, p: contrastive_tension(a, p, all_identical(a)),
    "ct-others": lambda a, p: contrastive_tension(a, p, one_identical(a)),
    "ct-in-batch": lambda a, p: contrastive_tension_in_batch(a, p, 3.0),
    "nt-xent": lambda a, p: nt_xent(a, p, 0.5),
    "opt1": lambda a, p: self_guided_opt1(a, p, 0.5),
    "opt2": lambda a, p: self_guided_opt2(a, p, 0.5),
    "opt3": lambda a, p: self_guided_opt3(a, torch.stack([p, p.flip(1)], dim=1), 0.5),
}
# These read dot products, ranges, or labels that follow from lengths.
READ_LENGTHS = {
    "cosent",
    "ct",
    "ct-others",
    "bsc-batch",
    "bsc-batch-align",
    "bsc-none",
    "bsc-labels",
    "bsc-rows-labels",
    "mnr-dot",
}
every_loss = pytest.mark.parametrize("loss", PAIRWISE.values(), ids=PAIRWISE)


@every_loss
def test_gradients_by_finite_differences(loss):
    assert torch.autograd.gradcheck(loss, [A.clone().requires_grad_(), P.clone().requires_grad_()])


@every_loss
def test_the_order_of_the_batch_does_not_matter(loss):
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(loss(A[order], P[order]), loss(A, P))
    assert not torch.isclose(loss(A[order], P), loss(A, P)), "the negative control: other pairs"


@pytest.mark.parametrize("name", [name for name in PAIRWISE if name not in READ_LENGTHS])
def test_cosines_do_not_see_length(name):
    scales = torch.tensor([[0.1], [3.0], [1.0], [50.0]], dtype=torch.float64)
    loss = PAIRWISE[name]
    torch.testing.assert_close(loss(A * scales, P / scales), loss(A, P))


@every_loss
def test_bf16_autocast_does_not_reach_the_scores(loss):
    a, p = A.float(), P.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = loss(a, p)
    assert under_autocast.dtype == torch.float32
    torch.testing.assert_close(under_autocast, loss(a, p), rtol=1e-6, atol=1e-6)


def test_duplicates_never_act_as_negatives():
    """Row 1 says the same as row 0. For both, the loop leaves the other one out of the sum."""
    same = torch.eye(4, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    expected = 0.0
    for i in range(4):
        below = sum(phi(A[i], P[j]) for j in range(4) if j == i or not same[i, j])
        expected -= math.log(phi(A[i], P[i]) / below)
    assert info_nce(A, P, 0.5, same=same).item() == pytest.approx(expected / 4)

    anchors = A.clone().requires_grad_()
    loss = info_nce(anchors[:2], P[:2], 0.5, same=same[:2, :2])
    (gradient,) = torch.autograd.grad(loss, anchors)
    assert not gradient.any(), "two that say the same have nothing to tell apart"


def test_a_temperature_that_is_trained():
    inverse = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scale: bsc(A, P, 1 / scale), [inverse])
    for loss in (bsc, nt_xent, self_guided_opt1, self_guided_opt2):
        with pytest.raises(ValueError, match="finite number above 0"):
            loss(A, P, 0.0)
    with pytest.raises(ValueError, match="finite number above 0"):
        self_guided_opt3(A, HIDDEN, -1.0)


# --- labelled pairs whose loss is maximised -------------------------------------------------------


def pairs_of(seed: int, num_pairs: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(num_pairs, 4, generator=generator, dtype=torch.float64)
    second = torch.randn(num_pairs, 4, generator=generator, dtype=torch.float64)
    return first, second


def test_signed_softmax_by_a_slow_loop():
    """A wrong sign, or a term that is missing, is the most likely reason for another number."""
    first, second = pairs_of(0)
    labels = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    expected = 0.0
    for row in range(5):
        cosines = torch.cosine_similarity(first[row][None], second)
        term = -torch.log_softmax(cosines / 0.5, dim=0)[row]
        expected += (1 if labels[row] > 0 else -1) * term / 5
    found = signed_softmax(first, second, 0.5, labels)
    torch.testing.assert_close(found, expected)
    # Negative control: candidates without a term give another number.
    assert not torch.isclose(found, bsc(first, second, 0.5, False, labels=labels))


def test_signed_softmax_by_hand():
    """Two orthogonal pairs at temperature 1: the right one has a loss of log(1 + 1/e)."""
    vectors = torch.eye(2, dtype=torch.float64)
    term = math.log(1 + math.exp(-1))
    for labels, expected in ([1, 1], term), ([0, 0], -term), ([1, 0], 0.0):
        found = signed_softmax(vectors, vectors, 1.0, torch.tensor(labels).double())
        assert found.item() == pytest.approx(expected, abs=1e-12)


def test_the_maximised_loss_has_a_bound():
    """With cosines a term is at most 2 / t + log B, also where all is as wrong as it can be."""
    first = torch.eye(3, dtype=torch.float64)[:1].repeat(4, 1)
    second = first.clone()
    second[0] *= -1
    labels = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    bound = 2 / 0.05 + math.log(4)
    assert -bound <= signed_softmax(first, second, 0.05, labels).item() < -10


def test_the_maximised_loss_pushes_a_labelled_negative_apart():
    """A gradient step lowers the cosine of a pair labelled 0."""
    first, second = pairs_of(1)
    labels = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    moved = second.clone().requires_grad_()
    signed_softmax(first, moved, 0.5, labels).backward()
    stepped = second - 0.01 * moved.grad
    before = torch.cosine_similarity(first[0], second[0], dim=0)
    assert torch.cosine_similarity(first[0], stepped[0], dim=0) < before


# --- distillation ---------------------------------------------------------------------------------


def test_distillation_by_hand():
    """The cosines are 0, 1 and -1, whatever the lengths. Only the student gets a gradient."""
    student = torch.tensor([[1.0, 0], [2, 2], [3, 0]], requires_grad=True)
    teacher = torch.tensor([[0.0, 5], [1, 1], [-1, 0]], requires_grad=True)
    loss = distillation(student, teacher)
    assert float(loss) == pytest.approx((1 + 0 + 2) / 3)
    loss.backward()
    assert teacher.grad is None and student.grad.abs().sum() > 0


# --- arguments that are refused -------------------------------------------------------------------

# A call with a wrong choice or shape, by a part of its message.
WRONG = {
    "normalise is 'L2'; it must be l2, batch or none": (lambda a, b: bsc(a, b, normalise="L2")),
    "labels have the shape (1,); expected is one label for each pair, (4,)": (
        lambda a, b: label_error(a, b, torch.ones(1))
    ),
    "labels have the shape (4, 1); expected is": (lambda a, b: bsc(a, b, labels=torch.ones(4, 1))),
    "a width is 9; the vectors have 5 units": (lambda a, b: matryoshka(info_nce, a, b, [2, 9])),
    "scale is 0; it must be a finite": (lambda a, b: multiple_negatives_ranking(a, b, scale=0)),
    "scale is -1.0; it must": (lambda a, b: contrastive_tension_in_batch(a, b, torch.tensor(-1.0))),
}
PAIRED = {
    "bsc": bsc,
    "label_error": lambda a, b: label_error(a, b, torch.ones(len(a))),
    "nt_xent": nt_xent,
    "opt1": self_guided_opt1,
    "opt2": self_guided_opt2,
    "mnr": multiple_negatives_ranking,
    "cosent": lambda a, b: cosent(a, b, torch.ones(len(a))),
    "matryoshka": lambda a, b: matryoshka(info_nce, a, b, [2, 5]),
    "opt3": lambda a, b: self_guided_opt3(a, b.unsqueeze(1)),
    "ct": lambda a, b: contrastive_tension(a, b, torch.ones(len(a))),
    "ct-in-batch": contrastive_tension_in_batch,
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_choice_is_not_read_as_another_one(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WRONG[message](A, P)


@pytest.mark.parametrize("name", PAIRED)
def test_vectors_that_do_not_belong_together_row_by_row(name):
    with pytest.raises(ValueError):
        PAIRED[name](A, P[:-1])
