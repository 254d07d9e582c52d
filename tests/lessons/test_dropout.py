"""minbert/dropout.py: the law of dropout, for the readable branch and for the fast one."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from minbert import fast
from minbert.dropout import Dropout, dropout

N = 400_000


def readable(inputs: Tensor, probability: float, training: bool) -> Tensor:
    with fast.switched(is_fast=False):
        return dropout(inputs, probability, training)


def quick(inputs: Tensor, probability: float, training: bool) -> Tensor:
    with fast.switched(is_fast=True):
        return dropout(inputs, probability, training)


both = pytest.mark.parametrize("drop", [readable, quick], ids=["readable", "fast"])


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_readable_one_is_torchs_to_the_bit(probability):
    inputs = torch.randn(50, 20, requires_grad=True)
    other = inputs.detach().clone().requires_grad_()
    torch.manual_seed(3)
    found = readable(inputs, probability, training=True)
    torch.manual_seed(3)
    expected = F.dropout(other, probability)
    assert torch.equal(found, expected)
    found.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    assert torch.equal(inputs.grad, other.grad)


@both
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.001, 0.9])
def test_share_scale_and_mean(drop, probability):
    torch.manual_seed(0)
    found = drop(torch.full((N // 8, 8), 3.0), probability, training=True)
    num_dropped = int((found == 0).sum())
    # Five standard deviations, and the fast branch's rounding of the probability.
    allowed = 5 * math.sqrt(N * probability * (1 - probability)) + N / fast.LEVELS
    assert abs(num_dropped - probability * N) < allowed
    assert found.unique().tolist() == pytest.approx([0.0, 3.0 / (1 - probability)], rel=1e-4)


@both
@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_shape_and_dtype(drop, shape, dtype):
    found = drop(torch.ones(shape, dtype=dtype), 0.3, training=True)
    assert found.shape == shape and found.dtype == dtype


@both
def test_gradients_pass_where_units_stay(drop):
    inputs = torch.randn(50, 20, requires_grad=True)
    torch.manual_seed(3)
    outputs = drop(inputs, 0.4, training=True)
    outputs.sum().backward()
    scale = outputs.max() / inputs[outputs == outputs.max()].max()
    expected = (outputs != 0) * scale.detach()
    torch.testing.assert_close(scale.item(), 1 / 0.6, rtol=1e-4, atol=0)
    torch.testing.assert_close(inputs.grad, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(outputs, inputs * expected, rtol=1e-6, atol=0)


@both
def test_masks_follow_the_seed_and_differ_between_calls(drop):
    inputs = torch.ones(100)
    torch.manual_seed(3)
    first = drop(inputs, 0.5, True)
    second = drop(inputs, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(drop(inputs, 0.5, True), first)
    assert not torch.equal(first, second)


@both
def test_without_training_or_probability_nothing_is_drawn(drop):
    inputs = torch.ones(100)
    state = torch.get_rng_state()
    assert drop(inputs, 0.5, training=False) is inputs
    assert drop(inputs, 0.0, training=True) is inputs
    assert torch.equal(torch.get_rng_state(), state)


def test_the_module_drops_in_training_only():
    inputs = torch.ones(100)
    layer = Dropout(0.5)
    assert layer.eval()(inputs) is inputs
    assert (layer.train()(inputs) == 0).any()
