"""multitask/gramian.py: the fast twins give the gradients of surgery.py.

A difference means that a Gramian's rows and columns, or the order of the draws, were mixed up.
"""

import pytest
import torch

from multitask.gramian import gradvac_weights, pcgrad_weights
from multitask.surgery import gradvac, pcgrad
from tests.toy_surgery import make_surgery

NUM_PARAMETERS = 40
each_count = pytest.mark.parametrize("num_tasks", [1, 2, 3, 4, 6])
each_reduction = pytest.mark.parametrize("reduction", ["sum", "mean"])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_gradients(num_tasks: int, seed: int, dtype=torch.float64) -> torch.Tensor:
    """(K, P): gradients of different lengths, so that a missing norm is noticed."""
    gradients = torch.randn(num_tasks, NUM_PARAMETERS, dtype=dtype, generator=seeded(seed))
    lengths = torch.logspace(-2, 2, num_tasks, dtype=dtype).unsqueeze(1)  # (K, 1)
    return lengths * gradients


def random_targets(num_tasks: int, seed: int) -> torch.Tensor:
    """(K, K) between -0.2 and 0.4."""
    targets = torch.rand(num_tasks, num_tasks, dtype=torch.float64, generator=seeded(seed))
    return 0.6 * targets - 0.2


@each_count
@each_reduction
@pytest.mark.parametrize("seed", range(5))
def test_pcgrad(num_tasks, reduction, seed):
    gradients = random_gradients(num_tasks, seed)
    weights = pcgrad_weights(gradients @ gradients.T, reduction, seeded(seed))
    expected = pcgrad(gradients, reduction, seeded(seed))
    torch.testing.assert_close(weights @ gradients, expected, rtol=1e-9, atol=1e-9)


@each_count
@each_reduction
@pytest.mark.parametrize("seed", range(5))
def test_gradvac(num_tasks, reduction, seed):
    gradients = random_gradients(num_tasks, seed)
    targets = random_targets(num_tasks, seed)
    fast = gradvac_weights(gradients @ gradients.T, targets, 0.1, reduction, seeded(seed))
    expected = gradvac(gradients, targets, 0.1, reduction, seeded(seed))
    torch.testing.assert_close(fast.weights @ gradients, expected.gradient, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fast.targets, expected.targets)


def test_in_float32():
    """Float32 has 24 bits. The Gramian squares lengths, so it loses twice as many of them."""
    gradients = random_gradients(3, 0, torch.float32)
    weights = pcgrad_weights(gradients @ gradients.T, generator=seeded(0))
    expected = pcgrad(gradients, generator=seeded(0))
    torch.testing.assert_close(weights @ gradients, expected, rtol=1e-3, atol=1e-3)


def test_gradients_and_targets_are_not_changed():
    gradients = random_gradients(3, 1)
    targets = random_targets(3, 1)
    copies = gradients.clone(), targets.clone()
    pcgrad(gradients)
    gradvac(gradients, targets, 0.5)
    gradvac_weights(gradients @ gradients.T, targets, 0.5)
    torch.testing.assert_close((gradients, targets), copies, rtol=0, atol=0)


def test_zero_gradients_are_passed_over():
    gradients = random_gradients(3, 2)
    gradients[1] = 0
    targets = torch.full((3, 3), 0.9, dtype=torch.float64)
    moved = gradvac(gradients, targets, 0.5, generator=seeded(0))
    assert torch.isfinite(moved.gradient).all()
    assert (moved.targets[1] == 0.9).all()
    assert (moved.targets[:, 1] == 0.9).all()


def test_a_gradient_whose_square_is_too_small_for_its_dtype_is_passed_over():
    """Float32: the product of the two is below 0, and the square of the second is 0."""
    gradients = torch.tensor([[1.0, 0.0], [-1e-25, 1e-25]])
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    assert surgery((gradients @ gradients.T).double(), ["sst", "sts"]).tolist() == [1, 1]
    assert surgery.conflicts()[0]["cosine"] == 0


def test_negative_control_a_gramian_of_other_gradients():
    gradients = random_gradients(3, 3)
    weights = pcgrad_weights(gradients[[1, 0, 2]] @ gradients[[1, 0, 2]].T, generator=seeded(0))
    expected = pcgrad(gradients, generator=seeded(0))
    assert not torch.allclose(weights @ gradients, expected, rtol=1e-3)
