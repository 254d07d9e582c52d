"""Other losses of scores, by hand: absolute errors, and cosines as predictions."""

from __future__ import annotations

import pytest
import torch

from multitask.losses import (
    absolute_loss,
    absolute_regression,
    fitted_range,
    similarity_regression,
)


def test_absolute_loss_by_hand():
    found = absolute_loss(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]))
    assert float(found) == pytest.approx((1 + 2) / 2), "the mean of |prediction - label|"


def test_a_cosine_is_compared_with_its_target_by_hand():
    """Cosines .5 and 1 for the labels 0 and 5, where M is .2.

    The targets are .2 and 1, so the cosines are off by .3 and 0. In points of the labels that is
    5 x .3 and 0. The predictions are 5 (cos - M) / (1 - M).
    """
    labels = torch.tensor([0.0, 5.0])
    prediction = torch.tensor([5 * 0.3 / 0.8, 5.0])
    found = similarity_regression(prediction, labels, 0.2)
    assert float(found) == pytest.approx(25 * 0.3**2 / 2)
    found = absolute_regression(prediction, labels, 0.2)
    assert float(found) == pytest.approx(5 * 0.3 / 2)


def test_the_range_begins_at_the_mean_cosine_of_the_least_similar_pairs():
    cosines = torch.tensor([0.5, 0.7, 0.9, 0.1])
    # 0 and .25 share the first bucket, .3 and 4 do not belong to it.
    assert fitted_range(cosines, torch.tensor([0.0, 0.25, 0.3, 4.0])) == pytest.approx(0.6)
    # The first bucket that holds a pair is the fourth: (.75, 1].
    assert fitted_range(cosines, torch.tensor([1.0, 3.0, 4.0, 0.8])) == pytest.approx(0.3)
