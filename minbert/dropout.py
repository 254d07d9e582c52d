"""Dropout (Srivastava et al. 2014), as a function and as a module.

attention.py uses the function, bert.py the module. Next: attention.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert import fast


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Set each unit to 0 with `probability` and scale the others by 1 / (1 - probability).

    The scale keeps the mean: a unit x becomes (1 - p) x / (1 - p) on average. So nothing has to
    be rescaled in evaluation ("inverted" dropout).

    inputs: any shape, floating point. probability in [0, 1). training: whether to drop at all.
    Returns a tensor like `inputs`. Draws from torch's global generator. Compare with
    torch.nn.functional.dropout, which the readable form equals to the bit on a CPU.
    """
    if not training or probability == 0.0:
        return inputs

    # The same law with cheaper random numbers. docs/formulas.md has its gain.
    if fast.is_on() and inputs.device.type == "cpu":
        return inputs * fast.dropout_mask(inputs, probability)
    # On other devices, torch's own kernel draws and multiplies at once.
    if fast.is_on():
        return F.dropout(inputs, probability)

    # 1 where a unit stays, 0 where it is dropped.
    is_kept = torch.empty_like(inputs).bernoulli_(1 - probability)
    mask = is_kept / (1 - probability)
    return inputs * mask


class Dropout(nn.Module):
    """`dropout` as a module: active in training mode, the identity in evaluation mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, inputs: Tensor) -> Tensor:
        """Drop units of `inputs`, a tensor of any shape."""
        return dropout(inputs, self.probability, self.training)
