"""minbert/training/averaging.py: by hand, against torch, and in the loop.

If the mathematics is right and the loop is wrong: are the weights themselves back in the model when
the next step begins, and does a checkpoint hold them and not the average?
"""

from __future__ import annotations

import signal

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from minbert.training.averaging import (
    WeightAverage,
    moving_average,
    running_mean,
    warmed_up_decay,
)
from minbert.training.checkpoint import load_checkpoint
from minbert.training.job import Job
from minbert.training.loop import Interrupted, Loop, fit
from tests.toy_job import NUM_STEPS, Kill, bits, make_job

each_method = pytest.mark.parametrize("method", ["ema", "swa"])


# --- the mathematics ----------------------------------------------------------------------------


def test_by_hand():
    old = torch.tensor([1.0, 4.0])
    new = torch.tensor([2.0, 0.0])
    assert moving_average(old, new, 0.75).tolist() == [1.25, 3.0], "b old + (1 - b) new"
    assert running_mean(old, new, 3).tolist() == [1.25, 3.0], "(3 old + new) / 4"
    assert running_mean(old, new, 0).tolist() == [2.0, 0.0], "the mean of none is not there"
    assert [warmed_up_decay(0.9, n) for n in (0, 2, 1000)] == [0.1, 0.25, 0.9]


def drawn(num: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(7, dtype=torch.float64, generator=generator) for _ in range(num)]


def test_the_running_mean_is_the_mean():
    weights = drawn(9)
    average = weights[0]
    for number, tensor in enumerate(weights[1:], start=1):
        average = running_mean(average, tensor, number)
    torch.testing.assert_close(average, torch.stack(weights).mean(dim=0))
    assert not torch.allclose(average, weights[-1]), "negative control: not the last weights"


def test_the_moving_average_weighs_by_powers_of_the_decay():
    weights = drawn(6)
    average = weights[0]
    expected = 0.8**5 * weights[0]
    for number, tensor in enumerate(weights[1:], start=1):
        average = moving_average(average, tensor, 0.8)
        expected = expected + 0.2 * 0.8 ** (5 - number) * tensor
    torch.testing.assert_close(average, expected)


@each_method
def test_equal_tensors_keep_their_bits(method):
    tensor = torch.randn(1000) / 3
    for number in range(1, 20):
        found = (
            moving_average(tensor, tensor.clone(), 0.999)
            if method == "ema"
            else running_mean(tensor, tensor.clone(), number)
        )
        assert torch.equal(found, tensor)


@each_method
def test_against_torch(method, monkeypatch):
    monkeypatch.setattr("minbert.training.averaging.warmed_up_decay", lambda decay, n: decay)
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    ours = WeightAverage(model, method, decay=0.9, start=0.0, every=1)
    if method == "ema":
        theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    else:
        theirs = AveragedModel(model)
    for step in range(1, 8):
        with torch.no_grad():
            model.weight += torch.randn(2, 3)
            model.bias -= 0.1
        ours.update(step, 7)
        theirs.update_parameters(model)
    for name, parameter in theirs.module.named_parameters():
        torch.testing.assert_close(ours.average[name], parameter.detach())


# --- which weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "every", "steps"),
    [
        (0.0, 1, [1, 2, 3, 4, 5, 6, 7, 8]),
        (0.5, 1, [4, 5, 6, 7, 8]),
        (0.5, 3, [4, 7]),
        (1.0, 1, [8]),
        (0.5, 100, [4]),
    ],
)
def test_swa_takes_these_steps(start, every, steps):
    """At least one of them, so that the flag always has an effect."""
    average = WeightAverage(nn.Linear(1, 1), "swa", 0.9, start, every)
    assert [step for step in range(1, 9) if average.counts(step, 8)] == steps


def test_frozen_parameters_and_buffers_are_not_averaged():
    model = nn.BatchNorm1d(3)
    model.bias.requires_grad_(False)
    average = WeightAverage(model, "ema", 0.9, 0.5, 1)
    average.update(1, 2)
    assert list(average.average) == ["weight"]


def test_within_the_block_the_model_has_the_average_and_afterwards_its_own_bits():
    model = nn.Linear(2, 2)
    average = WeightAverage(model, "swa", 0.9, 0.0, 1)
    with average.in_model():
        pass  # nothing is averaged yet
    first = model.weight.detach().clone()
    average.update(1, 2)
    with torch.no_grad():
        model.weight += 1
    average.update(2, 2)
    own = model.weight.detach().clone()
    with pytest.raises(KeyError), average.in_model():
        torch.testing.assert_close(model.weight.detach(), first + 0.5)
        raise KeyError("an evaluation may fail")
    assert torch.equal(model.weight, own)
    torch.testing.assert_close(average.average["weight"], first + 0.5)


# --- in the loop --------------------------------------------------------------------------------


def make_averaged(folder, method: str, **changes) -> Job:
    """The toy job with an average of its weights."""
    job = make_job(folder, **changes)
    job.average = WeightAverage(job.model, method, decay=0.8, start=0.4, every=2)
    return job


def weights_of(job: Job) -> dict:
    return {name: tensor.clone() for name, tensor in job.model.state_dict().items()}


@each_method
def test_the_kept_model_is_the_average_and_training_goes_on_without_it(tmp_path, method):
    plain = make_job(tmp_path / "plain")
    steps = []
    plain.on_step = lambda record: steps.append(weights_of(plain))
    fit(plain)

    job = make_averaged(tmp_path / "averaged", method)
    trained = []
    job.on_step = lambda record: trained.append(weights_of(job))
    scored = []
    evaluate = job.evaluate

    def evaluate_and_note():
        scored.append(weights_of(job))
        return {**evaluate(), "score": float(len(scored))}  # the last one is the best

    job.evaluate = evaluate_and_note
    progress = fit(job)

    # Scores and averages leave no trace in the steps.
    for expected, found in zip(steps, trained, strict=True):
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name

    # What was scored, by a loop over the weights after each step.
    name = "body.weight"
    if method == "ema":
        average = steps[0][name]
        for number in range(1, NUM_STEPS):
            decay = min(0.8, (1 + number) / (10 + number))
            average = decay * average + (1 - decay) * steps[number][name]
    else:
        taken = [steps[number - 1][name] for number in range(6, NUM_STEPS + 1, 2)]
        average = torch.stack(taken).mean(dim=0)
    torch.testing.assert_close(scored[-1][name], average)
    assert not torch.allclose(average, steps[-1][name], rtol=1e-3), "the negative control"
    assert progress.best_step == NUM_STEPS
    assert torch.equal(job.model.state_dict()[name], scored[-1][name]), "the average is kept"


@each_method
@pytest.mark.parametrize("number", [2, 7, 11, NUM_STEPS])
def test_a_resumed_run_ends_in_the_same_bits(tmp_path, method, number):
    whole = make_averaged(tmp_path / "whole", method)
    expected = bits(whole, fit(whole))

    def disturb(when, count):
        if (when, count) == ("step", number):
            raise Kill

    folder = tmp_path / "stopped"
    with pytest.raises(Kill):
        fit(make_averaged(folder, method, disturb=disturb))
    torch.manual_seed(12345)
    job = make_averaged(folder, method)
    assert bits(job, fit(job, resume=True)) == expected
    for name, tensor in whole.average.average.items():
        assert torch.equal(job.average.average[name], tensor), name

    # A finished run that is opened again has the kept model, too.
    again = make_averaged(folder, method)
    assert bits(again, fit(again, resume=True)) == expected


def test_a_signal_inside_an_evaluation_saves_the_weights_and_not_the_average(tmp_path):
    def disturb(when, count):
        if (when, count) == ("evaluation", 2):
            signal.raise_signal(signal.SIGINT)

    whole = make_averaged(tmp_path / "whole", "ema")
    expected = bits(whole, fit(whole))
    job = make_averaged(tmp_path / "stopped", "ema", disturb=disturb)
    trained = []
    job.on_step = lambda record: trained.append(weights_of(job))
    with pytest.raises(Interrupted):
        fit(job)
    stored = load_checkpoint(tmp_path / "stopped").tensors["model.body.weight"]
    assert torch.equal(stored, trained[-1]["body.weight"])
    again = make_averaged(tmp_path / "stopped", "ema")
    assert bits(again, fit(again, resume=True)) == expected


def test_a_job_without_an_average_saves_none(tmp_path):
    Loop(make_job(tmp_path), resume=False).save()
    assert not [name for name in load_checkpoint(tmp_path).tensors if name.startswith("average.")]
