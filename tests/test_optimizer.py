"""AdamW on its own; run it alone with `python -m pytest tests/test_optimizer.py`.

A step worked by hand, the course's reference numbers, a slow loop in plain Python, PyTorch's AdamW, properties, and at
the end wrong versions that have to fail.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from minbert import AdamW
from minbert.optimizer import layer_decayed, parameter_groups

FLOAT32 = 1e-6  # fp32 has 7 digits and the numbers here are near 1: measured 1e-7


def step_once(optimizer_class=AdamW, start: float = 1.0, gradient: float = 3.0, steps: int = 1, **options) -> float:
    """One number with the same gradient at each step; where it ends."""
    parameter = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = optimizer_class([parameter], **options)
    for _ in range(steps):
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return parameter.item()


# --- by hand ---------------------------------------------------------------------------------------------------------


def check_first_step(optimizer_class) -> None:
    """m = 0.1 g and v = 0.001 g^2; corrected, both are g and g^2 again, so the step is lr x sign(g): 1 - 0.5 = 0.5."""
    found = step_once(optimizer_class, lr=0.5, eps=0.0)
    assert found == pytest.approx(0.5, abs=1e-12), (
        f"after one step: {found}, expected 0.5. Is the bias correction sqrt(1 - beta_2^t) / (1 - beta_1^t), with t "
        "starting at 1, and is the second moment that of g^2?"
    )


def check_without_correction(optimizer_class) -> None:
    """Without correction the step is lr x 0.1 / sqrt(0.001) = 3.1623 lr."""
    found = step_once(optimizer_class, start=0.0, lr=1.0, eps=0.0, correct_bias=False)
    assert found == pytest.approx(-0.1 / math.sqrt(0.001), abs=1e-9), "is correct_bias=False heeded?"


def check_eps(optimizer_class) -> None:
    """m = 0.3, sqrt(v) = sqrt(0.009) = 0.094868; eps = 1 is added to the uncorrected root: 0.3 / 1.094868."""
    found = step_once(optimizer_class, start=0.0, lr=1.0, eps=1.0)
    correction = math.sqrt(1 - 0.999) / (1 - 0.9)
    assert found == pytest.approx(-correction * 0.3 / (math.sqrt(0.009) + 1), abs=1e-9), (
        "is eps outside the root, and added to sqrt(v) before the bias correction, which is folded into the step size?"
    )


def check_decay(optimizer_class) -> None:
    """The step first, 1 - 0.5 = 0.5; then the decay by lr x weight_decay = 0.25: 0.5 x 0.75 = 0.375."""
    found = step_once(optimizer_class, lr=0.5, eps=0.0, weight_decay=0.5)
    hint = "is weight decay applied after the step, with the current learning rate?"  # lr x decay = 0.5 x 0.5
    if math.isclose(found, 0.25, abs_tol=1e-9):
        hint = "1 x 0.75 - 0.5: weight decay is applied before the step; the course applies it after the step."
    if math.isclose(found, 0.5, abs_tol=1e-9):
        hint = "weight decay is left out, or added to the gradient, where Adam's normalisation swallows it."
    assert found == pytest.approx(0.375, abs=1e-9), f"found {found}, expected 0.375: {hint}"


def check_decay_follows_the_schedule(optimizer_class) -> None:
    """A schedule changes the group's lr; lr = 0 must neither step nor decay."""
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_class([parameter], lr=0.5, weight_decay=0.5)
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = torch.ones(1)
    optimizer.step()
    assert parameter.item() == 1.0, "read lr from the group at each step: does the decay use the current learning rate?"


CHECKS = [check_first_step, check_without_correction, check_eps, check_decay, check_decay_follows_the_schedule]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_by_hand(check):
    check(AdamW)


# --- the course's reference ------------------------------------------------------------------------------------------


def test_course_reference():
    """The course's optimizer_test.py: linear 3 -> 2 without bias, 1,000 steps; its six numbers.

    Even the rounding has to agree: the same in float64 ends 7e-6 away, because 1,000 float32 steps round 1,000 times.
    """
    reference = torch.tensor([[0.55482787, 0.86665666, 0.07291982], [-0.44724506, -0.2951228, -0.2717272]])
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    model = nn.Linear(3, 2, bias=False)
    optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, correct_bias=True)
    for _ in range(1000):
        optimizer.zero_grad()
        x = torch.FloatTensor(random.uniform(size=[model.in_features]))
        target = torch.stack([x[0] + x[1], -x[2]])
        ((model(x) - target) ** 2).sum().backward()
        optimizer.step()
    difference = (model.weight.detach() - reference).abs().max().item()
    assert difference <= FLOAT32, (
        f"off by {difference:.2e} in 1,000 steps. 2e-5: is weight decay applied after the step, as p - lr decay p, "
        "with the current learning rate (p times (1 - lr decay) rounds badly)? 3e-4: is eps inside the root? "
        "More: look at test_by_hand first."
    )


# --- a slow loop -----------------------------------------------------------------------------------------------------


def test_slow_loop():
    """Plain Python numbers, three parameters, fifty steps of changing gradients and learning rates."""
    random = np.random.default_rng(1)
    lr, (beta_1, beta_2), eps, decay = 0.01, (0.8, 0.95), 1e-3, 0.1
    values, first, second = [1.0, -2.0, 0.5], [0.0] * 3, [0.0] * 3
    parameter = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    optimizer = AdamW([parameter], lr=lr, betas=(beta_1, beta_2), eps=eps, weight_decay=decay)
    for t in range(1, 51):
        gradient, current = random.normal(size=3), lr / t
        parameter.grad = torch.from_numpy(gradient)
        optimizer.param_groups[0]["lr"] = current
        optimizer.step()
        for i, g in enumerate(gradient):
            first[i] = beta_1 * first[i] + (1 - beta_1) * g
            second[i] = beta_2 * second[i] + (1 - beta_2) * g * g
            correction = math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            values[i] -= current * correction * first[i] / (math.sqrt(second[i]) + eps)
            values[i] -= current * decay * values[i]
    assert parameter.tolist() == pytest.approx(values, abs=1e-12), "compare with this loop, line by line"


# --- PyTorch's AdamW -------------------------------------------------------------------------------------------------


def train_side_by_side(eps: float, torch_eps) -> float:
    """100 steps of both optimizers on the same gradients, without decay; the largest difference between the weights."""
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    theirs = copy.deepcopy(ours)
    optimizer = AdamW(ours.parameters(), lr=1e-3, eps=eps)
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-3, eps=eps, weight_decay=0.0)
    for t in range(1, 101):
        reference.param_groups[0]["eps"] = torch_eps(t)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            p.grad = torch.randn(p.shape)
            q.grad = p.grad.clone()
        optimizer.step()
        reference.step()
    return max((p - q).abs().max().item() for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_equals_torch_adamw_with_a_small_eps():
    """eps stands in another place (next test), which a small one hides: 100 steps, at most 1e-6 apart."""
    difference = train_side_by_side(1e-8, lambda t: 1e-8)
    assert difference <= FLOAT32, f"off by {difference:.2e} from torch.optim.AdamW; look at test_by_hand"


def test_equals_torch_adamw_with_any_eps_once_it_is_put_in_the_same_place():
    """Ours: m / (sqrt(v) + eps) x sqrt(1 - b2^t); torch's: m / (sqrt(v) / sqrt(1 - b2^t) + eps).

    They are one formula with eps_torch = eps / sqrt(1 - b2^t), which starts at 32 eps and goes to eps.
    """
    difference = train_side_by_side(1e-2, lambda t: 1e-2 / math.sqrt(1 - 0.999**t))
    assert difference <= FLOAT32, f"off by {difference:.2e}: eps belongs beside the uncorrected sqrt(v)"
    assert train_side_by_side(1e-2, lambda t: 1e-2) > 1e-3, "a negative control: the place of eps is not free"


# --- properties ------------------------------------------------------------------------------------------------------


def test_groups_have_their_own_settings():
    fast, slow, frozen = (nn.Parameter(torch.ones(2)) for _ in range(3))
    groups = [{"params": [fast], "lr": 0.1}, {"params": [slow, frozen], "weight_decay": 0.5}]
    optimizer = AdamW(groups, lr=0.01, eps=0.0)
    fast.grad, slow.grad = torch.ones(2), torch.ones(2)
    optimizer.step()
    assert torch.allclose(fast, torch.tensor(1 - 0.1)), "a group's own lr"
    assert torch.allclose(slow, torch.tensor((1 - 0.01) * (1 - 0.01 * 0.5))), "the default lr, the group's own decay"
    assert frozen.tolist() == [1.0, 1.0], "without a gradient a parameter is neither moved nor decayed"


def test_layer_decay_by_hand():
    lr_of = layer_decayed(lr=0.5, decay=0.1, num_layers=3)
    found = {name: lr_of(name) for name in ("heads.sst.dense.weight", "encoder.pooler.bias", "encoder.layers.2.norm",
                                            "encoder.layers.0.norm", "encoder.embeddings.word.weight")}
    assert list(found.values()) == pytest.approx([0.5, 0.5, 0.05, 0.0005, 0.00005])


def test_groups_by_rate_hold_every_parameter_once():
    model = torch.nn.ModuleDict({"encoder": torch.nn.Linear(3, 2), "head": torch.nn.Linear(2, 1)})
    groups = parameter_groups(model, 0.01, lambda name: 0.1 if name.startswith("encoder") else 0.2)
    assert [(group["lr"], group["weight_decay"], len(group["params"])) for group in groups] == [
        (0.1, 0.01, 1), (0.1, 0.0, 1), (0.2, 0.01, 1), (0.2, 0.0, 1)]
    assert {id(p) for group in groups for p in group["params"]} == {id(p) for p in model.parameters()}


def test_parameter_groups_spare_biases_and_norms():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].weight.requires_grad_(False)
    decayed, spared = parameter_groups(model, 0.01)
    assert decayed["weight_decay"] == 0.01 and spared["weight_decay"] == 0.0
    assert [p is model[0].weight for p in decayed["params"]] == [True], "matrices and embeddings that are trained"
    assert [p.ndim for p in spared["params"]] == [1, 1, 1], "the bias, and LayerNorm's weight and bias"


def test_state_round_trip_continues_to_the_same_bits():
    torch.manual_seed(0)
    gradients = torch.randn(20, 7)

    def run(parameter, optimizer, rows):
        for gradient in rows:
            parameter.grad = gradient.clone()
            optimizer.step()

    straight = nn.Parameter(torch.ones(7))
    run(straight, AdamW([straight], weight_decay=0.1), gradients)
    first = nn.Parameter(torch.ones(7))
    stopped = AdamW([first], weight_decay=0.1)
    run(first, stopped, gradients[:10])
    second = nn.Parameter(first.detach().clone())
    resumed = AdamW([second], lr=99.0)  # the stored settings replace these
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    run(second, resumed, gradients[10:])
    assert torch.equal(straight, second), "is the step count, or a moment, missing from self.state?"


def test_closure_is_called_with_gradients_on():
    parameter = nn.Parameter(torch.ones(1))
    optimizer = AdamW([parameter], lr=0.5, eps=0.0)

    def closure():
        loss = (2 * parameter).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert parameter.item() == pytest.approx(0.5)


@pytest.mark.parametrize("options", [{"lr": -1.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"eps": -1e-8},
                                     {"weight_decay": -0.1}, {"lr": math.nan}])
def test_values_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        AdamW([nn.Parameter(torch.ones(1))], **options)


# --- wrong versions must fail ----------------------------------------------------------------------------------------


class DecayInGradient(AdamW):
    """L2 regularisation instead of decoupled decay."""

    def update(self, parameter, group):
        parameter.grad = parameter.grad + group["weight_decay"] * parameter
        super().update(parameter, {**group, "weight_decay": 0.0})


class DecayBefore(AdamW):
    """torch.optim.AdamW's order."""

    def update(self, parameter, group):
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        super().update(parameter, {**group, "weight_decay": 0.0})


class NoCorrection(AdamW):
    """Adam without its bias correction."""

    def update(self, parameter, group):
        super().update(parameter, {**group, "correct_bias": False})


class FirstLearningRate(AdamW):
    """Keeps the learning rate it was made with."""

    def update(self, parameter, group):
        super().update(parameter, {**group, "lr": self.defaults["lr"]})


@pytest.mark.parametrize(("wrong", "check", "hint"), [
    (DecayInGradient, check_decay, "added to the gradient"),
    (DecayBefore, check_decay, "after the step"),
    (NoCorrection, check_first_step, "bias correction"),
    (FirstLearningRate, check_decay_follows_the_schedule, "use the current learning rate"),
])
def test_negative_control(wrong, check, hint):
    with pytest.raises(AssertionError, match=hint):
        check(wrong)
