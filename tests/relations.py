"""How a result or an error differs from the right one. A hand-out has this file, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def relation(found: Tensor, expected: Tensor) -> str:
    """Say how a wrong tensor follows from the right one, or "".

    found, expected: of the same shape, floating point, with more than one number. The text is a
    sentence with a space behind it, such as "The result is 2 times the right one. ".
    """
    found = found.detach().double()
    expected = expected.detach().double()
    if found.numel() < 2 or not found.isfinite().all():
        return ""

    def is_equal(wrong: Tensor) -> bool:
        return bool(((found - wrong).abs() <= 1e-5 * expected.abs().max()).all())

    factor = float((found * expected).sum() / expected.square().sum().clamp(min=1e-30))
    offset = float((found - expected).mean())
    if is_equal(factor * expected) and abs(factor - 1) > 1e-3:
        return f"The result is {factor:.4g} times the right one. "
    if is_equal(expected + offset) and not is_equal(expected):
        return f"The result is the right one plus {offset:.4g}. "
    if found.dim() > 1 and is_equal(expected.flip(0)):
        return "The rows of the batch are in reverse. "
    if found.dim() > 1 and is_equal(expected[:1].expand_as(expected)):
        return "All rows of the batch have the result of the first one. "
    return ""


def assert_same_gradients(
    found: Tensor, expected: Tensor, inputs: Sequence[Tensor], hint: str
) -> None:
    """Both results have the same gradients with regard to the inputs, up to rounding in float32."""
    assert found.requires_grad, hint
    factors = torch.randn_like(expected)
    gradients = torch.autograd.grad((found * factors).sum(), inputs, allow_unused=True)
    right = torch.autograd.grad((expected * factors).sum(), inputs)
    for gradient, right_gradient in zip(gradients, right, strict=True):
        assert gradient is not None, hint
        tolerance = 1e-6 * float(right_gradient.abs().max()) + 1e-12
        assert torch.allclose(gradient, right_gradient, rtol=1e-6, atol=tolerance), hint


def error_of(call: Callable[[], Any]) -> Exception | None:
    """The exception that a call raises, or None."""
    try:
        call()
    except Exception as error:
        return error
    return None
