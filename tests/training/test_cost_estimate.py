"""minbert/training/cost_estimate.py: a probe leaves no trace, and its estimate is arithmetic on what it timed."""

import copy
import json
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import run_multitask
from minbert import AdamW
from minbert.training import cost_estimate as price
from minbert.training import runtime
from minbert.training.cost_estimate import Price, check_disk, comparison, keep, probe, quote
from minbert.training.job import Job
from minbert.training.loop import fit

NUM_ROWS = 12


@dataclass
class Rows:
    input_ids: torch.Tensor
    ids: tuple[str, ...]


def make_job(folder, **changes) -> Job:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    inputs = torch.randn(NUM_ROWS, 4, generator=torch.Generator().manual_seed(2))

    def plan(epoch, generator):
        order = torch.randperm(NUM_ROWS, generator=generator).tolist()
        return [[("only", order[start : start + 2])] for start in range(0, NUM_ROWS, 2)]

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


def weights_of(job: Job) -> list[bytes]:
    return [parameter.detach().numpy().tobytes() for parameter in job.model.parameters()]


def test_a_probe_leaves_no_trace(tmp_path):
    job = make_job(tmp_path)
    job.optimizer.param_groups[0]["lr"] = 0.02
    before, random_state = weights_of(job), runtime.random_state()
    probe(job)
    assert weights_of(job) == before
    assert not job.optimizer.state and all(
        parameter.grad is None for parameter in job.model.parameters()
    )
    assert [group["lr"] for group in job.optimizer.param_groups] == [0.02]
    assert all(
        torch.equal(tensor, random_state[name]) for name, tensor in runtime.random_state().items()
    )
    assert list(tmp_path.iterdir()) == []


def test_a_probe_leaves_no_trace_in_the_surgery(tmp_path):
    class Counting:
        def __init__(self):
            self.steps = torch.zeros(1)

        def __call__(self, products, tasks):
            self.steps += 1
            return torch.ones(len(tasks), dtype=torch.float64)

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
    monkeypatch.setattr(
        price,
        "rehearse",
        lambda job, step: (
            [
                (job.loss(task, job.load(task, rows)) * weight).backward()
                for task, rows, weight in step
            ],
            job.optimizer.step(),
        ),
    )
    probe(job)
    assert weights_of(job) != before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_does_not_reach_the_weights(tmp_path, value):
    job = make_job(tmp_path)
    job = replace(job, loss=lambda task, batch, clean=job.loss: clean(task, batch) * value)
    before = weights_of(job)
    probe(job)
    assert (
        weights_of(job) == before
    )  # so that it is the loop which finds it, and names step and batch


def test_a_run_with_a_probe_equals_one_without(tmp_path):
    jobs = [make_job(tmp_path / name) for name in ("probed", "not")]
    probe(jobs[0])
    histories = [fit(job).history for job in jobs]
    assert histories[0] == histories[1] and weights_of(jobs[0]) == weights_of(jobs[1])


def test_what_the_job_freezes_is_frozen_while_it_is_timed(tmp_path):
    job = make_job(tmp_path)
    learned = []
    job = replace(
        job,
        frozen=tuple(job.model[0].parameters()),
        loss=lambda task, batch, clean=job.loss: (
            learned.append(job.model[0].weight.requires_grad),
            clean(task, batch),
        )[1],
    )
    probe(job)
    assert learned and not any(learned) and job.model[0].weight.requires_grad


def test_training_is_what_is_timed(tmp_path):
    job, modes = make_job(tmp_path), []
    job.model.eval()
    probe(
        replace(
            job, loss=lambda task, batch: modes.append(job.model.training) or job.loss(task, batch)
        )
    )
    assert modes and all(modes)  # with its dropout, whatever mode the model came in


def fake_clock(monkeypatch, seconds: list[float]) -> None:
    """perf_counter, such that the nth timed step takes seconds[n]."""
    moments = iter(
        [
            moment
            for start, length in enumerate(seconds)
            for moment in (100 * start, 100 * start + length)
        ]
    )
    monkeypatch.setattr(price, "time", SimpleNamespace(perf_counter=lambda: next(moments)))


def test_the_estimate_by_hand(tmp_path, monkeypatch):
    """6 steps of 2 x 4 = 8 tokens, 2 epochs; the first two are warming up, of the rest the median counts."""
    fake_clock(
        monkeypatch, [50.0, 20.0, 0.8, 1.6, 0.8, 99.0]
    )  # median of 0.1, 0.2, 0.1 and 12.4 seconds a token: 0.15
    found = probe(make_job(tmp_path, evaluation_tokens=60, closing_tokens=30))
    assert found.name == "toy" and found.num_steps == 12
    tokens = 12 * 8 + (2 * 60 + 30) / 3  # a forward pass costs a third of a step
    assert found.seconds == pytest.approx(tokens * 0.15)
    assert found.disk == 8 * (4 * 8 + 8 + 8 + 1) * 4  # eight copies of 49 parameters of four bytes
    assert found.peak_memory > 10e6
    assert str(Price("toy", 1200, 90.0, 2 * 10**9, 3 * 10**6)) == (
        "toy: 1,200 steps, about 1.5 minutes, at least 2.0 GB of memory, 3 MB on disk"
    )


def test_of_several_processes_one_alone_predicts(tmp_path, monkeypatch):
    """So a token of an evaluation takes that one as long as one of a shared step takes all of them."""
    fake_clock(monkeypatch, [1.0] * 6)
    monkeypatch.setattr(price, "rehearse", lambda job, step: None)
    monkeypatch.setattr(price, "processes", SimpleNamespace(count=lambda: 3))
    found = probe(make_job(tmp_path, evaluation_tokens=60, closing_tokens=30))
    assert found.seconds == pytest.approx(
        (12 * 8 + 3 * (2 * 60 + 30) / 3) / 8
    )  # a step of 8 tokens takes a second


@pytest.mark.parametrize("factor", [1, 3, 10])
def test_the_estimate_scales_with_the_steps(tmp_path, monkeypatch, factor):
    fake_clock(monkeypatch, [1.0] * 6)
    found = probe(make_job(tmp_path, epochs=2 * factor))
    assert found.num_steps == 12 * factor and found.seconds == pytest.approx(
        12 * factor
    )  # a second a step


def test_a_step_of_uneven_batches_is_scaled_by_tokens(tmp_path, monkeypatch):
    """Steps of 2 and of 6 rows: the mean step has 4 rows, and time goes with tokens."""
    fake_clock(
        monkeypatch, [9.0, 9.0, 3.0, 1.0, 1.0, 1.0]
    )  # the largest, 24 tokens, twice; 24, 8, 8, 8
    plan = lambda epoch, generator: [[("only", list(range(size)))] for size in (6, 2, 6, 2)]  # noqa: E731
    sizes = []
    monkeypatch.setattr(price, "rehearse", lambda job, step: sizes.append(len(step[0][1])))
    found = probe(make_job(tmp_path, plan=plan, epochs=1))
    assert sizes == [6, 6, 6, 2, 2, 2]
    assert found.seconds == pytest.approx(
        4 * 16 / 8
    )  # 4 steps of 16 tokens on average, an eighth of a second each


def test_the_largest_step_of_a_long_job_is_found(tmp_path, monkeypatch):
    """One of 1,500 has three rows, the others one. Memory goes with it."""
    monkeypatch.setattr(price, "rehearse", lambda job, step: sizes.append(len(step[0][1])))
    sizes = []
    plan = lambda epoch, generator: [
        [("only", [0, 1, 2] if place == 1234 else [0])] for place in range(1500)
    ]  # noqa: E731
    probe(make_job(tmp_path, plan=plan, epochs=1))
    assert sizes[:3] == [3, 3, 1]


def test_prices_are_kept_for_a_resumed_run(tmp_path, monkeypatch):
    job = make_job(tmp_path / "checkpoint")
    first = quote([job], tmp_path, is_resumed=False)
    assert not list(tmp_path.glob("*.json"))  # the run's folder has not begun yet
    keep(first, tmp_path)
    stored = json.loads((tmp_path / "price.json").read_text())["jobs"]
    assert [Price(**item) for item in stored] == first
    monkeypatch.setattr(price, "probe", lambda job: pytest.fail("a resumed run does not probe"))
    assert quote([job], tmp_path, is_resumed=True) == first


@pytest.mark.parametrize("content", [None, "", "{}", '{"jobs": [{}]}'])
def test_a_run_without_its_price_or_with_a_damaged_one_asks_again(tmp_path, content):
    if content is not None:
        (tmp_path / "price.json").write_text(content)
    assert quote([make_job(tmp_path)], tmp_path, is_resumed=True)[0].num_steps == 12


def test_a_disk_with_too_little_room(tmp_path, monkeypatch):
    prices = [Price("a", 1, 1.0, 1, 30_000_000), Price("b", 1, 1.0, 1, 40_000_000)]
    monkeypatch.setattr(price.shutil, "disk_usage", lambda folder: SimpleNamespace(free=69_000_000))
    with pytest.raises(
        ValueError, match="run: 69 MB free on its disk; this run needs 70 MB .*on another disk"
    ):
        check_disk(prices, tmp_path / "run")
    monkeypatch.setattr(price.shutil, "disk_usage", lambda folder: SimpleNamespace(free=70_000_000))
    check_disk(prices, tmp_path / "run")


def test_the_closing_line():
    prices = [Price("a", 1, 60.0, 10**9, 1), Price("b", 1, 120.0, 2 * 10**9, 1)]
    assert comparison(prices, 150.0, 15 * 10**8) == (
        "predicted 3.0 minutes and at least 2.0 GB, took 2.5 minutes and 1.5 GB"
    )


def test_what_a_run_took_is_the_sum_of_its_jobs(tiny_model, sample_data, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "minbert.training.loop.fit", lambda *given: replace(fit(*given), seconds=1000.0)
    )
    assert (
        run_multitask.main(
            [
                "--model",
                str(tiny_model),
                "--data-dir",
                str(sample_data),
                "--epochs",
                "1",
                "--heads_first",
                "1",
                "--output-dir",
                str(tmp_path),
                "--name",
                "run",
            ]
        )
        == 0
    )
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert (
        2000 < record["actual"]["seconds"] < 2500
    )  # of the heads, of the tasks, and a little for the files


def test_the_copy_of_a_job_is_independent(tmp_path):
    """What the tests above rest on: two jobs made alike have the same weights and share none."""
    one, other = make_job(tmp_path), make_job(tmp_path)
    before = copy.deepcopy(weights_of(other))
    fit(one)
    assert weights_of(other) == before != weights_of(one)
