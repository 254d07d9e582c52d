"""minbert/optimizer.py: which parameters decay, and which learning rate each has."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from minbert.optimizer import layer_decayed, parameter_groups


def test_layer_decay_by_hand():
    learning_rate_of = layer_decayed(lr=0.5, decay=0.1, num_layers=3)
    expected = {
        "heads.sst.dense.weight": 0.5,
        "encoder.pooler.bias": 0.5,
        "encoder.layers.2.norm": 0.05,
        "encoder.layers.0.norm": 0.0005,
        "encoder.embeddings.word.weight": 0.00005,
    }
    found = {name: learning_rate_of(name) for name in expected}
    assert found == pytest.approx(expected)


def test_groups_by_learning_rate_hold_every_parameter_once():
    model = nn.ModuleDict({"encoder": nn.Linear(3, 2), "head": nn.Linear(2, 1)})
    groups = parameter_groups(model, 0.01, lambda name: 0.1 if name.startswith("encoder") else 0.2)
    settings = [(group["lr"], group["weight_decay"]) for group in groups]
    assert settings == [(0.1, 0.01), (0.1, 0.0), (0.2, 0.01), (0.2, 0.0)]
    members: list[torch.Tensor] = []
    for group in groups:
        assert len(group["params"]) == 1
        members += group["params"]
    assert {id(member) for member in members} == {id(p) for p in model.parameters()}


def test_parameter_groups_spare_biases_and_norms():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].weight.requires_grad_(False)
    decayed, spared = parameter_groups(model, 0.01)
    assert decayed["weight_decay"] == 0.01
    assert spared["weight_decay"] == 0.0
    assert len(decayed["params"]) == 1, "matrices and embeddings that are trained"
    assert decayed["params"][0] is model[0].weight
    assert [p.ndim for p in spared["params"]] == [1, 1, 1], (
        "the bias, and LayerNorm's weight and bias"
    )
