"""A GPU that every machine has: its tensors say that they are on device "gpu", compute on the CPU, and mix with none.

`python -m tests.simulated_gpu MODULE ARGUMENTS` runs the main of a command there. What a real GPU refuses is refused:
an operation on tensors of two devices, and to read one into NumPy. So code that makes a tensor where it should have
asked for the device fails here as it would there; kernels, speed, memory and bf16 of a real one are not simulated. A
process of its own, since torch keeps a new kind of device until it ends. Used by test_gpu.py.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import MappingProxyType

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXED = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
}  # the second argument may be on the CPU


class GpuTensor(torch.Tensor):
    """A tensor on the simulated device; `held` has its numbers, on the CPU."""

    num_made = 0

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> GpuTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            dtype=held.dtype,
            storage_offset=held.storage_offset(),
            device=torch.device("gpu", 0),
        )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held
        GpuTensor.num_made += 1

    def __repr__(self) -> str:
        return f"GpuTensor({self.held})"

    def tolist(self) -> list:
        return self.held.tolist()

    def __getitem__(self, index):
        """Of a list torch would make an index on the device itself, where dispatch does not see it."""
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(torch.tensor(part) if isinstance(part, list) else part for part in parts)
        return super().__getitem__(parts if isinstance(index, tuple) else parts[0])

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return compute(operation, args, kwargs or {})


class Simulation(TorchDispatchMode):
    """Within it, tensors can be made on the device and moved to it."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return compute(operation, args, kwargs or {})


def compute(operation, args: tuple, kwargs: dict):
    """The operation on the CPU, its results on the device where its arguments are or where it was asked to put them."""
    tensors = tensors_of(args, kwargs)
    is_there = [isinstance(tensor, GpuTensor) for tensor in tensors]
    met = (
        tensors_of(args[:1] + args[2:], kwargs) if operation in INDEXED and is_there[0] else tensors
    )
    if (
        any(is_there)
        and operation not in COPIES
        and any(each.ndim and not isinstance(each, GpuTensor) for each in met)
    ):
        raise RuntimeError(
            f"{operation}: tensors on gpu and on cpu, of shapes {[tuple(each.shape) for each in met]}"
        )
    goes_there = is_there[0] if operation is aten.copy_.default else any(is_there)
    if kwargs.get("device") is not None:
        goes_there = torch.device(kwargs["device"]).type == "gpu"
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map(
        lambda leaf: leaf.held if isinstance(leaf, GpuTensor) else leaf, (args, kwargs)
    )
    found = operation(*args, **kwargs)
    name = operation._schema.name
    if name.endswith("_") and not name.endswith(
        "__"
    ):  # in place: what was given is what comes back
        return tensors[0] if found is not None else None
    return (
        tree_map(lambda leaf: GpuTensor(leaf) if isinstance(leaf, torch.Tensor) else leaf, found)
        if goes_there
        else found
    )


def tensors_of(*trees) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


def install() -> None:
    """Make the device known to torch and the only one that our code finds."""
    from command_line.options import Options
    from contrastive import methods
    from minbert.pretraining import mlm
    from minbert.training import cost_estimate as price
    from minbert.training import runtime

    backend_registration._setup_privateuseone_for_python_backend("gpu")
    torch.gpu.synchronize = lambda: None
    torch.gpu.get_amp_supported_dtype = lambda: [torch.bfloat16]
    made = torch.tensor  # of a list, on the device itself, behind dispatch's back
    torch.tensor = lambda data, *, device=None, **rest: made(data, **rest).to(device or "cpu")
    device = torch.device("gpu", 0)
    runtime.choose_device = lambda name="auto": (device, "simulated")
    price.PRODUCTS["gpu"], mlm.ROWS_AT_ONCE["gpu"] = (64, 1), 8  # for a quick look
    methods.GUIDED_WIDTH = 24
    field = Options.__dataclass_fields__["device"]
    field.metadata = MappingProxyType(
        {**field.metadata, "choices": (*field.metadata["choices"], "gpu")}
    )


if __name__ == "__main__":
    install()
    with Simulation():
        code = importlib.import_module(sys.argv[1]).main(sys.argv[2:])
    sys.stdout.flush()
    if not code and not GpuTensor.num_made:
        sys.exit("nothing was computed on the device")
    os._exit(code)  # torch's thread for the device does not end with the interpreter
