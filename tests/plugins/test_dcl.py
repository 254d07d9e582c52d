"""tests/plugins/dcl.py: the loss against a plain numpy loop of its equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from contrastive.losses import info_nce
from tests.plugins.loading import module_of

dcl = module_of("dcl").dcl
NONE_ALIKE = torch.zeros(6, 6, dtype=torch.bool)


def vectors(seed: int, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, 5) each, float64."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, size, 5, dtype=torch.float64, generator=generator)
    return first, second


def slow_dcl(first, second, temperature, same, sigma=None) -> float:
    """Equation 6 (and 7 with sigma) of Yeh et al. 2021, one anchor after the other."""
    first, second, same = first.numpy(), second.numpy(), same.numpy()
    size = len(first)

    def cos(u, v):
        return u @ v / (np.linalg.norm(u) * np.linalg.norm(v))

    closeness = [cos(first[i], second[i]) for i in range(size)]
    weights = np.ones(size)
    if sigma is not None:
        exponentials = np.exp(np.array(closeness) / sigma)
        weights = 2 - exponentials / exponentials.mean()
    total = 0.0
    for anchors, others in ((first, second), (second, first)):
        for i in range(size):
            total -= weights[i] * closeness[i] / temperature
            negatives = []
            for j in range(size):
                if j != i and not same[i, j]:
                    negatives.append(math.exp(cos(anchors[i], anchors[j]) / temperature))
                    negatives.append(math.exp(cos(anchors[i], others[j]) / temperature))
            if negatives:
                total += math.log(sum(negatives))
    return total / (2 * size)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [None, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_equation(temperature, sigma, seed):
    first, second = vectors(seed)
    loss = dcl(first, second, temperature, NONE_ALIKE, sigma)
    expected = slow_dcl(first, second, temperature, NONE_ALIKE, sigma)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_sentences_of_equal_text_are_no_negatives():
    first, second = vectors(0)
    same = NONE_ALIKE.clone()
    same[1, 4] = same[4, 1] = True
    loss = float(dcl(first, second, 0.5, same))
    assert loss == pytest.approx(slow_dcl(first, second, 0.5, same), rel=1e-12)
    assert loss < float(dcl(first, second, 0.5, NONE_ALIKE)), "fewer negatives, less to push apart"


def test_by_hand():
    """Two sentences at right angles. Every cosine but the positives' is 0: log 2 - 1 / t."""
    first = torch.eye(2, dtype=torch.float64)
    loss = dcl(first, first, 0.5, NONE_ALIKE[:2, :2])
    assert float(loss) == pytest.approx(math.log(2) - 2)


def test_the_positive_is_not_in_the_denominator():
    """InfoNCE over the same 2B - 1 candidates is larger by log(1 + e^positive / negatives)."""
    first, second = vectors(1)
    both = torch.cat([first, second])
    cosines = torch.nn.functional.cosine_similarity(both.unsqueeze(1), both.unsqueeze(0), dim=-1)
    logits = (cosines / 0.5).masked_fill(torch.eye(12, dtype=torch.bool), -torch.inf)
    targets = torch.arange(12).roll(6)
    coupled = torch.nn.functional.cross_entropy(logits, targets)
    positives = logits[torch.arange(12), targets]
    without = logits.logsumexp(dim=1).exp() - positives.exp()
    expected = coupled - torch.log1p(positives.exp() / without).mean()
    decoupled = dcl(first, second, 0.5, NONE_ALIKE)
    torch.testing.assert_close(decoupled, expected)
    # The negative control: the coupled loss, and the loss of one side, are other numbers.
    assert decoupled < coupled - 0.02
    assert not torch.isclose(decoupled, info_nce(first, second, 0.5), rtol=0.01)


def test_one_sentence_alone_has_only_its_positive():
    first, second = (tensor.requires_grad_() for tensor in vectors(2, 1))
    loss = dcl(first, second, 0.5, NONE_ALIKE[:1, :1])
    loss.backward()
    cosine = torch.nn.functional.cosine_similarity(first, second)
    assert loss.item() == pytest.approx(-2 * cosine.item())
    assert torch.isfinite(first.grad).all()


@pytest.mark.parametrize("sigma", [None, 0.5])
def test_gradients_are_those_of_finite_differences(sigma):
    """The weights of DCLW are constants for the gradient, so sigma None and 0.5 differ."""
    first, second = vectors(3)
    first.requires_grad_()
    dcl(first, second, 0.5, NONE_ALIKE, sigma).backward()
    with torch.no_grad():
        positives = torch.nn.functional.cosine_similarity(first, second)
        weights = torch.ones(6, dtype=torch.float64)
        if sigma is not None:
            weights = 2 - (positives / sigma).exp() / (positives / sigma).exp().mean()

        def loss_at(moved: torch.Tensor) -> float:
            plain = float(dcl(moved, second, 0.5, NONE_ALIKE))
            cosines = torch.nn.functional.cosine_similarity(moved, second)
            return plain - float(((weights - 1) * cosines / 0.5).mean())

        for row, column in ((0, 0), (3, 2), (5, 4)):
            step = torch.zeros_like(first)
            step[row, column] = 1e-6
            slope = (loss_at(first + step) - loss_at(first - step)) / 2e-6
            assert float(first.grad[row, column]) == pytest.approx(slope, rel=1e-5, abs=1e-9)
