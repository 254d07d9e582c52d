"""command_line/folders.py: the folder of a run, --resume, and which paths can be written."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from command_line.folders import begun_before_restart, choose_folder
from command_line.options import Options
from command_line.parser import parse
from minbert.commands.paths import check_writable
from tests.toy_options import options_of, refusal

# --- --resume -------------------------------------------------------------------------------------


def write_options(folder: Path, content: object) -> Path:
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "options.json").write_text(text, encoding="utf-8")
    return folder


def test_resume_takes_the_run_s_own_options(tmp_path):
    stored = options_of("--epochs", "7", "--lr", "0.001", "--data-dir", "elsewhere")
    folder = write_options(tmp_path / "run", {"options": stored.flat(), "files": {}})
    assert parse(["--resume", str(folder)]) == (stored, folder)


def test_a_command_that_torchrun_restarts_goes_on_with_its_run(tmp_path, monkeypatch):
    """Without this, the second attempt ends in "exists"."""
    flags = ["--output-dir", str(tmp_path), "--name", "run", "--epochs", "7"]
    options = options_of(*flags)
    folder = tmp_path / "run"
    write_options(folder, {"options": options.with_values(lr=1e-3).flat(), "files": {}})
    assert begun_before_restart(options) is None, "the first attempt"
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert begun_before_restart(options) == folder
    assert begun_before_restart(options.with_values(epochs=8)) is None, "another run"
    assert begun_before_restart(options.with_values(name="other")) is None
    assert begun_before_restart(options.with_values(name="auto")) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no run there (options.json is missing). Give a folder such as runs/NAME."),
        ('{"options": ', "not the options of this version ("),
        ([], "not the options of this version ("),
        ({"files": {}}, "not the options of this version ('options'). Start a new run instead."),
        ({"options": {}, "files": []}, "not the options of this version ('files' is no table)"),
        ({"options": {"epoch": 3}}, "unknown option epoch"),
        ({"options": {"epochs": 0}}, "--epochs is 0; it must be"),
    ],
)
def test_resume_of_what_is_no_run(capsys, tmp_path, content, words):
    if content is not None:
        write_options(tmp_path, content)
    message = refusal(capsys, "--resume", str(tmp_path))
    assert words in message and str(tmp_path) in message


def test_resume_with_another_flag(capsys, tmp_path):
    folder = write_options(tmp_path, {"options": {}, "files": {}})
    message = refusal(capsys, "--resume", str(folder), "--epochs", "9")
    words = "--resume continues a run with its own options; drop --epochs, or start a new run"
    assert words in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling": "foo"}, "--sampling is 'foo'; it is one of mt-dnn, random-task"),
        ({"device": "tpu"}, "--device is 'tpu'; it is one of"),
        ({"pretrain": 5}, "--pretrain is 5; it must be str."),
        ({"train_rows": 5}, "--train_rows is 5; it must be str."),
        ({"epochs": "4"}, "--epochs is '4'; it must be int."),
        ({"epochs": True}, "--epochs is True; it must be int."),
        (None, "not the options of this version ('files')"),
    ],
)
def test_options_edited_by_hand_are_read_as_strictly(tmp_path, capsys, change, words):
    stored = {"options": Options().flat() | (change or {}), "files": {}}
    if change is None:
        del stored["files"]
    write_options(tmp_path, stored)
    assert words in refusal(capsys, "--resume", str(tmp_path))


# --- the folder of a new run ----------------------------------------------------------------------


def test_folders_are_numbered_and_named_ones_must_be_new(tmp_path):
    line = f"--output-dir {tmp_path} --model some/model --data-dir a/course --seed 3"
    options = options_of(*line.split())
    for suffix in ("", "-2", "-3"):
        folder = choose_folder(options)
        assert folder == tmp_path / f"finetune-none-model-course-seed3{suffix}"
        assert not folder.exists(), "choosing must create nothing"
        folder.mkdir()
        assert choose_folder(options) == folder, "an empty folder can be taken"
        (folder / "options.json").touch()

    named = options.with_values(name="mine")
    assert choose_folder(named) == tmp_path / "mine"
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="mine exists. It holds no run .* Pass another --name."):
        choose_folder(named)
    (tmp_path / "mine").unlink()
    (tmp_path / "mine").mkdir()
    stored = {"options": named.flat(), "files": {}}
    (tmp_path / "mine" / "options.json").write_text(json.dumps(stored))
    words = f"{tmp_path / 'mine'} exists. Pass --resume {tmp_path / 'mine'} to continue it"
    with pytest.raises(ValueError, match=re.escape(words)):
        choose_folder(named)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a/"])
def test_a_name_that_is_no_folder_s(name):
    with pytest.raises(ValueError, match="it must be the name of one folder. --output_dir says"):
        choose_folder(Options.of(name=name))


def test_stages_and_a_recipe_stand_in_the_name():
    options = options_of("--pretrain", "mlm,simcse", "--output_dir", "nowhere")
    assert (
        choose_folder(options).name == "finetune-mlm-simcse-minbert-mini-distilled-sample-seed11711"
    )
    options = options_of("--recipe", "rob-5", "--output_dir", "nowhere")
    assert choose_folder(options).name == "rob-5-minbert-mini-distilled-sample-seed11711"


# --- places that can be written -------------------------------------------------------------------


def test_what_can_be_written_is_known_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "old.csv").write_text("")
    check_writable(tmp_path / "new" / "run", [tmp_path / "other" / "a.csv", tmp_path / "old.csv"])
    assert not (tmp_path / "new").exists() and not (tmp_path / "other").exists()

    words = r"cannot be written, because .*file is a file\. Choose another folder"
    with pytest.raises(ValueError, match=words):
        check_writable(tmp_path / "file" / "run")
    with pytest.raises(ValueError, match=words):
        check_writable(tmp_path / "run", [tmp_path / "file" / "a.csv"])
    words = r"a folder stands where a file is to be written\. Choose another path"
    with pytest.raises(ValueError, match=words):
        check_writable(tmp_path / "run", [tmp_path])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_without_permission(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(ValueError, match=r"closed is not writable\. Choose another folder"):
        check_writable(tmp_path / "closed" / "run")
