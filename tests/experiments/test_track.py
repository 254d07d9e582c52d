"""experiments/track.py: a finished run in a tracker."""

from __future__ import annotations

import csv
import json
import sys
import types

import pytest

from experiments import track
from minbert.commands.optional import install_command


@pytest.fixture
def tracker(monkeypatch):
    """A module in place of trackio that keeps what it is told."""
    module = types.ModuleType("trackio")
    module.calls = []
    module.init = lambda **settings: module.calls.append(("init", settings))
    module.log = lambda values, step: module.calls.append((step, values))
    module.finish = lambda: module.calls.append(("finish", {}))
    monkeypatch.setitem(sys.modules, "trackio", module)
    return module


def test_each_step_and_each_score_is_sent_once(two_runs, tracker, capsys):
    folder = two_runs[0]
    assert track.main([str(folder), "--project", "mine"]) == 0
    (_, settings), *logged, last = tracker.calls
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert settings == {"project": "mine", "name": folder.name, "config": record["options"]}
    assert last[0] == "finish"

    with open(folder / "log.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    *steps, (_, final) = logged
    assert [step for step, _ in logged] == list(range(1, len(rows) + 2))
    losses = [values[f"{row['stage']}/loss"] for row, (_, values) in zip(rows, steps, strict=True)]
    assert losses == [float(row["loss"]) for row in rows]
    for entry in record["epochs"]:
        sent = [values for _, values in steps if values.get("dev/sst") == entry["sst"]]
        assert sent, f"the scores of epoch {entry['epoch']} are missing"
    assert final == {f"final/{name}": score for name, score in record["scores"].items()}
    assert "steps are in trackio, project mine" in capsys.readouterr().out


def test_without_the_package_it_says_what_to_install(two_runs, tracker, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert track.main([str(two_runs[0]), "--to", "wandb"]) == 2
    said = capsys.readouterr().err
    assert (
        f"wandb is not installed. Run `{install_command(['wandb'])}`, or pass --to trackio." in said
    )
    assert track.main([str(two_runs[0]), "--to", "trackio"]) == 0


def test_what_a_tracker_refuses_is_said(two_runs, tracker, monkeypatch, capsys):
    """wandb raises an exception of its own where nobody has logged in."""

    class UsageError(Exception):
        pass

    def refuse(**settings):
        raise UsageError("No API key configured.")

    tracker.init = refuse
    monkeypatch.setitem(sys.modules, "wandb", tracker)
    assert track.main([str(two_runs[0]), "--to", "wandb"]) == 2
    said = capsys.readouterr().err
    assert "wandb did not take the run (UsageError: No API key configured." in said
    assert "WANDB_MODE=offline" in said


def test_trackio_itself_takes_a_run(two_runs, monkeypatch, tmp_path):
    """Only where it is installed. It writes into a folder, and opens no connection."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    pytest.importorskip("trackio")
    assert track.main([str(two_runs[0])]) == 0
    assert list(tmp_path.rglob("*.db"))
