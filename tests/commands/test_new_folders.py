"""minbert/commands/new_folders.py: of two commands with one new folder, the second ends at once.

A lock that this process holds on the file stands for that of another command.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import run_multitask
from command_line.folders import choose_folder
from command_line.options import Options
from minbert.commands.locks import locked
from minbert.commands.new_folders import is_reserved, new_folder, reservation_of, reserved
from multitask import rows as multitask_rows


def test_nothing_stays_of_a_reservation(tmp_path):
    folder = tmp_path / "runs" / "deep" / "a"
    with pytest.raises(ValueError, match="a bad input"), reserved(folder):
        assert is_reserved(folder) and not is_reserved(folder.with_name("b"))
        raise ValueError("a bad input")
    assert list(tmp_path.iterdir()) == []

    # A killed command has left its file, and no lock on it.
    folder.parent.mkdir(parents=True)
    reservation_of(folder).touch()
    assert not is_reserved(folder)
    with reserved(folder):
        with new_folder(folder) as beside:
            (beside / "file").touch()
        assert not reservation_of(folder).exists(), "the folder itself is there"
    assert [path.name for path in folder.parent.iterdir()] == ["a"]


def test_a_folder_that_was_made_in_the_meantime_is_refused(tmp_path):
    """Between the first look of a command and its reservation."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "options.json").touch()
    with (
        pytest.raises(ValueError, match="a was just made by another command"),
        reserved(tmp_path / "a"),
    ):
        pytest.fail("it has the folder")
    with reserved(tmp_path / "a", is_wanted=False):  # a run that is resumed
        assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_run_hears_of_another_one_before_its_data_are_read(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--output-dir", tmp_path]
    with locked(reservation_of(folder)), monkeypatch.context() as patch:
        patch.setattr(multitask_rows, "read_tables", lambda options: pytest.fail("too late"))
        assert run_multitask.main([*map(str, flags), "--name", "run"]) == 2
        message = capsys.readouterr().err
        assert f"{folder}: another command makes this folder just now. Start again" in message
        assert [path.name for path in tmp_path.iterdir()] == [reservation_of(folder).name]


def test_a_name_that_the_user_leaves_open_is_another_one(tmp_path):
    options = Options.of(output_dir=str(tmp_path))
    name = choose_folder(options).name
    with locked(reservation_of(Path(tmp_path / name))):
        assert choose_folder(options).name == f"{name}-2"
    assert choose_folder(options).name == name


def test_nothing_is_made_behind_a_link_to_nothing(tmp_path, capsys):
    """filelock would make the folder that the link names, and the run would train in it."""
    place = tmp_path / "place"
    place.symlink_to(tmp_path / "nothing")
    folder = place / "below" / "run"
    with reserved(folder):
        assert [path.name for path in tmp_path.iterdir()] == ["place"]
    flags = ["--output-dir", str(folder.parent), "--name", "run"]
    assert run_multitask.main(flags) == 2
    assert f"because {place} is a link to nothing" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
