"""A GPU that every machine has. Its tensors are on device "gpu", and compute on the CPU.

`python -m tests.simulated_gpu MODULE ARGUMENTS` runs the main of a command there. `+ MODULE
ARGUMENTS` after it runs another one, so that PyTorch is imported once for all. It refuses what a
real GPU refuses: an operation on tensors of two devices, and to read a tensor into NumPy. So code
that makes a tensor without asking for the device fails here, as it would there. Kernels, speed,
memory and bf16 of a real GPU are not simulated. It is a process of its own, since torch keeps a new
kind of device until it ends. Used by test_gpu.py.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from multitask import results

aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
# Their second argument may be on the CPU.
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
# Stands before the output of each of several commands.
TITLE = "=== command {} ==="


class GpuTensor(torch.Tensor):
    """A tensor on the simulated device; `held` has its numbers, on the CPU."""

    num_made = 0

    @staticmethod
    def __new__(cls, held: Tensor) -> GpuTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            dtype=held.dtype,
            storage_offset=held.storage_offset(),
            device=torch.device("gpu", 0),
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held
        GpuTensor.num_made += 1

    def __repr__(self) -> str:
        return f"GpuTensor({self.held})"

    def tolist(self) -> list:
        return self.held.tolist()

    def __getitem__(self, index):
        """Of a list torch would make an index on the device, where dispatch does not see it."""
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


def compute(operation, args: tuple, kwargs: dict) -> Any:
    """The operation on the CPU.

    Its results are on the device where its arguments are, or where it was asked to put them.
    """
    tensors = tensors_of(args, kwargs)
    is_there = [isinstance(tensor, GpuTensor) for tensor in tensors]
    if any(is_there) and not all(is_there) and operation not in COPIES:
        refuse_two_devices(operation, args, kwargs)

    goes_there = is_there[0] if operation is aten.copy_.default else any(is_there)
    if kwargs.get("device") is not None:
        goes_there = torch.device(kwargs["device"]).type == "gpu"
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if any(is_there):
        args, kwargs = mapped(to_cpu, args), mapped(to_cpu, kwargs)
    result = operation(*args, **kwargs)

    name = operation._schema.name
    is_in_place = name.endswith("_") and not name.endswith("__")
    if is_in_place:  # the argument itself comes back
        return tensors[0] if result is not None else None
    return mapped(to_gpu, result) if goes_there else result


def refuse_two_devices(operation, args: tuple, kwargs: dict) -> None:
    """RuntimeError where tensors of two devices meet, as on a real GPU. Scalars may be anywhere."""
    tensors = tensors_of(args, kwargs)
    if operation in INDEXED and isinstance(tensors[0], GpuTensor):
        tensors = tensors_of(args[:1] + args[2:], kwargs)
    if any(tensor.ndim and not isinstance(tensor, GpuTensor) for tensor in tensors):
        shapes = [tuple(tensor.shape) for tensor in tensors]
        raise RuntimeError(f"{operation}: tensors on gpu and on cpu, of shapes {shapes}")


def to_cpu(leaf: Any) -> Any:
    """A tensor of the device as one of the CPU; anything else as it is."""
    return leaf.held if isinstance(leaf, GpuTensor) else leaf


def to_gpu(leaf: Any) -> Any:
    """A tensor as one of the device; anything else as it is."""
    return GpuTensor(leaf) if isinstance(leaf, Tensor) else leaf


def tensors_of(*trees: Any) -> list[Tensor]:
    """All tensors in nested arguments."""
    tensors = []
    for tree in trees:
        if isinstance(tree, Tensor):
            tensors.append(tree)
        elif isinstance(tree, list | tuple):
            tensors += tensors_of(*tree)
        elif isinstance(tree, dict):
            tensors += tensors_of(*tree.values())
    return tensors


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A nested argument with the function applied to all that is no list, tuple or dict.

    torch's own tree_map knows more containers, and takes four times as long.
    """
    if isinstance(tree, list | tuple):
        return type(tree)([mapped(function, item) for item in tree])
    if isinstance(tree, dict):
        return {name: mapped(function, item) for name, item in tree.items()}
    return function(tree)


def install() -> None:
    """Make the device known to torch and the only one that our code finds."""
    from contrastive import methods
    from minbert.pretraining.options import PlainTextOptions
    from minbert.training import cost_estimate, runtime
    from minbert.training.options import TrainingOptions

    backend_registration._setup_privateuseone_for_python_backend("gpu")
    torch.gpu.synchronize = lambda: None
    torch.gpu.get_amp_supported_dtype = lambda: [torch.bfloat16]

    # torch.tensor makes a tensor of a list on the device itself, where dispatch does not see it.
    make_tensor = torch.tensor
    torch.tensor = lambda data, *, device=None, **others: make_tensor(data, **others).to(
        device or "cpu"
    )
    choice = runtime.DeviceChoice(torch.device("gpu", 0), "simulated")
    runtime.choose_device = lambda name="auto": choice

    # For a quick look.
    cost_estimate.PRODUCTS["gpu"] = cost_estimate.Products(64, 1)
    methods.GUIDED_WIDTH = 24
    for group in (TrainingOptions, PlainTextOptions):
        field = group.__dataclass_fields__["device"]
        choices = (*field.metadata["choices"], "gpu")
        field.metadata = MappingProxyType({**field.metadata, "choices": choices})


def command(name: str) -> Any:
    """The module that `python -m NAME` runs: of a package its __main__."""
    module = importlib.import_module(name)
    is_package = hasattr(module, "__path__")
    return importlib.import_module(f"{name}.__main__") if is_package else module


def split_commands(words: list[str]) -> list[list[str]]:
    """The commands between the words "+"."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "+":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def run(words: list[str]) -> int:
    """Run one command. Return its exit code, or 1 where it computed nothing on the device."""
    GpuTensor.num_made = 0
    with Simulation():
        code = command(words[0]).main(words[1:])
    if not code and not GpuTensor.num_made:
        print("nothing was computed on the device", file=sys.stderr)
        return 1
    return code


def run_all(commands: list[list[str]]) -> int:
    """Run commands one after the other, each with the same input and a line as its title."""
    if len(commands) == 1:
        return run(commands[0])
    text = sys.stdin.buffer.read()
    # Drawn from numbers that are on the CPU. A run by itself does draw, and flushes its files.
    results.write_report = lambda *arguments: []
    os.fsync = lambda descriptor: None
    for number, words in enumerate(commands):
        print(TITLE.format(number), flush=True)
        sys.stdin = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8")
        code = run(words)
        if code:
            print(f"failed: {' '.join(words)}", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    install()
    code = run_all(split_commands(sys.argv[1:]))
    sys.stdout.flush()
    os._exit(code)  # torch's thread for the device does not end with the interpreter
