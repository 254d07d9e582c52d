"""minbert/optimizer.py: which parameters decay, and which learning rate each has."""

import pytest
import torch
from torch import nn

from minbert.optimizer import layer_decayed, parameter_groups


def test_layer_decay_by_hand():
    lr_of = layer_decayed(lr=0.5, decay=0.1, num_layers=3)
    found = {
        name: lr_of(name)
        for name in (
            "heads.sst.dense.weight",
            "encoder.pooler.bias",
            "encoder.layers.2.norm",
            "encoder.layers.0.norm",
            "encoder.embeddings.word.weight",
        )
    }
    assert list(found.values()) == pytest.approx([0.5, 0.5, 0.05, 0.0005, 0.00005])


def test_groups_by_rate_hold_every_parameter_once():
    model = torch.nn.ModuleDict({"encoder": torch.nn.Linear(3, 2), "head": torch.nn.Linear(2, 1)})
    groups = parameter_groups(model, 0.01, lambda name: 0.1 if name.startswith("encoder") else 0.2)
    assert [(group["lr"], group["weight_decay"], len(group["params"])) for group in groups] == [
        (0.1, 0.01, 1),
        (0.1, 0.0, 1),
        (0.2, 0.01, 1),
        (0.2, 0.0, 1),
    ]
    assert {id(p) for group in groups for p in group["params"]} == {
        id(p) for p in model.parameters()
    }


def test_parameter_groups_spare_biases_and_norms():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].weight.requires_grad_(False)
    decayed, spared = parameter_groups(model, 0.01)
    assert decayed["weight_decay"] == 0.01 and spared["weight_decay"] == 0.0
    assert [p is model[0].weight for p in decayed["params"]] == [True], (
        "matrices and embeddings that are trained"
    )
    assert [p.ndim for p in spared["params"]] == [1, 1, 1], (
        "the bias, and LayerNorm's weight and bias"
    )
