"""The files that docs/tour.md and docs/plugins.md print do what their text says."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

from contrastive.registry import METHODS, Vectors
from minbert.commands import plugins
from minbert.commands.options import MethodOptions
from multitask.sampler_registry import Epoch
from multitask.sampling import plan_epoch
from multitask.surgery_registry import SURGERIES, GradientStep
from tests.lessons.test_samplers import MAKE_BATCHES, seeded, tasks_in
from tests.plugins.loading import unload

DOCS = Path(__file__).resolve().parents[2] / "docs"
NONE_OWN = MethodOptions(())


@pytest.fixture
def modules(tmp_path) -> list[ModuleType]:
    """The blocks of Python of the tour's section on methods and of the other page, loaded."""
    section = (DOCS / "tour.md").read_text(encoding="utf-8").split("## Add a method")[1]
    text = section + (DOCS / "plugins.md").read_text(encoding="utf-8")
    loaded = []
    for number, code in enumerate(re.findall(r"(?ms)^```python\n(.*?)^```", text)):
        path = tmp_path / f"block{number}.py"
        path.write_text(code, encoding="utf-8")
        loaded.append(plugins.load(path))
    yield [plugin.module for plugin in loaded]
    for plugin in loaded:
        unload(plugin)


def test_the_loss(modules):
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 6, 5, generator=generator)
    vectors = Vectors(first, second, torch.zeros(6, 6).bool(), 0.05)
    entry = METHODS["both-ways"]
    one_way = torch.nn.functional.cosine_similarity(first[:, None], second[None], dim=-1) / 0.05
    expected = -(one_way.log_softmax(1).diagonal() + one_way.log_softmax(0).diagonal()) / 2
    torch.testing.assert_close(entry.loss(vectors, NONE_OWN), expected.mean())


def test_the_sampler(modules):
    epoch = Epoch(0, 1, tuple(MAKE_BATCHES))
    steps = plan_epoch("smallest-first", MAKE_BATCHES, seeded(), NONE_OWN, epoch)
    assert tasks_in(steps) == ["sts"] * 2 + ["sst"] * 3 + ["para"] * 9


def test_the_surgery(modules):
    gradients = torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64)
    step = GradientStep(
        gradients @ gradients.T, {}, torch.zeros(2, 2), torch.Generator(), NONE_OWN, {}
    )
    weights = SURGERIES["equal-lengths"].combine(step)
    torch.testing.assert_close(weights @ gradients, torch.tensor([0.6, 1.8]).double())
