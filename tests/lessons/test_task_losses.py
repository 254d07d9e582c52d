"""multitask/losses.py: by hand, as a slow loop, against PyTorch's modules with gradients, and what must hold."""

import math

import pytest
import torch

from multitask.losses import paraphrase_loss, prior_shift, sentiment_loss, similarity_loss

SENTIMENT_LABELS = torch.tensor([0.0, 4.0, 2.0, 3.0, 2.0, 1.0])
BINARY_LABELS = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
SIMILARITY_LABELS = torch.tensor([0.0, 5.0, 2.75, 3.8, 1.2, 4.6])
# name -> (loss, shape of the model's output, labels, PyTorch's own)
LOSSES = {
    "sentiment": (sentiment_loss, (6, 5), SENTIMENT_LABELS, torch.nn.CrossEntropyLoss()),
    "paraphrase": (paraphrase_loss, (6,), BINARY_LABELS, torch.nn.BCEWithLogitsLoss()),
    "similarity": (similarity_loss, (6,), SIMILARITY_LABELS, torch.nn.MSELoss()),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def outputs_for(name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (3 * torch.randn(LOSSES[name][1], generator=torch.Generator().manual_seed(7))).to(dtype)


def test_sentiment_by_hand():
    logits = torch.tensor([[math.log(6), 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    # softmax of the first row: 6/10, then 1/10 each; of the second: 1/5 each
    expected = (-math.log(0.6) - math.log(0.2)) / 2
    assert sentiment_loss(logits, torch.tensor([0.0, 3.0])).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_paraphrase_by_hand():
    # sigmoid(log 3) = 3/4: a duplicate costs -log 3/4, a non-duplicate -log 1/4; logit 0 costs log 2 either way
    logit = torch.tensor([math.log(3), math.log(3), 0.0])
    expected = (-math.log(0.75) - math.log(0.25) + math.log(2)) / 3
    assert paraphrase_loss(logit, torch.tensor([1.0, 0.0, 1.0])).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_prior_shift_by_hand():
    assert prior_shift(0.5, 0.2) == pytest.approx(
        math.log(4)
    )  # odds 1 : 1 in training, 1 : 4 elsewhere
    assert prior_shift(0.8, 0.5) == pytest.approx(math.log(4)) and prior_shift(0.37, 0.37) == 0
    logit = torch.tensor([0.0, 1.0, -2.0], dtype=torch.bfloat16)  # 1 + 0.001 is 1 in bfloat16
    labels = torch.tensor([1.0, 0.0, 1.0])
    shifted = paraphrase_loss(logit.float() + 0.001, labels)
    torch.testing.assert_close(paraphrase_loss(logit, labels, shift=0.001), shifted, rtol=0, atol=0)


def test_a_probability_as_label_of_paraphrases_by_hand():
    # logit log 3 says 3/4; of a label of 1/4 a quarter pays -log 3/4, the rest -log 1/4; no shift, which is for classes
    logit, labels = torch.tensor([math.log(3), 0.0]), torch.tensor([0.25, 1.0])
    unsure, sure = -0.25 * math.log(0.75) - 0.75 * math.log(0.25), -math.log(0.9)
    assert paraphrase_loss(logit, labels, shift=math.log(9)).item() == pytest.approx(
        (unsure + sure) / 2, rel=1e-6
    )


@pytest.mark.parametrize("share", [0, 1])
def test_prior_shift_needs_both_labels(share):
    with pytest.raises(ValueError, match="--para_prior 0.37 needs training pairs labelled 0 and 1"):
        prior_shift(float(share), 0.37)


@pytest.mark.parametrize("prior", [0.1, 0.37, 0.9])
def test_what_the_shifted_loss_learns_has_the_prior_s_odds(prior):
    """Pairs of two kinds, 3 of 4 and 1 of 4 paraphrases where both labels are as frequent: Bayes says what they are
    where a share `prior` is."""
    labels = torch.tensor([1.0, 1, 1, 0, 1, 0, 0, 0])
    kinds = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    logits = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=100, tolerance_grad=1e-9, tolerance_change=0)

    def closure():
        optimizer.zero_grad()
        loss = paraphrase_loss(logits[kinds], labels, prior_shift(0.5, prior))
        loss.backward()
        return loss

    optimizer.step(closure)
    first = 0.75 * prior / (0.75 * prior + 0.25 * (1 - prior))
    second = 0.25 * prior / (0.25 * prior + 0.75 * (1 - prior))
    assert torch.sigmoid(logits).tolist() == pytest.approx([first, second], abs=1e-4)


def test_similarity_by_hand():
    # (0.5^2 + 2^2) / 2; a label of 2.75 cut to an integer would give (1.25^2 + 2^2) / 2
    assert similarity_loss(
        torch.tensor([3.25, 7.0]), torch.tensor([2.75, 5.0])
    ).item() == pytest.approx(2.125)


def test_slow_loops():
    outputs = [outputs_for(name) for name in LOSSES]
    logits, logit, prediction = (output.tolist() for output in outputs)
    sentiment = [
        -row[int(label)] + math.log(sum(math.exp(value) for value in row))
        for row, label in zip(logits, SENTIMENT_LABELS.tolist(), strict=True)
    ]
    paraphrase = [
        math.log(1 + math.exp(-value if label else value))
        for value, label in zip(logit, BINARY_LABELS.tolist(), strict=True)
    ]
    similarity = [
        (value - label) ** 2
        for value, label in zip(prediction, SIMILARITY_LABELS.tolist(), strict=True)
    ]
    for (loss, _, labels, _), output, slow in zip(
        LOSSES.values(), outputs, (sentiment, paraphrase, similarity), strict=True
    ):
        assert loss(output, labels).item() == pytest.approx(sum(slow) / 6, rel=1e-6)  # fp32, 6 rows


@each_loss
def test_pytorch_value_and_gradient(name):
    loss, _, labels, reference = LOSSES[name]
    ours, theirs = outputs_for(name).requires_grad_(), outputs_for(name).requires_grad_()
    value = loss(ours, labels)
    expected = reference(theirs, labels.long() if name == "sentiment" else labels)
    torch.testing.assert_close(value, expected, rtol=0, atol=0)
    value.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=0)


@each_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_float32_whatever_comes_in(name, dtype):
    loss, _, labels, _ = LOSSES[name]
    outputs = outputs_for(name, dtype).requires_grad_()
    value = loss(outputs, labels)
    assert value.dtype == torch.float32 and value.shape == ()
    torch.testing.assert_close(value, loss(outputs.detach().float(), labels), rtol=0, atol=0)
    value.backward()
    assert outputs.grad.dtype == dtype


@each_loss
def test_under_autocast_as_without(name):
    loss, _, labels, _ = LOSSES[name]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(outputs_for(name, torch.bfloat16), labels)
    torch.testing.assert_close(
        value, loss(outputs_for(name, torch.bfloat16), labels), rtol=0, atol=0
    )


@each_loss
def test_permuting_the_batch_changes_nothing(name):
    loss, _, labels, _ = LOSSES[name]
    order, outputs = torch.tensor([3, 0, 5, 1, 4, 2]), outputs_for(name)
    torch.testing.assert_close(
        loss(outputs[order], labels[order]), loss(outputs, labels), rtol=1e-6, atol=0
    )


@each_loss
def test_negative_control_labels_in_another_order(name):
    loss, _, labels, _ = LOSSES[name]
    outputs = outputs_for(name)
    assert not torch.allclose(loss(outputs, labels.roll(1)), loss(outputs, labels), rtol=1e-3)


def test_extreme_logits_stay_finite():
    assert paraphrase_loss(
        torch.tensor([1e4, -1e4]), torch.tensor([0.0, 1.0])
    ).item() == pytest.approx(1e4)
    assert sentiment_loss(
        torch.tensor([[1e4, 0, 0, 0, 0]]), torch.tensor([1.0])
    ).item() == pytest.approx(1e4)


@pytest.mark.parametrize("loss", [paraphrase_loss, similarity_loss])
def test_a_column_is_not_broadcast_against_the_labels(loss):
    with pytest.raises(ValueError):
        loss(torch.zeros(6, 1), SIMILARITY_LABELS / 5)
