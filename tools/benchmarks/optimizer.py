"""What does an AdamW step cost, against torch.optim.AdamW as it comes? Is it the same step?

The parameters of the model get random gradients, in the groups that training makes. The formulas
differ in where eps and the decay stand (minbert/optimizer.py). For the second question the peer
gets the numbers that make both formulas one.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn

from minbert import AdamW, BertModel
from minbert.optimizer import parameter_groups
from tools.benchmarks.comparison import Check, Comparison, Goal, json_line, versions
from tools.benchmarks.settings import Settings
from tools.benchmarks.timing import Side, alternate

LR = 1e-3
WEIGHT_DECAY = 0.01
EPS = 1e-6
BETAS = (0.9, 0.999)

# Steps after which the parameters of both are compared.
NUM_COMPARED = 10


def give_gradients(model: nn.Module, seed: int) -> None:
    """Give every parameter a random gradient. Their sizes differ."""
    generator = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(model.parameters()):
        size = 10.0 ** (number % 5 - 4)
        parameter.grad = torch.randn(parameter.shape, generator=generator) * size


def largest_difference(model: nn.Module) -> float:
    """Return the largest difference of a parameter after NUM_COMPARED steps of ours and torch's.

    torch's AdamW gets eps, learning rate and decay by our formula.
    """
    our_model = copy.deepcopy(model)
    peer_model = copy.deepcopy(model)
    our_groups = parameter_groups(our_model, WEIGHT_DECAY)
    ours = AdamW(our_groups, lr=LR, betas=BETAS, eps=EPS, fused=True)
    peer = torch.optim.AdamW(parameter_groups(peer_model, WEIGHT_DECAY), lr=LR, betas=BETAS)

    decays = [LR * group["weight_decay"] for group in peer.param_groups]
    for step in range(1, NUM_COMPARED + 1):
        give_gradients(our_model, step)
        give_gradients(peer_model, step)
        for group, decay in zip(peer.param_groups, decays, strict=True):
            # Our eps is added to the square root of v before the bias correction.
            group["eps"] = EPS / math.sqrt(1 - BETAS[1] ** step)
            # Ours decays after the step, and torch's before it.
            group["lr"] = LR * (1 - decay)
            group["weight_decay"] = decay / LR / (1 - decay)
        ours.step()
        peer.step()

    largest = 0.0
    pairs = zip(our_model.parameters(), peer_model.parameters(), strict=True)
    for our_parameter, peer_parameter in pairs:
        difference = (our_parameter - peer_parameter).detach().abs().max()
        largest = max(largest, float(difference))
    return largest


def make_sides(model: nn.Module) -> dict[str, Side]:
    """Return a function for each optimizer that takes its step, each on a copy of the model."""

    def groups() -> list[dict[str, Any]]:
        own_model = copy.deepcopy(model)
        give_gradients(own_model, seed=0)
        return parameter_groups(own_model, WEIGHT_DECAY)

    optimizers: dict[str, torch.optim.Optimizer] = {
        "ours": AdamW(groups(), lr=LR, fused=True),
        "readable": AdamW(groups(), lr=LR),
        "peer": torch.optim.AdamW(groups(), lr=LR),
        "fused peer": torch.optim.AdamW(groups(), lr=LR, fused=True),
    }

    def side_of(optimizer: torch.optim.Optimizer) -> Side:
        return lambda part: optimizer.step()

    return {name: side_of(optimizer) for name, optimizer in optimizers.items()}


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 30 rounds of 5 steps; quick: 10 of 3."""
    model = BertModel.from_pretrained(settings.model)
    difference = largest_difference(model)
    num_parts = settings.size(5, 3)
    seconds = alternate(make_sides(model), settings.rounds(30, 10), num_parts)

    def compare(what: str, ours: str, peer: str, goal: Goal | None = None) -> Comparison:
        scale = 1e3 / num_parts
        return Comparison.of(what, "ms", seconds[ours], seconds[peer], goal, scale=scale)

    comparisons = [
        compare("AdamW(fused=True) : torch.optim.AdamW", "ours", "peer", Goal("<=", 0.35)),
        compare("AdamW(fused=True) : torch.optim.AdamW(fused=True)", "ours", "fused peer"),
        compare("AdamW written out : torch.optim.AdamW", "readable", "peer"),
    ]
    what = f"largest difference of a parameter after {NUM_COMPARED} steps"
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    note = (
        f"{num_parameters:,} parameters, {num_parts} steps a round; ours and peer are of one step"
    )
    return json_line(
        "optimizer", comparisons, versions(), [Check(what, difference, "<=", 1e-6)], [note]
    )
