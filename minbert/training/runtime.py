"""Seeds, device and precision, each choice with its reason, and the process's memory. Next: loop.py."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from contextlib import AbstractContextManager, nullcontext, suppress

import numpy as np
import torch
from torch import Tensor, nn

GPUS = {"cuda": torch.cuda, "mps": torch.mps}
KERNEL_CACHES = (
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
    "LRU_CACHE_CAPACITY",
)  # oneDNN's, ideep's; entries
NO_BF16 = "this processor has no fast bf16 matrix product"


def seed_everything(seed: int) -> None:
    """Set Python's, NumPy's and torch's global generators (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - unused here, but a student's code may draw from it
    torch.manual_seed(seed)


def settle_memory() -> None:
    """Keep freed memory for the next allocation, and few compiled kernels; to be called before the first product.

    A step allocates the same large tensors as the step before; with glibc's defaults each is mapped and zeroed anew,
    which costs a third of a small model's step on CPU. Without mallopt (macOS, Windows) nothing happens.

    oneDNN, torch's matrix products on CPU, compiles a kernel of .3 MB for each shape and keeps 1,024 of them by
    default; ideep, between torch and oneDNN, keeps 1,024 of its own. Batches have many lengths, and memory would grow
    for as long as new ones come. To compile again what is not among the last 64 costs nothing that can be measured.
    The environment's own settings are left alone.
    """
    for cache in KERNEL_CACHES:
        os.environ.setdefault(cache, "64")
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)  # M_MMAP_MAX: no separate mappings, whatever the size
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: do not shrink the heap


def compile_layers(encoder: nn.Module, is_wanted: bool, backend: str = "inductor") -> None:
    """Let torch.compile make kernels of the layers of a BertModel, in place: the same function, names and files.

    backend: torch.compile's. ValueError where it would need a C++ compiler, on CPU, and there is none. torch compiles a
    layer anew for training, evaluation, frozen parts and batches of one row, up to a limit that all layers share (8 by
    default, 64 here); beyond it, what is new runs uncompiled.
    """
    if not is_wanted:
        return
    compiler = os.environ.get("CXX", "g++")
    if (
        backend == "inductor"
        and next(encoder.parameters()).device.type == "cpu"
        and not shutil.which(compiler)
    ):
        raise ValueError(
            f"--compile needs a C++ compiler on CPU; '{compiler}' is not found. Install it, or drop that."
        )
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    for layer in encoder.layers:
        layer.compile(dynamic=True, backend=backend)  # one kernel for all lengths


def is_used(gpu) -> bool:
    """Whether this process works on the GPU; to ask CUDA for a generator's state would begin to, and take memory."""
    return gpu.is_initialized() if gpu is torch.cuda else gpu.is_available()


def random_state() -> dict[str, Tensor]:
    """The state of every global generator in use, as tensors that a checkpoint can hold."""
    version, python_words, gaussian = random.getstate()
    assert version == 3 and gaussian is None, (
        "random.gauss keeps a spare number that is not saved here"
    )
    _, numpy_words, position, _, _ = np.random.get_state()  # noqa: NPY002
    state = {
        "python": torch.tensor(python_words),
        "numpy": torch.tensor([*numpy_words.tolist(), position]),
        "torch": torch.get_rng_state(),
    }
    return state | {name: gpu.get_rng_state() for name, gpu in GPUS.items() if is_used(gpu)}


def restore_random_state(state: dict[str, Tensor]) -> None:
    """Put back what `random_state` returned."""
    random.setstate((3, tuple(state["python"].tolist()), None))
    *words, position = state["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(words, dtype=np.uint32), position))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    for name, gpu in GPUS.items():
        if name in state and is_used(gpu):
            gpu.set_rng_state(state[name])


def choose_device(name: str = "auto") -> tuple[torch.device, str]:
    """ "auto", "cpu", "cuda" or "mps" -> the device and the reason; ValueError where it is not there."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        found = next(device for device, is_there in available.items() if is_there)
        return torch.device(found), "the fastest that torch finds on this machine"
    if not available[name]:
        raise ValueError(
            f"--device {name}: torch {torch.__version__} finds no such device on this machine. Use "
            "--device auto or cpu, or install a torch build for it."
        )
    return torch.device(name), "as given"


def is_native(precision: str, device: torch.device) -> bool:
    """Whether the device has instructions for matrix products of the precision.

    Without them torch computes a bf16 product in software, up to a few hundred times slower than in fp32.
    """
    if precision == "fp32":
        return True
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    features = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(features.get("amx_bf16") or features.get("avx512_bf16"))


def choose_precision(name: str, device: torch.device) -> tuple[str, str]:
    """ "auto", "fp32" or "bf16" -> the precision of matrix products and the reason.

    Weights, optimizer state, the encoder's norms and losses stay in float32; attention's softmax sums in float32.
    """
    if name != "auto":
        return name, "as given"
    if is_native("bf16", device):
        return "bf16", "this processor has bf16 matrix instructions, faster than fp32"
    return "fp32", NO_BF16


def autocast(device: torch.device, precision: str) -> AbstractContextManager:
    """The context in which a forward pass runs: torch's autocast for "bf16", nothing for "fp32"."""
    return (
        torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
    )
