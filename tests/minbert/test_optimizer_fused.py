"""AdamW(fused=True): torch's kernel, given other numbers, computes the readable update."""

import copy
import functools

import pytest
import torch
from torch import nn

from minbert import AdamW
from tests.lessons.test_optimizer import (
    FLOAT32,
    check_decay,
    check_decay_follows_the_schedule,
    check_eps,
    check_first_step,
)


@pytest.mark.parametrize(
    ("lr", "weight_decay", "eps"),
    [(1e-3, 0.01, 1e-6), (0.05, 0.5, 1e-2), (5e-5, 0.01, 1e-8), (0.0, 0.3, 1e-6)],
)
def test_the_fused_kernel_equals_the_readable_update(lr, weight_decay, eps):
    """200 steps with changing rates; a head that every third step does not touch counts its own steps."""
    torch.manual_seed(0)
    ours = nn.ModuleDict({"body": nn.Linear(8, 300), "head": nn.Linear(300, 4)})
    theirs = copy.deepcopy(ours)
    optimizers = [
        AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, eps=eps, fused=fused)
        for model, fused in ((ours, False), (theirs, True))
    ]
    for t in range(200):
        for name, p in ours.named_parameters():
            p.grad = (
                None
                if name.startswith("head") and t % 3 == 0
                else torch.randn(p.shape) * 10.0 ** (t % 4 - 2)
            )
            theirs.get_parameter(name).grad = None if p.grad is None else p.grad.clone()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = lr * (1 - t / 200)
            optimizer.step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        # 1e-6, and what rounding d = lr weight_decay to 6e-8 / 2 makes of weights up to 0.4 in 200 steps: 2e-6
        assert (p - q).abs().max() <= FLOAT32 + (2e-6 if 0 < lr * weight_decay < 1e-6 else 0), name
        states = [
            optimizer.state[parameter]
            for optimizer, parameter in zip(optimizers, (p, q), strict=True)
        ]
        assert states[0]["step"] == states[1]["step"] == (133 if name.startswith("head") else 200)
        torch.testing.assert_close(states[0]["second_moment"], states[1]["second_moment"])


def test_the_fused_kernel_gets_what_its_own_formula_needs():
    """The negative control: torch's AdamW as it is, with the same numbers, goes elsewhere."""
    parameters = [nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizers = [
        AdamW(parameters[:1], lr=0.1, eps=1e-2, weight_decay=0.5, fused=True),
        torch.optim.AdamW(parameters[1:], lr=0.1, eps=1e-2, weight_decay=0.5, fused=True),
    ]
    for _ in range(5):
        for parameter, optimizer in zip(parameters, optimizers, strict=True):
            parameter.grad = torch.full((4,), 0.01)
            optimizer.step()
    assert (parameters[0] - parameters[1]).abs().max() > 1e-2


@pytest.mark.parametrize(
    "check",
    [check_first_step, check_eps, check_decay, check_decay_follows_the_schedule],
    ids=lambda check: check.__name__,
)
def test_fused_by_hand(check):
    check(functools.partial(AdamW, fused=True))
