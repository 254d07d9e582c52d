"""tools/tables/ensembles.py: ensembles are recorded, and their table compares ways to join runs."""

from __future__ import annotations

import json

import pytest

from experiments.records import add_records, read_records
from multitask.ensemble.__main__ import main as join_runs
from tools.tables import ensembles
from tools.tables.generic import make_table


@pytest.fixture
def folder(two_runs, tmp_path, record_files, monkeypatch):
    """A real ensemble of two runs, and an empty file of records."""
    monkeypatch.setattr(ensembles, "ENSEMBLES", record_files / "course-ensembles.jsonl")
    out = tmp_path / "ensemble"
    join_runs([*map(str, two_runs), "--out", str(out)])
    return out


def record(folder, title):
    return ensembles.main([str(folder), "--title", title, "--records", str(ensembles.ENSEMBLES)])


def test_the_table_has_a_row_for_each_way_to_join(folder):
    assert make_table("course-ensembles").startswith("Not measured yet.")
    assert record(folder, "two runs") == 0
    table = make_table("course-ensembles")
    scores = json.loads((folder / "ensemble.json").read_text())["dev_scores"]
    for row in ("best, out of fold", "average", "weighted, out of fold"):
        cells = f"| two runs | 1 | {row} | {scores[row]['sst']:.3f} | {scores[row]['para']:.3f} |"
        assert cells in table
    assert "in sample" not in table
    assert "Measured on 20" in table


def test_an_ensemble_that_is_recorded_again_counts_once(folder):
    record(folder, "two runs")
    record(folder, "two runs")
    assert len(read_records(ensembles.ENSEMBLES)) == 1
    first = read_records(ensembles.ENSEMBLES)[0]
    assert [run["seed"] for run in first["runs"]] == [1, 2]
    assert first["folds"] == [5, 11711]
    assert list(first["dev_files"]) == ["dev_rows", "sst_dev", "para_dev", "sts_dev"]


def test_ensembles_of_a_row_share_no_run(folder, two_runs, tmp_path, capsys):
    record(folder, "both")
    # The same runs in the other order are another ensemble, which shares all of them.
    other = tmp_path / "other"
    join_runs([*map(str, reversed(two_runs)), "--out", str(other)])
    assert record(other, "both") == 2
    assert "two ensembles of 'both' share a run, which has the seed" in capsys.readouterr().err
    assert len(read_records(ensembles.ENSEMBLES)) == 1
    assert record(other, "another") == 0
    assert record(other, "a third") == 2
    assert "an ensemble has the titles 'another' and 'a third'" in capsys.readouterr().err


@pytest.mark.parametrize("title", ["", "  ", "a | b", "a\nb", "<b>"])
def test_a_title_is_the_cell_of_a_table(folder, title, capsys):
    assert record(folder, title) == 2
    assert "cannot be the cell of a table" in capsys.readouterr().err
    assert not ensembles.ENSEMBLES.exists()


def test_an_edited_ensemble_is_refused(folder, capsys):
    path = folder / "ensemble.json"
    path.write_text(path.read_text().replace("0.", "0.9", 1))
    assert record(folder, "edited") == 2
    assert "its checksum is wrong" in capsys.readouterr().err


def test_a_run_that_was_moved_is_named(folder, capsys):
    content = json.loads((folder / "ensemble.json").read_text())
    del content["checksum"]
    content["runs"][1] = "moved"
    (folder / "ensemble.json").write_text(json.dumps(content))
    assert record(folder, "two runs") == 2
    assert "moved has no run.json, and" in capsys.readouterr().err


def test_records_go_to_a_file_of_ensembles(folder, tmp_path, capsys):
    runs = tmp_path / "runs.jsonl"
    add_records(runs, [{"recipe": "none"}])
    for path, words in ((runs, "they are no ensembles"), (tmp_path, "is a folder. Name a file")):
        assert ensembles.main([str(folder), "--title", "a", "--records", str(path)]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"folds": [4, 11711]}, "'late' was scored with other folds than 'early'"),
        ({"dev_files": {"sst_dev": "0"}}, "'late' was scored with other dev rows than 'early'"),
        ({"title": "early", "runs": []}, "the ensembles of 'early' have different numbers of runs"),
    ],
)
def test_a_table_compares_like_with_like(folder, changed, words):
    record(folder, "early")
    early = read_records(ensembles.ENSEMBLES)[0]
    add_records(ensembles.ENSEMBLES, [{**early, "title": "late", **changed}])
    with pytest.raises(ValueError, match=words):
        make_table("course-ensembles")


def test_an_ensemble_of_two_tasks_is_refused(folder, capsys):
    content = json.loads((folder / "ensemble.json").read_text())
    del content["checksum"]
    del content["dev_scores"]["average"]["overall_2023"]
    (folder / "ensemble.json").write_text(json.dumps(content))
    assert record(folder, "two tasks") == 2
    assert "has no overall_2023 score of average" in capsys.readouterr().err
    assert not ensembles.ENSEMBLES.exists()


def test_a_folder_without_an_ensemble_is_refused(tmp_path, capsys):
    assert ensembles.main([str(tmp_path), "--title", "none"]) == 2
    assert f"{tmp_path} has no ensemble.json" in capsys.readouterr().err
