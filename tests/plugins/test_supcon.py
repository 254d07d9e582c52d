"""tests/plugins/supcon.py: the loss against a slow loop of its equation."""

from __future__ import annotations

import math

import pytest
import torch

from contrastive.losses import nt_xent
from contrastive.registry import Vectors
from minbert.commands.options import MethodOptions
from tests.plugins.loading import module_of

plugin = module_of("supcon")
NO_OPTIONS = MethodOptions(())
NONE_ALIKE = torch.zeros(4, 4, dtype=torch.bool)
LABELS = torch.tensor([0.0, 3.0, 0.0, 0.0])


def views(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
    return first, second


def loss(seed: int, labels: torch.Tensor | None, same: torch.Tensor = NONE_ALIKE) -> float:
    return plugin.loss(Vectors(*views(seed), same, 0.5, labels), NO_OPTIONS).item()


def slow_supcon(seed: int, classes: list[int]) -> float:
    """Equation 2 of Khosla et al. 2020, one anchor after the other."""
    vectors = torch.cat(views(seed))
    terms = torch.cosine_similarity(vectors.unsqueeze(1), vectors, dim=-1).div(0.5).exp().tolist()
    total = 0.0
    for i in range(8):
        positives = [j for j in range(8) if j != i and classes[j % 4] == classes[i % 4]]
        below = sum(terms[i][j] for j in range(8) if j != i)
        total -= sum(math.log(terms[i][j] / below) for j in positives) / len(positives)
    return total / 8


@pytest.mark.parametrize("seed", range(3))
def test_equal_to_a_slow_loop(seed):
    assert loss(seed, LABELS) == pytest.approx(slow_supcon(seed, [0, 3, 0, 0]), rel=1e-12)
    # The negative control: another class.
    assert loss(seed, LABELS) != pytest.approx(slow_supcon(seed, [0, 3, 3, 0]), rel=1e-3)


def test_without_labels_it_is_nt_xent_and_equal_texts_are_alike():
    first, second = views(0)
    assert loss(0, None) == pytest.approx(nt_xent(first, second, 0.5).item(), rel=1e-12)
    same = NONE_ALIKE.clone()
    same[1, 3] = same[3, 1] = True
    assert loss(0, None, same) == pytest.approx(slow_supcon(0, [0, 1, 2, 1]), rel=1e-12)
