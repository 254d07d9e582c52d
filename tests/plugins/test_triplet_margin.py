"""tests/plugins/triplet_margin.py: the loss by hand and in a loop, and a stage with it."""

from __future__ import annotations

import json
from unittest import mock

import pytest
import torch

from contrastive.registry import Vectors
from contrastive.train.__main__ import main as train
from minbert.commands import plugins
from minbert.commands.options import MethodOptions
from minbert.commands.paths import real_path
from tests.plugins.loading import FILES, module_of, unload

plugin = module_of("triplet_margin")
NONE_ALIKE = torch.zeros(3, 3, dtype=torch.bool)


def loss(anchors, positives, negatives, margin=1.0):
    vectors = Vectors(anchors, positives, NONE_ALIKE, 1.0, hard_negatives=negatives)
    with mock.patch.object(plugin, "MARGIN", margin):
        return plugin.loss(vectors, MethodOptions(())).item()


def test_by_hand_and_in_a_slow_loop():
    """Distances 3 and 4: the positive is closer by 1, which is no loss at a margin of 1."""
    anchor = torch.zeros(1, 2)
    assert loss(anchor, torch.tensor([[3.0, 0]]), torch.tensor([[0, 4.0]]), 1.0) < 1e-5
    near = loss(anchor, torch.tensor([[3.0, 0]]), torch.tensor([[0, 4.0]]), 1.5)
    assert near == pytest.approx(0.5, abs=1e-5)

    anchors, positives, negatives = torch.randn(3, 3, 5, generator=torch.Generator().manual_seed(0))
    total = 0.0
    for anchor, positive, negative in zip(anchors, positives, negatives, strict=True):
        distance = (anchor - positive).norm() - (anchor - negative).norm()
        total += max(0.0, distance.item() + 1)
    assert loss(anchors, positives, negatives) == pytest.approx(total / 3, abs=1e-4)
    # The negative control: positives and negatives exchanged.
    assert loss(anchors, negatives, positives) != pytest.approx(total / 3, abs=1e-2)


def test_a_stage_finds_triplets_in_labelled_pairs(tiny_model, tmp_path):
    """A text with a positive and a negative is a triplet."""
    text = tmp_path / "pairs.csv"
    lines = ["question,answer,label"]
    for number in range(8):
        lines += [f"a girl {number},a dog {number},1", f"a girl {number},the sun,0"]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["triplet-margin", "--plugin", FILES["triplet_margin"], "--text", text]
    words += ["--model", tiny_model, "--out", tmp_path / "run", "--steps", "2"]
    words += ["--batch-size", "4"]
    try:
        assert train([str(word) for word in words]) in (0, None)
    finally:
        unload(plugins.LOADED[real_path(FILES["triplet_margin"])])
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["options"]["contrastive_steps"] == 2
