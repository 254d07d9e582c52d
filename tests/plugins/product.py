"""A head that multiplies the two vectors of a pair, as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/product.py --head product

B batch, H hidden, C outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from minbert.commands.options import OptionGroup, flag
from minbert.commands.registry import Fixture
from multitask import HeadEntry, register_head
from multitask.heads import Head, HeadShape


@dataclass(frozen=True)
class ProductOptions(OptionGroup):
    """Option of product."""

    product_scale: float = flag(1.0, "With --head product: a factor of u * v.", low=0.1, high=100)


class Product(Head):
    """A linear layer on u * v, (B, H) each."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.scale = shape.method_options[ProductOptions].product_scale
        self.dropout = nn.Dropout(shape.dropout_probability)
        self.dense = nn.Linear(shape.hidden_size, shape.num_outputs)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        product = self.scale * first * second  # (B, H)
        outputs = self.dense(self.dropout(product))  # (B, C)
        return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs  # (B,) or (B, C)


register_head(
    "product",
    HeadEntry(
        title="a linear layer on u * v",
        build=Product,
        encodings=("bi", "cross"),
        needs_two_vectors=True,
        options=(ProductOptions,),
        fixture=Fixture(options={"pair_encoding": "bi"}, values={"product_scale": [1.0, 10.0]}),
    ),
)
