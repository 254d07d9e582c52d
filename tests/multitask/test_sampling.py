"""multitask/sampling.py beyond the lesson: what is drawn, and what a resumed job loads.

Where a sampler does not take all rows, it must draw each equally often (chi-square). In the real
loop, a job that was killed in mid-epoch must go on with the batches that were left.
"""

import inspect
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from scipy.stats import chisquare

from minbert.commands.options import MethodOptions
from minbert.training.job import Step, TaskBatch
from minbert.training.loop import fit
from multitask.sampler_registry import SAMPLERS, Epoch, Sampler
from multitask.sampling import FUNCTIONS, joint, mt_dnn, plan_epoch
from tests.lessons.test_samplers import (
    MAKE_BATCHES,
    NAMES,
    NUM_BATCHES,
    NUM_ROWS,
    batches_of,
    rows_in,
    sampler,
    seeded,
    shuffled_batches,
)
from tests.toy_job import Kill, killed_at, make_job

# --- each row equally often ---------------------------------------------------------------------

NUM_EPOCHS = 2000
PARTIAL_SAMPLERS = {
    "joint-smallest": lambda generator: joint(MAKE_BATCHES, generator, limit="smallest"),
    "mt-dnn, half": lambda generator: mt_dnn(MAKE_BATCHES, generator, {"para": 0.5}),
    "mt-dnn, one and a half": lambda generator: mt_dnn(MAKE_BATCHES, generator, {"para": 1.5}),
}


def chance_of_rows(sample) -> float:
    """The chance that PARA's rows come so unevenly over many epochs, if each is equally likely.

    Rows within an epoch are drawn without replacement. That only makes counts more even than the
    test allows for.
    """
    generator = seeded()
    counts = Counter()
    for _ in range(NUM_EPOCHS):
        counts.update(rows_in(batches_of("para", sample(generator))))
    assert set(counts) == set(range(NUM_ROWS["para"]))
    return chisquare(list(counts.values())).pvalue


@pytest.mark.parametrize("sample", PARTIAL_SAMPLERS.values(), ids=PARTIAL_SAMPLERS)
def test_every_row_is_drawn_equally_often(sample):
    assert chance_of_rows(sample) > 1e-4


def test_the_first_rows_of_a_file_would_be_noticed():
    def leaning(generator):
        steps = joint(MAKE_BATCHES, generator, limit="smallest")
        return [*steps, [("para", [0])]]

    # The negative control: row 0 comes once more in each epoch.
    assert chance_of_rows(leaning) < 1e-4


def test_mt_dnn_puts_a_task_at_every_place_equally_often():
    """At each of an epoch's 14 places PARA stands in 9 of 14 epochs."""
    generator = seeded()
    counts = Counter()
    for _ in range(NUM_EPOCHS):
        for place, step in enumerate(mt_dnn(MAKE_BATCHES, generator)):
            assert len(step) == 1
            if step[0].task == "para":
                counts[place] += 1
    num_places = sum(NUM_BATCHES.values())
    assert chisquare([counts[place] for place in range(num_places)]).pvalue > 1e-4


# --- what a sampler may return ------------------------------------------------------------------


def plan_with(monkeypatch, sample, epoch: Epoch) -> list[Step]:
    """The steps of an epoch of a user's sampler."""
    entry = Sampler(title="a sampler of this test", sample=sample)
    monkeypatch.setitem(SAMPLERS, "toy", entry)
    return plan_epoch("toy", MAKE_BATCHES, seeded(), MethodOptions(()), epoch)


def test_each_name_has_a_function():
    assert list(FUNCTIONS) == [name for name, entry in SAMPLERS.items() if entry.sample is None]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_entry_passes_what_its_function_takes(name):
    entry = SAMPLERS[name]
    parameters = set(inspect.signature(FUNCTIONS[name]).parameters)
    passed = {*entry.arguments, *entry.of_epoch}
    assert parameters - {"make_batches", "generator"} == passed


def test_plain_tuples_become_batches(monkeypatch):
    epoch = Epoch(0, 1, ("sst", "sts"))
    (step,) = plan_with(
        monkeypatch, lambda make_batches, generator: [[("sst", [0]), ("sts", [1])]], epoch
    )
    assert step == [TaskBatch("sst", [0]), TaskBatch("sts", [1])]
    assert step[0].task == "sst"


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ([], "the sampler 'a sampler of this test' made no step of epoch 2"),
        ([[("qqp", [0])]], "names the task 'qqp'; it may be sst, para, sts"),
    ],
)
def test_a_plan_that_cannot_be_trained_is_refused(monkeypatch, plan, words):
    with pytest.raises(ValueError, match=words):
        plan_with(monkeypatch, lambda make_batches, generator: plan, Epoch(2, 3, ("sst",)))


# --- a resumed job ------------------------------------------------------------------------------

RESUMED = {name: sampler(name) for name in NAMES} | {
    "joint-smallest": sampler("joint", joint_limit="smallest"),
    "sequential, two epochs": sampler("sequential", epochs=2),
    "batch-round-robin-smallest": sampler("batch-round-robin", joint_limit="smallest"),
    "mt-dnn, weighted": sampler("mt-dnn", sampling_weights="para=1.5,sst=0.4"),
}
HEADS = {"sst": "a", "para": "b"}  # of the toy job


def plan_of(sample):
    """The plan of the toy job with a sampler."""
    make_batches = {"sst": partial(shuffled_batches, 6), "para": partial(shuffled_batches, 20)}

    def plan(epoch, generator):
        steps = []
        for step in sample(make_batches, generator, epoch):
            steps.append([TaskBatch(HEADS[task], rows) for task, rows in step])
        return steps

    return plan


def loaded_batches(folder, plan, is_resumed: bool, stop: int | None = None):
    """The batches that a job loads, in order. stop: the batch at which it is killed."""
    job = make_job(folder, plan=plan)
    seen = []

    def load(task, rows):
        seen.append((task, list(rows)))
        return job.load(task, rows)

    watched = replace(job, load=load)
    if stop is None:
        fit(watched, resume=is_resumed)
        return seen
    with pytest.raises(Kill):
        fit(killed_at(watched, stop), resume=is_resumed)
    return seen[: stop - 1]  # the last one was loaded, but it made no update


@pytest.mark.parametrize("sample", RESUMED.values(), ids=RESUMED)
@pytest.mark.parametrize("step", [2, 4, 6])
def test_stopped_in_mid_epoch_it_goes_on_with_the_batches_that_were_left(sample, step, tmp_path):
    """A killed and resumed job loads what an undisturbed one loads, batch for batch."""
    plan = plan_of(sample)
    expected = loaded_batches(tmp_path / "whole", plan, is_resumed=False)
    tasks_a_step = len(plan(0, seeded())[0])
    assert len(expected) >= step * tasks_a_step

    stop = (step - 1) * tasks_a_step + 1
    before = loaded_batches(tmp_path / "stopped", plan, is_resumed=False, stop=stop)
    after = loaded_batches(tmp_path / "stopped", plan, is_resumed=True)
    assert before + after == expected
