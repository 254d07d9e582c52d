"""A training method with jobs of its own goes through the main job: run_multitask.py knows no plan.

If a plan is not estimated, not logged, not resumed, or missing in what a run writes.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import run_multitask
from minbert.reporting.pages import Section
from minbert.training.loop import Loop
from multitask import plan_registry
from multitask.model_card import card_sections
from multitask.plan import Plan
from multitask.prediction_files import read_predictions
from multitask.run_report import ReportedRun, report_sections
from multitask.saved_run import open_run
from multitask.soup import best_scores
from multitask.tasks import TASKS
from tests.toy_multitask import two_task_options


class SecondRound(Plan):
    """All tasks once more, from the best model of the first time."""

    @staticmethod
    def is_asked_for(options):
        return options.fine_tuning.epochs == 2

    def __init__(self, parts):
        job = parts.job
        folder = job.folder.with_name("second-round")
        self.jobs = [replace(parts.build_job(1), name="second-round", folder=folder)]

    def train(self, train, trained):
        scores = best_scores(train(self.jobs[0]))
        self.gain = scores["mean"] - trained.scores["mean"]
        return replace(trained, scores=scores)

    def stored(self):
        return {"second_round": {"gain": self.gain}}

    @staticmethod
    def printed(record, tasks):
        entry = record.get("second_round")
        return f"the second round brought {entry['gain']:.4f}" if entry else ""

    @staticmethod
    def sections(record, tasks):
        return [Section("Second round", "A prose.", level=2)] if "second_round" in record else []

    @staticmethod
    def note(record):
        return "It was trained twice." if "second_round" in record else ""


@pytest.fixture(autouse=True)
def second_round(monkeypatch):
    monkeypatch.setattr(plan_registry, "PLANS", [*plan_registry.PLANS, SecondRound])


@pytest.fixture
def flags(sample_data, tiny_model, tmp_path):
    options = two_task_options(sample_data, tiny_model, epochs=2, lr=3e-3)
    flags = ["--output_dir", str(tmp_path), "--sampling", "joint", "--precision", "fp32"]
    for name in ("data_dir", "model", "tasks", "train_rows", "dev_rows", "batch_size", "lr"):
        flags += [f"--{name}", str(options.flat()[name])]
    return flags


def finished(folder, capsys):
    """The content of run.json, and what the run printed."""
    return json.loads((folder / "run.json").read_text("utf-8")), capsys.readouterr().out


def test_a_new_plan_runs_through_the_main_job(flags, tmp_path, capsys):
    assert run_multitask.main([*flags, "--epochs", "2", "--name", "mine"]) == 0
    folder = tmp_path / "mine"
    record, printed = finished(folder, capsys)

    # Estimated, trained, logged, and printed before the closing table.
    assert [cost["name"] for cost in record["predicted"]] == ["multitask", "second-round"]
    assert "== Stage second-round ==" in printed
    assert "second-round," in (folder / "log.csv").read_text("utf-8")
    line = f"\nthe second round brought {record['second_round']['gain']:.4f}\n"
    assert line in printed
    assert printed.index(line) < printed.rindex("\ndev ")

    # What it leaves answers: the files are those of the saved model.
    opened = open_run(folder)
    for task in ("sst", "sts"):
        written = read_predictions(folder / "predictions" / f"{task}-dev-output.csv", TASKS[task])
        outputs = TASKS[task].decode(opened.outputs(task, "dev"))
        assert list(written.values()) == pytest.approx(outputs, abs=1e-5)

    tasks = {task: TASKS[task] for task in ("sst", "sts")}
    outputs = {task: opened.outputs(task, "dev") for task in tasks}
    rows = {task: opened.tables[task]["dev"].examples for task in tasks}
    reported = ReportedRun(folder, record, tasks, "", rows, outputs, None)
    assert "Second round" in [section.title for section in report_sections(reported)]
    assert "It was trained twice." in card_sections(reported)[0].prose


def test_a_stopped_plan_goes_on_where_it_stopped(flags, tmp_path, capsys, monkeypatch):
    flags = [*flags, "--epochs", "2", "--save_every", "1"]
    assert run_multitask.main([*flags, "--name", "whole"]) == 0
    whole, _ = finished(tmp_path / "whole", capsys)

    save = Loop.save

    def stop_in_the_second_round(loop):
        save(loop)
        if loop.job.name == "second-round":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "save", stop_in_the_second_round)
        assert run_multitask.main([*flags, "--name", "stopped"]) == 130
    assert run_multitask.main(["--resume", str(tmp_path / "stopped")]) == 0
    stopped, _ = finished(tmp_path / "stopped", capsys)
    assert stopped["second_round"] == whole["second_round"]
    assert stopped["predictions"] == whole["predictions"]


def test_a_plan_that_is_not_asked_for_leaves_nothing(flags, tmp_path, capsys):
    assert run_multitask.main([*flags, "--epochs", "1", "--name", "mine"]) == 0
    record, printed = finished(tmp_path / "mine", capsys)
    assert "second_round" not in record and "second-round" not in printed
