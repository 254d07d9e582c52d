"""tests/plugins/famo.py: weights that follow the losses, and what it keeps between steps."""

from __future__ import annotations

import pytest
import torch

from minbert.commands import plugins
from minbert.commands.options import MethodOptions
from multitask import GradientStep
from multitask.combining import GradientSurgery
from tests.plugins.loading import FILES, module_of, unload

famo = module_of("famo")
OPTIONS = MethodOptions((famo.FamoOptions(famo_lr=0.5),))


def weigh(memory: dict[str, torch.Tensor], **losses: float) -> torch.Tensor:
    """The weights of one step with these losses."""
    num_tasks = len(losses)
    gramian = torch.eye(num_tasks, dtype=torch.float64)
    targets = torch.zeros_like(gramian)
    step = GradientStep(gramian, losses, targets, torch.Generator(), OPTIONS, memory)
    return famo.combine(step)


def test_the_first_step_divides_by_the_losses():
    weights = weigh({}, sst=2.0, para=0.5)
    torch.testing.assert_close(weights, torch.tensor([0.2, 0.8], dtype=torch.float64))


def test_x_follows_the_gradient_of_the_weighted_fall():
    x = torch.tensor([0.3, -0.2, 0.7], dtype=torch.float64, requires_grad=True)
    fall = torch.tensor([0.1, -0.4, 0.9], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(x.softmax(dim=0) @ fall, x)
    expected = x - 0.5 * (gradient + 0.01 * x)
    torch.testing.assert_close(famo.learn(x, fall, 0.5), expected)


def test_a_task_whose_loss_stays_weighs_more():
    memory: dict[str, torch.Tensor] = {}
    weigh(memory, sst=1.0, para=1.0)
    for loss in (0.9, 0.8, 0.7):
        weigh(memory, sst=1.0, para=loss)
    weights = famo.loss_weights(torch.stack([memory["sst"][0], memory["para"][0]]), torch.ones(2))
    assert weights[0] > weights[1]


def test_a_task_is_found_again_by_its_name():
    memory: dict[str, torch.Tensor] = {}
    weigh(memory, sst=1.0, para=1.0)
    weigh(memory, sst=1.0, para=0.5)
    other = {name: tensor.clone() for name, tensor in memory.items()}
    first = weigh(memory, sst=0.9, para=0.4)
    second = weigh(other, para=0.4, sst=0.9)
    torch.testing.assert_close(first, second[[1, 0]])


@pytest.fixture
def loaded():
    """The plugin, registered."""
    plugin = plugins.load(FILES["famo"])
    yield plugin.module
    unload(plugin)


def test_a_checkpoint_keeps_what_it_has_learnt(loaded):
    names = ["sst", "para"]
    options = MethodOptions((loaded.FamoOptions(famo_lr=0.5),))
    gramian = torch.eye(2, dtype=torch.float64)
    one, other, forgetful = (GradientSurgery("famo", options, names, seed=0) for _ in range(3))
    one(gramian, {"sst": 1.0, "para": 1.0})
    one(gramian, {"sst": 1.0, "para": 0.4})
    other.load_state_dict(one.state_dict())
    losses = {"para": 0.3, "sst": 1.0}
    expected = one(gramian, losses)
    assert torch.equal(other(gramian, losses), expected)
    # The negative control: without its memory it weighs otherwise.
    assert not torch.allclose(forgetful(gramian, losses), expected, rtol=0.01)
