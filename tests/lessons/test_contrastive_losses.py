"""The loss of SimCSE. Run it with `python -m pytest -x tests/lessons/test_contrastive_losses.py`.

The first test says what a wrong number most likely means. The others check the loss by hand, by a
slow loop, against torch's cross-entropy, by its properties and by wrong pairs. In the full project,
test_other_contrastive_losses.py has the tests of the other losses.
"""

import contextlib
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from contrastive.losses import info_nce
from tests.relations import error_of


def vectors(
    seed: int, batch_size: int = 6, dtype=torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random anchors and positives, (B, 5) each."""
    generator = torch.Generator().manual_seed(seed)
    both = []
    for _ in range(2):
        drawn = torch.randn(batch_size, 5, generator=generator, dtype=torch.float64)
        both.append(drawn.to(dtype))
    return both[0], both[1]


# --- a number by hand, with hints -----------------------------------------------------------------

# Anchors (1, 0) and (0, 2), positives (1, 0) and (3, 3). The cosines are 1 and 1/sqrt 2 in row one,
# 0 and 1/sqrt 2 in row two. At t = .5 the rows give log(1 + exp(-.586)) = .4424 and
# log(1 + exp(-1.414)) = .2176. The mean is .3300.
MISTAKES = {
    2.0091: "these are dot products; divide each vector by its length, so that they are cosines.",
    0.4791: "the temperature is missing.",
    0.5772: "the cosines are multiplied by the temperature; divide.",
    0.6602: "this is the sum over the batch, or divided by the temperature; take the mean.",
    0.4100: "the softmax runs down the columns, or anchors and positives are swapped: anchor i "
    "looks for its positive among row i.",
    0.3700: "this is the mean over rows and columns; SimCSE has rows only (bsc has both).",
    -0.3300: "the minus of -log is missing.",
    2.0103: "only the anchors are divided by their length; divide the positives, too.",
    0.2500: "only the positives are divided by their length; divide the anchors, too.",
    0.8202: "each unit is divided by its length over the batch; divide each vector by its own.",
    0.3931: "each vector is divided by the square of its length; divide it by the length.",
    0.1637: "the temperature is squared.",
    0.4103: "the cosines are divided by the root of the temperature.",
    0.9582: "the loss is divided by the temperature, and not the cosines.",
    0.2396: "the loss is multiplied by the temperature; divide the cosines by it.",
    0.1269: "anchors are compared with anchors; compare them with the positives.",
    0.4425: "positives are compared with positives; compare the anchors with them.",
    1.0372: "the positive of row i stands in column i, not in column 0.",
    1.3301: "the sign is wrong: a large cosine must get a large probability.",
    0.8301: "this is the mean over all pairs; the diagonal alone counts.",
    0.1650: "the mean is divided by B once more, halved, or multiplied by the temperature.",
    0.3801: "the labels are smoothed; no smoothing is asked for.",
    -0.7234: "the log of the softmax is missing.",
    0.3238: "this is the log of the mean; take the mean of the logs.",
    0.9994: "these are distances; take cosines.",
    0.7401: "this is the sum of rows and columns; SimCSE has rows only (bsc has both).",
    0.6674: "each pair is a question of its own here, with a sigmoid; take a softmax over the row.",
    0.4762: "this is the logarithm to base 2; the natural one is right.",
    2.0372: "the cosine of the pair is missing: -log(exp(own) / sum).",
    0.8733: "the positive is counted twice in the sum under the fraction.",
    0.1464: "this is the mean of 1 - cosine; the negatives are missing.",
    0.2674: "exp is missing: -log(exp(own) / sum of exp).",
    -1.0: "the positive is missing from the sum under the fraction; SimCSE's sum runs over all j.",
}
OTHER_MISTAKE = "is it the cross-entropy of the cosines / temperature against the diagonal?"


def hint_for(number: float) -> str:
    """What a wrong number most likely means."""
    for wrong, hint in MISTAKES.items():
        if math.isclose(number, wrong, abs_tol=1.5e-4):
            return hint
    return OTHER_MISTAKE


def check_info_nce(loss) -> None:
    """The most common mistakes each give another number."""
    anchors = torch.tensor([[1.0, 0], [0, 2]])
    positives = torch.tensor([[1.0, 0], [3, 3]])
    found = loss(anchors, positives, 0.5)
    assert isinstance(found, torch.Tensor), f"found {found}, expected a tensor: not written yet?"
    shape = tuple(found.shape)
    assert shape == (), f"shape {shape}, expected a scalar: the mean over the batch."
    number = found.item()
    message = f"found {number:.4f}, expected 0.3300: {hint_for(number)}"
    assert number == pytest.approx(0.33, abs=1e-4), message


def test_info_nce_with_hints():
    check_info_nce(info_nce)


def test_two_sentences_by_hand():
    """The vectors of the first test at three temperatures."""
    anchors = torch.tensor([[1.0, 0], [0, 2]])
    positives = torch.tensor([[1.0, 0], [3, 3]])
    for temperature in (1.0, 0.5, 0.05, 0.005):
        row_1 = math.log(1 + math.exp((1 / math.sqrt(2) - 1) / temperature))
        row_2 = math.log(1 + math.exp((0 - 1 / math.sqrt(2)) / temperature))
        expected = (row_1 + row_2) / 2
        loss = info_nce(anchors, positives, temperature)
        # fp32: a sum of logits up to 1 / t, less one of them.
        assert loss.item() == pytest.approx(expected, rel=1e-5, abs=1e-7 / temperature), (
            f"right at t = 0.5, wrong at t = {temperature}: is the temperature a fixed number, or "
            "something limited or rounded? With nan, exp overflows: take the log of a softmax."
        )
    # The first anchor is as far from its positive as can be.
    far = torch.tensor([[-1.0, 0], [0, 1]])
    found = info_nce(anchors, far, 0.005).item()
    assert found == pytest.approx(100, rel=1e-4), (
        f"found {found}, expected 100: the softmax of a far positive is rounded to 0, and its log "
        "is -inf. Take log_softmax, logsumexp or cross_entropy of the logits"
    )


def test_unrelated_vectors_give_log_b():
    """Where all cosines are equal, each of 8 questions has 8 answers that are equally likely."""
    anchors = torch.ones(8, 3)
    assert info_nce(anchors, anchors).item() == pytest.approx(math.log(8)), (
        "eight equal cosines give log 8: is a number added, or the loss smoothed or scaled?"
    )


# --- hard negatives, and pairs that say the same --------------------------------------------------

# Positives as above, and the hard negatives (1, 1) and (0, -2). Their cosines are 1/sqrt 2 and 0 in
# row one, 1/sqrt 2 and -1 in row two. The own ones are 1/sqrt 2 and -1. At t = .5 with the weight
# 1.5, the loss is 1.1517.
HARD_MISTAKES = {
    0.3301: "the hard negatives are not heeded.",
    0.8164: "hard_negative_weight is not heeded; add it to the logit of the own one.",
    1.6544: "hard_negative_weight belongs to the own hard negative alone, j = i, not to all.",
    1.8106: "hard_negative_weight is added to the cosine; add it to the logit, after 1 / t.",
    0.8644: "each anchor meets its own hard negative alone; all of them join its sum.",
    0.9252: "the own logit is multiplied by hard_negative_weight; add it.",
    0.9159: "the cosines of the hard negatives are not divided by the temperature.",
    1.0093: "anchors and hard negatives are swapped: row i belongs to anchor i.",
    1.3136: "the hard negatives are compared with the positives; compare them with the anchors.",
    1.0268: "the other positives are missing; the hard negatives join them in the sum.",
    0.6912: "hard negatives are further columns of the logits, dim=1, not further rows.",
    1.6517: "the hard negatives stand in front of the positives; the targets are 0, 1, ...",
    0.7039: "hard_negative_weight is subtracted; add it.",
    0.2482: "hard_negative_weight is added to the positives; add it to the own hard negatives.",
    2.7845: "exp(hard_negative_weight) is added to the logit; add the weight itself.",
    1.3756: "hard_negative_weight is added to the hard negatives of others; add it to the own one.",
    0.9621: "the hard negatives of an anchor are averaged; each of them is a column of its own.",
    0.4037: "hard_negative_weight is added to the positive of each anchor, too.",
    1.0059: "hard_negative_weight is made a whole number.",
    1.3274: "hard_negative_weight is a factor of the logit; add it to that of the own one.",
}
OTHER_HARD_MISTAKE = (
    "do the hard negatives join the sum under the fraction, and none of them the one above it?"
)


def check_hard_negatives(loss) -> None:
    """The mistakes with hard negatives, each by its number."""
    anchors = torch.tensor([[1.0, 0], [0, 2]])
    positives = torch.tensor([[1.0, 0], [3, 3]])
    hard = torch.tensor([[1.0, 1], [0, -2]])
    number = loss(anchors, positives, 0.5, hard, 1.5).item()
    hint = OTHER_HARD_MISTAKE
    for wrong, mistake in HARD_MISTAKES.items():
        if math.isclose(number, wrong, abs_tol=1e-4):
            hint = mistake
    expected = hard_by_loop(anchors, positives, hard, 1.5, 0.5)
    message = f"found {number:.4f}, expected {expected:.4f}: {hint}"
    assert number == pytest.approx(expected, abs=1e-4), message
    # Two for each anchor: hard negatives i and i + B are those of anchor i.
    both = torch.cat([hard, torch.tensor([[-1.0, 1], [3, 0]])])
    number = loss(anchors, positives, 0.5, both, 1.5).item()
    expected = hard_by_loop(anchors, positives, both, 1.5, 0.5)
    assert number == pytest.approx(expected, abs=1e-4), (
        f"found {number:.4f}, expected {expected:.4f}: with K for each anchor, its own ones are i, "
        "i + B, i + 2 B, and so on."
    )
    number = loss(anchors, positives, 0.5, hard, -1.5).item()
    expected = hard_by_loop(anchors, positives, hard, -1.5, 0.5)
    assert number == pytest.approx(expected, abs=1e-4), (
        f"found {number:.4f}, expected {expected:.4f}: hard_negative_weight may be below 0, and is "
        "added as it is."
    )
    # One anchor: its positive has the cosine 1, and its hard negative 1/sqrt 2.
    number = loss(anchors[:1], positives[:1], 0.5, hard[:1], 1.5).item()
    expected = hard_by_loop(anchors[:1], positives[:1], hard[:1], 1.5, 0.5)
    assert number == pytest.approx(expected, abs=1e-4), (
        f"found {number:.4f}, expected {expected:.4f}: a batch of one anchor has its hard "
        "negatives as candidates, too"
    )
    halves = [part.bfloat16() for part in (anchors, positives, hard)]
    difference = loss(*halves[:2], 1.0, halves[2], 0.3005) - loss(*halves[:2], 1.0, halves[2], 0.3)
    assert difference > 1e-6, "hard_negative_weight is rounded to the dtype of the vectors"


def hard_by_loop(
    anchors, positives, hard, weight, temperature, same=None, same_hard=None, left_out=0.0
) -> float:
    """Equation 5 of Gao et al. 2021, one term at a time, in float64.

    left_out: the term of an entry of `same`, which is 0.
    """
    total = 0.0
    for i, anchor in enumerate(anchors.double()):
        terms = []
        for j, positive in enumerate(positives.double()):
            score = F.cosine_similarity(anchor, positive, dim=0).item() / temperature
            if i == j:
                own = score
            is_left_out = i != j and same is not None and same[i, j]
            terms.append(left_out if is_left_out else math.exp(score))
        for j, negative in enumerate(hard.double()):
            score = F.cosine_similarity(anchor, negative, dim=0).item() / temperature
            is_left_out = same_hard is not None and same_hard[i, j]
            is_own = i == j % len(anchors)
            terms.append(left_out if is_left_out else math.exp(score + weight * is_own))
        total += math.log(sum(terms)) - own
    return total / len(anchors)


def test_hard_negatives_with_hints():
    check_hard_negatives(info_nce)


def check_same(loss) -> None:
    """Positives and hard negatives that say the same as an anchor are left out of its sum."""
    anchors, positives = vectors(10, dtype=torch.float64)
    hard, _ = vectors(11, dtype=torch.float64)
    same = torch.zeros(6, 6, dtype=torch.bool)
    same[0, 3] = same[0, 0] = same[4, 1] = True
    same_hard = torch.zeros(6, 6, dtype=torch.bool)
    same_hard[2, 2] = same_hard[2, 5] = True
    before = same.clone()
    found = loss(anchors, positives, 0.5, hard, 0.7, same, "cos", same_hard).item()
    assert torch.equal(same, before), "`same` was written to; make a new tensor"
    without = hard_by_loop(anchors, positives, hard, 0.7, 0.5, None, same_hard)
    without_hard = hard_by_loop(anchors, positives, hard, 0.7, 0.5, same, None)
    expected = hard_by_loop(anchors, positives, hard, 0.7, 0.5, same, same_hard)
    hint = "is an entry of same[i, j] left out of row i, and never the diagonal of `same`?"
    for of_both in (same_hard, None):
        as_zeros = hard_by_loop(anchors, positives, hard, 0.7, 0.5, same, of_both, left_out=1.0)
        if of_both is None:
            as_zeros += expected - without_hard
        if math.isclose(found, as_zeros, abs_tol=1e-6):
            hint = (
                "what says the same has a logit of 0, and e^0 = 1 counts. It is left out of row i: "
                "its logit is -inf."
            )
    masks_of = {
        "`same` is transposed: row i is that of anchor i.": (same.T, same_hard),
        "`same` is turned round: True is left out.": (~same, same_hard),
        "`same_hard` is transposed: row i is that of anchor i.": (same, same_hard.T),
        "`same_hard` is turned round: True is left out.": (same, ~same_hard),
        "`same` is used in place of `same_hard`.": (same, same),
        "`same_hard` is used in place of `same`.": (same_hard, same_hard),
        "the diagonal of `same_hard` counts: the own hard negative may say the same.": (
            same,
            same_hard & ~torch.eye(6, dtype=torch.bool),
        ),
        "neither `same` nor `same_hard` is heeded.": (None, None),
        "`same` is used for the hard negatives, too.": (same, same_hard | same),
        "`same` is made symmetric; row i is that of anchor i alone.": (same | same.T, same_hard),
    }
    wrong_losses = {
        mistake: hard_by_loop(anchors, positives, hard, 0.7, 0.5, *masks)
        for mistake, masks in masks_of.items()
    }
    wrong_losses |= {
        "`same` is not heeded.": without,
        "`same_hard` is not heeded.": without_hard,
        "hard_negative_weight is left out where `same_hard` is given.": hard_by_loop(
            anchors, positives, hard, 0.0, 0.5, same, same_hard
        ),
    }
    for mistake, wrong in wrong_losses.items():
        if math.isclose(found, wrong, abs_tol=1e-6):
            hint = mistake
    if not math.isfinite(found):
        hint = "the diagonal of `same` does not matter: the anchor keeps its own positive."
    message = f"found {found:.4f}, expected {expected:.4f}: {hint}"
    assert found == pytest.approx(expected, abs=1e-6), message


def check_same_alone(loss) -> None:
    """Without `same_hard`, all hard negatives count."""
    anchors, positives = vectors(10, dtype=torch.float64)
    hard, _ = vectors(11, dtype=torch.float64)
    same = torch.zeros(6, 6, dtype=torch.bool)
    same[0, 3] = True
    found = loss(anchors, positives, 0.5, hard, 0.7, same).item()
    expected = hard_by_loop(anchors, positives, hard, 0.7, 0.5, same)
    assert found == pytest.approx(expected, abs=1e-6), (
        "`same` is about the positives alone: without `same_hard` all hard negatives count"
    )


def check_same_of_two_for_each(loss) -> None:
    """Two hard negatives for each anchor: columns 0 to 5, and then 6 to 11."""
    anchors, positives = vectors(10, dtype=torch.float64)
    hard, _ = vectors(11, dtype=torch.float64)
    both = torch.cat([hard, vectors(12, dtype=torch.float64)[0]])
    same_both = torch.zeros(6, 12, dtype=torch.bool)
    same_both[2, 9] = True
    found = loss(anchors, positives, 0.5, both, 0.7, None, "cos", same_both).item()
    expected = hard_by_loop(anchors, positives, both, 0.7, 0.5, None, same_both)
    assert found == pytest.approx(expected, abs=1e-6), (
        f"found {found:.4f}, expected {expected:.4f}: `same_hard` is (B, K B), and its column j is "
        "hard negative j."
    )


def check_what_is_left_out(loss) -> None:
    """Row 0 has no other candidate than its positive, whose logit is -100."""
    opposite = torch.tensor([[-1.0, 0], [0, 1]])
    same = torch.tensor([[False, True], [False, False]])
    found = loss(torch.eye(2), opposite, 0.01, same=same).item()
    assert found == pytest.approx(0.0, abs=1e-6), (
        f"found {found:.4f}, expected 0: what says the same is left out, by a logit of -inf and "
        "not by a number such as -100. Or is the largest logit taken off, and it is one of those?"
    )
    # The term of row 0 is 0, and counts in the mean.
    found = loss(torch.eye(2), opposite, 1.0, same=same).item()
    assert found == pytest.approx(math.log(1 + math.exp(-1)) / 2, rel=1e-5), (
        "an anchor without any other candidate has the term 0, and counts in the mean over B"
    )
    # The logit is -10,000 now, and both hard negatives of row 0 are left out, too.
    same_hard = torch.tensor([[True, True], [False, False]])
    masks = {"same": same, "same_hard": same_hard}
    found = loss(torch.eye(2), opposite, 1e-4, torch.tensor([[1.0, 0], [1, 0]]), **masks).item()
    assert found == pytest.approx(0.0, abs=1e-6), (
        f"found {found:.4f}, expected 0: what says the same is left out, `same_hard` as `same`, by "
        "a logit of -inf and not by a number such as -1,000."
    )


@pytest.mark.parametrize(
    "check", [check_same, check_same_alone, check_same_of_two_for_each, check_what_is_left_out]
)
def test_pairs_that_say_the_same_with_hints(check):
    check(info_nce)


def test_dot_products():
    """(1, 0) with (1, 0) and (3, 3): 1 and 3. (0, 2) with them: 0 and 6."""
    anchors = torch.tensor([[1.0, 0], [0, 2]])
    positives = torch.tensor([[1.0, 0], [3, 3]])
    expected = (math.log(1 + math.exp(2)) + math.log(1 + math.exp(-6))) / 2
    found = info_nce(anchors, positives, 1.0, similarity="dot").item()
    assert found == pytest.approx(expected, rel=1e-5), "similarity='dot' divides by no length"
    # Row 1 gets 2 and -1, row 2 gets 0 and 2.
    hard = torch.tensor([[2.0, 0], [-1, 1]])
    rows = [[1.0, 3, 2, -1], [0.0, 6, 0, 2]]
    expected = sum(torch.tensor(row).logsumexp(0).item() for row in rows) / 2 - (1 + 6) / 2
    found = info_nce(anchors, positives, 1.0, hard, similarity="dot").item()
    assert found == pytest.approx(expected, rel=1e-5), (
        "similarity='dot' is that of the hard negatives, too: no length divides them"
    )


# --- a slow loop, and a library -------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0625, 1.0])
def test_equal_to_a_slow_loop(temperature):
    anchors, positives = vectors(0, dtype=torch.float64)
    total = 0.0
    for i in range(6):
        scores = []
        for j in range(6):
            lengths = anchors[i].norm() * positives[j].norm()
            scores.append(float(anchors[i] @ positives[j] / lengths) / temperature)
        total -= math.log(math.exp(scores[i]) / sum(map(math.exp, scores)))
    loss = info_nce(anchors, positives, temperature)
    # fp64
    assert loss.item() == pytest.approx(total / 6, rel=1e-12), (
        "compare with this loop: vectors of float64 have scores in float64"
    )


def test_equal_to_cross_entropy_on_logits_built_here():
    anchors, positives = vectors(1)
    anchors.requires_grad_()
    positives.requires_grad_()
    rows = [F.cosine_similarity(anchor[None], positives) for anchor in anchors]
    logits = torch.stack(rows) / 0.05
    expected = torch.nn.CrossEntropyLoss()(logits, torch.arange(6))
    loss = info_nce(anchors, positives)
    hint = "the loss is not the cross-entropy of the cosines, divided by 0.05"
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6, msg=hint)  # fp32

    gradients = torch.autograd.grad(loss, (anchors, positives), allow_unused=True)
    expected_gradients = torch.autograd.grad(expected, (anchors, positives))
    for name, gradient, other in zip(
        ("anchors", "positives"), gradients, expected_gradients, strict=True
    ):
        assert gradient is not None, f"{name} have no gradient: {DETACHED}"
        # fp32, logits up to 20
        hint = (
            f"the loss is right, and its gradient by the {name} is not: is a part detached, such "
            "as the length of a vector?"
        )
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-5, msg=hint)


def test_gradients_by_finite_differences():
    """Each input moves a little in one direction, and the loss follows its gradient."""
    inputs = [*vectors(2, batch_size=4, dtype=torch.float64), torch.tensor(0.5).double()]
    inputs.append(vectors(3, batch_size=4, dtype=torch.float64)[0])
    names = ("anchors", "positives", "temperature", "hard_negatives")
    for number, name in enumerate(names):
        moved = inputs[number].clone().requires_grad_()
        direction = torch.randn(moved.shape, generator=torch.Generator().manual_seed(4)).double()

        def loss(value: torch.Tensor, number: int = number) -> torch.Tensor:
            return info_nce(*inputs[:number], value, *inputs[number + 1 :], 0.7)

        found = loss(moved)
        assert found.requires_grad, f"{name} has no gradient: {DETACHED}"
        (gradient,) = torch.autograd.grad(found, moved, allow_unused=True)
        assert gradient is not None, f"{name} has no gradient: {DETACHED}"
        with torch.no_grad():
            step = 1e-4 * direction
            expected = float(loss(moved + step) - loss(moved - step)) / 2e-4
        assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-4), (
            f"the loss is right, and its gradient by {name} is not: {DETACHED}"
        )


DETACHED = (
    "all terms have one. The temperature may be a tensor that is trained. Is a term detached, or "
    "made a number by float() or .item()?"
)


def test_a_trained_temperature_has_a_gradient_where_terms_are_left_out():
    anchors, positives = vectors(2)
    hard_negatives = vectors(3)[0]
    is_same = torch.ones(6, 6, dtype=torch.bool).triu()
    for options in ({"same": is_same}, {"hard_negatives": hard_negatives, "same_hard": is_same}):
        temperature = torch.tensor(0.5, requires_grad=True)
        info_nce(anchors, positives, temperature, **options).backward()
        assert temperature.grad.isfinite(), (
            "the gradient of the temperature is nan: divide the similarities by it, and then write "
            "-inf. -inf divided by it has no gradient"
        )


# --- precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_the_precision_it_computes_in(dtype, result):
    anchors, positives = vectors(3, dtype=dtype)
    loss = info_nce(anchors, positives)
    hint = f"vectors of {dtype} have scores in {result}, as `similarities` gives them"
    assert loss.dtype == result, f"the loss has {loss.dtype}: {hint}"
    expected = info_nce(anchors.double(), positives.double())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=2e-6), hint


def test_bf16_autocast_does_not_reach_the_scores():
    """A cosine in bfloat16 is wrong by up to 0.002. A temperature of 0.05 makes that 0.04."""
    anchors, positives = vectors(4)
    expected = info_nce(anchors, positives)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(info_nce(anchors, positives), expected), (
            "autocast makes the scores less exact: take them from `similarities`"
        )


# --- properties -----------------------------------------------------------------------------------


def test_the_length_of_a_vector_does_not_matter():
    anchors, positives = vectors(5)
    scales = torch.tensor([[0.01], [3.0], [1.0], [100.0], [7.0], [0.5]])
    scaled = info_nce(anchors * scales, positives / scales)
    hint = "the length of a vector matters: divide each vector by its length"
    expected = info_nce(anchors, positives)
    torch.testing.assert_close(scaled, expected, rtol=1e-5, atol=1e-6, msg=hint)  # fp32


def test_the_order_of_the_batch_does_not_matter():
    anchors, positives = vectors(6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    reordered = info_nce(anchors[order], positives[order])
    # fp32, sums in another order
    torch.testing.assert_close(reordered, info_nce(anchors, positives), rtol=1e-6, atol=1e-6)


def test_wrong_pairs_cost_more():
    """The negative control: with positives shifted by one, the loss is far above the right one."""
    anchors, _ = vectors(7)
    positives = anchors + 0.1
    assert info_nce(anchors, positives) < 0.5
    assert info_nce(anchors, positives.roll(1, 0)) > 5


def test_rows_only():
    """Unlike in the symmetric form, columns are not summed."""
    anchors, positives = vectors(8)
    assert abs(info_nce(anchors, positives) - info_nce(positives, anchors)) > 1e-2


def test_a_zero_vector_gives_finite_numbers():
    anchors, positives = vectors(9)
    anchors[0] = 0
    anchors.requires_grad_()
    loss = info_nce(anchors, positives)
    loss.backward()
    hint = "a vector of zeros is divided by its length; `similarities` divides by at least 1e-12"
    assert loss.isfinite(), f"the loss is {loss}: {hint}"
    assert anchors.grad.isfinite().all(), f"the gradient is not finite: {hint}"


# --- arguments that are refused -------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, -0.05, math.nan, math.inf])
def test_a_temperature_that_is_not_positive(temperature):
    for value in (temperature, torch.tensor(temperature)):
        raised = error_of(partial(info_nce, *vectors(0), value))
        assert isinstance(raised, ValueError), (
            f"the temperature {value} must be a ValueError, and it is {raised!r}: call "
            "check_positive, as the docstring says"
        )


def test_a_trained_temperature_stays_as_it_is():
    temperature = torch.tensor(0.004, requires_grad=True)
    info_nce(*vectors(0), temperature)
    assert temperature.item() == pytest.approx(0.004), (
        "the temperature was written to: whoever trains it limits it. Take it as it is"
    )


def test_a_wrong_similarity_is_not_read_as_another_one():
    is_refused = True
    with contextlib.suppress(ValueError):
        info_nce(*vectors(0), similarity="cosine")
        is_refused = False
    assert is_refused, "similarity='cosine' was taken, and only 'cos' and 'dot' are known"


@pytest.mark.parametrize("shape", [(5, 5), (7, 5), (6, 4)])
@pytest.mark.parametrize("name", ["positives", "hard_negatives"])
def test_vectors_that_do_not_belong_together_row_by_row(name, shape):
    first, _ = vectors(0)
    raised = error_of(lambda: info_nce(first, **{"positives": first, name: torch.ones(shape)}))
    assert isinstance(raised, ValueError), (
        f"{name} of the shape {shape} must be a ValueError, and it is {raised!r}: {REFUSED}"
    )


REFUSED = "call check_same_shape, for hard negatives once for each block of B"
