"""SMART: its mathematics by hand, by slow loops and by an independent implementation.

multitask/regularisers.py has the formulas, multitask/proximal.py the reference model.
test_regularisers.py has SMART in a run.

If only the values in the ball are wrong: the projection may come before the step.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from minbert.commands.options import from_flat
from multitask.options import FineTuningOptions
from multitask.proximal import ReferenceModel
from multitask.regularised_loss import FUNCTIONS
from multitask.regulariser_registry import REGULARISERS, SmartOptions
from multitask.regularisers import (
    adversarial_perturbation,
    ascent_step,
    reference_decay,
    smart,
    symmetric_divergence,
)

EPSILON = 0.05


def random_rows(seed: int = 0, size: float = 1.0) -> torch.Tensor:
    """Three rows of four tokens with five numbers each."""
    return size * torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(seed))


# --- a step of the ascent -------------------------------------------------------------------------


def test_a_step_by_hand():
    gradient = torch.tensor([[[2.0, -1.0], [0.0, 4.0]]])
    start = torch.tensor([[[0.0, 0.01], [-0.02, 0.0]]])
    expected = torch.tensor([[[0.05, -0.015], [-0.02, 0.06]]])
    found = ascent_step(start, gradient, step_size=0.1, epsilon=0.06)
    torch.testing.assert_close(found, expected, msg="the last number is cut to epsilon")


def slow_step(start, gradient, step_size, epsilon):
    """The same, one number after the other."""
    result = torch.empty_like(start)
    for row in range(len(start)):
        largest = max(abs(number) for number in gradient[row].flatten().tolist())
        for place in range(start[row].numel()):
            moved = float(start[row].flatten()[place])
            moved += step_size * float(gradient[row].flatten()[place]) / largest
            result[row].view(-1)[place] = max(-epsilon, min(epsilon, moved))
    return result


def unprojected_step(start, gradient, step_size, epsilon):
    return start + step_size * gradient / gradient.abs().amax(dim=(1, 2), keepdim=True)


def descent_step(start, gradient, step_size, epsilon):
    return ascent_step(start, -gradient, step_size, epsilon)


def step_scaled_over_the_batch(start, gradient, step_size, epsilon):
    return (start + step_size * gradient / gradient.abs().max()).clamp(-epsilon, epsilon)


def raw_step(start, gradient, step_size, epsilon):
    return (start + step_size * gradient).clamp(-epsilon, epsilon)


def test_a_step_against_a_slow_loop_and_wrong_versions():
    start = random_rows(0, 0.02)
    gradient = random_rows(1, 7.0)
    expected = slow_step(start, gradient, 0.04, EPSILON)
    torch.testing.assert_close(ascent_step(start, gradient, 0.04, EPSILON), expected)
    for wrong in (unprojected_step, descent_step, step_scaled_over_the_batch, raw_step):
        assert not torch.allclose(wrong(start, gradient, 0.04, EPSILON), expected), wrong.__name__


def test_properties_of_a_step():
    start = random_rows(0)
    gradient = random_rows(1)
    found = ascent_step(start, gradient, 0.04, EPSILON)
    assert found.abs().max() <= EPSILON, "the start is outside, the result is in the ball"
    # The length of the gradient does not count, and no row depends on another one.
    torch.testing.assert_close(ascent_step(start, 1e-20 * gradient, 0.04, EPSILON), found)
    assert torch.equal(ascent_step(start[1:2], gradient[1:2], 0.04, EPSILON), found[1:2])
    nothing = torch.zeros_like(gradient)
    assert torch.equal(ascent_step(start, nothing, 0.04, 9.0), start)


# --- the perturbation -----------------------------------------------------------------------------


class Toy:
    """From a perturbation (3, 4, 5) to outputs, with a bend between two matrices."""

    def __init__(self, kind: str) -> None:
        generator = torch.Generator().manual_seed(5)
        num_outputs = 4 if kind == "classes" else 1
        self.embedded = random_rows(2)
        self.weights = torch.randn(20, num_outputs, generator=generator, requires_grad=True)

    def __call__(self, perturbation: torch.Tensor) -> torch.Tensor:
        words = (self.embedded + perturbation).flatten(1)  # (3, 20)
        return (words.tanh() @ self.weights).squeeze(-1)


def perturbation_of(toy: Toy, kind: str, start: torch.Tensor, num_steps: int) -> torch.Tensor:
    outputs = toy(torch.zeros_like(start))
    return adversarial_perturbation(toy, outputs, start, kind, 0.02, EPSILON, num_steps)


def divergence_of(toy: Toy, kind: str, perturbation: torch.Tensor) -> float:
    with torch.no_grad():
        clean = toy(torch.zeros_like(perturbation))
        return float(symmetric_divergence(toy(perturbation), clean, kind))


def test_the_perturbation_of_a_linear_score_by_hand():
    """f = a . d: the divergence is (a . d)^2, so the gradient is 2 (a . d) a."""
    a = torch.tensor([[[1.0, -2.0], [4.0, 0.0]]])

    def outputs_of(perturbation):
        return (a * perturbation).sum(dim=(1, 2))

    start = torch.tensor([[[0.0, 0.0], [-0.01, 0.0]]])  # a . d is below 0: the ascent goes along -a
    found = adversarial_perturbation(outputs_of, torch.zeros(1), start, "score", 0.04, 1.0, 1)
    expected = start - 0.04 * a / 4
    torch.testing.assert_close(found, expected)
    ascended = adversarial_perturbation(outputs_of, torch.zeros(1), start, "score", 0.04, 0.02, 9)
    torch.testing.assert_close(ascended, -0.02 * a.sign(), msg="a corner of the ball is the worst")


def independent_ascent(toy: Toy, kind: str, start: torch.Tensor, num_steps: int) -> torch.Tensor:
    """Algorithm 1 on the embeddings themselves, with torch's own KL and numerical gradients."""
    clean = toy(torch.zeros_like(start)).detach().double()

    def distance(perturbation: torch.Tensor) -> float:
        outputs = toy(perturbation.float()).detach().double()
        if kind == "score":
            return float((outputs - clean).square().sum())
        if kind == "binary":
            pairs = [torch.stack([torch.zeros_like(z), z], dim=1) for z in (outputs, clean)]
        else:
            pairs = [outputs, clean]
        p, q = (torch.distributions.Categorical(logits=logits) for logits in pairs)
        both = torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)
        return float(both.sum())

    lowest = toy.embedded.double() - EPSILON
    highest = toy.embedded.double() + EPSILON
    changed = toy.embedded.double() + start
    for _ in range(num_steps):
        gradient = torch.zeros_like(changed)
        for place in range(changed.numel()):
            small = torch.zeros_like(changed).flatten()
            small[place] = 1e-2
            small = small.view_as(changed)
            offset = changed - toy.embedded
            gradient.view(-1)[place] = distance(offset + small) - distance(offset - small)
        for row in range(len(changed)):
            changed[row] += 0.02 * gradient[row] / gradient[row].abs().max()
        changed = torch.minimum(torch.maximum(changed, lowest), highest)
    return (changed - toy.embedded).float()


@pytest.mark.parametrize("kind", ["classes", "binary", "score"])
def test_the_perturbation_against_an_independent_implementation(kind):
    toy = Toy(kind)
    start = random_rows(3, 0.02)
    found = perturbation_of(toy, kind, start, num_steps=2)
    expected = independent_ascent(toy, kind, start, num_steps=2)
    torch.testing.assert_close(found, expected, atol=3e-4, rtol=0.02)
    assert not torch.allclose(found, start, atol=3e-3), "the negative control"


@pytest.mark.parametrize("kind", ["classes", "binary", "score"])
def test_properties_of_the_perturbation(kind):
    toy = Toy(kind)
    start = random_rows(3, 0.02)
    once = perturbation_of(toy, kind, start, num_steps=1)
    often = perturbation_of(toy, kind, start, num_steps=8)
    assert not often.requires_grad and often.abs().max() <= EPSILON
    assert toy.weights.grad is None, "the ascent leaves no gradient"
    # Each further step climbs, and the result is worse than chance.
    at_start = divergence_of(toy, kind, start)
    assert at_start < divergence_of(toy, kind, once) < divergence_of(toy, kind, often)
    for seed in range(20):
        by_chance = EPSILON * random_rows(seed + 10).sign()
        assert divergence_of(toy, kind, by_chance) < divergence_of(toy, kind, often)


def test_a_constant_model_has_no_smoothness_loss():
    def constant(perturbation):
        return 0 * perturbation.sum(dim=(1, 2)) + 2

    start = random_rows(3, 0.02)
    found = adversarial_perturbation(constant, torch.full((3,), 2.0), start, "score", 0.1, 0.01, 3)
    assert torch.equal(found, start.clamp(-0.01, 0.01)), "a gradient of 0 is not divided by 0"
    assert symmetric_divergence(constant(found), torch.full((3,), 2.0), "score") == 0


# --- the loss and the reference model -------------------------------------------------------------


def test_the_loss_by_hand():
    """1 + 3 x 0.5 + 2 x 0.25."""
    terms = torch.tensor(1.0), torch.tensor(0.5), torch.tensor(0.25)
    assert float(smart(*terms, 3.0, 2.0)) == 3.0
    assert float(smart(*terms, 2.0, 3.0)) != 3.0, "the negative control: the weights exchanged"


def test_the_decay_by_hand():
    assert [reference_decay(0.999, step, 100) for step in (1, 10, 11, 100)] == [
        0.99,
        0.99,
        0.999,
        0.999,
    ]
    assert reference_decay(0.5, 1, 100) == 0.5, "a smaller decay is not made larger"


class ToyModel(nn.Module):
    """A model with the arguments of MultitaskBert, of which one weight is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, task, batch):
        return self.dense(batch) * self.frozen


def steps_of(model: ToyModel, number: int):
    """Change the weights `number` times, and yield the number of the step."""
    generator = torch.Generator().manual_seed(1)
    for step in range(1, number + 1):
        with torch.no_grad():
            model.dense.weight += torch.randn(2, 3, generator=generator)
        yield step


def test_the_reference_of_momentum_against_torch_and_a_slow_loop():
    model = ToyModel()
    reference = ReferenceModel(model, "momentum", 0.9, 100)
    reference.begin()
    of_torch = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    of_torch.update_parameters(model)  # the first call copies
    slow = model.dense.weight.detach().clone()
    for step in steps_of(model, 5):
        reference.update(step, 5)
        of_torch.update_parameters(model)
        slow = (1 - 0.9) * model.dense.weight.detach() + 0.9 * slow
    torch.testing.assert_close(reference.weights["dense.weight"], slow)
    torch.testing.assert_close(
        reference.weights["dense.weight"], of_torch.module.dense.weight.detach()
    )
    # The negative control: the shares of old and new weights exchanged.
    assert not torch.allclose(slow, model.dense.weight.detach(), atol=0.1)


def test_the_reference_of_vanilla_is_of_some_steps_ago():
    model = ToyModel()
    reference = ReferenceModel(model, "vanilla", 0.9, 2)
    reference.begin()
    weights = [model.dense.weight.detach().clone()]
    for step in steps_of(model, 5):
        weights.append(model.dense.weight.detach().clone())
        reference.update(step, 5)
        expected = weights[step // 2 * 2]
        assert torch.equal(reference.weights["dense.weight"], expected), step


@pytest.mark.parametrize("method", ["momentum", "vanilla"])
def test_the_outputs_of_the_reference(method):
    model = ToyModel()
    batch = torch.ones(4, 3)
    reference = ReferenceModel(model, method, 0.9, 2)
    assert torch.equal(reference.outputs("sst", batch), model("sst", batch)), "not begun yet"
    reference.begin()
    first = model("sst", batch)
    for step in steps_of(model, 1):
        reference.update(step, 10)
    found = reference.outputs("sst", batch)
    assert not found.requires_grad
    assert not torch.equal(found, model("sst", batch))
    if method == "vanilla":
        assert torch.equal(found, first)
    # Frozen weights are those of the model, and the model keeps its own.
    assert "frozen" not in reference.weights
    assert model.dense.weight.requires_grad

    again = ReferenceModel(model, method, 0.9, 2)
    again.load_state_dict(reference.state_dict())
    assert torch.equal(again.outputs("sst", batch), found)


# --- options --------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_paper():
    options = SmartOptions()
    of_ascent = options.smart_epsilon, options.smart_sigma, options.smart_step, options.smart_steps
    assert of_ascent == (1e-5, 1e-5, 1e-3, 1)
    assert (options.smart_weight, options.proximal_weight, options.proximal_decay) == (1, 1, 0.999)


def cost_of(**values) -> float:
    return from_flat(FineTuningOptions, values).step_cost


def test_the_cost_of_a_step_by_hand():
    """A forward pass is a third of a step. So is a backward pass to the embeddings alone."""
    assert cost_of() == 1
    assert cost_of(regulariser="r-drop") == 2
    # The ascent: forward and backward. Then a step with two passes, and one of the reference.
    assert cost_of(regulariser="smart") == pytest.approx(2 + 2 / 3 + 1 / 3)
    assert cost_of(regulariser="smart", smart_steps=3) == pytest.approx(2 + 3 * 2 / 3 + 1 / 3)
    assert cost_of(regulariser="smart", proximal="none") == pytest.approx(2 + 2 / 3)
    assert cost_of(regulariser="smart", smart_weight=0.0) == pytest.approx(1 + 1 / 3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"smart_weight": 0.0, "proximal": "none"}, "leave nothing of SMART"),
        ({"smart_weight": 0.0, "smart_step": 0.1}, "--smart_step has no effect with --smart_wei"),
        ({"proximal": "none", "proximal_weight": 2.0}, "has no effect with --proximal none"),
        ({"proximal_every": 3}, "--proximal_every has no effect with --proximal momentum"),
        ({"proximal": "vanilla", "proximal_decay": 0.5}, "no effect with --proximal vanilla"),
        ({"proximal": "vanilla", "proximal_every": 1}, "--proximal_every is 1; it must be"),
        ({"smart_epsilon": 0.0}, "--smart_epsilon is 0.0; it must be"),
    ],
)
def test_options_without_an_effect_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        from_flat(FineTuningOptions, {"regulariser": "smart", **values})


def test_an_option_of_another_regulariser_is_refused():
    words = "--smart_weight has no effect with --regulariser r-drop; add --regulariser smart"
    with pytest.raises(ValueError, match=words):
        from_flat(FineTuningOptions, {"regulariser": "r-drop", "smart_weight": 3.0})


def test_each_name_has_a_function():
    assert list(FUNCTIONS) == list(REGULARISERS)
