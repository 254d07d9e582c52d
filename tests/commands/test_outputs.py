"""minbert/commands/outputs.py: which paths a command may write to, and who says so."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import run_multitask
from contrastive.quality import __main__ as quality
from minbert.commands.files import read_json, write_atomically
from minbert.commands.outputs import (
    PAGE_START,
    Output,
    begins_with,
    check_new_folder,
    check_outputs,
)
from minbert.commands.paths import temporary_name
from minbert.reporting.pages import render_html
from multitask import predict
from multitask.errors import __main__ as errors
from multitask.errors.options import ErrorsOptions, check_output_files
from multitask.tasks import TASKS


def refusal(path: Path, inputs=(), folders=(), **fields) -> str:
    """The message about one output of --out; "" where it is allowed."""
    try:
        check_outputs([Output("--out", path, **fields)], inputs, folders)
    except ValueError as error:
        return str(error)
    return ""


def test_a_new_file_is_allowed_and_nothing_is_left(tmp_path):
    """Also in folders that do not exist yet."""
    assert refusal(tmp_path / "new.csv") == ""
    assert refusal(tmp_path / "a" / "b" / "new.csv") == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_plain_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-fifo").symlink_to(tmp_path / "fifo")
    (tmp_path / "to-nothing").symlink_to(tmp_path / "gone")
    (tmp_path / "to-itself").symlink_to("to-itself")
    for name in ("fifo", "to-fifo"):
        assert "it is not a plain file, but a device, a pipe" in refusal(tmp_path / name)
    assert "it is not a plain file" in refusal(Path("/dev/null"))
    assert "a folder stands where a file is to be written" in refusal(tmp_path / "folder")
    assert "gone, which cannot be followed (No such file" in refusal(tmp_path / "to-nothing")
    assert "a link to to-itself, which cannot be followed" in refusal(tmp_path / "to-itself")
    assert "a link to nothing" in refusal(tmp_path / "to-itself" / "new.csv")
    # No check fails on it, also where it is a folder that must stay as it is.
    assert refusal(tmp_path / "new.csv", [tmp_path / "to-itself"], [tmp_path / "to-itself"]) == ""
    assert "standard output is not possible here" in refusal(Path("-"))


def test_an_input_is_found_under_every_name(tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("rows")
    os.link(source, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(source)
    for name in ("rows.csv", "hard.csv", "soft.csv", "../" + tmp_path.name + "/rows.csv"):
        assert "it is an input already" in refusal(tmp_path / name, [source])


def test_outputs_do_not_meet(tmp_path):
    first = tmp_path / "a.csv"
    cases = {
        first: "--two {path}: it is --one already; give another file.",
        first / "b.csv": "cannot both be files",
        tmp_path / ".a.csv.writing": "it is the temporary file of --one already",
    }
    for second, words in cases.items():
        with pytest.raises(ValueError, match=re.escape(words.format(path=second))):
            check_outputs([Output("--one", first), Output("--two", second)])


@pytest.mark.parametrize(
    "names",
    [("options.json", "run.json"), ("stage.json",), ("config.json", "pytorch_model.bin")],
)
def test_the_folder_of_a_run_or_a_model_stays_as_it_is(tmp_path, names):
    for name in names:
        (tmp_path / name).touch()
    inside = tmp_path / "predictions" / "a.csv"
    assert f"{tmp_path} is the folder of a run or a model" in refusal(inside)
    assert refusal(inside, default=inside) == ""
    with pytest.raises(ValueError, match="is the folder of a run or a model"):
        check_new_folder("--export", tmp_path / "new")


def test_a_run_that_has_not_begun_has_its_folder(tmp_path):
    words = "is the folder of a run or a model"
    assert words in refusal(tmp_path / "run" / "run.json", folders=[tmp_path / "run"])


def test_a_file_of_another_is_kept(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("my own notes")
    assert "pass --overwrite to replace it" in refusal(path, is_ours=begins_with("id \t"))
    check_outputs([Output("--out", path)], overwrite=True)
    path.write_text("id \t Predicted_Sentiment \n")
    assert refusal(path, is_ours=begins_with("id \t")) == ""
    path.write_text("")
    assert refusal(path) == "", "an empty file holds nothing to lose"


def test_names_that_the_file_system_does_not_have(tmp_path):
    """250 characters are a possible name. It was the temporary name that was too long."""
    long = tmp_path / ("x" * 250)
    assert refusal(long) == ""
    write_atomically(long, lambda beside: beside.write_text("content"))
    assert long.read_text() == "content"

    too_long = ("y" * 256, "new/" + "y" * 256, "new/" + "y" * 256 + "/a.csv", "z/" * 2100 + "a")
    for name in too_long:
        assert "no possible path (File name too long)" in refusal(tmp_path / name), name
    (tmp_path / "file").write_text("in the way")
    assert "file is a file. Choose another folder." in refusal(tmp_path / "file" / "a.csv")
    assert os.listdir(tmp_path) != [] and not (tmp_path / "new").exists()


def test_a_temporary_name_is_short_enough():
    assert temporary_name(Path("a.csv")) == ".a.csv.writing"
    for letter in "aé漢😀":
        name = temporary_name(Path(letter * 60))
        assert len(name.encode()) <= 255 and name.endswith(".writing")


def test_writing_never_replaces_what_is_no_file(tmp_path):
    """Not even where nobody asked before."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="it is not a plain file"):
        write_atomically(tmp_path / "fifo", lambda beside: beside.write_text("x"))
    assert (tmp_path / "fifo").is_fifo() and os.listdir(tmp_path) == ["fifo"]

    (tmp_path / "to-itself").symlink_to("to-itself")
    with pytest.raises(ValueError, match="it is not a plain file"):
        write_atomically(tmp_path / "to-itself", lambda beside: beside.write_text("x"))
    assert (tmp_path / "to-itself").is_symlink()

    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", lambda beside: beside.write_text("new"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "new"


def test_pages_begin_as_the_check_expects():
    assert render_html("A title", []).startswith(PAGE_START)


# --- commands -------------------------------------------------------------------------------------


def test_predictions_go_to_standard_output_as_a_table(two_runs, tmp_path, capfdbinary):
    (tmp_path / "rows.txt").write_text("a fine film\n")
    flags = [str(two_runs[0]), "--task", "sst", "--input", str(tmp_path / "rows.txt"), "--out"]
    assert predict.main([*flags, "-"]) == 0
    printed = capfdbinary.readouterr().out
    assert predict.main([*flags, str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_bytes() == printed

    # A second time the file is there, and its columns may be those of the user.
    assert predict.main([*flags, str(tmp_path / "out.csv")]) == 2
    assert predict.main([*flags, str(tmp_path / "out.csv"), "--overwrite"]) == 0
    assert predict.main([*flags, "-", "--overwrite"]) == 2
    assert predict.main([*flags, str(two_runs[0] / "out.csv")]) == 2
    said = capfdbinary.readouterr().err.decode()
    assert "is the folder of a run or a model" in said
    assert "--overwrite has no effect without a file of --out" in said


def test_reports_replace_reports_only(two_runs, tmp_path, capsys):
    flags = [str(two_runs[0]), "--worst", "1", "--out", str(tmp_path)]
    (tmp_path / "errors.md").write_text("# Errors of first\n")
    (tmp_path / "errors.html").write_text(PAGE_START)
    check_output_files(ErrorsOptions(run=two_runs[0], out=tmp_path))
    (tmp_path / "errors.md").write_text("my notes")
    assert errors.main(flags) == 2
    assert f"--out {tmp_path / 'errors.md'}: this file exists" in capsys.readouterr().err
    page = tmp_path / "my.html"
    page.write_text("<!DOCTYPE html>")
    flags = ["minbert-mini", "--sets", "data/sample/sts-dev.csv", "--report", str(page)]
    assert quality.main(flags) == 2
    assert f"--report {page}: this file exists" in capsys.readouterr().err


def test_a_resumed_run_may_have_other_paths(two_runs, sample_data, tmp_path, capsys):
    """The path is checked before any row is read, and it is kept for the next resume."""
    folder = tmp_path / "run"
    folder.mkdir()
    content = read_json(two_runs[0] / "options.json")
    (folder / "options.json").write_text(json.dumps(content))
    own = tmp_path / "own.csv"
    own.write_text("notes")
    resume = ["--resume", str(folder), "--sst_dev_out", str(own)]
    assert run_multitask.main(resume) == 2
    assert f"--sst_dev_out {own}: this file exists" in capsys.readouterr().err

    own.write_text(TASKS["sst"].header)
    content["options"]["epochs"] = 1
    (folder / "options.json").write_text(json.dumps(content))
    assert run_multitask.main([*resume, "--sts-test-out", str(tmp_path / "new.csv")]) == 0
    stored = json.loads((folder / "options.json").read_text())["options"]
    assert stored == json.loads((folder / "run.json").read_text())["options"]
    assert (stored["sst_dev_out"], stored["para_dev_out"]) == (str(own), "auto")
    default = folder / "predictions" / "sst-dev-output.csv"
    assert own.stat().st_size > 100 and not default.exists() and (tmp_path / "new.csv").is_file()
