"""minbert/commands/files.py: a file is written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from minbert.commands.files import read_json, write_atomically, write_json, write_tensors


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def half_written(path):
    path.write_text("half of")
    full_disk()


# The two forms in which the libraries say it.
FULL_DISKS = {
    "OSError": OSError(errno.ENOSPC, "No space left on device"),
    "SafetensorError": SafetensorError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    ),
}


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "new" / "folder" / "notes.txt"
    for text in ("first", "second"):
        write_atomically(path, lambda beside, text=text: beside.write_text(text))
        assert path.read_text() == text
    assert os.listdir(path.parent) == ["notes.txt"]


def test_a_failing_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("old")
    message = "notes.txt: the disk is full. Free some space, then run again or resume"
    with pytest.raises(ValueError, match=message):
        write_atomically(path, half_written)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("error", FULL_DISKS.values(), ids=FULL_DISKS)
def test_a_full_disk_while_saving_tensors(tmp_path, monkeypatch, error):
    write_tensors(tmp_path / "model.safetensors", {"w": torch.ones(2)})

    def save_half(tensors, path, metadata):
        path.write_bytes(b"\x00" * 5)
        raise error

    monkeypatch.setattr("safetensors.torch.save_file", save_half)
    with pytest.raises(ValueError, match="model.safetensors: the disk is full. Free some space"):
        write_tensors(tmp_path / "model.safetensors", {"w": torch.zeros(2)})
    assert os.listdir(tmp_path) == ["model.safetensors"]
    assert load_file(tmp_path / "model.safetensors")["w"].tolist() == [1, 1]


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="/dev/full, a device that is always full, is Linux's"
)
def test_a_disk_that_really_is_full(tmp_path):
    def write(beside):
        with open("/dev/full", "wb") as device:
            device.write(b"x")

    with pytest.raises(ValueError, match="the disk is full"):
        write_atomically(tmp_path / "notes.txt", write)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"cannot be written \(.*\). Check the folder"):
        write_json(tmp_path / "file" / "state.json", {})


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_file_modes_follow_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        # safetensors itself would give 0o600.
        write_tensors(tmp_path / "a.safetensors", {"w": torch.ones(1)})
        write_json(tmp_path / "a.json", {})
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_a_file_system_without_modes(tmp_path, monkeypatch):
    def refuse(self, mode):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("minbert.commands.files.Path.chmod", refuse)
    write_json(tmp_path / "a.json", {"b": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_json_is_exact_and_holds_finite_numbers_only(tmp_path):
    content = {"loss": 0.1 + 0.2, "tiny": 5e-324, "name": "ü"}
    write_json(tmp_path / "a.json", content)
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == content
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})


def test_deep_json_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "a.json")
