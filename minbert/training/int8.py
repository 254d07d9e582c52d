"""Linear layers whose products are of whole numbers of 8 bits, to predict on the CPU.

M rows, K inputs, N outputs.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)

LARGEST = 127  # of a rounded weight

# Instructions that add up products of 8 bits in 32 bits. Without them a sum of two products may
# leave its 16 bits, so the inputs keep 7 bits there.
WIDE_SUMS = ("avx512_vnni", "avx_vnni")


class Int8Linear(nn.Module):
    """The layer x W^T + b with rounded weights and inputs. It has no gradient.

    Weights have a scale for each output unit, w = scale q with q in [-127, 127]. The inputs have
    one scale, made anew for each batch from their smallest and largest number. They have 256 steps
    where the processor has `WIDE_SUMS`, else 128. Compare with PyTorch's quantize_dynamic.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """layer: with float32 weights on the CPU. It stays as it is."""
        super().__init__()
        weight = layer.weight.detach()  # (N, K)
        # A unit whose weights are all 0 may have any scale.
        least = torch.finfo(torch.float32).tiny
        scales = weight.abs().amax(dim=1).clamp(min=least) / LARGEST  # (N,)
        rounded = (weight / scales[:, None]).round().to(torch.int8)  # (N, K)
        self.bias: Tensor | None = None if layer.bias is None else layer.bias.detach()
        self.has_narrow_sums = not has_wide_sums()
        self.packed = pack(rounded, scales, self.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Transform the last axis: (..., K) -> (..., N), float32."""
        return torch.ops.quantized.linear_dynamic(
            inputs, self.packed, reduce_range=self.has_narrow_sums
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state to copy or to save, which has plain tensors in the place of packed weights."""
        weight, _ = torch.ops.quantized.linear_unpack(self.packed)
        return self.__dict__ | {"packed": (weight.int_repr(), weight.q_per_channel_scales())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        rounded, scales = state["packed"]
        self.packed = pack(rounded, scales, self.bias)
        self.has_narrow_sums = not has_wide_sums()


def pack(rounded: Tensor, scales: Tensor, bias: Tensor | None) -> Any:
    """Weights in the order in which torch multiplies them.

    rounded: (N, K) int8. scales: (N,). bias: (N,) float32 or None.
    """
    engine = torch.backends.quantized.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to replace its type of rounded weights
        zeros = torch.zeros(len(scales), dtype=torch.int64)  # (N,)
        weight = torch._make_per_channel_quantized_tensor(rounded, scales, zeros, 0)  # (N, K)
    # oneDNN is the fastest where the processor has the instructions.
    if has_wide_sums() and "onednn" in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = "onednn"
    try:
        return torch.ops.quantized.linear_prepack(weight, bias)
    finally:
        torch.backends.quantized.engine = engine


def has_wide_sums() -> bool:
    """Whether the processor has `WIDE_SUMS`. False where torch cannot tell."""
    if not hasattr(torch.cpu, "get_capabilities"):
        return False
    features = torch.cpu.get_capabilities()
    return any(features.get(name) for name in WIDE_SUMS)


def quantised(model: Model, device: torch.device) -> Model:
    """A copy of a model whose encoder layers multiply in int8, to predict on the CPU.

    As the inputs of a layer have one scale for the batch, a row depends a little on the rows beside
    it. Norms, softmax, embeddings, pooler and heads stay in float32.

    ValueError for another device, and where torch has no int8 products for this processor.
    """
    if device.type != "cpu":
        raise ValueError(
            f"the precision int8 is for the CPU, and the device is {device.type}. Use bf16 there."
        )
    if torch.backends.quantized.engine == "none":
        raise ValueError(
            "the precision is int8, and torch has no int8 products for this processor. Use fp32."
        )
    model = copy.deepcopy(model.eval())
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and ".layers." in f".{name}":
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, Int8Linear(module))
    return model
