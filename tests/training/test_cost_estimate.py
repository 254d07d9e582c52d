"""minbert/training/cost_estimate.py: a probe leaves no trace, and its estimate is arithmetic.

If a run with a probe differs from one without, the probe has moved weights, moments, random states
or the state of a surgery.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import run_multitask
from minbert import AdamW
from minbert.training import cost_estimate, runtime
from minbert.training.cost_estimate import (
    CostEstimate,
    check_disk,
    comparison,
    estimate,
    probe,
    write_estimates,
)
from minbert.training.job import Job, TaskBatch
from minbert.training.loop import fit

NUM_ROWS = 12
FILES = ("cost_estimate.json", "price.json")  # as now, and as commit 94b06e7 named it


@dataclass
class Rows:
    """A batch of the toy job."""

    input_ids: torch.Tensor
    ids: tuple[str, ...]


def make_job(folder: Path, **changes) -> Job:
    """A regression of 49 parameters with dropout: 6 steps of 2 rows in each of 2 epochs."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    inputs = torch.randn(NUM_ROWS, 4, generator=torch.Generator().manual_seed(2))

    def plan(epoch, generator):
        order = torch.randperm(NUM_ROWS, generator=generator).tolist()
        return [[TaskBatch("only", order[start : start + 2])] for start in range(0, NUM_ROWS, 2)]

    job = Job(
        name="toy",
        folder=folder,
        model=model,
        optimizer=AdamW(model.parameters(), lr=0.01, weight_decay=0.1),
        plan=plan,
        load=lambda task, rows: Rows(inputs[rows], tuple(map(str, rows))),
        loss=lambda task, batch: model(batch.input_ids).square().mean(),
        evaluate=lambda: {"score": -float(model[0].weight.detach().square().sum())},
        score="score",
        epochs=2,
        device=torch.device("cpu"),
        precision="fp32",
        seed=3,
    )
    return replace(job, **changes)


def plan_of(*sizes: int) -> Callable:
    """A plan of steps with these numbers of rows."""
    steps = [[TaskBatch("only", list(range(size)))] for size in sizes]
    return lambda epoch, generator: steps


def weights_of(job: Job) -> list[bytes]:
    """The weights to the bit."""
    return [parameter.detach().numpy().tobytes() for parameter in job.model.parameters()]


# --- a probe leaves no trace ----------------------------------------------------------------------


def test_a_probe_leaves_no_trace(tmp_path):
    job = make_job(tmp_path)
    job.optimizer.param_groups[0]["lr"] = 0.02
    before = weights_of(job)
    random_state = runtime.random_state()
    probe(job)
    assert weights_of(job) == before
    assert not job.optimizer.state
    assert all(parameter.grad is None for parameter in job.model.parameters())
    assert [group["lr"] for group in job.optimizer.param_groups] == [0.02]
    for name, tensor in runtime.random_state().items():
        assert torch.equal(tensor, random_state[name]), name
    assert list(tmp_path.iterdir()) == []


def test_a_probe_leaves_no_trace_of_draws_while_batches_are_loaded(tmp_path):
    job = make_job(tmp_path)

    def load(task, rows):
        torch.rand(3)
        return job.load(task, rows)

    before = runtime.random_state()["torch"]
    probe(replace(job, load=load))
    assert torch.equal(runtime.random_state()["torch"], before)


def test_a_probe_leaves_no_trace_in_the_surgery(tmp_path):
    class Counting:
        """A surgery that counts its steps."""

        def __init__(self):
            self.steps = torch.zeros(1)

        def __call__(self, gramian, losses):
            self.steps += 1
            return torch.ones(len(losses), dtype=torch.float64)

        def state_dict(self):
            return {"steps": self.steps.clone()}

        def load_state_dict(self, state):
            self.steps = state["steps"].clone()

    job = make_job(tmp_path, surgery=Counting())
    probe(job)
    assert job.surgery.steps == 0


def test_a_probe_without_its_precautions_would_leave_one(tmp_path, monkeypatch):
    """The negative control: real steps at the real learning rate do move the weights."""
    job = make_job(tmp_path)
    before = weights_of(job)

    def careless(job, update):
        for task, rows, weight in update:
            (job.loss(task, job.load(task, rows)) * weight).backward()
        job.optimizer.step()

    monkeypatch.setattr(cost_estimate, "rehearse", careless)
    probe(job)
    assert weights_of(job) != before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_does_not_reach_the_weights(tmp_path, value):
    """The loop must find it, and name step and batch."""
    job = make_job(tmp_path)
    before = weights_of(job)
    probe(replace(job, loss=lambda task, batch: job.loss(task, batch) * value))
    assert weights_of(job) == before


def test_a_run_with_a_probe_equals_one_without(tmp_path):
    probed = make_job(tmp_path / "probed")
    other = make_job(tmp_path / "not")
    probe(probed)
    assert fit(probed).history == fit(other).history
    assert weights_of(probed) == weights_of(other)


def test_frozen_parameters_are_frozen_while_the_job_is_timed(tmp_path):
    job = make_job(tmp_path)
    first = job.model[0]
    were_trained = []

    def loss(task, batch):
        were_trained.append(first.weight.requires_grad)
        return job.loss(task, batch)

    probe(replace(job, frozen=tuple(first.parameters()), loss=loss))
    assert were_trained and not any(were_trained) and first.weight.requires_grad


def test_training_is_what_is_timed(tmp_path):
    """With its dropout, whatever mode the model came in."""
    job = make_job(tmp_path)
    modes = []

    def loss(task, batch):
        modes.append(job.model.training)
        return job.loss(task, batch)

    job.model.eval()
    probe(replace(job, loss=loss))
    assert modes and all(modes)


# --- the estimate ---------------------------------------------------------------------------------


def fake_clock(monkeypatch, *seconds: float) -> None:
    """perf_counter, such that the nth timed step takes seconds[n]."""
    moments = []
    for number, length in enumerate(seconds):
        moments += [100 * number, 100 * number + length]
    clock = iter(moments)
    monkeypatch.setattr(cost_estimate, "time", SimpleNamespace(perf_counter=lambda: next(clock)))


def test_the_estimate_by_hand(tmp_path, monkeypatch):
    """6 steps of 2 x 4 = 8 tokens, 2 epochs. Two steps warm up, and the median of four counts."""
    # Median of 0.1, 0.2, 0.1 and 12.4 seconds per token: 0.15.
    fake_clock(monkeypatch, 50.0, 20.0, 0.8, 1.6, 0.8, 99.0)
    cost = probe(make_job(tmp_path, evaluation_tokens=60, closing_tokens=30))
    assert cost.name == "toy" and cost.num_steps == 12
    tokens = 12 * 8 + (2 * 60 + 30) / 3  # a forward pass costs a third of a step
    assert cost.seconds == pytest.approx(tokens * 0.15)
    assert cost.disk == 8 * (4 * 8 + 8 + 8 + 1) * 4  # eight copies of 49 parameters of 4 bytes
    assert cost.peak_memory > 10e6


def test_predictions_are_not_dearer_where_the_steps_are(tmp_path, monkeypatch):
    """A regulariser makes a step as long as three. The timed steps have it, predictions do not."""
    fake_clock(monkeypatch, 50.0, 20.0, 0.8, 0.8, 0.8, 0.8)
    cost = probe(make_job(tmp_path, evaluation_tokens=60, closing_tokens=30, step_cost=3.0))
    tokens = 12 * 8 + (2 * 60 + 30) / 3 / 3
    assert cost.seconds == pytest.approx(tokens * 0.1)


def test_of_several_processes_one_alone_predicts(tmp_path, monkeypatch):
    """So a predicted token takes it as long as a token of a shared step takes all of them."""
    fake_clock(monkeypatch, *[1.0] * 6)
    monkeypatch.setattr(cost_estimate, "rehearse", lambda job, update: None)
    monkeypatch.setattr(cost_estimate, "processes", SimpleNamespace(count=lambda: 3))
    cost = probe(make_job(tmp_path, evaluation_tokens=60, closing_tokens=30))
    tokens = 12 * 8 + 3 * (2 * 60 + 30) / 3
    assert cost.seconds == pytest.approx(tokens / 8)  # a step of 8 tokens takes a second


def rehearsed_sizes(monkeypatch) -> list[int]:
    """A list that receives the number of rows of each step that is rehearsed."""
    sizes: list[int] = []
    monkeypatch.setattr(
        cost_estimate, "rehearse", lambda job, update: sizes.append(len(update[0].rows))
    )
    return sizes


def test_a_step_of_uneven_batches_is_scaled_by_tokens(tmp_path, monkeypatch):
    """Steps of 2 and of 6 rows: the mean step has 4 rows, and time goes with tokens."""
    # The largest of 24 tokens twice; then 24, 8, 8 and 8 tokens.
    fake_clock(monkeypatch, 9.0, 9.0, 3.0, 1.0, 1.0, 1.0)
    sizes = rehearsed_sizes(monkeypatch)
    cost = probe(make_job(tmp_path, plan=plan_of(6, 2, 6, 2), epochs=1))
    assert sizes == [6, 6, 6, 2, 2, 2]
    # 4 steps of 16 tokens on average, an eighth of a second for each token.
    assert cost.seconds == pytest.approx(4 * 16 / 8)


def test_the_largest_step_of_a_long_job_is_found(tmp_path, monkeypatch):
    """One of 1,500 has three rows, the others one. Memory goes with it."""
    sizes = rehearsed_sizes(monkeypatch)
    rows = [1] * 1500
    rows[1234] = 3
    probe(make_job(tmp_path, plan=plan_of(*rows), epochs=1))
    assert sizes[:3] == [3, 3, 1]


# --- kept for a resumed run, compared at the end --------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_estimates_are_kept_for_a_resumed_run(tmp_path, monkeypatch, name):
    job = make_job(tmp_path / "checkpoint")
    first = estimate([job], tmp_path, is_resumed=False)
    assert not list(tmp_path.glob("*.json")), "the run's folder has not begun yet"
    write_estimates(first, tmp_path)
    path = (tmp_path / "cost_estimate.json").rename(tmp_path / name)
    stored = json.loads(path.read_text())["jobs"]
    assert [CostEstimate(**item) for item in stored] == first
    refuse = lambda job: pytest.fail("a resumed run does not probe")  # noqa: E731
    monkeypatch.setattr(cost_estimate, "probe", refuse)
    assert estimate([job], tmp_path, is_resumed=True) == first


NO_NUMBER = json.dumps(
    {"jobs": [{"name": "toy", "num_steps": 9, "seconds": {}, "peak_memory": 1, "disk": 1}]}
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, "", "{}", '{"jobs": [{}]}', NO_NUMBER])
def test_without_its_estimate_or_with_a_damaged_one_a_run_probes_again(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert estimate([make_job(tmp_path)], tmp_path, is_resumed=True)[0].num_steps == 12


def test_a_disk_with_too_little_space(tmp_path, monkeypatch):
    usage = SimpleNamespace(free=69_000_000)
    monkeypatch.setattr(cost_estimate.shutil, "disk_usage", lambda folder: usage)
    message = "run: 69 MB free on its disk; this run needs 70 MB .*on another disk"
    with pytest.raises(ValueError, match=message):
        check_disk(70_000_000, tmp_path / "run")
    usage.free = 70_000_000
    check_disk(70_000_000, tmp_path / "run")


def test_the_closing_line():
    costs = [CostEstimate("a", 1, 60.0, 10**9, 1), CostEstimate("b", 1, 120.0, 2 * 10**9, 1)]
    assert comparison(costs, 150.0, 15 * 10**8) == (
        "predicted 3.0 minutes and at least 2.0 GB, took 2.5 minutes and 1.5 GB"
    )
    assert comparison([], 150.0, 15 * 10**8) == "took 2.5 minutes and 1.5 GB"


def test_the_seconds_of_a_run_are_the_sum_of_its_jobs(
    tiny_model, sample_data, tmp_path, monkeypatch
):
    """Of the heads, of the tasks, and a little for the files."""
    monkeypatch.setattr(
        "multitask.plan_registry.fit", lambda *arguments: replace(fit(*arguments), seconds=1000.0)
    )
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--epochs", 1, "--heads_first", 1]
    flags += ["--output-dir", tmp_path, "--name", "run"]
    assert run_multitask.main(list(map(str, flags))) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert 2000 < record["actual"]["seconds"] < 2500


def test_two_jobs_made_alike_share_no_weights(tmp_path):
    """The tests above rest on it."""
    one = make_job(tmp_path)
    other = make_job(tmp_path)
    before = weights_of(other)
    assert weights_of(one) == before
    fit(one)
    assert weights_of(other) == before != weights_of(one)
