"""minbert/training/tensorboard.py: the curves of a job, also of one that is stopped and resumed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from minbert.training.job import Job
from minbert.training.job_logs import log_steps
from minbert.training.loop import fit
from tests.toy_job import NUM_STEPS, Kill, make_job

pytest.importorskip("tensorboard", reason="it is optional; run setup.sh --plots")


def watched(folder: Path, **changes) -> Job:
    """The toy job with both logs in `folder`, as a new process would make it."""
    job = make_job(folder, save_every=2, **changes)
    log_steps([job], folder, has_tensorboard=True)
    return job


def curves(folder: Path, stage: str = "toy") -> dict[str, dict[int, float]]:
    """The points of each curve of a stage, by step. No step may come twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard" / stage)).Reload()
    points = {}
    for tag in events.Tags()["scalars"]:
        scalars = events.Scalars(tag)
        points[tag] = {scalar.step: scalar.value for scalar in scalars}
        assert len(points[tag]) == len(scalars), f"{tag} has a step twice"
    return points


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of the toy job when nothing stops it, and its scores."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, fit(watched(folder)).history


def test_the_curves_are_those_of_the_step_log(whole):
    folder, _ = whole
    points = curves(folder)
    with open(folder / "log.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == NUM_STEPS
    for tag in ("loss", "learning_rate", "gradient_norm"):
        written = {int(row["step"]): float(row[tag]) for row in rows}
        assert points[tag] == pytest.approx(written, rel=1e-6)
    for task in ("a", "b"):
        column = f"loss_{task}"
        written = {int(row["step"]): float(row[column]) for row in rows if row[column]}
        assert points[f"loss_of_task/{task}"] == pytest.approx(written, rel=1e-6)


def test_each_evaluation_has_its_scores(whole):
    folder, history = whole
    points = curves(folder)
    names = history[0].keys() - {"epoch", "step", "loss"}
    assert {tag for tag in points if tag.startswith("dev/")} == {f"dev/{name}" for name in names}
    for name in names:
        written = {entry["step"]: entry[name] for entry in history}
        assert points[f"dev/{name}"] == pytest.approx(written, rel=1e-6)


@pytest.mark.parametrize(("when", "number"), [("step", 9), ("evaluation", 2)])
def test_a_killed_and_resumed_run_has_the_same_curves(whole, tmp_path, when, number):
    def kill(now, count):
        if (now, count) == (when, number):
            raise Kill

    with pytest.raises(Kill):
        fit(watched(tmp_path, disturb=kill))
    fit(watched(tmp_path), resume=True)
    assert curves(tmp_path) == curves(whole[0])


def test_a_kill_behind_the_last_checkpoint_loses_no_scores(whole, tmp_path):
    """Nothing is left to train then, but the last evaluation is not drawn yet."""
    job = watched(tmp_path)
    draw = job.on_evaluation

    def killed(history):
        if history[-1]["step"] == NUM_STEPS:
            raise Kill
        draw(history)

    job.on_evaluation = killed
    with pytest.raises(Kill):
        fit(job)
    fit(watched(tmp_path), resume=True)
    assert curves(tmp_path) == curves(whole[0])
