"""command_line/parser.py: --resume, and the folder that a run goes to."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from command_line.options import Options
from command_line.parser import choose_folder, parse
from minbert.commands.paths import check_writable
from tests.command_line.test_options import options_of, refusal

# --- --resume ---------------------------------------------------------------------------------------------------------


def write_options(folder: Path, content) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_text(
        content if isinstance(content, str) else json.dumps(content)
    )
    return folder


def test_resume_takes_the_run_s_own_options(tmp_path):
    stored = options_of("--epochs", "7", "--lr", "0.001", "--data-dir", "elsewhere")
    folder = write_options(tmp_path / "run", {"options": vars(stored), "files": {}})
    assert parse(["--resume", str(folder)]) == (stored, folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no run there (options.json is missing). Give a folder such as runs/NAME."),
        ('{"options": ', "not the options of this version ("),
        ({"files": {}}, "not the options of this version ('options'). Start a new run instead."),
        ({"options": {"epoch": 3}}, "unexpected keyword argument 'epoch'"),
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
    assert (
        "--resume continues a run with its own options; drop --epochs, or start a new run"
        in message
    )


# --- folders ---------------------------------------------------------------------------------------------------------


def test_folders_are_numbered_and_named_ones_must_be_new(tmp_path):
    flags = [
        "--output-dir",
        str(tmp_path),
        "--model",
        "some/model",
        "--data-dir",
        "a/course",
        "--seed",
        "3",
    ]
    options = options_of(*flags)
    for suffix in ("", "-2", "-3"):
        folder = choose_folder(options)
        assert folder == tmp_path / f"finetune-none-model-course-seed3{suffix}"
        assert not folder.exists()  # choosing creates nothing
        folder.mkdir()
        assert choose_folder(options) == folder  # an empty one can be taken
        (folder / "options.json").touch()
    named = replace(options, name="mine")
    assert choose_folder(named) == tmp_path / "mine"
    (tmp_path / "mine").touch()
    with pytest.raises(
        ValueError,
        match=re.escape(f"{tmp_path / 'mine'} exists. Pass --resume {tmp_path / 'mine'}"),
    ):
        choose_folder(named)


def test_what_can_be_written_is_known_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "old.csv").write_text("")
    check_writable(tmp_path / "new" / "run", [tmp_path / "other" / "a.csv", tmp_path / "old.csv"])
    assert not (tmp_path / "new").exists() and not (tmp_path / "other").exists()
    with pytest.raises(
        ValueError, match=r"cannot be written, because .*file is a file\. Choose another folder"
    ):
        check_writable(tmp_path / "file" / "run")
    with pytest.raises(
        ValueError, match=r"cannot be written, because .*file is a file\. Choose another folder"
    ):
        check_writable(tmp_path / "run", [tmp_path / "file" / "a.csv"])
    with pytest.raises(
        ValueError, match=r"a folder stands where a file is to be written\. Choose another path"
    ):
        check_writable(tmp_path / "run", [tmp_path])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_without_permission(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(ValueError, match=r"closed is not writable\. Choose another folder"):
        check_writable(tmp_path / "closed" / "run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling": "foo"}, "--sampling is 'foo'; it is one of mt-dnn, joint"),
        ({"device": "tpu"}, "--device is 'tpu'; it is one of"),
        ({"pretrain": 5}, "--pretrain is 5; it must be str."),
        ({"train_rows": 5}, "--train_rows is 5; it must be str."),
        ({"epochs": "4"}, "--epochs is '4'; it must be int."),
        ({"epochs": True}, "--epochs is True; it must be int."),
        (None, "not the options of this version ('files')"),
    ],
)
def test_options_edited_by_hand_are_read_as_strictly(tmp_path, capsys, change, words):
    stored = {"options": asdict(Options()) | (change or {}), "files": {}}
    if change is None:
        del stored["files"]
    (tmp_path / "options.json").write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        parse(["--resume", str(tmp_path)])
    assert words in capsys.readouterr().err
