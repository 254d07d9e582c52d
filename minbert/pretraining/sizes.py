"""The named shapes of `python -m minbert.pretraining --size`."""

from __future__ import annotations

from minbert.config import BertConfig

# Initial weights grow as 1 / sqrt(width), from .02 at 768 units. The numbers of parameters are with
# the head, at the full vocabulary.
SIZES = {
    # 0.2 million parameters
    "tiny": BertConfig(
        vocab_size=2048,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=128,
        initializer_range=0.07,
    ),
    # 3.9 million
    "mini": BertConfig(
        vocab_size=8192,
        hidden_size=192,
        num_hidden_layers=5,
        num_attention_heads=6,
        intermediate_size=768,
        max_position_embeddings=128,
        initializer_range=0.04,
    ),
    # 24.6 million
    "small": BertConfig(
        vocab_size=16384,
        hidden_size=512,
        num_hidden_layers=5,
        num_attention_heads=8,
        intermediate_size=2048,
        max_position_embeddings=256,
        initializer_range=0.025,
    ),
    # 109.5 million, as bert-base-uncased
    "base": BertConfig(),
}
