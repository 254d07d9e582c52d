"""What does an AdamW step cost, against torch.optim.AdamW as it comes, and is it the same step?

The parameters of the model with random gradients, in the groups that training makes. The formulas differ in where eps
and the decay stand (minbert/optimizer.py); for the second question the peer gets the numbers that make them one.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import Settings
from benchmarks.sides import alternate
from minbert import AdamW, BertModel
from minbert.optimizer import parameter_groups

LR, WEIGHT_DECAY, EPS, BETAS = 1e-3, 0.01, 1e-6, (0.9, 0.999)
NUM_COMPARED = 10  # steps


def give_gradients(model: nn.Module, generator: torch.Generator) -> None:
    """A random gradient for every parameter, of sizes that differ."""
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** (
            number % 5 - 4
        )


def largest_difference(model: nn.Module) -> float:
    """Between our parameters and torch's after NUM_COMPARED steps, torch given eps, rate and decay by our formula."""
    models = (copy.deepcopy(model), copy.deepcopy(model))
    ours = AdamW(parameter_groups(models[0], WEIGHT_DECAY), lr=LR, betas=BETAS, eps=EPS, fused=True)
    peer = torch.optim.AdamW(parameter_groups(models[1], WEIGHT_DECAY), lr=LR, betas=BETAS)
    decays = [LR * group["weight_decay"] for group in peer.param_groups]
    for step in range(1, NUM_COMPARED + 1):
        for each in models:
            give_gradients(each, torch.Generator().manual_seed(step))
        for group, decay in zip(peer.param_groups, decays, strict=True):
            group["eps"] = EPS / math.sqrt(
                1 - BETAS[1] ** step
            )  # ours is added to the uncorrected sqrt(v)
            group["lr"], group["weight_decay"] = (
                LR * (1 - decay),
                decay / LR / (1 - decay),
            )  # ours decays afterwards
        ours.step()
        peer.step()
    return max(
        float((one - other).detach().abs().max())
        for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True)
    )


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 30 rounds of 5 steps; quick: 10 of 3."""
    model = BertModel.from_pretrained(settings.model)
    difference = largest_difference(model)
    models = {name: copy.deepcopy(model) for name in ("ours", "readable", "peer", "fused peer")}
    for each in models.values():
        give_gradients(each, torch.Generator().manual_seed(0))
    groups = {name: parameter_groups(each, WEIGHT_DECAY) for name, each in models.items()}
    optimizers = {
        "ours": AdamW(groups["ours"], lr=LR, fused=True),
        "readable": AdamW(groups["readable"], lr=LR),
        "peer": torch.optim.AdamW(groups["peer"], lr=LR),
        "fused peer": torch.optim.AdamW(groups["fused peer"], lr=LR, fused=True),
    }
    sides = {
        name: lambda part, step=optimizer.step: step() for name, optimizer in optimizers.items()
    }
    num_parts = settings.size(5, 3)
    seconds = alternate(sides, settings.rounds(30, 10), num_parts)
    comparisons = [
        Comparison.of(
            "AdamW(fused=True) : torch.optim.AdamW",
            "ms",
            seconds["ours"],
            seconds["peer"],
            ("<=", 0.35),
            scale=1e3 / num_parts,
        ),
        Comparison.of(
            "AdamW(fused=True) : torch.optim.AdamW(fused=True)",
            "ms",
            seconds["ours"],
            seconds["fused peer"],
            scale=1e3 / num_parts,
        ),
        Comparison.of(
            "AdamW written out : torch.optim.AdamW",
            "ms",
            seconds["readable"],
            seconds["peer"],
            scale=1e3 / num_parts,
        ),
    ]
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    return json_line(
        "optimizer",
        comparisons,
        versions(),
        [
            Check(
                f"largest difference of a parameter after {NUM_COMPARED} steps",
                difference,
                "<=",
                1e-6,
            )
        ],
        [
            f"{num_parameters:,} parameters, {num_parts} steps a round; ours and peer are of one step"
        ],
    )
