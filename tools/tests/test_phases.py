"""tools/benchmarks/phases.py: seconds of nested phases, and the command without its job."""

from __future__ import annotations

import importlib
import json

import pytest

from experiments.records import read_records
from tools.benchmarks import phases
from tools.benchmarks.phases import REST, TIMED, PhaseClock, main


def test_seconds_of_a_phase_within_another_count_once():
    times = iter([1.0, 3.0, 7.0, 8.0, 10.0])
    clock = PhaseClock(lambda: next(times))
    inner = clock.timed("inner", lambda: "answer")
    assert clock.timed("outer", inner)() == "answer"
    clock.note()
    assert clock.seconds == {REST: 1.0 + 2.0, "outer": 2.0 + 1.0, "inner": 4.0}
    assert clock.calls == {"outer": 1, "inner": 1}


def function_of(item):
    owner = importlib.import_module(item.module)
    for part in item.name.split("."):
        owner = getattr(owner, part)
    return owner


def test_each_function_is_timed_within_the_block_alone():
    before = [function_of(item) for item in TIMED]
    with PhaseClock().watching(TIMED):
        for item, function in zip(TIMED, before, strict=True):
            assert function_of(item).__wrapped__ is function
    assert [function_of(item) for item in TIMED] == before


@pytest.mark.parametrize("code", [0, 2])
def test_the_command_records_the_phases_of_a_job_that_succeeds(tmp_path, monkeypatch, capsys, code):
    run_multitask = importlib.import_module("run_multitask")

    def job(flags):
        folder = tmp_path.__class__(flags[flags.index("--output-dir") + 1]) / "run"
        folder.mkdir()
        content = {"options": {"precision": "bf16"}, "files": {"a.csv": "0" * 64}}
        (folder / "run.json").write_text(json.dumps(content))
        return code

    path = tmp_path / "phases.jsonl"
    monkeypatch.setattr(phases, "PHASES", path)
    monkeypatch.setattr(run_multitask, "main", job)
    assert main(["--record"]) == code
    if code:
        assert not path.exists()
        assert "the job ended with code 2" in capsys.readouterr().err
        return
    (record,) = read_records(path)
    assert record["machine"]["threads"] == 1
    assert [phase["phase"] for phase in record["phases"]] == [REST]
    assert record["seconds"] == record["phases"][0]["seconds"] > 0
