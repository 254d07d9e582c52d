"""The prediction heads, one class each. Next: model.py, which puts them on an encoder.

B batch, H hidden, C outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DenseHead(nn.Module):
    """Dropout, then one linear layer ([ROB] calls it VM): (B, inputs) -> (B, C), or (B,) where C is 1."""

    def __init__(self, num_inputs: int, num_outputs: int, dropout_probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_probability)
        self.dense = nn.Linear(num_inputs, num_outputs)

    def forward(self, features: Tensor) -> Tensor:
        outputs = self.dense(self.dropout(features))  # (B, C)
        return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs


def pair_features(first: Tensor, second: Tensor) -> Tensor:
    """Two vectors (B, H) -> (B, 4H): u, v, |u - v|, u * v, where one layer can read a likeness (Conneau et al. 2017).

    A linear layer on u and v alone could not: it has no term in which both meet.
    """
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
