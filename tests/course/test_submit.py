"""course/submit.py: what is in the zip, and which hand-ins are refused."""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from course.editions import EDITIONS
from course.submit import main
from minbert.commands.files import read_json
from minbert.commands.hidden import ROOT
from minbert.commands.options import NONE
from minbert.commands.paths import in_shell
from multitask import check

SIX = [
    f"predictions/{task}-{split}-output.csv"
    for task in ("sst", "para", "sts")
    for split in ("dev", "test")
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working folder with two files of code."""
    monkeypatch.chdir(tmp_path)
    for name in ("bert.py", "optimizer.py"):
        (tmp_path / name).write_text("# mine\n")
    return tmp_path


@pytest.fixture
def run_copy(two_runs, tmp_path):
    """A copy of a run without its model."""
    folder = tmp_path / "copied" / "run"
    return Path(shutil.copytree(two_runs[0], folder, ignore=shutil.ignore_patterns("model")))


def content_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def error_of(flags: list[str], capsys) -> str:
    assert main(flags) == 2
    return capsys.readouterr().err


def test_the_six_files_and_the_code(two_runs, place, capsys):
    assert main([str(two_runs[0])]) == 0
    content = content_of(place / "cs224n_default_final_project_submission.zip")
    assert set(content) == {*SIX, "bert.py", "optimizer.py"}
    for name in SIX:
        assert content[name] == (two_runs[0] / name).read_bytes()
    printed = capsys.readouterr().out
    assert "predictions/sst-dev-output.csv: 24 rows, accuracy 0." in printed
    assert "predictions/sts-test-output.csv: 24 rows, every id once" in printed
    assert "6 files of predictions, 2 of code" in printed
    # The files of this test are not the course's. The reports name the rows of PARA's test file.
    assert printed.count("a leaderboard may know other ids") == 6
    assert "quora-test-student.csv: the course's reports name 40,431 rows, and this one has 24" in (
        printed
    )
    assert "warning: 6 of these 6 files predict rows that may not be the course's" in printed


@pytest.mark.parametrize("course", ["cs224n-2023", "cs224n-2024"])
def test_fourteen_files_with_part_1(two_runs, part1, place, course):
    from course import part1 as command

    out, flags = part1
    assert command.main([*flags, "--course", course]) == 0
    words = [str(two_runs[0]), "--part1", str(out), "--course", course, "--code", NONE]
    assert main([*words, "--out", "mine.zip"]) == 0
    content = content_of(place / "mine.zip")
    expected = [file.name for file in EDITIONS[course].part1_files()]
    assert set(content) == {*SIX, *expected} and len(content) == 14


def test_the_names_of_goettingen(two_runs, place):
    assert main([str(two_runs[0]), "--course", "goettingen", "--code", NONE]) == 0
    content = content_of(place / "dnlp_final_project_submission.zip")
    name = "predictions/bert/multitask/quora-paraphrase-test-output.csv"
    assert content[name] == (two_runs[0] / "predictions" / "para-test-output.csv").read_bytes()
    assert len(content) == 6


def test_a_folder_without_a_record_needs_its_data(two_runs, sample_data, place, capsys):
    """As multitask.ensemble leaves it."""
    folder = place / "joined"
    shutil.copytree(two_runs[0] / "predictions", folder / "predictions")
    assert "there is no run.json" in error_of([str(folder)], capsys)
    assert main([str(folder), "--data-dir", str(sample_data)]) == 0
    assert not list(place.glob("*.zip.*"))


def test_eight_files_of_ones_own_need_their_data(two_runs, part1, course_data, place, capsys):
    folder = place / "own"
    shutil.copytree(part1[0] / "predictions", folder / "predictions")
    words = [str(two_runs[0]), "--part1", str(folder), "--code", NONE]
    message = error_of(words, capsys)
    record = folder / "pretrain-sst" / "run.json"
    assert f"{record}: there is no such file. It says which data" in message
    assert_nothing_written(place)
    assert main([*words, "--data-dir", str(course_data)]) == 0
    assert len(content_of(place / "cs224n_default_final_project_submission.zip")) == 14


def test_a_trial_is_told(run_copy, place, capsys):
    record = read_json(run_copy / "run.json")
    record["options"]["train_rows"] = "sst=8"
    (run_copy / "run.json").write_text(json.dumps(record))
    assert main([str(run_copy), "--code", NONE]) == 0
    assert "trained on a part of the rows (--train-rows sst=8)" in capsys.readouterr().out


def test_code_of_ours_is_told(two_runs, place, capsys):
    words = [str(two_runs[0]), "--code"]
    assert main([*words, str(ROOT)]) == 0
    assert "the code in the zip is run_multitask.py of minBERT" in capsys.readouterr().out
    assert main([*words, str(place)]) == 0
    assert "run_multitask.py" not in capsys.readouterr().out


def test_git_ignores_the_zips():
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {f"/{edition.zip_name}" for edition in EDITIONS.values()} <= set(ignored)


# --- what is refused, before anything is written --------------------------------------------------


def test_only_a_zip_of_ours_is_replaced(two_runs, place, capsys):
    """A second hand-in replaces the first one. Another file stays, unless the user says so."""
    words = [str(two_runs[0]), "--out", "mine.zip"]
    assert main(words) == 0
    assert main(words) == 0
    with zipfile.ZipFile(place / "mine.zip", "w") as archive:
        archive.writestr("thesis.txt", "three years of work")
    assert "mine.zip: this file exists, and minBERT may not have" in error_of(words, capsys)
    assert content_of(place / "mine.zip") == {"thesis.txt": b"three years of work"}
    assert main([*words, "--overwrite"]) == 0
    assert len(content_of(place / "mine.zip")) >= 6


def assert_nothing_written(place: Path) -> None:
    assert not list(place.glob("*.zip"))


def test_a_missing_row_is_refused(run_copy, place, capsys):
    path = run_copy / "predictions" / "para-test-output.csv"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), "utf-8")
    message = error_of([str(run_copy)], capsys)
    assert "the run did not write this file" in message
    data_dir = in_shell(Path(read_json(run_copy / "run.json")["options"]["data_dir"]))
    command = f"python -m multitask.check {in_shell(path)} --data-dir {data_dir}"
    assert f"`{command}` tells more" in message
    assert check.main(shlex.split(command)[3:]) == 2
    assert "1 missing" in capsys.readouterr().err
    assert "predict again with `python -m course.predict`" in message

    # Without a digest of the file, as in older runs, its rows are counted.
    record = read_json(run_copy / "run.json")
    del record["predictions"]
    (run_copy / "run.json").write_text(json.dumps(record))
    message = error_of([str(run_copy)], capsys)
    assert "1 missing" in message and "--dev-rows" not in message
    assert_nothing_written(place)


def test_an_older_zip_is_left_and_named(run_copy, place, capsys):
    words = [str(run_copy), "--out", "mine.zip"]
    assert main(words) == 0
    before = (place / "mine.zip").read_bytes()
    (run_copy / "predictions" / "sst-dev-output.csv").unlink()
    assert "mine.zip is an older zip, which was left as it is" in error_of(words, capsys)
    assert (place / "mine.zip").read_bytes() == before


def test_a_missing_file_is_refused(run_copy, place, capsys):
    (run_copy / "predictions" / "sst-dev-output.csv").unlink()
    assert "sst-dev-output.csv: cannot be read" in error_of([str(run_copy)], capsys)
    assert_nothing_written(place)


def test_part_1_with_the_names_of_another_year_is_refused(two_runs, part1, place, capsys):
    folder = place / "part1"
    words = [str(two_runs[0]), "--part1", str(folder), "--course", "cs224n-2024"]
    message = error_of(words, capsys)
    assert "last-linear-layer-sst-dev-out.csv: there is no such file" in message
    assert "python -m course.part1 --out part1 --course cs224n-2024` writes" in message

    shutil.copytree(part1[0], folder, ignore=shutil.ignore_patterns("model", "full-*", "last-*"))
    message = error_of(words, capsys)
    assert "The eight files have the names of CS224N 2023. Pass --course cs224n-2023" in message
    assert "python -m course.part1 --out part1 --course cs224n-2024`" in message
    assert_nothing_written(place)


def test_a_run_of_one_task_is_refused(part1, run_copy, place, capsys):
    out, _ = part1
    message = error_of([str(out / "pretrain-sst")], capsys)
    assert "has no files of para,sts." in message
    assert "Train all of them, or add --untrained-tasks para,sts to the run" in message
    record = read_json(run_copy / "run.json")
    record["options"] |= {"tasks": "sst", "untrained_tasks": "para,sts"}
    (run_copy / "run.json").write_text(json.dumps(record))
    assert main([str(run_copy), "--code", NONE]) == 0


def test_a_run_without_test_files_is_refused(run_copy, place, capsys):
    for path in run_copy.glob("predictions/*-test-*"):
        path.unlink()
    record = json.loads((run_copy / "run.json").read_text())
    del record["checksum"]
    record["options"]["skip"] = "baselines,test"
    (run_copy / "run.json").write_text(json.dumps(record))
    message = error_of([str(run_copy)], capsys)
    assert "--skip of this run left out the predictions of test files" in message
    assert f"`python -m course.predict {in_shell(run_copy)} --out DIR` makes all files" in message


@pytest.mark.parametrize(
    "words, cause",
    [
        (["no-such-run"], "no such folder"),
        (["{run}", "--code", "no-such"], "--code no-such"),
        (["{run}", "--course", "goettingen", "--part1", "x"], "no place in the zip"),
    ],
)
def test_wrong_arguments(words, cause, two_runs, place, capsys):
    assert cause in error_of([word.format(run=two_runs[0]) for word in words], capsys)
    assert_nothing_written(place)
