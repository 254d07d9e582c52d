"""minbert/training/loop.py: stopped at any step, a resumed run equals an undisturbed one.

They are equal in every bit of weights and optimizer state, and in the whole history. If they
differ, a part of the state is not saved, or random numbers are drawn in another order. toy_job.py
has the job.
"""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
import torch

from minbert.training.checkpoint import load_checkpoint
from minbert.training.loop import Interrupted, Loop, StopSignal, fit
from tests.toy_job import EPOCHS, NUM_STEPS, Kill, bits, make_job, resumed


@pytest.fixture(autouse=True)
def _heard():
    """SIGHUP ends a process, as in a terminal, also where nohup began these tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bits of the toy job when nothing stops it."""
    job = make_job(tmp_path_factory.mktemp("undisturbed"))
    return bits(job, fit(job))


@pytest.mark.parametrize("number", range(1, NUM_STEPS + 1))
def test_killed_at_any_step(tmp_path, undisturbed, number):
    def disturb(when, count):
        if (when, count) == ("step", number):
            raise Kill

    with pytest.raises(Kill):
        fit(make_job(tmp_path, disturb=disturb))
    assert resumed(tmp_path) == undisturbed


@pytest.mark.parametrize("number", range(1, NUM_STEPS + 1))
def test_interrupted_at_any_step(tmp_path, undisturbed, number):
    def disturb(when, count):
        if (when, count) == ("step", number):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(make_job(tmp_path, disturb=disturb))
    state = load_checkpoint(tmp_path)[1]
    assert state["step"] == number  # the step was finished and saved
    assert resumed(tmp_path) == undisturbed
    assert load_checkpoint(tmp_path)[1]["seconds"] > state["seconds"] > 0  # of both parts together


@pytest.mark.parametrize("number", range(1, EPOCHS + 1))
@pytest.mark.parametrize("how", [Kill, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_inside_an_evaluation(tmp_path, undisturbed, number, how):
    def disturb(when, count):
        if (when, count) == ("evaluation", number):
            if how is Kill:
                raise Kill
            signal.raise_signal(how)

    with pytest.raises(Kill if how is Kill else Interrupted):
        fit(make_job(tmp_path, disturb=disturb))
    if how is not Kill:
        # It stopped at once: the evaluation is not in the record, the step before it is.
        state = load_checkpoint(tmp_path)[1]
        assert len(state["history"]) == number - 1 and state["step"] == 5 * number
    assert resumed(tmp_path) == undisturbed


@pytest.mark.parametrize("number", range(1, 16))
def test_killed_before_any_save(tmp_path, undisturbed, monkeypatch, number):
    """Each checkpoint in turn does not come to be: within an epoch, at its end, at the finish."""
    count = 0
    save = Loop.save

    def save_or_die(self):
        nonlocal count
        count += 1
        if count == number:
            raise Kill
        save(self)

    monkeypatch.setattr(Loop, "save", save_or_die)
    try:
        fit(make_job(tmp_path))
        assert count < number
    except Kill:
        pass
    monkeypatch.undo()
    assert resumed(tmp_path) == undisturbed


def test_stopped_again_and_again(tmp_path, undisturbed):
    """A signal in the second step of every attempt, and every fourth attempt a kill."""
    for attempt in range(30):

        def disturb(when, count, attempt=attempt):
            if (when, count) == ("step", 2):
                if attempt % 4 == 3:
                    raise Kill
                signal.raise_signal(signal.SIGTERM)

        job = make_job(tmp_path, disturb=disturb)
        try:
            left = bits(job, fit(job, resume=attempt > 0))
            break
        except (Interrupted, Kill):
            pass
    assert attempt > 4 and left == undisturbed


def test_a_finished_job_resumes_to_its_result(tmp_path, undisturbed):
    fit(make_job(tmp_path))

    def disturb(when, count):
        raise AssertionError("nothing is left to do")

    for _ in range(2):
        assert resumed(tmp_path, disturb=disturb) == undisturbed


def test_a_signal_after_the_last_step_is_not_lost(tmp_path, undisturbed, monkeypatch):
    """The job is done, but what follows it in the run must not start."""
    finish = Loop.finish

    def finish_and_signal(self):
        finish(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Loop, "finish", finish_and_signal)
    with pytest.raises(Interrupted):
        fit(make_job(tmp_path))
    monkeypatch.undo()
    assert resumed(tmp_path) == undisturbed


def test_the_handlers_are_put_back(tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for wanted in (signal.SIG_DFL, signal.SIG_IGN):  # ignored, as nohup asks, it is not heard
        signal.signal(signal.SIGHUP, wanted)
        before = [signal.getsignal(number) for number in numbers]
        inside = []

        def look(when, count, inside=inside):
            inside.append([signal.getsignal(number) for number in numbers])

        fit(make_job(tmp_path, epochs=1, disturb=look))
        assert inside[0][0] == inside[0][1] not in before
        assert inside[0][2] == (signal.SIG_IGN if wanted == signal.SIG_IGN else inside[0][0])
        assert [signal.getsignal(number) for number in numbers] == before


def test_a_checkpoint_of_another_model_or_without_its_best(tmp_path):
    def disturb(when, count):
        if (when, count) == ("step", NUM_STEPS - 1):
            raise Kill

    with pytest.raises(Kill):
        fit(make_job(tmp_path, disturb=disturb, save_every=1))
    job = make_job(tmp_path)
    job.model.other = torch.nn.Linear(2, 2)
    message = r"checkpoint is not of this model or version \(.*Missing key.*other.weight"
    with pytest.raises(ValueError, match=message):
        fit(job, resume=True)
    state = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / state["keep"][0]).unlink()
    message = r"the checkpoint cannot be read \(.*best-.*\). Delete that folder"
    with pytest.raises(ValueError, match=message):
        fit(make_job(tmp_path), resume=True)


def test_the_second_signal_is_meant():
    stop = StopSignal()
    stop.receive(signal.SIGINT, None)
    assert stop.is_requested
    with pytest.raises(KeyboardInterrupt) as raised:
        stop.receive(signal.SIGINT, None)
    assert raised.type is KeyboardInterrupt


def test_it_works_outside_the_main_thread(tmp_path, undisturbed):
    left = []

    def work():
        job = make_job(tmp_path)
        left.append(bits(job, fit(job)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert left == [undisturbed]


def test_without_resume_it_starts_anew(tmp_path, undisturbed):
    other = make_job(tmp_path, seed=9)
    fit(other)
    job = make_job(tmp_path)
    assert bits(job, fit(job)) == undisturbed
    # The best, the last, the JSON: nothing of the run before.
    assert len(os.listdir(tmp_path)) <= 3


def test_seconds_add_up_over_the_parts(tmp_path):
    def disturb(when, count):
        if (when, count) == ("step", 6):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(make_job(tmp_path, disturb=disturb))
    first = load_checkpoint(tmp_path)[1]["seconds"]
    assert 0 < first < fit(make_job(tmp_path), resume=True).seconds


def test_a_resume_that_forgot_the_random_state_would_be_noticed(tmp_path, undisturbed, monkeypatch):
    def disturb(when, count):
        if (when, count) == ("step", 7):
            raise Kill

    with pytest.raises(Kill):
        fit(make_job(tmp_path, disturb=disturb))
    monkeypatch.setattr("minbert.training.runtime.restore_random_state", lambda state: None)
    assert resumed(tmp_path)["weights"] != undisturbed["weights"]  # other dropout masks


@pytest.mark.parametrize("number", [1, 4, 5, 7])
def test_an_epoch_is_announced_once_where_it_really_begins(tmp_path, number):
    """Killed and resumed: announced again only where the last checkpoint is of an earlier epoch."""
    told = []

    def disturb(when, count):
        if (when, count) == ("step", number):
            raise Kill

    with pytest.raises(Kill):
        fit(make_job(tmp_path, disturb=disturb, save_every=1, before_epoch=told.append))
    begun = list(told)
    assert begun == list(range(1 + (number - 1) // (NUM_STEPS // EPOCHS)))
    told.clear()
    fit(make_job(tmp_path, save_every=1, before_epoch=told.append), resume=True)
    is_at_its_start = (number - 1) % (NUM_STEPS // EPOCHS) == 0
    assert told == list(range(begun[-1] + (not is_at_its_start), EPOCHS))
