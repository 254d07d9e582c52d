"""tools/sample/sample_parts.py: the rows that each run leaves out, and the table."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import pytest

from data.examples import COURSE_FILES
from data.options import SAMPLE_FOLDER
from experiments.records import read_records
from tools.sample import sample_parts
from tools.sample.sample_parts import ALL_ROWS, PARTS, Part, main, train, write_without
from tools.tables.generic import make_table


def train_ids(folder, task: str) -> list[str]:
    """The ids of the training rows."""
    with open(folder / COURSE_FILES[task]["train"], encoding="utf-8", newline="") as file:
        return [row["id"] for row in csv.DictReader(file, delimiter="\t")]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_left_out_of_its_training_file_alone(name, tmp_path):
    part = PARTS[name]
    number = write_without(part, tmp_path)
    everything = train_ids(SAMPLE_FOLDER, part.task)
    kept = [row_id for row_id in everything if row_id[:2] not in part.sources]
    assert train_ids(tmp_path, part.task) == kept
    assert number == len(everything) - len(kept) > 0
    for splits in COURSE_FILES.values():
        for file_name in splits.values():
            if file_name != COURSE_FILES[part.task]["train"]:
                assert (tmp_path / file_name).read_bytes() == (
                    SAMPLE_FOLDER / file_name
                ).read_bytes()


def test_every_training_row_belongs_to_one_part():
    for task in COURSE_FILES:
        sources = []
        for part in PARTS.values():
            if part.task == task:
                sources += part.sources
        assert sorted(sources) == sorted({row_id[:2] for row_id in train_ids(SAMPLE_FOLDER, task)})


def test_a_part_without_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"sts-train.csv has no row of z9\."):
        write_without(Part("sts", ("z9",)), tmp_path)


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    commands = []

    def run(command, **settings):
        commands.append(command)
        folder = tmp_path / command[command.index("--name") + 1]
        folder.mkdir()
        (folder / "run.json").write_text("{}")

    monkeypatch.setattr(subprocess, "run", run)
    name = "STS, everyday sentences"
    folder = train(name, 5, "minbert-mini", tmp_path)
    assert folder.name == "sts-everyday-sentences-5"
    assert train(name, 5, "minbert-mini", tmp_path) == folder
    (command,) = commands
    data = Path(command[command.index("--data-dir") + 1])
    assert data == tmp_path / "data" / "sts-everyday-sentences"
    assert not any(row_id[:2] in ("e1", "e2") for row_id in train_ids(data, "sts"))
    assert command[command.index("--seed") + 1] == "5"


def test_the_records_are_what_the_table_shows(
    two_runs, sample_data, tmp_path, record_files, monkeypatch, capsys
):
    monkeypatch.setattr(sample_parts, "train", lambda name, seed, model, out: two_runs[seed])
    path = record_files / "sample-parts.jsonl"
    monkeypatch.setattr(sample_parts, "SAMPLE_PARTS", path)
    monkeypatch.setattr(sample_parts, "PARTS", {"STS, generated": PARTS["STS, generated"]})
    flags = ["--course", str(sample_data), "--out", str(tmp_path), "--seeds", "0", "1", "--record"]
    assert main(flags) == 0
    printed = capsys.readouterr().out
    records = read_records(path)
    assert [record["left_out"] for record in records] == [ALL_ROWS] * 2 + ["STS, generated"] * 2
    table = make_table("sample-parts")
    assert table.startswith(printed.rstrip())
    assert "| nothing | 2 |" in table and "| STS, generated | 2 |" in table
