"""A run that is resumed with another number of processes: what is finished stays finished."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import run_multitask
from minbert.commands.files import digest_of_file, read_json
from minbert.training.loop import Loop
from minbert.training.step_log import LOG_FILE, read_log
from tests.forked_processes import forked
from tests.killed_runs import settings


def killed_in_the_tasks(flags: list[str]) -> int:
    """A run that dies without a word, in the fifth step of the tasks."""
    train_step = Loop.train_step

    def die(loop: Loop, update) -> None:
        if loop.job.name == "multitask" and loop.progress.step == 4:
            os._exit(9)
        train_step(loop, update)

    Loop.train_step = die  # type: ignore[method-assign]  # in a fork
    return run_multitask.main(flags)


def steps_of(run: Path) -> dict[str, list[int]]:
    """The steps in the log of a run, by stage."""
    steps: dict[str, list[int]] = {}
    for record in read_log(run / LOG_FILE):
        steps.setdefault(record.stage, []).append(record.step)
    return steps


@pytest.fixture(scope="module")
def undisturbed(sample_data, tiny_model, tmp_path_factory) -> Path:
    """A run of one process, from its beginning to its end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    flags = settings(tiny_model, sample_data, folder, "mlm,simcse")
    assert run_multitask.main(flags) == 0
    return folder / "run"


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3)])
def test_finished_stages_stay_finished(
    undisturbed, sample_data, tiny_model, tmp_path, before, after
):
    flags = settings(tiny_model, sample_data, tmp_path, "mlm,simcse")
    run = tmp_path / "run"
    forked(tmp_path, [lambda: killed_in_the_tasks(flags)] * before)
    assert (run / "options.json").is_file() and not (run / "run.json").exists()
    encoder = digest_of_file(run / "encoder" / "model.safetensors")
    assert len(steps_of(run)["simcse"]) == len(steps_of(undisturbed)["simcse"])

    ended = forked(tmp_path, [lambda: run_multitask.main(["--resume", str(run)])] * after)
    assert [process.code for process in ended] == [0] * after, ended[0].text
    assert "another number of processes" in ended[0].text
    assert ended[0].text.count("encoder reused from") == 2
    assert digest_of_file(run / "encoder" / "model.safetensors") == encoder
    assert steps_of(run) == steps_of(undisturbed)
    record = read_json(run / "run.json")
    whole = read_json(undisturbed / "run.json")
    assert record.keys() == whole.keys() and record["stages"].keys() == whole["stages"].keys()
    assert len(record["epochs"]) == len(whole["epochs"])
