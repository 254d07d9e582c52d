"""The other formulas of contrastive/losses.py, each by hand, by a slow loop, by finite differences, by a property."""

import math

import pytest
import torch
import torch.nn.functional as F

from contrastive.losses import (
    bsc,
    contrastive_tension,
    contrastive_tension_in_batch,
    divide_by_range,
    info_nce,
    label_error,
    multiple_negatives_ranking,
    nt_xent,
    self_guided_opt1,
    self_guided_opt2,
    self_guided_opt3,
)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def phi(u, v, temperature=0.5) -> float:
    return math.exp(float(u @ v / (u.norm() * v.norm())) / temperature)


A, P, N = draw(4, 5), draw(4, 5, seed=1), draw(4, 5, seed=2)
HIDDEN = draw(4, 3, 5, seed=3)
LABELS = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)

# --- slow loops: each formula word by word ----------------------------------------------------------------------------


def slow_hard_negatives(weight):
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i], P[j]) for j in range(4))
        below += sum(phi(A[i], N[j]) * (math.exp(weight) if i == j else 1) for j in range(4))
        total -= math.log(phi(A[i], P[i]) / below)
    return total / 4


def slow_bsc(similarity, symmetric, labels=None):
    total = 0.0
    for i in range(4):
        rows = sum(math.exp(similarity(A[i], P[j]) / 0.5) for j in range(4))
        columns = sum(math.exp(similarity(A[j], P[i]) / 0.5) for j in range(4))
        own = math.exp(similarity(A[i], P[i]) / 0.5)
        term = (
            -(math.log(own / rows) + math.log(own / columns)) / 2
            if symmetric
            else -math.log(own / rows)
        )
        total += term * (1 if labels is None else float(labels[i] > 0))
    return total / 4


def slow_nt_xent():
    vectors, total = [*A, *P], 0.0
    for i in range(8):
        total -= math.log(
            phi(vectors[i], vectors[(i + 4) % 8])
            / sum(phi(vectors[i], vectors[j]) for j in range(8) if j != i)
        )
    return total / 8


def slow_opt1():
    total = 0.0
    for i in range(4):
        below = sum(phi(A[i], A[j]) for j in range(4) if j != i) + sum(
            phi(A[i], P[j]) for j in range(4)
        )
        total -= math.log(phi(A[i], P[i]) / below)
    return total / 4


def slow_opt2():
    return (
        -sum(math.log(phi(A[i], P[i]) / sum(phi(A[i], P[j]) for j in range(4))) for i in range(4))
        / 4
    )


def slow_opt3():
    total = 0.0
    for i in range(4):
        for k in range(3):
            own, others = phi(A[i], HIDDEN[i, k]), 0.0
            for m in range(4):
                for n in range(3):
                    others += phi(A[i], HIDDEN[m, n]) if m != i else 0.0
            total -= math.log(own / (own + others))
    return total / 12


def cosine(u, v) -> float:
    return float(u @ v / (u.norm() * v.norm()))


def dot(u, v) -> float:
    return float(u @ v)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (info_nce(A, P, 0.5, hard_negatives=N), slow_hard_negatives(0.0)),
        (info_nce(A, P, 0.5, hard_negatives=N, hard_negative_weight=1.5), slow_hard_negatives(1.5)),
        (bsc(A, P, 0.5), slow_bsc(cosine, True)),
        (bsc(A, P, 0.5, symmetric=False), slow_bsc(cosine, False)),
        (bsc(A, P, 0.5, normalise="none"), slow_bsc(dot, True)),
        (bsc(A, P, 0.5, labels=LABELS), slow_bsc(cosine, True, LABELS)),
        (nt_xent(A, P, 0.5), slow_nt_xent()),
        (self_guided_opt1(A, P, 0.5), slow_opt1()),
        (self_guided_opt2(A, P, 0.5), slow_opt2()),
        (self_guided_opt3(A, HIDDEN, 0.5), slow_opt3()),
    ],
    ids=[
        "hard",
        "hard-weight",
        "bsc",
        "bsc-rows",
        "bsc-dot",
        "bsc-labels",
        "nt-xent",
        "opt1",
        "opt2",
        "opt3",
    ],
)
def test_equal_to_a_slow_loop(found, expected):
    assert found.item() == pytest.approx(expected, rel=1e-12)  # float64


# --- by hand ----------------------------------------------------------------------------------------------------------

E1, E2 = (
    torch.tensor([[1.0, 0], [0, 1]]),
    torch.tensor([[0.0, 1], [1, 0]]),
)  # the two axes, and exchanged


def test_two_axes_by_hand():
    """t = 1, cosines 0 and 1: e = exp 1."""
    e = math.e
    assert info_nce(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1) / e))
    assert info_nce(E1, E1, 1.0, hard_negatives=E1).item() == pytest.approx(
        math.log((2 * e + 2) / e)
    )
    assert bsc(E1, E2, 1.0).item() == pytest.approx(
        math.log(e + 1)
    )  # the own cosine is 0, the other one is 1
    assert bsc(E1, E2, 1.0, labels=torch.tensor([1.0, 0])).item() == pytest.approx(
        math.log(e + 1) / 2
    )
    assert nt_xent(E1, E1, 1.0).item() == pytest.approx(math.log((e + 2) / e))
    assert self_guided_opt1(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1 + 1) / e))
    assert self_guided_opt2(E1, E1, 1.0).item() == pytest.approx(
        math.log((e + 1) / e)
    )  # the other c is no candidate
    assert multiple_negatives_ranking(E1, E1, 1.0).item() == pytest.approx(math.log((e + 1) / e))
    assert multiple_negatives_ranking(E1, 2 * E1, 1.0, "dot").item() == pytest.approx(
        math.log((e**2 + 1) / e**2)
    )
    assert contrastive_tension_in_batch(E1, E2, 1.0).item() == pytest.approx(math.log(e + 1))
    assert self_guided_opt3(E1, torch.stack([E1, E2], dim=1), 1.0).item() == pytest.approx(
        (math.log((e + e + 1) / e) + math.log(1 + e + 1)) / 2
    )  # c_1: own e and 1; of the other sentence 1 and e


def test_contrastive_tension_by_hand():
    """A table of four dot products: with itself 0 and 2, with another 0 and 3."""
    first = torch.tensor([[1.0, 0], [2, 0], [1, 0], [3, 0]])
    second = torch.tensor([[0.0, 1], [1, 0], [0, 1], [1, 0]])
    identical = torch.tensor([True, True, False, False])
    softplus = lambda z: math.log(1 + math.exp(z))  # noqa: E731
    expected = (softplus(0) + softplus(-2) + softplus(0) + softplus(3)) / 4
    assert contrastive_tension(first, second, identical).item() == pytest.approx(expected)
    wrong = (softplus(0) + softplus(2) + softplus(0) + softplus(-3)) / 4
    assert (
        contrastive_tension(first, second, ~identical).item()
        == pytest.approx(wrong)
        != pytest.approx(expected)
    )


def test_align_by_hand():
    """m = .25: a quarter of the loss of two axes, and three quarters of the squared errors 0 and (1 - .4)^2."""
    labels = torch.tensor([1.0, 0.4])
    expected = 0.25 * math.log((math.e + 1) / math.e) + 0.75 * (0.0 + 0.36) / 2
    found = 0.25 * bsc(E1, E1, 1.0) + 0.75 * label_error(E1, E1, labels)
    assert found.item() == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"labels have the shape \(3,\); expected is one label"):
        label_error(E1, E1, torch.ones(3))


def test_align_pulls_the_vectors_as_they_are():
    """By their range (1, 2) and (3, 1) become (.5, 2) and (1.5, 1): other cosines, which align does not ask for."""
    a, b, labels = (
        torch.tensor([[1.0, 2], [3, 1]]),
        torch.tensor([[1.0, 1], [2, 5]]),
        torch.tensor([1.0, 0.0]),
    )
    cosines = [3 / math.sqrt(5 * 2), 11 / math.sqrt(10 * 29)]
    expected = ((1 - cosines[0]) ** 2 + cosines[1] ** 2) / 2
    assert label_error(a, b, labels).item() == pytest.approx(expected)


def test_normalising_over_the_batch_by_hand():
    vectors = torch.tensor([[1.0, 10, 3], [3, 30, 3]])
    assert divide_by_range(vectors).tolist() == [[0.5, 0.5, 3], [1.5, 1.5, 3]]
    a, b = (
        torch.tensor([[0.0, 0], [2, 4]]),
        torch.tensor([[3.0, 0], [0, 7]]),
    )  # by range (0, 0), (1, 1); (1, 0), (0, 1)
    rows, columns = 2 * math.log(2), 2 * math.log(1 + math.e) - 1  # of the scores (0, 0), (1, 1)
    assert bsc(a, b, 1.0, normalise="batch").item() == pytest.approx((rows + columns) / 4)


# --- one formula under two names --------------------------------------------------------------------------------------


def test_names_of_one_formula():
    torch.testing.assert_close(multiple_negatives_ranking(A, P, scale=20), info_nce(A, P, 0.05))
    torch.testing.assert_close(
        multiple_negatives_ranking(A, P, 1.0, "dot"), F.cross_entropy(A @ P.T, torch.arange(4))
    )
    torch.testing.assert_close(bsc(A, P, 0.1, symmetric=False), info_nce(A, P, 0.1))
    torch.testing.assert_close(contrastive_tension_in_batch(A, P, 10.0), bsc(A, P, 0.1))
    torch.testing.assert_close(bsc(A, P, 0.1), (info_nce(A, P, 0.1) + info_nce(P, A, 0.1)) / 2)


def test_equal_to_sentence_transformers():
    losses = pytest.importorskip(
        "sentence_transformers.losses", reason="sentence-transformers is the reference"
    )

    class Given(torch.nn.Module):
        def forward(self, features):
            return {"sentence_embedding": features["vectors"]}

    reference = losses.MultipleNegativesRankingLoss(Given())
    a, p, n = (tensor.float() for tensor in (A, P, N))
    for columns, found in (((a, p), info_nce(a, p)), ((a, p, n), info_nce(a, p, hard_negatives=n))):
        expected = reference([{"vectors": tensor} for tensor in columns], None)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # fp32


# --- properties -------------------------------------------------------------------------------------------------------


def aligned(a, p, normalise):
    """[BSC]'s full loss with m = .3 and labels of .5."""
    labels = torch.full((len(a),), 0.5, dtype=a.dtype)
    loss = bsc(a, p, 0.5, normalise=normalise, labels=labels)
    return 0.3 * loss + 0.7 * label_error(a, p, labels)


PAIRWISE = {
    "hard": lambda a, p: info_nce(a, p, 0.5, hard_negatives=a.flip(1)),
    "hard-weight": lambda a, p: info_nce(
        a, p, 0.5, hard_negatives=a.flip(1), hard_negative_weight=2.0
    ),
    "bsc": lambda a, p: bsc(a, p, 0.5),
    "bsc-align": lambda a, p: aligned(a, p, "l2"),
    "bsc-batch": lambda a, p: bsc(a, p, 0.5, normalise="batch"),
    "bsc-none": lambda a, p: bsc(a, p, 0.5, normalise="none"),
    "bsc-rows-labels": lambda a, p: bsc(
        a, p, 0.5, symmetric=False, labels=(a[:, 0] > a[:, 0].min()).double()
    ),
    "bsc-labels": lambda a, p: bsc(a, p, 0.5, labels=(a[:, 0] > a[:, 0].min()).double()),
    "bsc-batch-align": lambda a, p: aligned(a, p, "batch"),
    "mnr": lambda a, p: multiple_negatives_ranking(a, p, 2.0),
    "mnr-dot": lambda a, p: multiple_negatives_ranking(a, p, 1.0, "dot"),
    "ct": lambda a, p: contrastive_tension(a, p, torch.ones(len(a), dtype=torch.bool)),
    "ct-others": lambda a, p: contrastive_tension(a, p, a[:, 0] == a[:, 0].min()),
    "ct-in-batch": lambda a, p: contrastive_tension_in_batch(a, p, 3.0),
    "nt-xent": lambda a, p: nt_xent(a, p, 0.5),
    "opt1": lambda a, p: self_guided_opt1(a, p, 0.5),
    "opt2": lambda a, p: self_guided_opt2(a, p, 0.5),
    "opt3": lambda a, p: self_guided_opt3(a, torch.stack([p, p.flip(1)], dim=1), 0.5),
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


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in PAIRWISE
        if name
        not in (
            "ct",
            "ct-others",
            "bsc-batch",
            "bsc-batch-align",
            "bsc-none",
            "bsc-labels",
            "bsc-rows-labels",
            "mnr-dot",
        )
    ],
)
def test_cosines_do_not_see_length(name):
    scales = torch.tensor([[0.1], [3.0], [1.0], [50.0]], dtype=torch.float64)
    torch.testing.assert_close(PAIRWISE[name](A * scales, P / scales), PAIRWISE[name](A, P))


@every_loss
def test_bf16_autocast_does_not_reach_the_scores(loss):
    a, p = A.float(), P.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(a, p)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, loss(a, p), rtol=1e-6, atol=1e-6)


def test_duplicates_never_act_as_negatives():
    """Row 1 says the same as row 0: for both, the other is left out of the sum; the loss is that of a loop without."""
    positives = P.clone()
    same = torch.eye(4, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    expected = 0.0
    for i in range(4):
        below = sum(phi(A[i], positives[j]) for j in range(4) if j == i or not same[i, j])
        expected -= math.log(phi(A[i], positives[i]) / below)
    assert info_nce(A, positives, 0.5, same=same).item() == pytest.approx(expected / 4)
    anchors = A.clone().requires_grad_()
    gradient = torch.autograd.grad(
        info_nce(anchors[:2], positives[:2], 0.5, same=same[:2, :2]), anchors
    )[0]
    assert not gradient.any(), "two that say the same have nothing to tell apart"


def test_a_temperature_that_learns():
    inverse = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scale: bsc(A, P, 1 / scale), [inverse])
    for loss in (bsc, nt_xent, self_guided_opt1, self_guided_opt2):
        with pytest.raises(ValueError, match="finite number above 0"):
            loss(A, P, 0.0)
    with pytest.raises(ValueError, match="finite number above 0"):
        self_guided_opt3(A, HIDDEN, -1.0)
