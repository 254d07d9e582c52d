"""multitask/surgery.py: the weights of a step's losses."""

import pytest
import torch

from multitask.surgery import mean


def test_weights_by_hand():
    assert mean(1) == [1.0]
    assert mean(2) == [0.5, 0.5]
    assert mean(3) == pytest.approx([1 / 3] * 3)


def make_losses(weight: torch.Tensor) -> list[torch.Tensor]:
    """Three losses with different gradients, the first on a parameter that the others share."""
    inputs = torch.arange(12.0).reshape(3, 4)
    return [(row @ weight - target).square() for row, target in zip(inputs, (1.0, -2.0, 5.0), strict=True)]


def test_accumulated_backward_passes_equal_one_backward_of_the_mean():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    torch.stack(make_losses(weight)).mean().backward()
    expected, weight.grad = weight.grad, None
    for share, loss in zip(mean(3), make_losses(weight), strict=True):
        (share * loss).backward()
    torch.testing.assert_close(weight.grad, expected, rtol=1e-6, atol=0)  # a sum in another order: measured 1e-7


def test_negative_control_the_sum_is_another_gradient():
    weight = torch.tensor([0.1, -0.2, 0.3, 0.5], requires_grad=True)
    torch.stack(make_losses(weight)).mean().backward()
    expected, weight.grad = weight.grad, None
    for loss in make_losses(weight):
        loss.backward()
    assert not torch.allclose(weight.grad, expected)


def test_a_step_without_losses_is_refused():
    with pytest.raises(ValueError, match="0 losses; it needs at least one"):
        mean(0)
