"""minbert/training/runtime.py: seeds and random states come back; each choice has its reason."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from minbert import BertModel
from minbert.training import runtime
from minbert.training.code_version import ROOT

CPU = torch.device("cpu")


def draw() -> tuple:
    """Numbers of all three generators."""
    return random.random(), float(np.random.random()), torch.rand(3).tolist()  # noqa: NPY002


@pytest.mark.parametrize("seed", [0, 11711, 2**32 + 1])
def test_a_seed_fixes_all_three_generators(seed):
    runtime.seed_everything(seed)
    first = draw()
    assert draw() != first
    runtime.seed_everything(seed)
    assert draw() == first
    runtime.seed_everything(seed + 1)
    assert all(one != other for one, other in zip(draw(), first, strict=True))


def test_the_random_state_round_trip():
    runtime.seed_everything(3)
    draw()
    state = runtime.random_state()
    assert all(torch.is_tensor(tensor) for tensor in state.values())
    # Past NumPy's and Python's 624 words, so that both position and words count.
    expected = [draw() for _ in range(400)]
    runtime.seed_everything(99)
    runtime.restore_random_state(state)
    assert [draw() for _ in range(400)] == expected


def test_reading_the_random_state_draws_nothing():
    runtime.seed_everything(3)
    expected = draw()
    runtime.seed_everything(3)
    runtime.random_state()
    assert draw() == expected


def test_a_run_on_cpu_does_not_wake_a_gpu(monkeypatch):
    """To ask CUDA for a state would take half a gigabyte of the first GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for is_used in (False, True):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda is_used=is_used: is_used)
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.zeros(1))
        assert ("cuda" in runtime.random_state()) == is_used


def test_devices_come_with_their_reason(monkeypatch):
    assert runtime.choose_device("cpu") == (CPU, "as given")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert runtime.choose_device("auto") == (CPU, "the fastest that torch finds on this machine")
    for name in ("cuda", "mps"):
        message = f"--device {name}: torch .* finds no such device.*--device auto or cpu"
        with pytest.raises(runtime.MissingDevice, match=message):
            runtime.choose_device(name)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert runtime.choose_device("auto")[0].type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert runtime.choose_device("auto")[0].type == "cuda"


@pytest.mark.parametrize(
    ("capabilities", "precision"),
    [
        ({"amx_bf16": True, "avx512_bf16": True}, "bf16"),
        ({"amx_bf16": False, "avx512_bf16": True}, "bf16"),
        ({"amx_bf16": False, "avx512_bf16": False}, "fp32"),
        ({}, "fp32"),
    ],
)
def test_precision_comes_with_its_reason(monkeypatch, capabilities, precision):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    chosen, reason = runtime.choose_precision("auto", CPU)
    assert chosen == precision and "this processor" in reason
    assert runtime.is_native("bf16", CPU) == (precision == "bf16")
    assert runtime.is_native("fp32", CPU)
    assert runtime.choose_precision("auto", torch.device("mps"))[0] == "fp32"
    for given in ("bf16", "fp32"):
        assert runtime.choose_precision(given, CPU) == (given, "as given")


def test_an_older_torch_that_cannot_tell(monkeypatch):
    """It is in the range of pyproject.toml. bf16 could then be very slow."""
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    chosen, reason = runtime.choose_precision("auto", CPU)
    assert chosen == "fp32" and f"torch {torch.__version__} does not say" in reason
    assert not runtime.is_native("bf16", CPU)
    assert runtime.choose_precision("bf16", CPU) == ("bf16", "as given")


def test_autocast_lowers_products_only():
    a = torch.rand(4, 4)
    with runtime.autocast(CPU, "bf16"):
        assert (a @ a).dtype == torch.bfloat16
        assert (a + a).dtype == torch.float32
        assert torch.nn.functional.mse_loss(a @ a, a @ a).dtype == torch.float32
    with runtime.autocast(CPU, "fp32"):
        assert (a @ a).dtype == torch.float32


@pytest.mark.parametrize("cache", runtime.KERNEL_CACHES)
def test_few_kernels_are_kept_unless_the_environment_says_otherwise(monkeypatch, cache):
    monkeypatch.setenv(cache, "")
    monkeypatch.delenv(cache)
    runtime.settle_memory()
    assert os.environ[cache] == "64"
    monkeypatch.setenv(cache, "7")
    runtime.settle_memory()
    assert os.environ[cache] == "7"


MANY_SHAPES = """
import ctypes, torch
from minbert.training import runtime

class Info(ctypes.Structure):  # struct mallinfo2; number 7 is the memory in use
    _fields_ = [(str(number), ctypes.c_size_t) for number in range(10)]

runtime.settle_memory()
info = ctypes.CDLL(None).mallinfo2
info.restype = Info
layer = torch.nn.Linear(64, 64)
used = []
for tokens in range(8, 148):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        layer(torch.ones(4, tokens, 64))
    used.append(getattr(info(), "7"))
print(used[-1] - used[-70])
"""


def test_memory_does_not_grow_with_the_shapes_that_a_run_meets():
    """Of 140 shapes the last 70 may take no more memory. A kept kernel takes .3 MB."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("needs glibc 2.33 or newer, which tells how much memory is in use")
    environment = dict(os.environ)
    for name in runtime.KERNEL_CACHES:
        environment.pop(name, None)
    command = [sys.executable, "-c", MANY_SHAPES]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=ROOT, check=True
    )
    megabytes = int(result.stdout) / 1e6
    assert megabytes < 4, f"{megabytes:.1f} MB more: do the caches have other names now?"


def test_keeping_freed_memory_never_fails(monkeypatch):
    runtime.settle_memory()

    asked = []

    def no_library(name):
        asked.append(name)
        raise OSError("no C library here")

    monkeypatch.setattr(runtime.ctypes, "CDLL", no_library)
    runtime.settle_memory()
    assert len(asked) == 1


def test_compiled_layers_are_the_same_function(tiny_model):
    """With a backend that needs no compiler. `inductor`, which makes kernels, was within 4e-6."""
    plain, compiled = (BertModel.from_pretrained(tiny_model) for _ in range(2))
    runtime.compile_layers(compiled, True, backend="aot_eager")
    assert list(compiled.state_dict()) == list(plain.state_dict())
    for length in (5, 9):
        ids = torch.arange(2 * length).view(2, length) + 5
        for model in (plain, compiled):
            model.zero_grad()
            model(ids, torch.ones_like(ids)).last_hidden_state.square().mean().backward()
        both = zip(compiled.layers.parameters(), plain.layers.parameters(), strict=True)
        for ours, theirs in both:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-7)


def test_layers_are_compiled_only_when_asked_for(tiny_model, monkeypatch):
    model = BertModel.from_pretrained(tiny_model)
    asked = []
    compile_layer = lambda layer, **settings: asked.append(settings)  # noqa: E731
    monkeypatch.setattr(type(model.layers[0]), "compile", compile_layer)
    runtime.compile_layers(model, False)
    assert not asked
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 8)
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler on CPU; 'g\\+\\+' is not found"):
        monkeypatch.delenv("CXX", raising=False)
        runtime.compile_layers(model, True)
    monkeypatch.setattr(runtime.shutil, "which", lambda name: "/usr/bin/" + name)
    runtime.compile_layers(model, True)
    assert asked == [{"dynamic": True, "backend": "inductor"}] * len(model.layers)
    assert torch._dynamo.config.recompile_limit == 64
