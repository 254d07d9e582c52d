"""A linear layer, x W^T + b, by torch or by oneDNN. Next: attention.py.

On a CPU, torch computes float32 products by the library MKL, which is slow on some processors. The
same builds of torch have oneDNN. It also multiplies faster with a weight that was put into an order
of its own once, for many batches. docs/formulas.md has what both save on one processor.

M rows, K inputs, N outputs.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
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

    # The weight in oneDNN's order, after `pack`.
    packed: PackedWeight | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform the last axis: (..., K) -> (..., N)."""
        # The same product without another reordering of the weight. docs/formulas.md has its gain.
        if self.packed is not None and self.packed.suits(self, inputs):
            return self.packed.multiply(inputs)
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
    """Compute left right^T + bias by oneDNN. left (..., K); right (N, K). Returns (..., N)."""
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


# --- weights that are reordered once --------------------------------------------------------------

# Rows of a product for which oneDNN chooses the order. Any number of rows can be multiplied.
NUM_ROWS = 1024

# The processors that it was tried on, by their names in platform.machine().
X86 = ("x86_64", "AMD64")


class PackedWeight:
    """The weight and the bias of a layer for products without gradients, in oneDNN's order.

    dtype: torch.bfloat16, as autocast would compute, or torch.float32. A copy of the layer has no
    packed weight, because the order cannot be copied.
    """

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.state = state_of(layer)
        weight = layer.weight.detach().to(dtype)  # (N, K)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, NUM_ROWS)
        self.bias = None if layer.bias is None else layer.bias.detach().to(dtype)  # (N,)

    def suits(self, layer: Linear, inputs: Tensor) -> bool:
        """Whether `layer` would compute this product now.

        Not with gradients, nor in another precision, nor with weights that were changed since.
        """
        if torch.is_grad_enabled() or inputs.device.type != "cpu":
            return False
        if inputs.size(-1) != layer.in_features or state_of(layer) != self.state:
            return False
        if self.dtype == torch.float32:
            return layer.is_onednn and suits_onednn(inputs, layer.weight)
        is_autocast = torch.is_autocast_enabled("cpu")
        is_converted = inputs.dtype in (torch.float32, torch.bfloat16)  # autocast leaves float64
        return is_autocast and torch.get_autocast_dtype("cpu") == self.dtype and is_converted

    def multiply(self, inputs: Tensor) -> Tensor:
        """Compute x W^T + b: (..., K) -> (..., N), of `dtype`."""
        return product(inputs.to(self.dtype), self.weight, self.bias)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def state_of(layer: nn.Linear) -> tuple[int, ...]:
    """Where the parameters of a layer are, and how often they were changed in place."""
    state = []
    for parameter in layer.parameters():
        state += [parameter.data_ptr(), parameter._version]
    return tuple(state)


def can_pack(model: nn.Module, dtype: torch.dtype) -> bool:
    """Whether the layers of a model can have packed weights of `dtype` on this machine.

    Compiled layers can't: torch's compiler knows no such tensors.
    """
    if platform.machine() not in X86 or not has_onednn():
        return False
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    are_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    are_inference = any(parameter.is_inference() for parameter in model.parameters())
    is_compiled = any(module._compiled_call_impl is not None for module in model.modules())
    return are_on_cpu and not are_inference and not is_compiled


def pack(model: nn.Module, dtype: torch.dtype) -> list[Linear]:
    """Reorder the weights of a model's `Linear` layers once, for products without gradients.

    dtype: as of PackedWeight. A layer whose weight changes later computes with the new one, without
    this gain. Returns the layers that had no such weight yet.
    """
    changed = []
    for module in model.modules():
        if not isinstance(module, Linear):
            continue
        packed = module.packed
        if packed is None or packed.dtype != dtype or packed.state != state_of(module):
            module.packed = PackedWeight(module, dtype)
            changed.append(module)
    return changed


@contextmanager
def packed_weights(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Within it the layers of a model have packed weights, where that is possible.

    A layer that had the same packed weight before keeps it afterwards.
    """
    changed = pack(model, dtype) if can_pack(model, dtype) else []
    try:
        yield
    finally:
        for layer in changed:
            layer.packed = None
