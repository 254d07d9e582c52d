"""The whole command, killed in each stage and interrupted from outside, ends in the same bits.

One run bears all three stops. `python -m tools.benchmarks.kill_resume` does the same at random
steps, as often as wanted.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import run_multitask
from command_line.options import Options
from minbert.commands.ending import this_python
from minbert.training import processes
from minbert.training.run_folder import LOCK_FILE
from tests.killed_runs import (
    RECORD_KEYS,
    TENSOR_FILES,
    differences,
    finish,
    saved_step,
    settings,
    stop_when,
)
from tests.python_processes import Running, start_python


def start(*flags: str | Path) -> Running:
    """Start run_multitask.py with `flags`."""
    return start_python("run_multitask.py", *flags)


@pytest.fixture(scope="module")
def flags(sample_data, tiny_model):
    return lambda folder: settings(tiny_model, sample_data, folder)


def stopped(run, stage: str, step: int, number: int, *flags) -> tuple[int, str]:
    """Start or resume, and send the signal once the stage has saved `step`.

    Returns the exit code and what was said on stderr.
    """
    process = start(*flags)
    assert stop_when(process, lambda: saved_step(run, stage) >= step, number), process.communicate()
    _, complaints = process.communicate(timeout=300)
    return process.returncode, complaints


def test_killed_in_each_stage_and_interrupted(tmp_path, flags):
    # Beside the other, for there are two cores.
    undisturbed = start(*flags(tmp_path / "undisturbed"))
    run = tmp_path / "stopped" / "run"
    assert stopped(run, "simcse", 6, signal.SIGKILL, *flags(run.parent))[0] == -signal.SIGKILL
    assert saved_step(run, "simcse") >= 6 and not (run / "encoder").exists()

    code, complaints = stopped(run, "multitask", 9, signal.SIGINT, "--resume", run)
    assert code == 130
    assert f"Stopped. Continue with: {this_python()} run_multitask.py --resume {run}" in complaints
    assert "Traceback" not in complaints
    step = saved_step(run, "multitask")

    code, _ = stopped(run, "multitask", step + 9, signal.SIGKILL, "--resume", run)
    assert code == -signal.SIGKILL and not (run / "run.json").exists()
    printed = finish(start("--resume", run))
    assert "encoder reused from" in printed and "leaderboard files:" in printed

    finish(undisturbed)
    assert differences(tmp_path / "undisturbed" / "run", run) == []
    assert not (run / "checkpoint").exists()
    assert "is finished, there is nothing to resume" in finish(start("--resume", run))


def test_that_a_run_is_finished_is_said_by_the_first_process_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "run.json").touch()
    # What a kill after the end of the run has left.
    for name in (".README.md.writing", LOCK_FILE):
        (tmp_path / name).touch()
    said_before_they_met = []
    monkeypatch.setattr(
        processes, "join", lambda device: said_before_they_met.append(capsys.readouterr().out)
    )
    run_multitask.run(Options.of(), tmp_path, is_resumed=True)
    assert said_before_they_met == [""] and "is finished" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


# --- the comparison itself ------------------------------------------------------------------------


@pytest.fixture
def two_equal_runs(tmp_path):
    """Two folders with what `differences` reads of a run: random tensors, six files, a record."""
    first = tmp_path / "first"
    generator = torch.Generator().manual_seed(0)
    for name in TENSOR_FILES:
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        tensors = {key: torch.randn(3, 4, generator=generator) for key in ("weight", "bias")}
        save_file(tensors, first / name)
    (first / "predictions").mkdir()
    for number in range(6):
        (first / "predictions" / f"{number}.csv").write_text(f"id , {number} \n")
    record = {key: {"value": 0.5} for key in RECORD_KEYS}
    (first / "run.json").write_text(json.dumps(record))
    return first, Path(shutil.copytree(first, tmp_path / "second"))


def test_equal_runs_do_not_differ(two_equal_runs):
    assert differences(*two_equal_runs) == []


@pytest.mark.parametrize("name", TENSOR_FILES)
def test_one_flipped_bit_in_one_tensor_is_noticed(two_equal_runs, name):
    """The lowest bit of one number: a comparison with a tolerance would not see it."""
    first, second = two_equal_runs
    tensors = load_file(second / name)
    tensors["bias"].view(torch.int32)[2, 3] ^= 1
    save_file(tensors, second / name)
    assert differences(first, second) == [f"{name}: bias"]


def test_a_zero_with_another_sign_and_a_missing_tensor_are_noticed(two_equal_runs):
    first, second = two_equal_runs
    name = TENSOR_FILES[1]
    for folder, zero in ((first, 0.0), (second, -0.0)):
        save_file({"weight": torch.full((2,), zero)}, folder / name)
    assert differences(first, second) == [f"{name}: weight"]
    save_file({"other": torch.zeros(2)}, second / name)
    assert differences(first, second) == [f"{name}: other tensors"]


def test_one_byte_and_one_entry_are_noticed(two_equal_runs):
    first, second = two_equal_runs
    (second / "predictions" / "4.csv").write_text("id , 5 \n")
    record = {key: {"value": 0.5} for key in RECORD_KEYS}
    (second / "run.json").write_text(json.dumps({**record, "scores": {"value": 0.5000000001}}))
    assert differences(first, second) == ["4.csv", "run.json: scores"]
