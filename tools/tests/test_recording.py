"""--record of the long commands: their records have what the tables of the documents read."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.records import read_records
from minbert.training.code_version import code_version
from tools.benchmarks import kill_resume, readable, scaling
from tools.benchmarks.kill_resume import Kill, KilledRun
from tools.benchmarks.recording import digest_of_folder, record_measurement
from tools.tables.generic import make_table


def run_command(module, monkeypatch, *flags):
    monkeypatch.setattr("sys.argv", [module.__name__, *map(str, flags)])
    return module.main()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.jsonl"


def test_a_measurement_has_its_machine_code_and_date(path, capsys):
    record_measurement(path, {"n": 3, "versions": {"torch": "2.13.0"}})
    (record,) = read_records(path)
    assert record["n"] == 3
    assert record["code"] == code_version()
    assert record["machine"]["device"] == "cpu" and record["machine"]["processor"]
    assert record["date"] >= "2026-11-25"
    assert f"recorded in {path}" in capsys.readouterr().out
    record_measurement(path, {**record, "n": 4, "machine": {"system": "another"}})
    assert read_records(path)[1]["machine"] == {"system": "another"}


def test_the_digest_of_a_folder_follows_its_content(sample_data, tmp_path):
    before = digest_of_folder(sample_data)
    for file in Path(sample_data).glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert digest_of_folder(tmp_path) == before
    with open(tmp_path / "sts-dev.csv", "a", encoding="utf-8") as file:
        file.write("one more\n")
    assert digest_of_folder(tmp_path) != before


def test_scaling_records_what_its_tables_show(record_files, sample_data, monkeypatch, capsys):
    costs = [{"rows": 10.0 * times, "seconds": 5.0 * times, "peak_memory": 2e9} for times in (1, 2)]
    series = scaling.Series("rows of a batch", {4: print, 8: print})
    seconds = {"4": [0.5], "8": [1.0]}
    monkeypatch.setattr(scaling, "check_rows", lambda parser, data_dir: None)
    monkeypatch.setattr(scaling, "whole_runs", lambda data_dir, num_rounds: costs)
    for name in ("length_series", "batch_series", "parameter_series"):
        monkeypatch.setattr(scaling, name, lambda precision: series)
    monkeypatch.setattr(scaling, "task_steps", lambda *_: series.steps)
    monkeypatch.setattr(scaling, "alternate", lambda sides, num_rounds: seconds)
    monkeypatch.setattr(scaling.cost_estimate, "matrix_product_limit", lambda *_: 1e9)
    path = record_files / "scaling.jsonl"
    monkeypatch.setattr(scaling, "SCALING", path)

    run_command(scaling, monkeypatch, "--data-dir", sample_data)
    assert not path.exists(), "without --record nothing is recorded"
    run_command(scaling, monkeypatch, "--data-dir", sample_data, "--record")
    assert "| 10 | 5.0 | 2,000 |" in make_table("scaling-runs")
    assert "| rows of a batch | 4 | 8 | 500 | 1,000 | 1.00 |" in make_table("scaling-steps")
    assert str(sample_data) not in path.read_text()


def test_fine_tunes_of_readable_are_recorded_when_they_are_made(
    record_files, sample_data, tmp_path, monkeypatch, capsys
):
    def fine_tune(path, **settings):
        scores = dict.fromkeys(readable.SCORES, 0.5)
        return {"path": path, **settings, "precision": "bf16", **scores, "seconds": 60.0}

    monkeypatch.setattr(readable, "fine_tune", fine_tune)
    path = record_files / "readable.jsonl"
    monkeypatch.setattr(readable, "READABLE_RUNS", path)
    flags = ["--data-dir", sample_data, "--out", tmp_path / "lines.jsonl"]
    run_command(readable, monkeypatch, *flags, "--seeds", 1)
    assert not path.exists(), "without --record nothing is recorded"
    run_command(readable, monkeypatch, *flags, "--seeds", 1, 2, "--record")
    assert [record["seed"] for record in read_records(path)] == [2, 2]
    assert "| fast, bf16 | 1 | 0.500 |" in make_table("readable")
    assert str(sample_data) not in path.read_text()


def test_kills_are_recorded_whatever_their_outcome(record_files, monkeypatch, capsys):
    outcomes = iter([[], ["model/heads.safetensors: sts"]])
    monkeypatch.setattr(kill_resume, "cut_data", lambda source, folder: folder)
    monkeypatch.setattr(kill_resume, "write_tiny_model", lambda folder, data: folder)
    monkeypatch.setattr(kill_resume, "start", lambda *flags: None)
    monkeypatch.setattr(kill_resume, "finish", lambda process: "")
    monkeypatch.setattr(kill_resume, "read_record", lambda folder: {})
    kills = [Kill("mlm", 9, 3, 0.1)] * 2
    monkeypatch.setattr(kill_resume, "choose_kills", lambda arguments, record: kills)
    monkeypatch.setattr(kill_resume, "kill_once", lambda kill, flags, folder: KilledRun(True, 3))
    monkeypatch.setattr(kill_resume, "differences", lambda run, other: next(outcomes))
    monkeypatch.setattr(kill_resume, "KILL_RESUME", record_files / "kill-resume.jsonl")

    with pytest.raises(SystemExit) as stop:
        run_command(kill_resume, monkeypatch, "--kills", 2, "--pretrain", "mlm", "--record")
    assert stop.value.code == 1
    assert "| `mlm` | 2 | 2 | 1 |" in make_table("kill-resume")
