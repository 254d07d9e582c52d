"""Predictions with products of 8 bits."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from minbert.training import int8

CPU = torch.device("cpu")


def small_model() -> nn.ModuleDict:
    """A layer of an encoder, and a head. Unit 3 of the layer has very small weights."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(64, 8)]), "head": nn.Linear(64, 8)})
    with torch.no_grad():
        model["layers"][0].weight[3] *= 1e-3
    return model


@pytest.mark.parametrize("has_wide_sums", [True, False])
def test_errors_are_at_most_half_a_step_of_the_scales(monkeypatch, has_wide_sums):
    """Weights have a scale for each output unit, so the small unit beside large ones stays exact.

    With one scale for all weights it would be 0, and its error far beyond the bound.
    """
    if has_wide_sums and not int8.has_wide_sums():
        pytest.skip("this processor adds up products of 8 bits in 16 bits")
    monkeypatch.setattr(int8, "has_wide_sums", lambda: has_wide_sums)
    model = small_model()
    linear = model["layers"][0]
    x = torch.randn(5, 64)
    rounded = int8.quantised(model, CPU)
    assert torch.equal(rounded["head"](x), model["head"](x)), "only layers are in int8"
    assert isinstance(linear, nn.Linear), "the model itself stays as it is"

    weight = linear.weight.abs()  # (8, 64)
    num_steps = 255 if has_wide_sums else 127
    half_of_input = (x.max() - x.min()) / num_steps / 2
    half_of_weights = weight.amax(dim=1) / 127 / 2  # (8,)
    bound = half_of_input * weight.sum(dim=1) + half_of_weights * x.abs().sum(dim=1, keepdim=True)
    bound += 64 * half_of_input * half_of_weights
    error = (rounded["layers"][0](x) - linear(x)).abs()  # (5, 8)
    assert error.max() > 0 and (error <= 1.1 * bound).all()


def test_inputs_have_256_steps_where_the_processor_can_add_them_up(monkeypatch):
    if not int8.has_wide_sums():
        pytest.skip("this processor adds up products of 8 bits in 16 bits")
    linear = nn.Linear(256, 64)
    x = torch.randn(100, 256)
    errors = []
    for has_wide_sums in (True, False):
        monkeypatch.setattr(int8, "has_wide_sums", lambda answer=has_wide_sums: answer)
        errors.append((int8.Int8Linear(linear)(x) - linear(x)).abs().mean())
    assert errors[0] < 0.75 * errors[1]


def test_a_unit_of_zeros_stays_zero():
    linear = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        linear.weight[0] = 0
    outputs = int8.Int8Linear(linear)(torch.randn(3, 4))
    assert (outputs[:, 0] == 0).all() and (outputs[:, 1] != 0).any()


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_copy_gives_the_same_bits(has_bias):
    layer = int8.Int8Linear(nn.Linear(64, 8, bias=has_bias))
    x = torch.randn(5, 64)
    engine = torch.backends.quantized.engine
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert torch.backends.quantized.engine == engine, "other models keep their engine"


def test_another_device_is_refused():
    with pytest.raises(ValueError, match="int8 is for the CPU, and the device is meta"):
        int8.quantised(small_model(), torch.device("meta"))
