"""multitask/sampling.py: each sampler by its law - order, proportions, every row once per pass, seeds."""

from collections import Counter
from functools import partial

import pytest
import torch
from scipy.stats import chisquare

from multitask.options import TaskOptions
from multitask.sampling import (
    SAMPLERS,
    annealed_exponent,
    batch_round_robin,
    epoch_round_robin,
    joint,
    mt_dnn,
    num_epochs,
    power,
    sequential,
    steps_of_epoch,
)

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
        passes = [
            batches[start : start + num_batches] for start in range(0, len(batches), num_batches)
        ]
        for whole in (some for some in passes if len(some) == num_batches):
            assert rows_in(whole) == list(range(NUM_ROWS[task]))
        for cut in (some for some in passes if len(some) < num_batches):
            assert len(set(rows_in(cut))) == len(
                rows_in(cut)
            )  # none twice in a pass that the epoch's end cuts short


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


def chance_of_first(sample) -> float:
    """Chi-square over 2,000 epochs: each of the 14 batches is the first equally often, a task by its batches."""
    generator, first = seeded(), Counter()
    for _ in range(2000):
        ((name, _),) = sample(MAKE_BATCHES, generator)[0]
        first[name] += 1
    return chisquare(
        [first[name] for name in NUM_BATCHES], [2000 * n / 14 for n in NUM_BATCHES.values()]
    ).pvalue


def test_mt_dnn_shuffles_the_tasks_evenly():
    assert chance_of_first(mt_dnn) > 1e-4


def test_negative_control_a_pool_that_is_not_shuffled_breaks_the_law():
    def unshuffled(make_batches, generator):
        return [[(name, batch)] for name, make in make_batches.items() for batch in make(generator)]

    assert chance_of_first(unshuffled) < 1e-4


# --- turns ----------------------------------------------------------------------------------------


def test_batch_round_robin_takes_the_batches_of_joint_one_after_the_other():
    for limit in ("largest", "smallest"):
        steps = batch_round_robin(MAKE_BATCHES, seeded(), limit)
        assert steps == sampler("batch-round-robin", joint_limit=limit)(MAKE_BATCHES, seeded()), (
            "of the options"
        )
        assert steps == [[batch] for step in joint(MAKE_BATCHES, seeded(), limit) for batch in step]
        assert [name for step in steps for name, _ in step] == ["sst", "para", "sts"] * (
            len(steps) // 3
        )


def test_epoch_round_robin_follows_the_order_and_forms_repeated_tasks_anew():
    steps = epoch_round_robin(MAKE_BATCHES, seeded(), ["sts", "sst", "para", "sst", "sts"])
    names = [name for step in steps for name, _ in step]
    assert names == ["sts"] * 2 + ["sst"] * 3 + ["para"] * 9 + ["sst"] * 3 + ["sts"] * 2
    first, second = batches_of("sst", steps)[:3], batches_of("sst", steps)[3:]
    assert rows_in(first) == rows_in(second) == list(range(10)) and first != second


def test_sequential_ends_a_task_before_the_next():
    order = ["sts", "para", "sst"]
    passes = [sequential(MAKE_BATCHES, seeded(), order, epoch, epochs=2) for epoch in range(6)]
    assert [{name for step in steps for name, _ in step} for steps in passes] == [
        {"sts"},
        {"sts"},
        {"para"},
        {"para"},
        {"sst"},
        {"sst"},
    ]
    assert rows_in(batches_of("para", passes[2])) == list(range(33))


def test_only_sequential_has_an_epoch_for_each_task():
    assert num_epochs(TaskOptions(sampling="sequential", tasks="sts,sst,sts"), 3) == 9, (
        "as often as it is named"
    )
    assert num_epochs(TaskOptions(sampling="epoch-round-robin", tasks="sts,sst,sts"), 3) == 3


# --- weights and powers ---------------------------------------------------------------------------


def test_weights_are_passes():
    steps = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 2, "para": 1 / 3})
    assert Counter(name for step in steps for name, _ in step) == {"sst": 6, "para": 3, "sts": 2}
    assert rows_in(batches_of("sst", steps)) == sorted([*range(10)] * 2)
    few = rows_in(batches_of("para", steps))
    assert (
        len(set(few)) == len(few) == 12 or len(few) == 9
    )  # three of the nine batches; the last of a pass holds one
    assert mt_dnn(MAKE_BATCHES, seeded(), {"sst": 1.0}) == mt_dnn(MAKE_BATCHES, seeded())
    assert len(batches_of("sst", mt_dnn(MAKE_BATCHES, seeded(), {"sst": 0.01}))) == 1, (
        "a task never drops out"
    )


def numbered(num_passes: list[int]):
    """A task of two batches, of another two with every pass that is formed."""

    def make(generator):
        num_passes.append(len(num_passes))
        return [[10 * num_passes[-1]], [10 * num_passes[-1] + 1]]

    return make


def test_a_further_pass_is_formed_anew():
    for plan in (
        lambda make: mt_dnn({"a": make}, seeded(), {"a": 3}),
        lambda make: power(
            {"a": make, "b": lambda generator: [[row] for row in range(40)]}, seeded(), 0.0
        ),
    ):
        seen = [rows[0] for step in plan(numbered([])) for task, rows in step if task == "a"]
        assert len(seen) >= 6 and len(set(seen)) == len(seen), "a batch came twice"


def chance_of_power(draw, exponent: float) -> float:
    """Chi-square over 300 epochs of 14 draws, each of its own, of the law p_k ~ N_k ^ exponent."""
    counts = Counter(name for _ in range(300) for step in draw() for name, _ in step)
    shares = {name: size**exponent for name, size in NUM_BATCHES.items()}
    expected = [300 * 14 * share / sum(shares.values()) for share in shares.values()]
    return chisquare([counts[name] for name in shares], expected).pvalue


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_power_draws_tasks_by_its_law(exponent, seed):
    generator = seeded(seed)

    def draw():
        return power(MAKE_BATCHES, generator, exponent)

    assert chance_of_power(draw, exponent) > 1e-4
    assert chance_of_power(draw, 1.0 if exponent < 1 else 0.0) < 1e-4, (
        "the negative control: another power"
    )


@pytest.mark.parametrize(
    ("epoch", "exponent", "other"), [(0, 1.0, 0.6), (2, 0.6, 0.2), (4, 0.2, 0.6)]
)
def test_annealed_draws_tasks_by_the_law_of_its_epoch(epoch, exponent, other):
    options, generator = TaskOptions(sampling="annealed"), seeded()

    def draw():
        return steps_of_epoch(options, 5, MAKE_BATCHES, generator, epoch)

    assert chance_of_power(draw, exponent) > 1e-4 > chance_of_power(draw, other)


def test_power_goes_through_whole_passes():
    generator = seeded()
    for _ in range(20):
        steps = power(MAKE_BATCHES, generator, 0.0)
        assert len(steps) == 14 and all(len(step) == 1 for step in steps)
        for task, num_batches in NUM_BATCHES.items():
            batches = batches_of(task, steps)
            for start in range(0, len(batches), num_batches):
                rows = rows_in(batches[start : start + num_batches])
                assert len(set(rows)) == len(rows), "a row twice in one pass"
                assert len(batches) < start + num_batches or len(rows) == NUM_ROWS[task]


def test_the_exponent_anneals():
    assert [annealed_exponent(epoch, 5) for epoch in range(5)] == pytest.approx(
        [1.0, 0.8, 0.6, 0.4, 0.2]
    )
    assert annealed_exponent(0, 1) == pytest.approx(0.2)
    for epoch in range(5):
        options = TaskOptions(sampling="annealed")
        assert steps_of_epoch(options, 5, MAKE_BATCHES, seeded(), epoch) == power(
            MAKE_BATCHES, seeded(), annealed_exponent(epoch, 5)
        )


# --- every sampler --------------------------------------------------------------------------------

NAMES = list(SAMPLERS)


def sampler(name: str, epochs: int = 4, **changes):
    """A function: make_batches, generator, epoch -> the steps of --sampling `name`."""

    def sample(make_batches, generator, epoch: int = 0):
        tasks = ",".join(make_batches) or "sst,para,sts"
        options = TaskOptions(sampling=name, tasks=tasks, **changes)
        return steps_of_epoch(options, epochs, make_batches, generator, epoch)

    return sample


every_sampler = pytest.mark.parametrize(
    "sample",
    [*map(sampler, NAMES), sampler("joint", joint_limit="smallest")],
    ids=[*NAMES, "joint-smallest"],
)


def test_each_name_is_another_plan():
    """sequential and a first round of one task are alike in their first epoch, so it is asked for its last."""
    plans = [sampler(name)(MAKE_BATCHES, seeded(), 3) for name in NAMES]
    assert all(one != other for number, one in enumerate(plans) for other in plans[:number])


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
    with pytest.raises(ValueError, match="task 'sst' has no training batches"):
        sample({**MAKE_BATCHES, "sst": lambda generator: []}, seeded())


def test_no_task_at_all_is_refused():
    with pytest.raises(ValueError, match="no task to sample from"):
        joint({}, seeded())


def test_another_limit_is_refused():
    with pytest.raises(ValueError, match="limit is 'median'"):
        joint(MAKE_BATCHES, seeded(), limit="median")
