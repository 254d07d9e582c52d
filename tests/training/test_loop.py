"""minbert/training/loop.py: it trains as a loop written by hand, and stops at nan and infinity.

If the weights differ from those of the loop by hand, gradients were not cleared, or the schedule is
one step off. test_loop_resume.py has the law of resuming. Both use the job of toy_job.py.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from minbert.training.job import Job, Part, TaskBatch
from minbert.training.loop import NonFiniteLoss, fit
from tests.toy_job import BATCH_SIZE, EPOCHS, NUM_STEPS, Kill, bits, make_job


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bits of the toy job when nothing stops it."""
    job = make_job(tmp_path_factory.mktemp("undisturbed"))
    return bits(job, fit(job))


def test_the_loss_falls_and_the_record_is_complete(undisturbed):
    history = undisturbed["history"]
    assert [entry["step"] for entry in history] == [5, 10, 15]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert set(history[0]) == {"epoch", "step", "loss", "score", "a", "b"}
    assert history[0]["loss"] > history[1]["loss"] > history[2]["loss"]
    assert history[0]["score"] < history[1]["score"] < history[2]["score"]
    assert undisturbed["is_finished"]
    assert undisturbed["step"] == undisturbed["num_steps"] == NUM_STEPS


def test_the_recorded_loss_is_the_mean_since_the_evaluation_before(tmp_path):
    job = make_job(tmp_path)
    losses = []

    def loss(task, batch):
        losses.append(job.loss(task, batch))
        return losses[-1]

    history = fit(replace(job, loss=loss)).history
    means = [torch.stack(losses[start : start + 5]).mean().item() for start in (0, 5, 10)]
    assert [entry["loss"] for entry in history] == pytest.approx(means)


def test_equal_to_a_loop_written_by_hand(tmp_path):
    """Also the test that gradients start at nothing in each step."""
    job = make_job(tmp_path, warmup=0.2, max_grad_norm=0.5)
    other = make_job(tmp_path)
    fit(job)
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.SGD(other.model.parameters(), lr=0.05)  # for zero_grad only
    number = 0
    best = None
    for epoch in range(EPOCHS):
        for ((task, rows),) in other.plan(epoch, generator):
            optimizer.zero_grad()
            batch = other.load(task, rows)
            nn.functional.mse_loss(other.model(task, batch.inputs), batch.targets).backward()
            nn.utils.clip_grad_norm_(other.model.parameters(), 0.5)
            # 0.2 x 15 = 3 steps of warm-up.
            factor = min((number + 1) / 3, (NUM_STEPS - number) / (NUM_STEPS - 3))
            other.optimizer.param_groups[0]["lr"] = 0.05 * factor
            other.optimizer.step()
            number += 1
        score = other.evaluate()["score"]
        if best is None or score > best[0]:
            best = (score, copy.deepcopy(other.model.state_dict()))
    assert_equal(job.model.state_dict(), best[1])


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """The same tensors, to the bit."""
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_a_seed_fixes_the_run(tmp_path, undisturbed):
    job = make_job(tmp_path / "same")
    torch.rand(10)
    assert bits(job, fit(job)) == undisturbed
    other = make_job(tmp_path / "other", seed=3)
    assert bits(other, fit(other))["weights"] != undisturbed["weights"]


@pytest.mark.parametrize(("name", "peak"), [("linear", 0.05), ("cosine", 0.05), ("constant", 0.05)])
def test_the_schedule_is_applied(tmp_path, name, peak):
    rates = []
    job = make_job(tmp_path, schedule=name, warmup=0.2)
    step = job.optimizer.step

    def watched():
        rates.append(job.optimizer.param_groups[0]["lr"])
        step()

    job.optimizer.step = watched
    fit(job)
    assert rates[:3] == pytest.approx([peak / 3, 2 * peak / 3, peak])  # 3 steps of warm-up
    expected = {
        "linear": peak / 12,
        "cosine": peak * 0.5 * (1 + math.cos(math.pi * 11 / 12)),
        "constant": peak,
    }
    assert len(rates) == NUM_STEPS and rates[-1] == pytest.approx(expected[name])


def gradient_of_first_step(job: Job) -> list[torch.Tensor | None]:
    """What stands in .grad of each parameter before the first update."""
    gradients: list[torch.Tensor | None] = []

    def look():
        for parameter in job.model.parameters():
            gradients.append(None if parameter.grad is None else parameter.grad.clone())
        raise Kill

    job.optimizer.step = look
    with pytest.raises(Kill):
        fit(job)
    return gradients


@pytest.mark.parametrize("limit", [1e-3, 1e3, 0])
def test_clipping(tmp_path, limit):
    free = gradient_of_first_step(make_job(tmp_path / "free", max_grad_norm=0))
    clipped = gradient_of_first_step(make_job(tmp_path / "clipped", max_grad_norm=limit))
    norm = torch.cat([g.flatten() for g in free if g is not None]).norm()
    scale = min(1.0, limit / (float(norm) + 1e-6)) if limit else 1.0
    for one, other in zip(free, clipped, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(other, one * scale, rtol=1e-6, atol=0)  # fp32: one product


def test_accumulation_is_a_larger_batch(tmp_path):
    """Two batches of four in one update = one batch of eight: the mean of equal-sized means."""

    def one_task(size):
        steps = [[TaskBatch("a", list(range(start, start + size)))] for start in range(0, 16, size)]
        return lambda epoch, generator: steps

    common = {"dropout": 0.0, "max_grad_norm": 0}
    small = make_job(tmp_path / "small", plan=one_task(4), accumulation=2, **common)
    large = make_job(tmp_path / "large", plan=one_task(8), **common)
    of_small = gradient_of_first_step(small)
    of_large = gradient_of_first_step(large)
    for one, other in zip(of_small, of_large, strict=True):
        if one is not None:
            # fp32 sums in another order.
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    for job in (small, large):
        assert len(job.epoch_steps(0, torch.Generator())) == 2


def test_a_step_of_two_tasks_is_weighed(tmp_path):
    """The last update joins one step only, so its weights are not halved."""
    steps = [[TaskBatch("a", [0, 1]), TaskBatch("b", [2, 3])]] * 3
    job = make_job(
        tmp_path,
        plan=lambda epoch, generator: steps,
        weigh=lambda tasks: [0.25, 0.75],
        accumulation=2,
    )
    assert job.epoch_steps(0, torch.Generator()) == [
        [Part("a", [0, 1], 0.125), Part("b", [2, 3], 0.375)] * 2,
        [Part("a", [0, 1], 0.25), Part("b", [2, 3], 0.75)],
    ]
    with pytest.raises(ValueError):
        replace(job, weigh=lambda tasks: [1.0]).epoch_steps(0, torch.Generator())


@pytest.mark.parametrize(("patience", "evaluations"), [(0, 6), (1, 3), (2, 6), (3, 6)])
def test_patience(tmp_path, patience, evaluations):
    """Scores 1, 3, 2, 4, 3, 4: one without a gain comes third, and two in a row only at the end."""
    scores = iter([1.0, 3.0, 2.0, 4.0, 3.0, 4.0])
    job = make_job(tmp_path, evaluate=lambda: {"score": next(scores)}, epochs=6, patience=patience)
    progress = fit(job)
    assert len(progress.history) == evaluations and progress.is_finished
    assert progress.best_score == (3.0 if patience == 1 else 4.0)
    assert fit(replace(job, patience=patience), resume=True).history == progress.history


@pytest.mark.parametrize(
    ("parts", "points"),
    [(1, [5]), (2, [3, 5]), (4, [2, 3, 4, 5]), (5, [1, 2, 3, 4, 5]), (9, [1, 2, 3, 4, 5])],
)
def test_evaluations_within_an_epoch(tmp_path, parts, points):
    job = make_job(tmp_path, evaluations_per_epoch=parts, epochs=2)
    history = fit(job).history
    assert [entry["step"] for entry in history] == points + [5 + point for point in points]


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_best_is_kept_and_not_the_last(tmp_path, best):
    seen = []
    job = make_job(tmp_path)

    def evaluate():
        seen.append(copy.deepcopy(job.model.state_dict()))
        return {"score": float(len(seen) == best + 1)}

    progress = fit(replace(job, evaluate=evaluate))
    assert progress.best_step == 5 * (best + 1) and progress.best_score == 1.0
    assert_equal(job.model.state_dict(), seen[best])
    assert not torch.equal(seen[best]["body.weight"], seen[best - 1]["body.weight"])


@pytest.mark.parametrize("keeps_last", [True, False])
def test_the_last_is_kept_where_the_job_says_so(tmp_path, keeps_last):
    """The scores fall, so the first one is the best."""
    seen = []
    job = make_job(tmp_path, epochs=3, keeps_last=keeps_last)

    def evaluate():
        seen.append(copy.deepcopy(job.model.state_dict()))
        return {"score": -float(len(seen))}

    progress = fit(replace(job, evaluate=evaluate))
    kept = -1 if keeps_last else 0
    assert progress.best_step == (15 if keeps_last else 5)
    assert_equal(job.model.state_dict(), seen[kept])


def test_of_equal_scores_the_first_is_kept(tmp_path):
    assert fit(replace(make_job(tmp_path), evaluate=lambda: {"score": 0.5})).best_step == 5


def test_the_lower_is_kept_where_the_score_says_so(tmp_path):
    losses = iter([3.0, 1.0, 2.0])
    evaluate = lambda: {"loss_of_dev": next(losses), "score": 0.0}  # noqa: E731
    job = make_job(tmp_path, epochs=3, evaluate=evaluate, score="-loss_of_dev")
    progress = fit(job)
    assert (progress.best_step, progress.best_score) == (10, -1.0)


def test_frozen_and_untouched_parameters_keep_their_bits(tmp_path):
    steps = [[TaskBatch("a", [0, 1, 2, 3])]] * 4
    job = make_job(tmp_path, plan=lambda epoch, generator: steps)
    job = replace(job, frozen=tuple(job.model.body.parameters()))
    before = copy.deepcopy(job.model.state_dict())
    fit(job)
    assert job.model.body.weight.requires_grad  # the next job may train it
    after = job.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    # Not the frozen body, the other head (which would decay), the idle parameter.
    assert moved == {"heads.a.weight", "heads.a.bias"}


def test_a_head_without_a_batch_in_the_step_stands_still(tmp_path):
    """After it was trained once. A gradient of zeros would let moments and decay move it."""
    steps = [[TaskBatch("a", [0, 1])], [TaskBatch("b", [0, 1])]]
    job = make_job(tmp_path, epochs=1, plan=lambda epoch, generator: steps)
    weights = []
    step = job.optimizer.step

    def watched():
        step()
        weights.append(job.model.heads["a"].weight.detach().clone())

    job.optimizer.step = watched
    fit(job)
    assert torch.equal(weights[0], weights[1])


# --- it refuses -----------------------------------------------------------------------------------


def poisoned(job: Job, number: int, kind: str, value: float) -> Job:
    """The job with a loss or a gradient of `value` in its `number`th batch."""
    count = 0

    def loss(task, batch):
        nonlocal count
        count += 1
        clean = job.loss(task, batch)
        if count == number and kind == "loss":
            return clean * value
        if count == number:
            clean.register_hook(lambda gradient: gradient * value)
        return clean

    return replace(job, loss=loss)


@pytest.mark.parametrize("kind", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("limit", [1.0, 0])
def test_a_number_that_is_not_finite_stops_the_job(tmp_path, kind, value, limit):
    job = poisoned(make_job(tmp_path, max_grad_norm=limit), 4, kind, value)
    states = []
    step = job.optimizer.step

    def watched():
        step()
        states.append(copy.deepcopy(job.model.state_dict()))

    job.optimizer.step = watched
    with pytest.raises(NonFiniteLoss) as raised:
        fit(job)
    task, rows = make_job(tmp_path).plan(0, torch.Generator().manual_seed(2))[3][0]
    message = str(raised.value)
    assert message.startswith(f"toy: the {kind}") and "at step 4 of 15" in message
    names = ", ".join(f"row-{row}" for row in rows)
    assert f"Batch: {task}: {names}." in message
    assert f"Last good checkpoint: {tmp_path} (step 2)" in message
    assert "learning rate (--lr, " in message
    assert len(states) == 3  # the weights are those after step 3
    assert_equal(job.model.state_dict(), states[-1])


def test_without_a_checkpoint_it_says_so(tmp_path):
    with pytest.raises(NonFiniteLoss, match="at step 1 of 15.*Last good checkpoint: none yet"):
        fit(poisoned(make_job(tmp_path), 1, "loss", math.nan))

    # The advice works: what a learning rate brings about, a lower one mends.
    job = make_job(tmp_path / "high")
    job.optimizer.param_groups[0]["lr"] = 1e30
    job.optimizer.param_groups[0]["initial_lr"] = 1e30
    with pytest.raises(NonFiniteLoss, match="Lower this stage's learning rate"):
        fit(job)
    fit(make_job(tmp_path / "low"))


def test_of_accumulated_batches_the_guilty_one_is_named(tmp_path):
    with pytest.raises(NonFiniteLoss, match="at step 2 of 9") as raised:  # ceil(5 / 2) x 3 = 9
        fit(poisoned(make_job(tmp_path, accumulation=2), 4, "loss", math.nan))
    assert str(raised.value).count("row-") == BATCH_SIZE


def test_a_full_disk_stops_with_a_message(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(ValueError, match="the disk is full"):
        fit(make_job(tmp_path))


def test_quiet_when_the_output_is_no_terminal(tmp_path, capfd):
    fit(make_job(tmp_path))
    printed, complaints = capfd.readouterr()
    assert complaints == ""
    lines = printed.splitlines()
    assert len(lines) == EPOCHS and lines[0].startswith("toy: step 5/15  loss ")
    assert "\r" not in printed and "%|" not in printed
