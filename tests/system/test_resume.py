"""The whole command, killed in each stage and interrupted from outside, ends in the same bits.

One run bears all three stops. `python -m tools.benchmarks.kill_resume` does the same at random
steps, as often as wanted.
"""

from __future__ import annotations

import signal

import pytest

import run_multitask
from command_line.options import Options
from minbert.commands.ending import this_python
from minbert.training import processes
from minbert.training.run_folder import LOCK_FILE
from tests.killed_runs import differences, finish, saved_step, settings, start, stop_when


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
