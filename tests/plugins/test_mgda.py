"""tests/plugins/mgda.py: the weights against a quadratic program of scipy, and torchjd's update."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize
from torchjd.aggregation import MGDA

from minbert.commands.options import MethodOptions
from multitask import GradientStep
from tests.plugins.loading import module_of

mgda = module_of("mgda")
min_norm_weights = mgda.min_norm_weights


def random_gradients(num_tasks: int, seed: int, num_parameters: int = 40) -> torch.Tensor:
    """(K, P) float64, of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randn(num_tasks, num_parameters, dtype=torch.float64, generator=generator)
    return gradients * torch.linspace(0.5, 2, num_tasks, dtype=torch.float64).unsqueeze(1)


def squared_length(gramian: torch.Tensor, weights: torch.Tensor) -> float:
    return float(weights @ gramian @ weights)


def solve(gramian: torch.Tensor) -> np.ndarray:
    """The minimum of w . G w over the simplex, by scipy from several starts."""
    matrix = gramian.numpy()
    size = len(matrix)
    best = None
    for start in [np.full(size, 1 / size), *np.eye(size)]:
        result = minimize(
            lambda w: w @ matrix @ w,
            start,
            jac=lambda w: 2 * matrix @ w,
            bounds=[(0, 1)] * size,
            constraints=[LinearConstraint(np.ones(size), 1, 1)],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        if best is None or result.fun < best.fun:
            best = result
    return best.x


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_solution_of_the_quadratic_program(num_tasks, seed):
    gradients = random_gradients(num_tasks, seed)
    gramian = gradients @ gradients.T
    weights = min_norm_weights(gramian)
    assert float(weights.sum()) == pytest.approx(1)
    assert (weights >= 0).all()
    expected = torch.from_numpy(solve(gramian))
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-4)
    assert squared_length(gramian, weights) <= squared_length(gramian, expected) * (1 + 1e-9)


@pytest.mark.parametrize("num_tasks", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_torchjd_finds_the_same_update(num_tasks, seed):
    """Its Frank-Wolfe steps end slowly where a task gets no weight: measured 2e-4, allow 1e-3."""
    gradients = random_gradients(num_tasks, seed)
    update = min_norm_weights(gradients @ gradients.T) @ gradients
    expected = MGDA(epsilon=1e-9, max_iters=20_000)(gradients)
    torch.testing.assert_close(update, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_that_depend_on_each_other(seed):
    """More gradients than parameters: a 0 is among their combinations, or the hull has a corner."""
    gradients = random_gradients(6, seed, num_parameters=2)
    gramian = gradients @ gradients.T
    weights = min_norm_weights(gramian)
    expected = torch.from_numpy(solve(gramian))
    largest = float(gramian.diagonal().max())
    difference = squared_length(gramian, weights) - squared_length(gramian, expected)
    assert abs(difference) < 1e-6 * largest


@pytest.mark.parametrize("seed", range(20))
def test_two_gradients_have_a_closed_form(seed):
    """Sener and Koltun 2018, equation 4: w = clip((g_2 - g_1) . g_2 / |g_1 - g_2|^2, 0, 1)."""
    first, second = random_gradients(2, seed, num_parameters=3)
    share = ((second - first) @ second / (first - second).square().sum()).clamp(0, 1)
    gradients = torch.stack([first, second])
    expected = torch.stack([share, 1 - share])
    torch.testing.assert_close(min_norm_weights(gradients @ gradients.T), expected)


@pytest.mark.parametrize("seed", range(5))
def test_every_loss_falls_along_it(seed):
    """v . g_k >= |v|^2 for every task: the law that makes it a descent direction of all of them."""
    gradients = random_gradients(4, seed)
    update = min_norm_weights(gradients @ gradients.T) @ gradients
    squared = update @ update
    assert (gradients @ update >= squared * (1 - 1e-6)).all()
    # The negative control: along the mean of gradients that conflict, one of the losses may rise.
    conflicting = torch.stack([gradients[0], -0.2 * gradients[0] + 0.1 * gradients[1]])
    assert (conflicting @ conflicting.mean(dim=0) < 0).any()
    update = min_norm_weights(conflicting @ conflicting.T) @ conflicting
    assert (conflicting @ update > 0).all()


def test_by_hand():
    # At right angles, of lengths 1 and 2: the foot of the perpendicular has the weights 4/5, 1/5.
    weights = min_norm_weights(torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64)))
    torch.testing.assert_close(weights, torch.tensor([0.8, 0.2], dtype=torch.float64))
    # Opposite gradients cancel, equal ones share, and a zero gradient takes all.
    opposite = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    assert squared_length(opposite, min_norm_weights(opposite)) == 0
    assert float(min_norm_weights(torch.ones(3, 3, dtype=torch.float64)).sum()) == 1
    zero = torch.diag(torch.tensor([3.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(min_norm_weights(zero), torch.tensor([0.0, 1.0]).double())
    assert min_norm_weights(torch.ones(1, 1, dtype=torch.float64)).tolist() == [1.0]


def step_of(gramian: torch.Tensor, normalise: str) -> GradientStep:
    method_options = MethodOptions((mgda.MgdaOptions(mgda_normalise=normalise),))
    return GradientStep(
        gramian, {}, torch.zeros_like(gramian), torch.Generator(), method_options, {}
    )


def test_normalised_gradients_count_by_their_direction():
    gradients = random_gradients(3, 1)
    gramian = gradients @ gradients.T
    lengths = gradients.norm(dim=1)
    directions = gradients / lengths.unsqueeze(1)
    weights = mgda.combine(step_of(gramian, "yes"))
    expected = min_norm_weights(directions @ directions.T) @ directions
    torch.testing.assert_close(weights @ gradients, expected)
    torch.testing.assert_close(mgda.combine(step_of(gramian, "no")), min_norm_weights(gramian))
    assert not torch.allclose(weights, mgda.combine(step_of(gramian, "no")), rtol=0.01)


def test_a_zero_gradient_has_no_direction():
    gramian = torch.diag(torch.tensor([4.0, 0.0], dtype=torch.float64))
    weights = mgda.combine(step_of(gramian, "yes"))
    assert torch.isfinite(weights).all()
    assert squared_length(gramian, weights) == pytest.approx(0)
