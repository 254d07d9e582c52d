"""Gradient vaccine. Run it with `python -m pytest -x tests/lessons/test_gradvac.py`.

Vectors worked by hand, a plain loop on the gradients themselves, torchjd, and PCGrad, which it is
with all targets 0. A hand-out whose exercise is PCGrad leaves it out.

K tasks.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from multitask.surgery import gradvac, gradvac_weights, pcgrad
from tests.lessons.test_surgery import conflicting, orders_of, rows, seeded
from tests.toy_surgery import make_surgery


def test_a_reduction_of_another_name_is_refused():
    with pytest.raises(ValueError, match="reduction is 'avg'; it is sum or mean"):
        gradvac(conflicting(2), torch.zeros(2, 2), reduction="avg")


def test_gradvac_with_targets_of_zero_is_pcgrad():
    """Of two tasks, whose order makes no difference: each may draw it in its own way."""
    gradients = conflicting(2)
    zeros = torch.zeros(2, 2, dtype=torch.float64)
    found, targets = gradvac(gradients, zeros, beta=0.0)
    torch.testing.assert_close(found, pcgrad(gradients))
    assert not targets.any()


def plain_gradvac(
    gradients: Tensor, targets: Tensor, orders: list[list[int]], beta: float
) -> tuple[Tensor, Tensor]:
    """Algorithm 1 and equation 4 of Wang et al. 2021 on flat vectors, word by word."""
    targets = targets.clone()
    summed = torch.zeros_like(gradients[0])
    for i, order in enumerate(orders):
        g = gradients[i].clone()
        for j in order:
            if j == i:
                continue
            length = gradients[j].norm()
            cosine = g @ gradients[j] / (g.norm() * length)
            target = float(targets[i, j])
            if cosine < target:
                sine_of_target = (1 - target**2) ** 0.5
                numerator = target * (1 - cosine**2).sqrt() - cosine * sine_of_target
                g += g.norm() * numerator / (length * sine_of_target) * gradients[j]
            targets[i, j] = (1 - beta) * target + beta * cosine
        summed = summed + g
    return summed, targets


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
def test_gradvac_equals_a_plain_loop_over_flat_vectors(num_tasks):
    """Targets of both signs, each pair's own, that move while the gradient is changed."""
    for seed in range(5):
        generator = seeded(seed)
        gradients = torch.randn(num_tasks, 40, dtype=torch.float64, generator=generator)
        drawn = torch.rand(num_tasks, num_tasks, dtype=torch.float64, generator=generator)
        targets = drawn * 0.6 - 0.2
        expected, moved = plain_gradvac(gradients, targets, orders_of(seed, num_tasks), beta=0.1)
        found, found_targets = gradvac(gradients, targets, 0.1, generator=seeded(seed))
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found_targets, moved)


def test_gradvac_lifts_the_cosine_to_its_target_by_hand():
    """g1 = (1, 0), g2 = (0, 2): cosine 0 under a target of .6.

    g1 + a g2 has the cosine .6 with g2 where it is (1, .75): a = .375.
    """
    gradients = rows([1, 0], [0, 2])
    target = rows([0, 0.6], [0, 0])
    found, targets = gradvac(gradients, target, beta=0.1)
    torch.testing.assert_close(found, rows([1, 2.75])[0])
    # .9 x .6 + .1 x 0
    torch.testing.assert_close(targets, rows([0, 0.54], [0, 0]))
    assert target[0, 1] == 0.6, "the argument is changed"
    halved, _ = gradvac(gradients, target, beta=0.1, reduction="mean")
    torch.testing.assert_close(halved, found / 2)


def test_gradvac_passes_over_zero_gradients_and_survives_a_target_of_one():
    gradients = rows([1, 0], [0, 0])
    halves = torch.full((2, 2), 0.5, dtype=torch.float64)
    found, targets = gradvac(gradients, halves)
    assert found.tolist() == [1, 0] and (targets == 0.5).all()
    assert gradvac_weights(gradients @ gradients.T, halves).weights.tolist() == [1, 1]
    found, _ = gradvac(rows([1, 0], [1, 1]), torch.ones(2, 2, dtype=torch.float64))
    assert torch.isfinite(found).all()


def test_gradvac_of_opposite_gradients_is_finite():
    """Of g and -3g the cosine is -1. Rounding takes it below in a quarter of these draws."""
    for seed in range(50):
        gradient = torch.randn(5, dtype=torch.float64, generator=seeded(seed))
        gradients = torch.stack([gradient, -3 * gradient])
        found, targets = gradvac(gradients, torch.zeros(2, 2, dtype=torch.float64), beta=0.1)
        torch.testing.assert_close(found, torch.zeros_like(gradient), rtol=0, atol=1e-6)
        torch.testing.assert_close(targets, rows([0, -0.1], [-0.1, 0]))


def test_gradvac_agrees_with_torchjd_over_many_steps():
    """Two tasks, where no order is drawn. torchjd's default of beta is another one."""
    aggregation = pytest.importorskip(
        "torchjd.aggregation", reason="torchjd is the reference; run setup.sh --dev"
    )
    reference = aggregation.GradVac(beta=0.3)
    surgery = make_surgery("gradvac", "sum", 0.3, ["sst", "sts"], seed=0)
    generator = seeded(0)
    for _ in range(20):
        gradients = torch.randn(2, 6, dtype=torch.float64, generator=generator)
        found = surgery(gradients @ gradients.T, ["sst", "sts"]) @ gradients
        # torchjd adds 1e-8 to norms.
        torch.testing.assert_close(found, reference(gradients), rtol=1e-6, atol=1e-7)
    assert surgery.targets[0, 1] != 0
