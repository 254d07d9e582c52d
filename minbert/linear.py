"""A linear layer, x W^T + b, by torch or by oneDNN. Next: attention.py.

On a CPU, torch computes float32 products by the library MKL, which is slow on some processors. The
same builds of torch have oneDNN. docs/formulas.md has what that saves on one processor.

M rows, K inputs, N outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def linear(
    inputs: Tensor, weight: Tensor, bias: Tensor | None = None, is_onednn: bool = False
) -> Tensor:
    """Compute x W^T + b.

    inputs (..., K); weight (N, K); bias (N,) or None. is_onednn: whether oneDNN computes it, where
    `suits_onednn` says so. Returns (..., N).
    """
    # The same product by another library, equal up to rounding. docs/formulas.md has its gain.
    if is_onednn and suits_onednn(inputs, weight):
        return OneDNNLinear.apply(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


class Linear(nn.Linear):
    """`linear` as a module: nn.Linear, whose products oneDNN computes after `use_onednn`."""

    is_onednn = False

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform the last axis: (..., K) -> (..., N)."""
        return linear(inputs, self.weight, self.bias, self.is_onednn)


class OneDNNLinear(torch.autograd.Function):
    """The linear layer and its gradients, each product by oneDNN. Compare with F.linear."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Compute y = x W^T + b. inputs (..., K); weight (N, K); bias (N,). Returns (..., N)."""
        ctx.save_for_backward(inputs, weight)
        rows = inputs.reshape(-1, inputs.size(-1))  # (M, K)
        outputs = product(rows, weight, bias)  # (M, N)
        return outputs.view(*inputs.shape[:-1], weight.size(0))  # (..., N)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Compute dx = dy W, dW = dy^T x and db, the sum of dy. gradient (..., N)."""
        inputs, weight = ctx.saved_tensors
        of_rows = gradient.reshape(-1, gradient.size(-1))  # (M, N)
        of_inputs = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_inputs = product(of_rows, weight.t()).view_as(inputs)  # (..., K)
        if ctx.needs_input_grad[1]:
            rows = inputs.reshape(-1, inputs.size(-1))  # (M, K)
            of_weight = product(of_rows.t(), rows.t())  # (N, K)
        if ctx.needs_input_grad[2]:
            of_bias = of_rows.sum(dim=0)  # (N,)
        return of_inputs, of_weight, of_bias


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute left right^T + bias by oneDNN. left (M, K); right (N, K); float32. Returns (M, N)."""
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


def suits_onednn(inputs: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN has a product of the two: float32, on a CPU, and with at least one number."""
    are_float32 = inputs.dtype == weight.dtype == torch.float32
    are_on_cpu = inputs.device.type == weight.device.type == "cpu"
    fit = inputs.numel() > 0 and inputs.size(-1) == weight.size(1)  # torch has a message if not
    return are_float32 and are_on_cpu and fit and not torch.is_autocast_enabled("cpu")


def has_onednn() -> bool:
    """Whether this build of torch has oneDNN's product of float32 matrices."""
    has_operation = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and has_operation


def use_onednn(model: nn.Module, is_onednn: bool) -> None:
    """Let oneDNN compute the products of a model's `Linear` layers, or let torch."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.is_onednn = is_onednn
