"""tools/benchmarks/default_job.py: the command of the README, alone and beside a busy program."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line.parser import parse
from experiments.records import read_records
from tools.benchmarks import default_job
from tools.benchmarks.default_job import RUN_MULTITASK, main, measure
from tools.tables.answers import main_results
from tools.tables.generic import make_table

SECONDS = {0: 90.0, 1: 140.0}


@pytest.fixture
def commands(monkeypatch):
    """The commands that are started. Each writes the run.json of a finished run."""
    started = []
    busy = [0]

    @contextmanager
    def programs(number):
        busy[0] = number
        yield
        busy[0] = 0

    def start(command, check, stdout):
        assert check and stdout is sys.stderr
        started.append((busy[0], command))
        # A flag that does not exist is refused here.
        parse(command[2:])
        run = Path(command[command.index("--output-dir") + 1]) / "run"
        run.mkdir(parents=True)
        clock[0] += SECONDS[busy[0]]
        record = {
            "actual": {"peak_memory": 9.1e8 + busy[0]},
            "machine": {"threads": 2},
            "files": {"a.csv": "0" * 64},
        }
        (run / "run.json").write_text(json.dumps(record), encoding="utf-8")

    clock = [0.0]
    monkeypatch.setattr(default_job, "busy_programs", programs)
    monkeypatch.setattr(default_job, "subprocess", SimpleNamespace(run=start))
    monkeypatch.setattr(default_job, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    return started


def test_the_command_of_the_readme_runs_alone_and_beside_a_program(commands):
    record = measure("tiny", ["--epochs", "1"])
    assert [number for number, _ in commands] == [0, 1]
    folders = set()
    for _, command in commands:
        assert command[:2] == [sys.executable, str(RUN_MULTITASK)]
        assert "--option finetune --pretrain simcse --model tiny --epochs 1" in " ".join(command)
        folders.add(command[command.index("--output-dir") + 1])
    assert len(folders) == 2, "no stage of the first run is used again"
    assert [run["seconds"] for run in record["runs"]] == [90.0, 140.0]
    assert record["machine"]["threads"] == 2


def test_the_table_and_the_first_page_have_the_newest_record(commands, record_files, monkeypatch):
    path = record_files / "default-job.jsonl"
    monkeypatch.setattr(default_job, "DEFAULT_JOB", path)
    assert "Not measured yet" in make_table("cost-of-default-job")
    assert "cost.md" not in main_results()

    monkeypatch.setitem(SECONDS, 0, 200.0)
    main(["--model", "tiny", "--record"])
    monkeypatch.setitem(SECONDS, 0, 90.0)
    main(["--model", "tiny", "--record"])
    assert len(read_records(path)) == 2
    table = make_table("cost-of-default-job")
    assert "| tiny | nothing | 90 | 0.91 |\n| tiny | 1 busy program | 140 | 0.91 |" in table
    assert "200" not in table.split("Measured on")[0]
    assert "the default job with tiny cost?](cost.md) | 90 seconds on 2 threads, 0.9 GB |" in (
        main_results()
    )
