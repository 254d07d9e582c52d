"""minbert/runtime.py: seeds and random states come back, and each choice of device and precision has its reason."""

import os
import random

import numpy as np
import pytest
import torch

from minbert import runtime

CPU = torch.device("cpu")


def draw() -> tuple:
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
    expected = [draw() for _ in range(400)]  # past NumPy's and Python's 624 words, so that position and words count
    runtime.seed_everything(99)
    runtime.restore_random_state(state)
    assert [draw() for _ in range(400)] == expected


def test_reading_the_random_state_draws_nothing():
    runtime.seed_everything(3)
    expected = draw()
    runtime.seed_everything(3)
    runtime.random_state()
    assert draw() == expected


def test_devices_come_with_their_reason(monkeypatch):
    assert runtime.choose_device("cpu") == (CPU, "as given")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert runtime.choose_device("auto") == (CPU, "the fastest that torch finds on this machine")
    for name in ("cuda", "mps"):
        with pytest.raises(ValueError, match=f"--device {name}: torch .* finds no such device.*--device auto or cpu"):
            runtime.choose_device(name)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert runtime.choose_device("auto")[0].type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert runtime.choose_device("auto")[0].type == "cuda"


@pytest.mark.parametrize(("capabilities", "precision"), [
    ({"amx_bf16": True, "avx512_bf16": True}, "bf16"), ({"amx_bf16": False, "avx512_bf16": True}, "bf16"),
    ({"amx_bf16": False, "avx512_bf16": False}, "fp32"), ({}, "fp32"),
])
def test_precision_comes_with_its_reason(monkeypatch, capabilities, precision):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    found, reason = runtime.choose_precision("auto", CPU)
    assert found == precision and "this processor" in reason
    assert runtime.choose_precision("auto", torch.device("mps"))[0] == "fp32"
    for given in ("bf16", "fp32"):
        assert runtime.choose_precision(given, CPU) == (given, "as given")


def test_autocast_lowers_products_only():
    a = torch.rand(4, 4)
    with runtime.autocast(CPU, "bf16"):
        assert (a @ a).dtype == torch.bfloat16
        assert (a + a).dtype == torch.float32 and torch.nn.functional.mse_loss(a @ a, a @ a).dtype == torch.float32
    with runtime.autocast(CPU, "fp32"):
        assert (a @ a).dtype == torch.float32


def test_few_kernels_are_kept_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    runtime.keep_few_kernels()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    runtime.keep_few_kernels()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"


def test_keeping_freed_memory_never_fails(monkeypatch):
    runtime.keep_freed_memory()

    def no_library(name):
        raise OSError("no C library here")

    monkeypatch.setattr(runtime.ctypes, "CDLL", no_library)
    runtime.keep_freed_memory()
