"""minbert/training/batch_outputs.py: two batches at the same time, with the numbers of one."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from minbert import BertConfig, BertModel, fast
from minbert.training import int8
from minbert.training.batch_outputs import batch_outputs, in_threads, is_watched, suits_threads

CPU = torch.device("cpu")
CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)


@pytest.fixture(autouse=True)
def _two_threads():
    """Two threads of torch, as on a machine with two cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def encoder() -> BertModel:
    """A small encoder with random weights."""
    torch.manual_seed(0)
    return BertModel(CONFIG)


def batches_of_ids() -> list[torch.Tensor]:
    """Token ids of twelve batches with other lengths."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(1, 50, (4, 5 + n % 7), generator=generator) for n in range(12)]


def first_tokens(encoder: BertModel, seen: set[str] | None = None):
    """The first token's state of a batch. seen: gets the names of the threads."""

    def compute(ids: torch.Tensor) -> torch.Tensor:
        if seen is not None:
            seen.add(threading.current_thread().name)
        return encoder(ids, torch.ones_like(ids)).last_hidden_state[:, 0]

    return compute


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "fp32-onednn"])
def test_two_at_a_time_are_the_numbers_of_one(encoder, precision):
    model = int8.quantised(encoder, CPU) if precision == "int8" else encoder
    seen: set[str] = set()
    outputs = batch_outputs(
        model, first_tokens(model, seen), batches_of_ids(), torch.numel, precision
    )
    assert all(name.startswith("minbert") for name in seen), seen
    torch.set_num_threads(1)
    in_turn: set[str] = set()
    expected = batch_outputs(
        model, first_tokens(model, in_turn), batches_of_ids(), torch.numel, precision
    )
    assert in_turn == {threading.current_thread().name}
    for output, right in zip(outputs, expected, strict=True):
        assert torch.equal(output, right)
        assert not output.requires_grad and not right.requires_grad
    # Another batch of this length has other numbers.
    assert not torch.allclose(outputs[0], outputs[7], atol=0.05)


def test_the_mode_and_the_threads_are_put_back(encoder):
    encoder.train()
    before = torch.__config__.parallel_info()  # the threads of each library
    batch_outputs(encoder, first_tokens(encoder), batches_of_ids(), torch.numel, "fp32")
    assert torch.__config__.parallel_info() == before
    with ThreadPoolExecutor(1) as new_thread:
        assert new_thread.submit(torch.get_num_threads).result() == 2
    assert encoder.training and torch.is_grad_enabled()


def test_an_error_of_a_batch_is_raised_and_all_is_put_back(encoder):
    encoder.train()
    with pytest.raises(IndexError):
        batch_outputs(
            encoder, first_tokens(encoder), [torch.full((1, 3), 50)] * 5, torch.numel, "fp32"
        )
    assert encoder.training and torch.get_num_threads() == 2


def no_tokens(_: object) -> int:
    """A batch of no tokens is small."""
    return 0


def test_outputs_stand_in_the_order_of_the_batches():
    """The first batch ends last, and the second worker has done others by then."""
    is_third_done = threading.Event()

    def compute(number: int) -> int:
        if number == 0:
            assert is_third_done.wait(60)
        if number == 2:
            is_third_done.set()
        return number

    assert list(in_threads(compute, range(8), no_tokens)) == [*range(8)]


def test_few_batches_are_asked_for_ahead_of_time():
    """So a bar of progress is true, and a stop does not wait for all batches."""
    num_asked = 0

    def batches():
        nonlocal num_asked
        for number in range(20):
            num_asked += 1
            yield number

    outputs = in_threads(lambda number: number, batches(), no_tokens)
    assert next(outputs) == 0
    assert num_asked <= 4
    outputs.close()
    assert num_asked <= 4 and torch.get_num_threads() == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_workers_have_the_settings_of_the_caller(dtype):
    def settings(_: int) -> tuple:
        enabled = torch.is_autocast_enabled("cpu")
        in_bf16 = enabled and torch.get_autocast_dtype("cpu") == torch.bfloat16
        return in_bf16, torch.is_grad_enabled(), torch.get_num_threads()

    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        of_workers = {*in_threads(settings, range(6), no_tokens)}
    assert of_workers == {(dtype is not None, False, 1)}


class OfUser(nn.Linear):
    """A module of another package, which may keep something of a batch."""


def hooked(encoder: BertModel) -> BertModel:
    """The encoder with a hook."""
    encoder.layers[0].register_forward_hook(lambda *_: None)
    return encoder


def compiled(encoder: BertModel) -> BertModel:
    """The encoder with a compiled layer."""
    encoder.layers[0].compile(backend="eager")
    return encoder


def test_what_could_mix_two_batches_is_computed_one_after_the_other(encoder):
    assert suits_threads(encoder)
    assert not suits_threads(nn.ModuleList([encoder, OfUser(2, 2)]))
    assert not suits_threads(compiled(BertModel(CONFIG)))
    assert not suits_threads(hooked(BertModel(CONFIG)))
    assert not suits_threads(BertModel(CONFIG).to("meta"))
    spied = BertModel(CONFIG)
    spied.layers[0].forward = print
    assert not suits_threads(spied)
    assert not suits_threads(torch.compile(nn.Linear(2, 2), backend="eager"))
    torch.set_num_threads(3)
    assert not suits_threads(encoder)


def test_other_threads_compute_one_batch_after_the_other(encoder):
    """A server answers in threads of its own, and a thread may outlive the main one."""
    with ThreadPoolExecutor(1) as server:
        assert server.submit(suits_threads, encoder).result() is False


def test_a_large_batch_runs_alone(encoder, monkeypatch):
    """In its place among the small ones."""
    monkeypatch.setattr("minbert.training.batch_outputs.MOST_TOKENS", 30)
    names = []

    def compute(ids: torch.Tensor) -> int:
        names.append((ids.numel() > 30, threading.current_thread().name))
        return ids.numel()

    batches = batches_of_ids()
    outputs = batch_outputs(encoder, compute, batches, torch.numel, "fp32")
    assert outputs == [ids.numel() for ids in batches]
    main = threading.current_thread().name
    assert {(is_large, name == main) for is_large, name in names} == {(True, True), (False, False)}


def test_no_batch_begins_after_an_error(encoder):
    begun = []

    def compute(ids: torch.Tensor) -> None:
        begun.append(ids)
        time.sleep(0.1)
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        batch_outputs(encoder, compute, batches_of_ids(), torch.numel, "fp32")
    assert len(begun) <= 3


def test_what_looks_at_a_thread_sees_all_batches(encoder):
    compute, batches = first_tokens(encoder), batches_of_ids()
    with FlopCounterMode(display=False) as counter:
        batch_outputs(encoder, compute, batches, torch.numel, "fp32")
    with fast.switched(is_fast=False), FlopCounterMode(display=False) as readable:
        batch_outputs(encoder, compute, batches, torch.numel, "fp32")
    assert counter.get_total_flops() == readable.get_total_flops() > 0

    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert is_watched()
    handle.remove()
    assert not is_watched()
    with torch.profiler.profile() as profile:
        batch_outputs(encoder, compute, batches, torch.numel, "fp32")
    assert any(event.name == "aten::addmm" for event in profile.events())


@pytest.mark.parametrize("name", ["gettrace", "getprofile"])
def test_a_debugger_sees_all_batches(encoder, monkeypatch, name):
    monkeypatch.setattr(sys, name, lambda: print)
    seen: set[str] = set()
    batch_outputs(encoder, first_tokens(encoder, seen), batches_of_ids(), torch.numel, "fp32")
    assert seen == {threading.current_thread().name}


@pytest.mark.parametrize("num_batches", [0, 1])
def test_a_single_batch_has_all_threads(encoder, num_batches):
    seen: set[str] = set()
    batches = iter(batches_of_ids()[:num_batches])
    outputs = batch_outputs(encoder, first_tokens(encoder, seen), batches, torch.numel, "fp32")
    assert len(outputs) == num_batches
    assert seen <= {threading.current_thread().name}


def test_the_readable_formulas_run_one_batch_after_the_other(encoder):
    seen: set[str] = set()
    with fast.switched(is_fast=False):
        batch_outputs(encoder, first_tokens(encoder, seen), batches_of_ids(), torch.numel, "fp32")
    assert seen == {threading.current_thread().name}
