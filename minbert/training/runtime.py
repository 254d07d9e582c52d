"""Seeds, device and precision, each choice with its reason, and the memory of the process."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import ModuleType
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from minbert.commands.memory import check_limit
from minbert.linear import can_pack, has_onednn, pack, packed_weights, use_onednn
from minbert.options import FP32_ONEDNN, PRECISIONS

GPUS = {"cuda": torch.cuda, "mps": torch.mps}
# How many compiled kernels oneDNN and ideep keep, as environment variables.
KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
MAX_KERNELS = 64
RECOMPILE_LIMIT = 64

NO_BF16 = "this processor has no fast bf16 matrix product"

# Options of glibc's mallopt, from malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


class MissingDevice(ValueError):
    """This machine has no device of the name that was asked for."""


class DeviceChoice(NamedTuple):
    """A device, and why it was chosen."""

    device: torch.device
    reason: str


class PrecisionChoice(NamedTuple):
    """The precision of matrix products, such as "bf16", and why it was chosen."""

    precision: str
    reason: str


class Layered(Protocol):
    """A model with a list of layers, such as BertModel."""

    @property
    def layers(self) -> Iterable[nn.Module]:
        """The layers, the lowest first."""


def seed_everything(seed: int) -> None:
    """Set the global generators of Python, NumPy and torch (all devices)."""
    random.seed(seed)
    # Nothing here draws from NumPy's global generator, but a student's code may.
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)


def settle_memory() -> None:
    """Keep freed memory for the next allocation, and few compiled kernels.

    Call it before the first matrix product.

    A step allocates the same large tensors as the step before. With glibc's defaults, each of them
    is mapped and zeroed again. This costs a third of a small model's step on CPU. Without mallopt
    (macOS, Windows) nothing happens.

    oneDNN computes torch's matrix products on CPU. It compiles a kernel for each shape,
    and keeps 1,024 of them by default. ideep, between torch and oneDNN, keeps 1,024 of its own.
    Batches have many lengths, so memory would grow for as long as new lengths come. To compile a
    kernel again that is not among the last 64 costs nothing that can be measured. What the
    environment already sets stays as it is.

    TooSmallLimit where the process may have less memory than any work takes.
    """
    check_limit(torch.get_num_threads())
    for cache in KERNEL_CACHES:
        os.environ.setdefault(cache, str(MAX_KERNELS))
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, 0)  # no separate mappings, whatever the size
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)  # do not shrink the heap


def compile_layers(encoder: nn.Module, is_wanted: bool, backend: str = "inductor") -> None:
    """Let torch.compile make kernels of the layers of a BertModel, in place.

    The function, the names of its parameters and its files stay the same.

    is_wanted: False does nothing. backend: torch.compile's.
    ValueError where the backend needs a C++ compiler, on CPU, and there is none.

    torch compiles a layer again for training, evaluation, frozen parts and batches of one row, up
    to a limit that all layers share (8 by default, 64 here). Beyond the limit, layers run
    uncompiled.
    """
    if not is_wanted:
        return
    compiler = os.environ.get("CXX", "g++")
    is_on_cpu = next(encoder.parameters()).device.type == "cpu"
    if backend == "inductor" and is_on_cpu and not shutil.which(compiler):
        raise ValueError(
            f"--compile needs a C++ compiler on CPU; '{compiler}' is not found. Install it, or "
            "drop that."
        )
    settings = torch._dynamo.config
    settings.recompile_limit = max(RECOMPILE_LIMIT, settings.recompile_limit)
    for layer in cast(Layered, encoder).layers:
        layer.compile(dynamic=True, backend=backend)  # dynamic: one kernel for all lengths


def is_used(gpu: ModuleType) -> bool:
    """Whether this process works on the GPU of the module torch.cuda or torch.mps.

    To ask CUDA for a generator's state would begin to use the GPU, and take half a gigabyte of it.
    """
    return gpu.is_initialized() if gpu is torch.cuda else gpu.is_available()


def random_state() -> dict[str, Tensor]:
    """The state of every global generator in use, as tensors that a checkpoint can hold."""
    version, python_words, gaussian = random.getstate()
    # random.gauss keeps a spare number, which is not saved here.
    assert version == 3 and gaussian is None, "the state of random has a part that is not saved"
    generator = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    numpy_words = [*generator["key"].tolist(), generator["pos"]]
    state = {
        "python": torch.tensor(python_words),
        "numpy": torch.tensor(numpy_words),
        "torch": torch.get_rng_state(),
    }
    for name, gpu in GPUS.items():
        if is_used(gpu):
            state[name] = gpu.get_rng_state()
    return state


def restore_random_state(state: dict[str, Tensor]) -> None:
    """Put back what `random_state` returned."""
    random.setstate((3, tuple(state["python"].tolist()), None))
    *words, position = state["numpy"].tolist()
    numpy_words = np.array(words, dtype=np.uint32)
    np.random.set_state(("MT19937", numpy_words, position, 0, 0.0))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    for name, gpu in GPUS.items():
        if name in state and is_used(gpu):
            gpu.set_rng_state(state[name])


@contextmanager
def repeating(state: dict[str, Tensor]) -> Iterator[None]:
    """Within it the generators draw again what they drew after `state` was taken.

    A forward pass in it has the dropout masks of the pass before. Afterwards the generators go on
    as if nothing had been drawn. state: of `random_state`.
    """
    present = random_state()
    restore_random_state(state)
    try:
        yield
    finally:
        restore_random_state(present)


def choose_device(name: str = "auto") -> DeviceChoice:
    """The device that "auto", "cpu", "cuda" or "mps" names, and the reason.

    Raises MissingDevice, a ValueError, where this machine has no such device.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        fastest = next(device for device, is_available in available.items() if is_available)
        return DeviceChoice(torch.device(fastest), "the fastest that torch finds on this machine")
    if not available[name]:
        raise MissingDevice(
            f"--device {name}: torch {torch.__version__} finds no such device on this machine. Use "
            "--device auto or cpu, and no --use_gpu, or install a torch build for it."
        )
    return DeviceChoice(torch.device(name), "as given")


def is_native(precision: str, device: torch.device) -> bool:
    """Whether the device has instructions for matrix products of the precision.

    Without them torch computes a bf16 product in software. That is up to a few hundred times slower
    than in fp32.
    """
    if precision in ("fp32", FP32_ONEDNN):
        return True
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or not can_tell():
        return False
    features = torch.cpu.get_capabilities()
    return bool(features.get("amx_bf16") or features.get("avx512_bf16"))


def can_tell() -> bool:
    """Whether this release of torch knows the instructions of the processor."""
    return hasattr(torch.cpu, "get_capabilities")


def choose_precision(name: str, device: torch.device) -> PrecisionChoice:
    """The precision of matrix products that "auto", "fp32" or "bf16" names, and the reason.

    Weights, the optimizer's state, the encoder's norms and the losses stay in float32. The softmax
    of attention sums in float32. ValueError for another name, and for "fp32-onednn" without oneDNN,
    or on a GPU.
    """
    if name not in PRECISIONS:
        raise ValueError(f"precision is {name!r}; pass one of {', '.join(PRECISIONS)}.")
    if name == FP32_ONEDNN and device.type != "cpu":
        raise ValueError(
            f"the precision {FP32_ONEDNN} is for the CPU, and the device is {device.type}. Use "
            "fp32 there, or the device cpu."
        )
    if name == FP32_ONEDNN and not has_onednn():
        raise ValueError(
            f"the precision is {FP32_ONEDNN}, and torch {torch.__version__} has no oneDNN product "
            "on this machine. Use fp32."
        )
    if name != "auto":
        return PrecisionChoice(name, "as given")
    if is_native("bf16", device):
        return PrecisionChoice(
            "bf16", "this processor has bf16 matrix instructions, faster than fp32"
        )
    if device.type == "cpu" and not can_tell():
        reason = f"torch {torch.__version__} does not say whether this processor has fast bf16"
        return PrecisionChoice("fp32", reason)
    return PrecisionChoice("fp32", NO_BF16)


def choose_products(model: nn.Module, precision: str) -> None:
    """Let oneDNN compute the products of a model's layers if the precision is "fp32-onednn".

    A run that was trained with it may be opened where torch has no oneDNN. torch computes it there,
    with the same result up to rounding.
    """
    use_onednn(model, precision == FP32_ONEDNN and has_onednn())


# The type of the products that gain from packed weights, by precision. In "fp32" MKL computes them.
PACKED_TYPES = {"bf16": torch.bfloat16, FP32_ONEDNN: torch.float32}


@contextmanager
def predicting(
    model: nn.Module, device: torch.device, precision: str, is_packed: bool = True
) -> Iterator[None]:
    """The context of all forward passes of a prediction, without gradients.

    Weights are converted to bf16 once for all batches, and not for each. is_packed: whether they
    are packed, too. It takes longer than a batch of one row, so it pays for several batches.
    """
    choose_products(model, precision)
    dtype = PACKED_TYPES.get(precision) if is_packed else None
    packing = nullcontext() if dtype is None else packed_weights(model, dtype)
    with packing, autocast(device, precision):
        yield


def pack_for_good(model: nn.Module, precision: str) -> None:
    """Pack the weights of a model that will not be trained, so that no call has to do it."""
    dtype = PACKED_TYPES.get(precision)
    if dtype is not None and can_pack(model, dtype):
        pack(model, dtype)


def autocast(device: torch.device, precision: str) -> AbstractContextManager:
    """The context of a forward pass: torch's autocast for "bf16", nothing for the others."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
