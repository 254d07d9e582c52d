"""The heads by name, with everything that --head needs to know of each one. No torch here.

heads.py has the layers, and the functions that build them by the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minbert.commands.registry import Entry, Registry


@dataclass(frozen=True, kw_only=True)
class HeadEntry(Entry):
    """A value of --head.

    A head that reads single sentences, too, is built for every task. Of all others, tasks of single
    sentences have the head vm: these heads differ in how they read two vectors.
    """

    # Of a user's head: from a HeadShape to a Head (heads.py)
    build: Callable[..., Any] | None = None
    # The pair encodings that it can read. The first one is what "auto" becomes.
    encodings: tuple[str, ...] = ("cross", "bi")
    reads_sentences: bool = False
    # It needs a vector of each sentence. A row of both sentences has them with mean pooling only.
    needs_two_vectors: bool = False
    has_weights: bool = True
    has_pair_module: bool = False  # one module for all tasks of pairs, which may share layers
    answers_by_cosine: bool = False  # --sts_range moves the cosines of a score


HEADS: Registry[HeadEntry] = Registry("head", HeadEntry)


def register_head(name: str, entry: HeadEntry) -> None:
    """Add a value of --head, from a file that is given to --plugin.

        import torch
        from torch import nn

        from multitask import HeadEntry, register_head
        from multitask.heads import Head

        class Product(Head):
            # A linear layer on the product of the two vectors.

            def __init__(self, shape):
                super().__init__()
                self.dropout = nn.Dropout(shape.dropout_probability)
                self.dense = nn.Linear(shape.hidden_size, shape.num_outputs)

            def forward(self, first, second):
                outputs = self.dense(self.dropout(first * second))
                return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs

        register_head(
            "product",
            HeadEntry(
                title="a linear layer on u * v",
                build=Product,
                encodings=("bi", "cross"),
                needs_two_vectors=True,
            ),
        )

    `build` gets a HeadShape, and returns a module for one task. Its output is (B, C), or (B,) where
    C is 1. Whether a pair gives two vectors or one depends on its encoding and on --pooling:
    shape.num_vectors says it. ValueError where the name exists, or where the entry builds nothing.
    """
    if isinstance(entry, HeadEntry) and entry.build is None:
        raise ValueError(f"the head '{name}' is not built; pass HeadEntry(build=..., ...).")
    HEADS.register(name, entry)


HEADS["features"] = HeadEntry(
    title="a linear layer on u, v, |u - v| and u * v",
    encodings=("cross", "bi"),
)
HEADS["vm"] = HeadEntry(
    title="a linear layer on u and v",
    encodings=("cross", "bi", "dual"),
    reads_sentences=True,
)
HEADS["ph"] = HeadEntry(
    title="reads both orders (the ROB report)",
    encodings=("dual",),
)
HEADS["dph"] = HeadEntry(
    title="as ph, and reads the difference of u and v",
    encodings=("dual",),
)
HEADS["dpha"] = HeadEntry(
    title="as dph, with a tanh before the last layer",
    encodings=("dual",),
)
# The module of its pairs is heads.PairMlpHeads.
HEADS["mlp"] = HeadEntry(
    title="two layers, then a cosine for STS and a bilinear form for PARA (the GEN report)",
    encodings=("bi", "cross"),
    reads_sentences=True,
    needs_two_vectors=True,
    has_pair_module=True,
    answers_by_cosine=True,
)
HEADS["cosine"] = HeadEntry(
    title="the cosine of u and v, without weights",
    encodings=("bi", "cross"),
    needs_two_vectors=True,
    has_weights=False,
    answers_by_cosine=True,
)
