"""multitask/sampling.py: each sampler by its law - order, proportions, every row once per pass, seeds."""

from collections import Counter
from functools import partial

import pytest
import torch

from multitask.sampling import SAMPLERS, joint, mt_dnn

NUM_ROWS = {"sst": 10, "para": 33, "sts": 7}
NUM_BATCHES = {"sst": 3, "para": 9, "sts": 2}  # in batches of four


def shuffled_batches(num_rows: int, generator: torch.Generator, size: int = 4) -> list[list[int]]:
    order = torch.randperm(num_rows, generator=generator).tolist()
    return [order[start : start + size] for start in range(0, num_rows, size)]


MAKE_BATCHES = {name: partial(shuffled_batches, num_rows) for name, num_rows in NUM_ROWS.items()}


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batches_of(task: str, steps) -> list[list[int]]:
    return [batch for step in steps for name, batch in step if name == task]


def rows_in(batches: list[list[int]]) -> list[int]:
    return sorted(row for batch in batches for row in batch)


def test_joint_by_hand():
    fixed = {"sst": lambda generator: [[0, 1], [2]], "sts": lambda generator: [[5]]}
    assert joint(fixed, seeded()) == [[("sst", [0, 1]), ("sts", [5])], [("sst", [2]), ("sts", [5])]]
    assert joint(fixed, seeded(), limit="smallest") == [[("sst", [0, 1]), ("sts", [5])]]


def test_joint_has_every_task_in_every_step_and_as_many_steps_as_the_largest_has_batches():
    steps = joint(MAKE_BATCHES, seeded())
    assert len(steps) == NUM_BATCHES["para"]
    assert all([name for name, _ in step] == ["sst", "para", "sts"] for step in steps)


def test_joint_cycles_by_whole_passes():
    steps = joint(MAKE_BATCHES, seeded())
    for task, num_batches in NUM_BATCHES.items():
        batches = batches_of(task, steps)
        passes = [batches[start : start + num_batches] for start in range(0, len(batches), num_batches)]
        for whole in (some for some in passes if len(some) == num_batches):
            assert rows_in(whole) == list(range(NUM_ROWS[task]))
        for cut in (some for some in passes if len(some) < num_batches):
            assert len(set(rows_in(cut))) == len(rows_in(cut))  # none twice in a pass that the epoch's end cuts short


def test_joint_forms_the_batches_anew_for_each_pass():
    batches = batches_of("sst", joint(MAKE_BATCHES, seeded()))
    assert batches[:3] != batches[3:6] and batches[3:6] != batches[6:9]


def test_joint_samples_the_larger_down_to_the_smallest():
    steps = joint(MAKE_BATCHES, seeded(), limit="smallest")
    assert len(steps) == NUM_BATCHES["sts"]
    assert rows_in(batches_of("sts", steps)) == list(range(7))
    rows = rows_in(batches_of("para", steps))
    assert len(set(rows)) == len(rows) == 8
    assert rows != rows_in(batches_of("para", joint(MAKE_BATCHES, seeded(4), limit="smallest")))


def test_mt_dnn_by_hand():
    fixed = {"sst": lambda generator: [[0, 1], [2]], "sts": lambda generator: [[5]]}
    order = torch.randperm(3, generator=seeded()).tolist()
    pool = [("sst", [0, 1]), ("sst", [2]), ("sts", [5])]
    assert mt_dnn(fixed, seeded()) == [[pool[index]] for index in order]


def test_mt_dnn_takes_every_row_of_every_task_exactly_once_a_batch_per_step():
    steps = mt_dnn(MAKE_BATCHES, seeded())
    assert all(len(step) == 1 for step in steps)
    assert Counter(name for step in steps for name, _ in step) == NUM_BATCHES
    for task, num_rows in NUM_ROWS.items():
        assert rows_in(batches_of(task, steps)) == list(range(num_rows))


def comes_first_in_proportion(sample) -> bool:
    """Over 2,000 epochs each of the 14 batches is the first equally often: a task in proportion to its batches."""
    generator, first = seeded(), Counter()
    for _ in range(2000):
        (name, _), = sample(MAKE_BATCHES, generator)[0]
        first[name] += 1
    # one standard deviation of a share is at most sqrt(.25 / 2000) = .011; allow four
    return all(abs(first[name] / 2000 - num_batches / 14) < 0.045 for name, num_batches in NUM_BATCHES.items())


def test_mt_dnn_shuffles_the_tasks_evenly():
    assert comes_first_in_proportion(mt_dnn)


def test_negative_control_a_pool_that_is_not_shuffled_breaks_the_law():
    def unshuffled(make_batches, generator):
        return [[(name, batch)] for name, make in make_batches.items() for batch in make(generator)]

    assert not comes_first_in_proportion(unshuffled)


every_sampler = pytest.mark.parametrize(
    "sample", [*SAMPLERS.values(), partial(joint, limit="smallest")], ids=[*SAMPLERS, "joint-smallest"]
)


@every_sampler
def test_the_same_state_gives_the_same_plan_and_another_seed_another(sample):
    assert sample(MAKE_BATCHES, seeded()) == sample(MAKE_BATCHES, seeded())
    assert sample(MAKE_BATCHES, seeded()) != sample(MAKE_BATCHES, seeded(4))


@every_sampler
def test_a_restored_state_gives_the_same_later_epochs(sample):
    generator = seeded()
    first = sample(MAKE_BATCHES, generator)
    state = generator.get_state()
    second, third = sample(MAKE_BATCHES, generator), sample(MAKE_BATCHES, generator)
    restored = torch.Generator()
    restored.set_state(state)
    assert [sample(MAKE_BATCHES, restored), sample(MAKE_BATCHES, restored)] == [second, third]
    assert first != second != third  # batches are formed anew every epoch


@every_sampler
def test_nothing_is_drawn_from_the_global_generator(sample):
    before = torch.get_rng_state()
    sample(MAKE_BATCHES, seeded())
    assert torch.equal(torch.get_rng_state(), before)


@every_sampler
def test_one_task_alone_is_one_pass(sample):
    steps = sample({"sts": MAKE_BATCHES["sts"]}, seeded())
    assert [len(step) for step in steps] == [1, 1]
    assert rows_in(batches_of("sts", steps)) == list(range(7))


@every_sampler
def test_tasks_without_batches_are_refused(sample):
    with pytest.raises(ValueError, match="task 'sts' has no training batches"):
        sample({**MAKE_BATCHES, "sts": lambda generator: []}, seeded())
    with pytest.raises(ValueError, match="no task to sample from"):
        sample({}, seeded())


def test_another_limit_is_refused():
    with pytest.raises(ValueError, match="limit is 'median'"):
        joint(MAKE_BATCHES, seeded(), limit="median")
