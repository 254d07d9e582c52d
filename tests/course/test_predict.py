"""course/predict.py: the files of other data, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from course import submit
from course.predict import main
from course.predicted_files import course_tasks
from data.examples import BUILT_IN_FILES

TASKS = ("sst", "para", "sts")
NAMES = [f"{task}-{split}-output.csv" for task in TASKS for split in ("dev", "test")]


@pytest.fixture
def half(sample_data, tmp_path):
    """A folder of data with half of the rows of each dev and test file."""
    folder = tmp_path / "half"
    folder.mkdir()
    for task in TASKS:
        for split in ("dev", "test"):
            name = BUILT_IN_FILES[task][split]
            header, *rows = (sample_data / name).read_text(encoding="utf-8").splitlines()
            text = "\n".join([header, *rows[::2], ""])
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_the_run_s_own_data_give_the_run_s_own_files(two_runs, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(two_runs[0]), "--out", str(out)]) == 0
    for name in NAMES:
        again = (out / "predictions" / name).read_bytes()
        assert again == (two_runs[0] / "predictions" / name).read_bytes()
    scores = json.loads((two_runs[0] / "run.json").read_text(encoding="utf-8"))["scores"]
    printed = capsys.readouterr().out
    assert f"sst-dev-output.csv: 24 rows, accuracy {scores['sst']:.4f}" in printed
    assert "sst-test-output.csv: 24 rows\n" in printed

    # A run that was scored on a part of its dev rows gets the files of all.
    part = Path(shutil.copytree(two_runs[0], tmp_path / "part"))
    record = json.loads((part / "run.json").read_text(encoding="utf-8"))
    record["options"]["dev_rows"] = "sst=9"
    del record["checksum"]
    (part / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert main([str(part), "--out", str(tmp_path / "all")]) == 0
    for name in NAMES:
        whole = (tmp_path / "all" / "predictions" / name).read_bytes()
        assert whole == (two_runs[0] / "predictions" / name).read_bytes()


def test_other_data_give_files_that_can_be_handed_in(two_runs, half, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--data-dir", str(half)]
    assert main([str(two_runs[0]), "--out", "out", *flags]) == 0
    for name in NAMES:
        _, *rows = lines_of(Path("out/predictions") / name)
        # The prediction of a row does not depend on the other rows.
        assert len(rows) == 12
        assert set(rows) <= set(lines_of(two_runs[0] / "predictions" / name))
    assert submit.main(["out", *flags, "--code", "none", "--out", "mine.zip"]) == 0
    # The same command may write its own files again.
    assert main([str(two_runs[0]), "--out", "out", *flags]) == 0


def test_what_cannot_be_written_or_read_is_refused_first(two_runs, half, tmp_path, capsys):
    run = str(two_runs[0])
    assert main([run, "--out", run]) == 2
    assert "--out" in capsys.readouterr().err
    (half / BUILT_IN_FILES["sts"]["test"]).unlink()
    assert main([run, "--data-dir", str(half), "--out", str(tmp_path / "out")]) == 2
    assert BUILT_IN_FILES["sts"]["test"] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_task_of_the_course_names_another_command():
    run = SimpleNamespace(folder="runs/mine", tasks={"mine": SimpleNamespace(is_built_in=False)})
    with pytest.raises(ValueError, match=r"no task of the course, but mine\. .*multitask\.predict"):
        course_tasks(run)
