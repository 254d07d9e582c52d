"""The losses of the tasks. Run it with `python -m pytest -x tests/lessons/test_task_losses.py`.

Numbers worked by hand, slow loops, PyTorch's modules in values and gradients, properties. Then
`prior_shift`, which tells a paraphrase model how rare paraphrases are. A check takes the loss that
it tests. In the full project the same checks test the wrong versions of
tests/teaching/mistakes.toml.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy
import pytest
import torch
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from torch import Tensor, nn

from multitask.losses import (
    balanced_weights,
    paraphrase_loss,
    prior_shift,
    sentiment_loss,
    similarity_loss,
)
from tests.relations import error_of

Loss = Callable[..., Tensor]


class Case(NamedTuple):
    """One loss, with inputs to try it on."""

    loss: Loss
    shape: tuple[int, ...]  # of the model's output
    labels: Tensor
    reference: Loss  # PyTorch's own
    hint: str = ""


SENTIMENT_LABELS = torch.tensor([0.0, 4.0, 2.0, 3.0, 2.0, 1.0])
BINARY_LABELS = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
SIMILARITY_LABELS = torch.tensor([0.0, 5.0, 2.75, 3.8, 1.2, 4.6])
# Of the five classes of sentiment, and of two labels of a pair, (2, L).
CLASS_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 3.0, 0.25])
LABEL_WEIGHTS = torch.tensor([[2.0, 0.5], [1.0, 3.0]])
TEACHER_LABELS = torch.tensor([0.999, 0.03, 0.5, 0.001, 0.25, 0.9])
TWO_LABELS = torch.stack([BINARY_LABELS, BINARY_LABELS.roll(1)], dim=1)


def weighted_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """PyTorch's terms, divided by B and not by the sum of their weights."""
    return nn.CrossEntropyLoss(CLASS_WEIGHTS, reduction="none")(logits, labels).mean()


def weighted_two_labels(logits: Tensor, labels: Tensor) -> Tensor:
    weights = torch.where(labels == 1, LABEL_WEIGHTS[1], LABEL_WEIGHTS[0])
    return nn.BCEWithLogitsLoss(weights)(logits, labels)


CASES = {
    "sentiment": Case(sentiment_loss, (6, 5), SENTIMENT_LABELS, nn.CrossEntropyLoss()),
    "paraphrase": Case(paraphrase_loss, (6,), BINARY_LABELS, nn.BCEWithLogitsLoss()),
    "similarity": Case(similarity_loss, (6,), SIMILARITY_LABELS, nn.MSELoss()),
    "sentiment with weights": Case(
        partial(sentiment_loss, weights=CLASS_WEIGHTS),
        (6, 5),
        SENTIMENT_LABELS,
        weighted_cross_entropy,
    ),
    "paraphrase of a teacher, whose labels get no shift": Case(
        partial(paraphrase_loss, shift=0.7), (6,), TEACHER_LABELS, nn.BCEWithLogitsLoss()
    ),
    "paraphrase with several labels, (B, L), weights (2, L), and the mean over all B L": Case(
        partial(paraphrase_loss, weights=LABEL_WEIGHTS),
        (6, 2),
        TWO_LABELS,
        weighted_two_labels,
        "The sum is divided by B L, and not by B alone. weights[0] holds the weights of label 0, "
        "and weights[1] those of label 1.",
    ),
}
each_loss = pytest.mark.parametrize("name", CASES)


def outputs_for(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """Outputs of a model, the same at every call."""
    generator = torch.Generator().manual_seed(7)
    return (3 * torch.randn(CASES[name].shape, generator=generator)).to(dtype)


def assert_loss(found: Tensor, expected: float, mistakes: dict[float, str]) -> None:
    """Compare a loss, and say which mistake leads to the number that was found."""
    assert not isinstance(found, float), (
        f"found the number {found:.5f}, expected a tensor: .item() or float() has no gradient."
    )
    assert isinstance(found, Tensor), f"found {found}, expected a tensor: not written yet?"
    assert found.shape == (), (
        f"shape {tuple(found.shape)}, expected a scalar: the mean over the batch."
    )
    assert found.dtype == torch.float32, f"dtype {found.dtype}, expected float32: use .float()."
    number = found.item()
    hint = "compare with the slow loop below."
    for wrong, mistake in mistakes.items():
        if math.isclose(number, wrong, abs_tol=2e-5 + 1e-5 * abs(wrong)):
            hint = mistake
    assert number == pytest.approx(expected, rel=1e-6), (
        f"found {number:.5f}, expected {expected:.5f}: {hint}"
    )


# --- by hand --------------------------------------------------------------------------------------


# What a wrong loss means, without and with weights.
SENTIMENT_MISTAKES = {
    2.12026: "this is the sum over the batch; take the mean.",
    -1.06013: "the minus of -log is missing.",
    1.42040: "cross-entropy takes logits: the softmax is applied twice.",
    0.42365: "the softmax is taken over the batch; it belongs over the classes (dim=1).",
    0.21203: "the mean runs over the classes, too; a row has one term, and B rows count.",
    -0.89588: "nll_loss takes log-probabilities: log_softmax is missing.",
    -0.4: "nll_loss takes log-probabilities; a softmax without its log stands here.",
    1.13180: "the labels are smoothed; no smoothing is asked for.",
    0.6: "this is 1 - p of the label; -log p is right.",
    1.52945: "this is the logarithm to base 2; the natural one is right.",
    0.63925: "each class has a sigmoid of its own here; take one softmax over all.",
    0.1: "this is the squared error of probabilities; -log p of the label is right.",
    1.95601: "the logit of the label is missing, or is another one's: -log p of the label.",
    0.5: "this is the share of wrong answers, which has no gradient; -log p is right.",
    1.60944: "one row alone counts: the largest, or that without the label 0.",
    0.51083: "one row alone counts, the first or the smallest; take the mean.",
    0.42405: "the sum is divided by the number of classes; divide it by B.",
    1.0: "this is the squared error of the mean class; -log p of the label is right.",
    0.55589: "each row has a factor such as (1 - p)^2 here; leave it out.",
    1.02966: "this is the root of the loss; leave it out.",
    0.53007: "this is half of the loss; leave the half out.",
    0.89588: "the last class is missing: a class counts also where no label names it.",
    1.51828: "the largest logit of each class is taken off; take that of a row (dim=1).",
}
WEIGHTED_SENTIMENT_MISTAKES = {
    1.06013: "the argument weights is left out.",
    0.78547: "the sum is divided by the sum of the weights; divide it by B.",
    1.48418: "each row has the weight of its class, and not the mean of the weights.",
    0.81389: "the weights multiply the loss of a row; here they change its logits.",
    3.14191: "this is the sum over the batch; divide it by B.",
    3.10343: "the weights are squared.",
    1.12211: "the loss is divided by the mean of the weights; divide its sum by B.",
    1.24711: "the weights are taken to the root.",
    0.44884: "the sum is divided by the sum of all weights; divide it by B.",
    0.62838: "the sum is divided by the number of classes; divide it by B.",
    1.07329: "the weights multiply the loss of a row; here they change its logits.",
    3.18040: "the weight of a row is that of its label, not of the class predicted here.",
    2.12026: "the weights are left out, or each row has those of all rows: (B, 1) times "
    "(B,) is (B, B). Give both one shape.",
}


def check_sentiment(loss: Loss) -> None:
    """The softmax of the first row is 6/10 and 1/10 four times, that of the second 1/5 each."""
    logits = torch.tensor([[math.log(6), 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    labels = torch.tensor([0.0, 3.0])
    # The first class counts three times.
    weights = torch.tensor([3.0, 1, 1, 1, 1])
    try:
        found = loss(logits, labels)
        weighted = loss(logits, labels, weights)
    except (RuntimeError, IndexError) as error:
        is_dtype = any(word in str(error) for word in ("Long", "long", "int64"))
        assert not is_dtype, f"labels are float; classes are whole numbers: labels.long(). {error}"
        raise
    assert_loss(
        found,
        (-math.log(0.6) - math.log(0.2)) / 2,
        SENTIMENT_MISTAKES,
    )
    assert_loss(
        weighted,
        (-3 * math.log(0.6) - math.log(0.2)) / 2,
        WEIGHTED_SENTIMENT_MISTAKES,
    )


def test_sentiment_by_hand():
    check_sentiment(sentiment_loss)


@pytest.mark.parametrize("label", [5, -1])
def test_a_label_that_is_no_class_is_refused(label):
    raised = error_of(lambda: sentiment_loss(torch.zeros(2, 5), torch.tensor([0, label])))
    assert raised is not None, (
        f"the label {label} of 5 classes gives a loss: it must raise IndexError or "
        "RuntimeError. Some ways to look up a number count from the end or wrap around."
    )
    assert isinstance(raised, IndexError | RuntimeError), (
        f"the label {label} of 5 classes must raise PyTorch's IndexError or RuntimeError, and "
        f"raised {type(raised).__name__}"
    )


def check_paraphrase(loss: Loss) -> None:
    """sigmoid(log 3) = 3/4: a duplicate costs -log 3/4, another pair -log 1/4.

    A logit of 0 costs log 2 either way.
    """
    logit = torch.tensor([math.log(3), math.log(3), 0.0])
    try:
        loss(logit, torch.tensor([1.0, 0.0, 1.0]))
    except RuntimeError as error:
        assert "between 0 and 1" not in str(error), (
            "a logit is no probability: take the loss that works on logits."
        )
        raise
    assert_loss(
        loss(logit, torch.tensor([1.0, 0.0, 1.0])),
        (-math.log(0.75) - math.log(0.25) + math.log(2)) / 3,
        {
            2.36712: "this is the sum over the batch; take the mean.",
            -0.78904: "the minus of -log is missing.",
            0.66596: "the loss takes logits: the sigmoid is applied twice.",
            0.32694: "only duplicates cost something; the other pairs cost -log(1 - p).",
            0.46210: "only pairs labelled 0 cost something; duplicates cost -log p.",
            0.29167: "this is the squared error of probabilities; take -log p and -log(1 - p).",
            0.45833: "this is the distance of probabilities; -log p and -log(1 - p) are right.",
            1.13835: "this is the logarithm to base 2; the natural one is right.",
            1.15525: "labels are 0 and 1 here, not -1 and 1.",
            1.03287: "this is a hinge loss; -log p and -log(1 - p) are right.",
            66.66666: "the logit is turned into an answer first, which has no gradient.",
            0.88828: "this is the root of the loss; leave it out.",
            0.39452: "this is half of the loss; leave the half out.",
        },
    )
    # A pair that is labelled 1 counts three times.
    assert_loss(
        loss(logit[1:], torch.tensor([1.0, 0.0]), weights=torch.tensor([1.0, 3.0])),
        (-3 * math.log(0.75) + math.log(2)) / 2,
        {
            0.49041: "the argument weights is left out.",
            1.18356: "weights[0] is the weight of label 0, and weights[1] that of label 1.",
            0.38905: "the sum is divided by the sum of the weights; divide it by B.",
            2.42602: "labels are the other way round: 1 is a duplicate, which costs -log p.",
            1.03972: "labels are the other way round, and the argument weights is left out.",
            0.36476: "the weights multiply the loss of a row, not its logit.",
            0.43152: "weights[0] is left out; it multiplies the loss of a pair labelled 0.",
            0.98083: "each row has the weight of its class, and not the mean of the weights.",
            1.55620: "this is the sum over the batch; divide it by B.",
            0.92194: "the weight of label 1 is weights[1] alone, and not the sum of both.",
            0.20520: "the weights multiply the loss of a row, not its label.",
        },
    )
    # The same for a pair that is labelled 0.
    assert_loss(
        loss(logit[1:], torch.tensor([1.0, 0.0]), weights=torch.tensor([3.0, 1.0])),
        (-math.log(0.75) + 3 * math.log(2)) / 2,
        {
            0.49041: "weights[0] is left out; it multiplies the loss of a pair labelled 0.",
            0.39452: "a ratio of the weights multiplies label 1 alone; each label has its own.",
        },
    )


def test_paraphrase_by_hand():
    check_paraphrase(paraphrase_loss)


def check_similarity(loss: Loss) -> None:
    """(0.5^2 + 2^2) / 2."""
    assert_loss(
        loss(torch.tensor([2.25, 7.0]), torch.tensor([2.75, 5.0])),
        2.125,
        {
            4.25: "this is the sum over the batch; take the mean.",
            2.03125: "the labels are cut to whole numbers; 2.75 is a label.",
            2.28125: "labels or predictions are rounded; 2.75 is a label, and 2.25 a prediction.",
            0.75: "this is the mean difference, in which errors cancel; square them.",
            4.0625: "this is the third power of the distances; square them.",
            84.5: "labels and predictions are added; subtract them.",
            486.125: "the prediction is multiplied by 5; it is in points already.",
            10.75: "each is squared before the difference; square the difference.",
            2.06155: "this is the length of the difference; take the mean of its squares.",
            4.0: "this is the largest square; take the mean.",
            0.25: "this is the smallest square, or the median; take the mean.",
            7.46875: "each prediction is compared with each label: do the shapes become (B, B)?",
            0.425: "this is a fifth of the mean square; leave the division out.",
            0.8125: "this is Huber's loss, which is linear far from 0; square all differences.",
            1.25: "these are distances; square them.",
            1.45774: "this is the root of the mean; leave it out.",
            1.0625: "this is half of the mean square; leave the half out.",
            19.445: "the labels are divided by 5; labels and predictions are points from 0 to 5.",
            0.085: "labels and predictions are divided by 5; both are points from 0 to 5.",
            -2.125: "the sign is wrong: a square is never below 0.",
            0.5625: "this is the square of the mean difference; square first.",
            0.125: "the prediction is cut at 5; a prediction beyond the scale must cost something.",
        },
    )
    for prediction in (105.0, -95.0):
        number = loss(torch.tensor([prediction]), torch.tensor([5.0])).item()
        assert number == pytest.approx(10_000, rel=1e-6), (
            f"found {number:.5g}, expected 10,000: a prediction far from its label costs the "
            "square of all of it. Is something cut?"
        )


def test_similarity_by_hand():
    check_similarity(similarity_loss)


def test_a_probability_as_label_of_paraphrases_by_hand():
    """The logit log 3 says 3/4. Of a label of 1/4, a quarter pays -log 3/4, the rest -log 1/4.

    The shift is for labels 0 and 1 alone. It takes the second logit from 0 to log 9: 9/10.
    """
    logit = torch.tensor([math.log(3), 0.0])
    labels = torch.tensor([0.25, 1.0])
    unsure = -0.25 * math.log(0.75) - 0.75 * math.log(0.25)
    sure = -math.log(0.9)
    assert_loss(
        paraphrase_loss(logit, labels, shift=math.log(9)),
        (unsure + sure) / 2,
        {
            (unsure + math.log(2)) / 2: (
                "the shift is left out. Does each label decide for itself, and not the whole batch?"
            ),
            (unsure - math.log(0.1)) / 2: "the shift is subtracted; add it.",
            (sure + math.log(28)) / 2: "the label 1/4 became 0; no label is made a whole number.",
            (sure + math.log(4)) / 2: "the label 1/4 became 0; no label is made a whole number.",
            0.74583: "the label 1/4 became 0; no label is rounded.",
            0.75865: "the shift is multiplied by the label here. Labels 0 and 1 get the whole "
            "shift, and a label between them none.",
            0.39925: "the shift has the sign of the label; it is added to both classes alike.",
            1.67846: "the shift multiplies the logit; add it.",
            0.55582: "the shift is added to the probability; add it to the logit.",
            (unsure + 0.25 * math.log(0.25) + 0.75 * math.log(0.75) + sure) / 2: (
                "the entropy of the label is subtracted; the cross-entropy has it."
            ),
            (-0.25 * math.log(27 / 28) - 0.75 * math.log(1 / 28) + sure) / 2: (
                "a label between 0 and 1 is a teacher's probability: its logit gets no shift."
            ),
        },
    )


def test_a_shift_is_added_in_float32():
    """1 + 0.001 is 1 in bfloat16."""
    logit = torch.tensor([0.0, 1.0, -2.0], dtype=torch.bfloat16)
    labels = torch.tensor([1.0, 0.0, 1.0])
    for shift in (0.001, -0.001):
        expected = paraphrase_loss(logit.float() + shift, labels)
        found = paraphrase_loss(logit.float(), labels, shift=shift)
        assert torch.allclose(found, expected, rtol=1e-5), (
            f"a shift of {shift} is added to each logit whose label is 0 or 1, as it is: is it "
            "multiplied by the label, or left out below 0?"
        )
        passed = logit.float()
        paraphrase_loss(passed, labels, shift=shift)
        assert torch.equal(passed, logit.float()), (
            "the shift was written into the logits of the caller: .float() of float32 is no copy. "
            "Make a new tensor"
        )
        found = paraphrase_loss(logit, labels, shift=shift)
        assert torch.allclose(found, expected, rtol=1e-5), (
            "convert the logit to float32 before the shift is added"
        )
    weights = torch.tensor([1.0, 3.0])
    found = paraphrase_loss(logit.float(), labels, 1.0, weights)
    expected = paraphrase_loss(logit.float() + 1.0, labels, weights=weights)
    assert torch.allclose(found, expected), "with weights, too, the shift is added"
    for label in (0.9, 0.02, 0.99):
        soft = torch.tensor([label])
        found = paraphrase_loss(torch.zeros(1), soft, shift=1.0)
        assert torch.allclose(found, paraphrase_loss(torch.zeros(1), soft)), (
            f"a label between 0 and 1, such as {label}, gets no shift"
        )
    several = torch.stack([logit.float(), logit.float()], dim=1)
    found = paraphrase_loss(several, labels.repeat(2, 1).T, shift=2.0)
    expected = paraphrase_loss(several + 2.0, labels.repeat(2, 1).T)
    assert torch.allclose(found, expected), "with several labels, too, the shift is added"


# --- slow loops -----------------------------------------------------------------------------------


def test_sentiment_slow_loop():
    total = 0.0
    rows = outputs_for("sentiment").tolist()
    for row, label in zip(rows, SENTIMENT_LABELS.tolist(), strict=True):
        total += math.log(sum(math.exp(logit) for logit in row)) - row[int(label)]
    # float32, 6 rows.
    found = sentiment_loss(outputs_for("sentiment"), SENTIMENT_LABELS)
    assert found.item() == pytest.approx(total / 6, rel=1e-6), "compare with this loop"


def test_paraphrase_slow_loop():
    total = 0.0
    logits = outputs_for("paraphrase").tolist()
    for logit, label in zip(logits, BINARY_LABELS.tolist(), strict=True):
        total += math.log(1 + math.exp(-logit if label else logit))
    found = paraphrase_loss(outputs_for("paraphrase"), BINARY_LABELS)
    assert found.item() == pytest.approx(total / 6, rel=1e-6), "are the labels the other way round?"


def test_similarity_slow_loop():
    total = 0.0
    predictions = outputs_for("similarity").tolist()
    for prediction, label in zip(predictions, SIMILARITY_LABELS.tolist(), strict=True):
        total += (prediction - label) ** 2
    found = similarity_loss(outputs_for("similarity"), SIMILARITY_LABELS)
    assert found.item() == pytest.approx(total / 6, rel=1e-6), (
        "compare with this loop: a prediction below 0 is not cut"
    )


# --- PyTorch's modules ----------------------------------------------------------------------------


@each_loss
def test_pytorch_value_and_gradient(name):
    case = CASES[name]
    ours = outputs_for(name).requires_grad_()
    theirs = outputs_for(name).requires_grad_()
    try:
        labels = case.labels.clone()
        value = case.loss(ours, labels)
    except (IndexError, RuntimeError, ValueError) as error:
        pytest.fail(f"{name}: {error}")
    hint = f"{name}: the labels were changed in place. `.float()` copies no float32: use a - b"
    assert torch.equal(labels, case.labels), hint
    is_class = name.startswith("sentiment")
    expected = case.reference(theirs, case.labels.long() if is_class else case.labels)
    # float32: measured 2e-7 where the loss is written out.
    message = f"{name}: the loss is {value:.5f}, and PyTorch's is {expected:.5f}. {case.hint}"
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6, msg=message)
    assert value.requires_grad, "no gradient: .item(), .data, .detach() or torch.tensor on the way?"
    value.backward()
    expected.backward()
    assert ours.grad is not None, "no gradient: .item(), .data or torch.tensor on the way?"
    hint = "the value is right, and its gradient is not: is a part of it detached?"
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6, msg=hint)


@each_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_float32_whatever_comes_in(name, dtype):
    case = CASES[name]
    outputs = outputs_for(name, dtype).requires_grad_()
    hint = (
        f"{name}, {dtype}: convert the outputs with .float() before anything is computed, and "
        "round no label to their dtype."
    )
    try:
        value = case.loss(outputs, case.labels)
    except RuntimeError as error:
        pytest.fail(f"{hint} {error}")
    assert value.dtype == torch.float32, f"{hint} Found is {value.dtype}."
    expected = case.loss(outputs.detach().float(), case.labels)
    torch.testing.assert_close(value, expected, rtol=0, atol=0, msg=hint)
    value.backward()
    assert outputs.grad.dtype == dtype


@pytest.mark.parametrize("name", ["sentiment", "paraphrase", "similarity"])
def test_labels_of_any_dtype(name):
    case = CASES[name]
    outputs = outputs_for(name)
    hint = f"labels may have any dtype, such as int64: convert them ({name})."
    for dtype in (torch.int64, torch.float64, torch.int32, torch.uint8):
        try:
            value = case.loss(outputs, case.labels.to(dtype))
        except RuntimeError as error:
            pytest.fail(f"{hint} {error}")
        assert value.dtype == torch.float32, f"{hint} The loss of labels of {dtype} is float32."
        expected = case.loss(outputs, case.labels.to(dtype).float())
        torch.testing.assert_close(value, expected, msg=hint)


def test_a_logit_of_0_has_its_gradient():
    logit = torch.zeros(2, requires_grad=True)
    paraphrase_loss(logit, torch.tensor([1.0, 0.0])).backward()
    assert logit.grad.tolist() == pytest.approx([-0.25, 0.25]), (
        f"the gradient at logits of 0 is {logit.grad.tolist()}, expected [-0.25, 0.25]: max(z, 0) "
        "and |z| have none there. Take the loss that works on logits, logsigmoid or softplus"
    )


def test_a_shift_is_no_whole_number_where_labels_are():
    losses = [
        paraphrase_loss(outputs_for("paraphrase"), labels, shift=0.7)
        for labels in (BINARY_LABELS, BINARY_LABELS.long())
    ]
    assert torch.equal(*losses), "with labels of int64 the shift of 0.7 is made a whole number"


@each_loss
def test_under_autocast_as_without(name):
    case = CASES[name]
    outputs = outputs_for(name, torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = case.loss(outputs, case.labels)
    hint = (
        "autocast makes the loss less exact: convert the outputs with .float() before, and take no "
        "matrix product, which autocast computes in bfloat16."
    )
    torch.testing.assert_close(value, case.loss(outputs, case.labels), rtol=0, atol=0, msg=hint)


# --- properties -----------------------------------------------------------------------------------


@each_loss
def test_permuting_the_batch_changes_nothing(name):
    case = CASES[name]
    outputs = outputs_for(name)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = case.loss(outputs[order], case.labels[order])
    torch.testing.assert_close(
        permuted,
        case.loss(outputs, case.labels),
        rtol=1e-6,
        atol=0,
        msg="the order of the rows changes the loss: do you take the mean over all of them?",
    )


@each_loss
def test_negative_control_labels_in_another_order(name):
    case = CASES[name]
    outputs = outputs_for(name)
    rolled = case.loss(outputs, case.labels.roll(1))
    assert not torch.allclose(rolled, case.loss(outputs, case.labels), rtol=1e-3)


def test_extreme_logits_stay_finite():
    loss = paraphrase_loss(torch.tensor([1e4, -1e4]), torch.tensor([0.0, 1.0]))
    assert loss.item() == pytest.approx(1e4), (
        "inf, nan or far too small: take the loss that works on logits, not the log of a sigmoid"
    )
    loss = sentiment_loss(torch.tensor([[1e4, 0, 0, 0, 0]]), torch.tensor([1.0]))
    assert loss.item() == pytest.approx(1e4), (
        "inf, nan or far too small: take the loss that works on logits, not the log of a softmax"
    )
    loss = sentiment_loss(torch.tensor([[1e4] * 5, [0.0] * 5]), torch.zeros(2))
    assert loss.item() == pytest.approx(math.log(5), abs=1e-3), (
        "is the largest logit of the whole batch taken off? Take off that of each row"
    )


@pytest.mark.parametrize(("shape", "label_shape"), [((6, 1), (6,)), ((1,), (6,)), ((6, 1), (6, 2))])
@pytest.mark.parametrize("loss", [paraphrase_loss, similarity_loss])
def test_outputs_are_not_broadcast_against_the_labels(loss, shape, label_shape):
    """(B, 1) and (B,) would give (B, B) differences, and a mean that says nothing."""
    raised = error_of(lambda: loss(torch.zeros(shape), torch.full(label_shape, 0.5)))
    assert raised is not None, (
        f"{shape} against {label_shape} raised no ValueError: was it broadcast, or squeezed? "
        "Compare the shapes before anything else, and raise shape_error"
    )
    assert isinstance(raised, ValueError), (
        f"{shape} against {label_shape} raised {type(raised).__name__}, and must raise a "
        "ValueError. Compare the shapes before anything else, and raise shape_error"
    )


# --- the weights of classes -----------------------------------------------------------------------


def test_balanced_weights_by_hand_and_as_scikit_learn():
    # 12 rows, 3 classes: each class weighs 4 rows in sum.
    weights = balanced_weights(torch.tensor([8.0, 3.0, 1.0]))
    assert weights.tolist() == pytest.approx([0.5, 4 / 3, 4.0])
    rows = [0] * 8 + [1] * 3 + [2]
    expected = compute_class_weight("balanced", classes=numpy.arange(3), y=rows)
    assert weights.tolist() == pytest.approx(expected.tolist())
    # Two labels, each without and with: a column is what the label alone would get.
    both = balanced_weights(torch.tensor([[9.0, 2.0], [3.0, 10.0]]))
    assert both[:, 0].tolist() == pytest.approx([12 / 18, 2.0])
    assert both[:, 1].tolist() == pytest.approx([3.0, 0.6])


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_weighted_loss_over_all_rows_is_that_of_scikit_learn(num_classes):
    generator = torch.Generator().manual_seed(3)
    labels = torch.tensor([0.0] * 9 + [1.0] * 2 + [num_classes - 1.0])
    weights = balanced_weights(torch.bincount(labels.long(), minlength=num_classes).float())
    if num_classes == 2:
        logits = torch.randn(12, generator=generator)
        loss = paraphrase_loss(logits, labels, weights=weights)
        shares = torch.stack([1 - logits.sigmoid(), logits.sigmoid()], dim=1)
        # Equal weights change nothing.
        equal = paraphrase_loss(logits, labels, weights=torch.ones(2))
        assert float(equal) == pytest.approx(float(paraphrase_loss(logits, labels))), (
            "equal weights change nothing: the mean is over all rows, and not over each class"
        )
    else:
        logits = torch.randn(12, 3, generator=generator)
        loss = sentiment_loss(logits, labels, weights)
        shares = logits.softmax(dim=1)
    of_rows = compute_sample_weight("balanced", labels)
    # In double precision, as scikit-learn wants rows that add up to 1.
    shares = shares.double() / shares.double().sum(dim=1, keepdim=True)
    expected = log_loss(labels, shares, sample_weight=of_rows)
    assert float(loss) == pytest.approx(expected, rel=1e-5), "look at the weights by hand first"


def test_the_mean_is_over_rows_so_a_batch_may_be_cut():
    """nn.CrossEntropyLoss(weight) would give a batch of one class the loss without a weight."""
    logits = torch.zeros(4, 3)
    labels = torch.tensor([2.0, 2, 2, 0])
    weights = torch.tensor([0.5, 1.0, 4.0])
    whole = sentiment_loss(logits, labels, weights)
    parts = [sentiment_loss(logits[i : i + 1], labels[i : i + 1], weights) for i in range(4)]
    assert float(whole) == pytest.approx(float(sum(parts)) / 4)
    assert float(parts[0]) == pytest.approx(4 * math.log(3))
    # A class may have the weight 0. Its rows still count in B.
    free = sentiment_loss(logits, labels, torch.tensor([0.0, 1.0, 4.0]))
    assert float(free) == pytest.approx(3 * math.log(3)), (
        "a class of weight 0: the sum is divided by B, and not by the rows that cost something"
    )
    free = paraphrase_loss(torch.zeros(2), torch.tensor([0.0, 1.0]), weights=torch.tensor([0.0, 2]))
    assert float(free) == pytest.approx(math.log(2)), (
        "weights[0] may be 0: nothing is divided by a weight"
    )
    # A label of a teacher, 0.25 of the second class, has the weights of both by their shares.
    soft = paraphrase_loss(torch.zeros(1), torch.tensor([0.25]), weights=torch.tensor([1.0, 3.0]))
    assert float(soft) == pytest.approx(1.5 * math.log(2)), (
        "a label y between 0 and 1 has the weight (1 - y) w_0 + y w_1"
    )
    logit, label = torch.tensor([2.0]), torch.tensor([0.25])
    soft = paraphrase_loss(logit, label, weights=torch.tensor([1.0, 3.0]))
    assert float(soft) == pytest.approx(1.5 * float(paraphrase_loss(logit, label))), (
        "(1 - y) w_0 + y w_1 is the weight of the whole loss of a row, and not w_1 that of one "
        "term and w_0 that of the other, as with pos_weight"
    )


# --- the shift ------------------------------------------------------------------------------------


def test_prior_shift_by_hand():
    # Odds of 1 : 1 in training, 1 : 4 elsewhere.
    assert prior_shift(0.5, 0.2) == pytest.approx(math.log(4))
    assert prior_shift(0.8, 0.5) == pytest.approx(math.log(4))
    assert prior_shift(0.37, 0.37) == 0


@pytest.mark.parametrize("share", [0, 1])
def test_prior_shift_needs_both_labels(share):
    with pytest.raises(ValueError, match="--para_prior 0.37 needs training pairs labelled 0 and 1"):
        prior_shift(float(share), 0.37)


@pytest.mark.parametrize("prior", [0.1, 0.37, 0.9])
def test_a_model_trained_with_the_shift_has_the_odds_of_the_prior(prior):
    """Pairs of two kinds, 3 of 4 and 1 of 4 paraphrases, where both labels are as frequent.

    Bayes' rule says what these shares are where paraphrases have the share `prior`.
    """
    labels = torch.tensor([1.0, 1, 1, 0, 1, 0, 0, 0])
    kinds = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    logits = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=100, tolerance_grad=1e-9, tolerance_change=0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = paraphrase_loss(logits[kinds], labels, prior_shift(0.5, prior))
        loss.backward()
        return loss

    optimizer.step(closure)
    first = 0.75 * prior / (0.75 * prior + 0.25 * (1 - prior))
    second = 0.25 * prior / (0.25 * prior + 0.75 * (1 - prior))
    assert torch.sigmoid(logits).tolist() == pytest.approx([first, second], abs=1e-4)
