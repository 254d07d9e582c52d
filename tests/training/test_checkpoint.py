"""minbert/training/checkpoint.py: a checkpoint is whole or not there, and comes back bit for bit.

If a resumed run differs from an undisturbed one, a part of its state is missing in a checkpoint.
"""

from __future__ import annotations

import errno
import math
import os

import pytest
import torch

from minbert import AdamW
from minbert.commands.files import write_tensors
from minbert.training import checkpoint
from minbert.training.checkpoint import (
    STATE_FILE,
    load_checkpoint,
    pack_optimizer,
    save_checkpoint,
    unpack_optimizer,
)
from minbert.training.job import Progress


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_checkpoint_comes_back_and_replaces_the_one_before(tmp_path):
    assert load_checkpoint(tmp_path) is None and load_checkpoint(tmp_path / "absent") is None
    write_tensors(tmp_path / "best-3.safetensors", {"w": torch.zeros(1)})
    write_tensors(tmp_path / "best-1.safetensors", {"w": torch.zeros(1)})
    for step in (5, 9):
        # A kill in the middle of a save.
        (tmp_path / f".step-0000000{step - 1}.safetensors.writing").touch()
        tensors = {
            "w": torch.full((2, 2), step, dtype=torch.float64),
            "bits": torch.tensor([step], dtype=torch.uint8),
        }
        save_checkpoint(tmp_path, tensors, {"step": step, "keep": ["best-3.safetensors"]})
        stored, state = load_checkpoint(tmp_path)
        assert state["step"] == step and stored["w"].dtype == torch.float64
        for name, tensor in tensors.items():
            assert torch.equal(stored[name], tensor)
    assert set(os.listdir(tmp_path)) == {"best-3.safetensors", state["tensors"], STATE_FILE}


@pytest.mark.skipif(
    not os.path.exists("/proc/self/maps"), reason="the system does not list a process's files"
)
def test_what_was_loaded_does_not_hold_the_file(tmp_path):
    """A resumed run deletes the file. A tensor that is a view of it would hold its disk space."""
    save_checkpoint(tmp_path, {"moments": torch.ones(1000)}, {"step": 1})
    tensors, state = load_checkpoint(tmp_path)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert not [line for line in maps if state["tensors"] in line]
    assert tensors["moments"].sum() == 1000


@pytest.mark.parametrize("num_saves", [1, 2, 3, 4])
def test_a_crash_between_the_tensor_file_and_the_json_loses_nothing(
    tmp_path, monkeypatch, num_saves
):
    """However often a step is saved, its next tensor file is not the one that the JSON names."""
    for number in range(num_saves):
        tensors = {"w": torch.tensor([float(number)])}
        save_checkpoint(tmp_path, tensors, {"step": 7, "number": number})
    monkeypatch.setattr(checkpoint, "write_json", full_disk)
    for _ in range(2):  # and a second crash at the same place
        with pytest.raises(OSError):
            save_checkpoint(tmp_path, {"w": torch.tensor([99.0])}, {"step": 7, "number": 99})
        tensors, state = load_checkpoint(tmp_path)
        assert state["number"] == num_saves - 1 and tensors["w"].tolist() == [num_saves - 1]
    monkeypatch.undo()
    save_checkpoint(tmp_path, {"w": torch.tensor([5.0])}, {"step": 7, "number": 5})
    assert load_checkpoint(tmp_path)[0]["w"].tolist() == [5]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, {"w": torch.ones(1)}, {"step": 1})
    monkeypatch.setattr("safetensors.torch.save_file", full_disk)
    with pytest.raises(ValueError, match="step-00000002.safetensors: the disk is full"):
        save_checkpoint(tmp_path, {"w": torch.zeros(1)}, {"step": 2})
    tensors, state = load_checkpoint(tmp_path)
    assert state["step"] == 1 and tensors["w"].tolist() == [1]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "{}", '{"tensors": "absent.safetensors"}', '{"tensors": 3}']
)
def test_a_damaged_state_file_is_named(tmp_path, text):
    save_checkpoint(tmp_path, {"w": torch.ones(1)}, {"step": 1})
    (tmp_path / STATE_FILE).write_text(text)
    message = "the checkpoint cannot be read .*Delete that folder to start this stage anew"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("num_bytes", [0, 7, 60])
def test_a_truncated_tensor_file_is_named(tmp_path, num_bytes):
    save_checkpoint(tmp_path, {"w": torch.ones(100)}, {"step": 1})
    path = tmp_path / "step-00000001.safetensors"
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(ValueError, match="the checkpoint cannot be read"):
        load_checkpoint(tmp_path)


def test_a_state_that_was_edited_is_refused(tmp_path):
    """A number that looks right would change the run without a word."""
    save_checkpoint(tmp_path, {"w": torch.ones(1)}, {"step": 1, "best_score": 0.5})
    text = (tmp_path / STATE_FILE).read_text()
    (tmp_path / STATE_FILE).write_text(text.replace('"best_score": 0.5', '"best_score": 0.9'))
    with pytest.raises(ValueError, match=r"its checksum is wrong.*Delete that folder"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"step": "3"},
        {"epoch": -5},
        {"history": [{"step": None}]},
        {"history": 5},
        {"losses": [math.nan]},
        {"best_score": "high"},
        {"is_finished": 1},
    ],
    ids=str,
)
def test_a_progress_that_no_training_wrote(change):
    Progress().check()
    with pytest.raises((ValueError, TypeError)):
        Progress(**change).check()


# --- optimizers -----------------------------------------------------------------------------------


def make_optimizer(seed: int):
    """Three parameters and their optimizer."""
    torch.manual_seed(seed)
    shapes = ((4, 3), (3,), (2,))
    weights, bias, untouched = (torch.nn.Parameter(torch.randn(shape)) for shape in shapes)
    groups = [
        {"params": [weights], "weight_decay": 0.01},
        {"params": [bias, untouched], "weight_decay": 0.0},
    ]
    return [weights, bias, untouched], AdamW(groups, lr=1e-3 / 3)


def steps(parameters, optimizer, num_steps: int, seed: int) -> None:
    """Updates by random gradients. The third parameter never gets one, so it has no state."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        for parameter in parameters[:2]:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_an_optimizer_comes_back_to_the_bit(tmp_path):
    parameters, optimizer = make_optimizer(0)
    steps(parameters, optimizer, 5, seed=1)
    tensors, content = pack_optimizer(optimizer)
    save_checkpoint(tmp_path, tensors, {"step": 5, "optimizer": content})
    others, resumed = make_optimizer(1)
    for other, parameter in zip(others, parameters, strict=True):
        other.data.copy_(parameter.data)
    stored, state = load_checkpoint(tmp_path)
    unpack_optimizer(resumed, stored, state["optimizer"])
    assert [group["lr"] for group in resumed.param_groups] == [1e-3 / 3] * 2
    assert [group["weight_decay"] for group in resumed.param_groups] == [0.01, 0.0]
    steps(parameters, optimizer, 5, seed=2)
    steps(others, resumed, 5, seed=2)
    assert all(torch.equal(one, other) for one, other in zip(parameters, others, strict=True))
    for one, other in zip(parameters[:2], others[:2], strict=True):
        state = optimizer.state[one]
        state_again = resumed.state[other]
        assert state["step"] == state_again["step"] == 10
        for key in ("first_moment", "second_moment"):
            assert torch.equal(state[key], state_again[key])


def test_an_optimizer_without_its_moments_goes_another_way():
    """The negative control: a resume that forgot the state would be noticed."""
    parameters, optimizer = make_optimizer(0)
    steps(parameters, optimizer, 5, seed=1)
    others, fresh = make_optimizer(1)
    for other, parameter in zip(others, parameters, strict=True):
        other.data.copy_(parameter.data)
    steps(parameters, optimizer, 1, seed=2)
    steps(others, fresh, 1, seed=2)
    assert not torch.equal(parameters[0], others[0])
