"""Dropout (Srivastava et al. 2014) with a mask that is cheap to draw on a CPU. Used in attention.py and bert.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16  # a decision takes 16 random bits; one 64-bit draw decides four units


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Zero each unit with `probability` and scale the others so that the mean stays; inputs of any shape and dtype.

    torch's own draws a 64-bit number for every unit, one after the other, on CPU: a fifth of a fine-tuning step. Here
    the probability is rounded to a multiple of 1 / 65,536 (0.1 becomes 0.100006), and the scale is that of the rounded
    one, so that in float32 the mean is exact; bfloat16 rounds 1.1111 to 1.1094, as in torch's. On other devices it
    is torch's.
    """
    if not training or probability == 0.0:
        return inputs
    if inputs.device.type != "cpu":
        return F.dropout(inputs, probability)
    dropped = min(round(probability * LEVELS), LEVELS - 1)
    words = torch.empty((inputs.numel() + 3) // 4, dtype=torch.int64).random_(
        -(2**63), None
    )  # every bit is random
    levels = words.view(torch.int16)[: inputs.numel()].view(
        inputs.shape
    )  # -32,768 to 32,767, equally likely
    keep = levels.ge_(dropped - LEVELS // 2).to(
        inputs.dtype
    )  # 1 or 0; by way of bool it takes four times as long
    return inputs * keep.mul_(LEVELS / (LEVELS - dropped))


class Dropout(nn.Module):
    """`dropout` as a module: active in training mode, the identity in evaluation mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, self.probability, self.training)
