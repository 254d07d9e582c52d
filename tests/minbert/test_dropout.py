"""minbert/dropout.py: the law of its masks, and that it is torch's function up to which units fall."""

import math

import pytest
import torch
from scipy.stats import chisquare

from minbert.dropout import LEVELS, Dropout, dropout

N = 400_000


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.001, 0.9])
def test_share_scale_and_mean(probability):
    torch.manual_seed(0)
    found = dropout(torch.full((N // 8, 8), 3.0), probability, training=True)
    rounded = round(probability * LEVELS) / LEVELS
    num_dropped = int((found == 0).sum())
    assert abs(num_dropped - rounded * N) < 5 * math.sqrt(
        N * rounded * (1 - rounded)
    )  # five standard deviations
    assert found.unique().tolist() == pytest.approx([0.0, 3.0 / (1 - rounded)])
    assert abs(rounded - probability) <= 0.5 / LEVELS


def test_a_probability_that_rounds_to_one_keeps_a_unit_in_so_many():
    torch.manual_seed(0)
    assert set(dropout(torch.ones(N), 1 - 1e-9, training=True).unique().tolist()) == {
        0.0,
        LEVELS,
    }  # about six stay


def test_neighbours_fall_independently():
    """Four decisions come from one draw; all 16 outcomes of four neighbours are equally likely at a half."""
    torch.manual_seed(1)
    is_kept = dropout(torch.ones(N // 4, 4), 0.5, training=True) != 0
    outcomes = (is_kept * torch.tensor([8, 4, 2, 1])).sum(1).bincount(minlength=16)
    assert chisquare(outcomes.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_shape_and_dtype(shape, dtype):
    found = dropout(torch.ones(shape, dtype=dtype), 0.3, training=True)
    assert found.shape == shape and found.dtype == dtype


def test_gradients_pass_where_units_stay():
    inputs = torch.randn(50, 20, requires_grad=True)
    torch.manual_seed(3)
    outputs = dropout(inputs, 0.4, training=True)
    outputs.sum().backward()
    rounded = round(0.4 * LEVELS) / LEVELS
    expected = (outputs != 0) / (1 - rounded)
    torch.testing.assert_close(inputs.grad, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(outputs, inputs * expected, rtol=1e-6, atol=0)


def test_masks_follow_the_seed_and_differ_between_calls():
    inputs = torch.ones(100)
    torch.manual_seed(3)
    first, second = dropout(inputs, 0.5, True), dropout(inputs, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(dropout(inputs, 0.5, True), first) and not torch.equal(first, second)


def test_without_training_or_probability_nothing_is_drawn():
    inputs, layer = torch.ones(100), Dropout(0.5)
    state = torch.get_rng_state()
    assert (
        dropout(inputs, 0.5, training=False) is inputs
        and dropout(inputs, 0.0, training=True) is inputs
    )
    assert layer.eval()(inputs) is inputs and torch.equal(torch.get_rng_state(), state)
    assert (layer.train()(inputs) == 0).any()
