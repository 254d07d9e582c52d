"""Which batches make a step. Run it with `python -m pytest -x tests/lessons/test_samplers.py`.

Each sampler by its law: order, proportions, every row once per pass, seeds. A test of a law fails
by chance at most once in 10,000 runs of right code.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from scipy.stats import chisquare

from minbert.commands.options import from_flat
from minbert.training.job import Step
from multitask.options import TaskOptions
from multitask.sampler_registry import SAMPLERS, Epoch
from multitask.sampling import (
    annealed_exponent,
    batch_round_robin,
    epoch_round_robin,
    joint,
    mt_dnn,
    plan_epoch,
    power,
    random_task,
    sequential,
)

NUM_ROWS = {"sst": 10, "para": 33, "sts": 7}
NUM_BATCHES = {"sst": 3, "para": 9, "sts": 2}  # of four rows
NUM_ALL = 14

Make = Callable[[torch.Generator], list[list[int]]]


def shuffled_batches(num_rows: int, generator: torch.Generator, size: int = 4) -> list[list[int]]:
    order = torch.randperm(num_rows, generator=generator).tolist()
    return [order[start : start + size] for start in range(0, num_rows, size)]


MAKE_BATCHES: dict[str, Make] = {
    name: partial(shuffled_batches, num_rows) for name, num_rows in NUM_ROWS.items()
}


def fixed(*batches: list[int]) -> Make:
    """A task whose batches are always these."""
    return lambda generator: list(batches)


# Two tasks whose batches are not random: two of SST, one of STS.
BY_HAND = {"sst": fixed([0, 1], [2]), "sts": fixed([5])}


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batches_of(task: str, steps: Iterable[Step]) -> list[list[int]]:
    """The batches of one task, in order."""
    batches = []
    for step in steps:
        batches += [rows for name, rows in step if name == task]
    return batches


def tasks_in(steps: Iterable[Step]) -> list[str]:
    """The task of each batch, in order."""
    tasks = []
    for step in steps:
        tasks += [name for name, _ in step]
    return tasks


def rows_in(batches: Iterable[list[int]]) -> list[int]:
    """The sorted rows of some batches."""
    rows: list[int] = []
    for batch in batches:
        rows += batch
    return sorted(rows)


def passes_of(task: str, steps: Iterable[Step]) -> list[list[list[int]]]:
    """The batches of one task, cut into its passes. The last pass may be incomplete."""
    batches = batches_of(task, steps)
    size = NUM_BATCHES[task]
    return [batches[start : start + size] for start in range(0, len(batches), size)]


# --- joint ----------------------------------------------------------------------------------------


def test_joint_by_hand():
    result = joint(BY_HAND, seeded())
    assert isinstance(result, list), f"found {result}, expected a list of steps: not written yet?"
    steps = list(result)
    are_lists = all(isinstance(step, list) for step in steps)
    assert are_lists and all(len(batch) == 2 for step in steps for batch in step), (
        "a step is a list of TaskBatch(task, rows), one for each task"
    )
    assert not steps or any(len(step) > 1 for step in steps), (
        "each step holds one task; one batch of every task makes a step of joint"
    )
    assert len(steps) == 2, (
        f"{len(steps)} steps, expected 2: as many as the largest task has batches, "
        "and each holds one batch of every task"
    )
    assert steps[0] is not steps[1], (
        "all steps are one list: [[]] * n is n times the same one. Make a new list for each step"
    )
    assert tasks_in(steps[:1]) == ["sst", "sts"], "a step has the tasks in the order of the keys"
    assert steps[0][0] != ("sst", [2]), (
        "step 0 has the last batch of a pass: the batches come in the order of their pass, the "
        "first one first"
    )
    assert steps[1][0] != ("sst", [0, 1]), (
        "step 1 has the first batch of a pass again: is a new pass formed in each step, or "
        "while the last one still has a batch? It is when that is used up, and for its task alone"
    )
    assert steps == [
        [("sst", [0, 1]), ("sts", [5])],
        [("sst", [2]), ("sts", [5])],
    ], "a step holds one batch of every task, and the smaller task begins again"
    assert joint(BY_HAND, seeded(), limit="smallest") == [[("sst", [0, 1]), ("sts", [5])]], (
        "limit='smallest' ends with the smallest task, and takes the first batches of the others"
    )


def test_joint_has_every_task_in_every_step_and_as_many_steps_as_the_largest_has_batches():
    steps = joint(MAKE_BATCHES, seeded())
    assert len(steps) == NUM_BATCHES["para"], "the epoch is one pass over the largest task"
    for step in steps:
        assert tasks_in([step]) == ["sst", "para", "sts"], "every task once, in the order of keys"


def test_joint_uses_a_pass_up_before_the_next_one_is_drawn():
    num_passes = dict.fromkeys(("a", "b"), 0)

    def make(name: str, generator: torch.Generator) -> list[list[int]]:
        num_passes[name] += 1
        return [[num_passes[name]]] * (2 if name == "a" else 1)

    steps = joint({name: partial(make, name) for name in num_passes}, seeded())
    assert batches_of("a", steps) == [[1], [1]] and batches_of("b", steps)[0] == [1], (
        "the first pass is left out: is it drawn to count its batches alone? Keep it, and use it up"
    )


def test_joint_cycles_by_whole_passes():
    steps = joint(MAKE_BATCHES, seeded())
    for task, num_batches in NUM_BATCHES.items():
        for batches in passes_of(task, steps):
            rows = rows_in(batches)
            if len(batches) == num_batches:
                assert rows == list(range(NUM_ROWS[task])), (
                    "a pass has every row once: is its last batch left out or taken twice, is a "
                    "new pass formed before the last one is used up, or is it a pass of another "
                    "task, as where a lambda in a loop sees the loop's last task?"
                )
            else:
                assert len(set(rows)) == len(rows), "no row twice in a pass that is cut short"


def test_joint_forms_the_batches_anew_for_each_pass():
    first, second, third = passes_of("sst", joint(MAKE_BATCHES, seeded()))
    assert first != second and second != third, (
        "every pass calls the task's function again; are the batches of the first pass repeated?"
    )


def test_joint_uses_up_passes_of_any_length():
    passes = iter([[[0], [1]], [[2]], [[3], [4], [5]]])
    tasks: dict[str, Make] = {
        "a": lambda generator: next(passes, [[6]]),
        "b": fixed([0], [1], [2], [3], [4], [5]),
    }
    found = []
    with contextlib.suppress(IndexError):
        found = batches_of("a", joint(tasks, seeded()))
    assert found == [[0], [1], [2], [3], [4], [5]], (
        "a later pass may have another number of batches than the first one: take all of them, and "
        "then form the next pass"
    )


def test_joint_counts_batches_and_not_rows():
    """The batches of a task with long rows have fewer of them."""
    tasks = {"many rows": fixed([0, 1, 2, 3, 4]), "many batches": fixed([0], [1], [2])}
    for limit, num_steps in (("largest", 3), ("smallest", 1)):
        assert len(joint(tasks, seeded(), limit=limit)) == num_steps, (
            f"limit='{limit}' is about the number of batches, and here the number of rows decides"
        )


def test_joint_samples_the_larger_down_to_the_smallest():
    steps = joint(MAKE_BATCHES, seeded(), limit="smallest")
    assert len(steps) == NUM_BATCHES["sts"], "as many steps as the smallest task has batches"
    assert rows_in(batches_of("sts", steps)) == list(range(7)), "one pass has every row once"
    rows = rows_in(batches_of("para", steps))
    assert len(set(rows)) == len(rows) == 8, (
        "limit='smallest' takes the first batches of a larger task's pass: here two whole ones of "
        "para, of four rows each. Are they drawn from the pass in another way?"
    )
    others = joint(MAKE_BATCHES, seeded(4), limit="smallest")
    assert rows != rows_in(batches_of("para", others)), "the rows are drawn anew each time"


# --- MT-DNN ---------------------------------------------------------------------------------------


def test_mt_dnn_by_hand():
    steps = mt_dnn(BY_HAND, seeded())
    assert isinstance(steps, list), f"found {steps}, expected a list of steps: not written yet?"
    assert all(isinstance(step, list) for step in steps), (
        "a step is a list of TaskBatch(task, rows), here of a single one"
    )
    for seed in range(5):
        drawn = [str(step) for step in mt_dnn(BY_HAND, seeded(seed))]
        assert len(set(drawn)) == len(drawn), (
            "a batch comes twice: each comes once, in a random order (torch.randperm)"
        )
    assert sorted(steps) == [[("sst", [0, 1])], [("sst", [2])], [("sts", [5])]], (
        "all batches of all tasks, one in each step"
    )
    assert mt_dnn(BY_HAND, seeded()) == steps, (
        "the same generator state gives the same plan: is the shuffle drawn from the generator "
        "that is passed, and not from another source of chance?"
    )
    orders = {str(mt_dnn(BY_HAND, seeded(seed))) for seed in range(100)}
    assert len(orders) == 6, (
        "three batches have six orders, and each of them may come: is the pool of all tasks "
        "shuffled as one?"
    )
    generator = seeded()
    assert len({str(mt_dnn(BY_HAND, generator)) for _ in range(40)}) > 1, (
        "each epoch has the same order: draw from the generator itself, and not from a new one "
        "with its seed or its state"
    )


def test_mt_dnn_takes_every_row_of_every_task_exactly_once_a_batch_per_step():
    steps = mt_dnn(MAKE_BATCHES, seeded())
    assert all(len(step) == 1 for step in steps), "one batch per step"
    assert Counter(tasks_in(steps)) == NUM_BATCHES, "a task has as many steps as batches"
    for task, num_rows in NUM_ROWS.items():
        assert rows_in(batches_of(task, steps)) == list(range(num_rows)), "every row once"


def test_mt_dnn_shuffles_a_single_task():
    tasks = {"sst": fixed([0], [1], [2], [3], [4])}
    orders = {str(mt_dnn(tasks, seeded(seed))) for seed in range(9)}
    assert len(orders) > 1, "the batches of a single task are shuffled, too"


def chance_of_first(sample: Callable[..., list[Step]]) -> float:
    """Chi-square over 2,000 epochs of the law that each of the 14 batches is as often the first."""
    generator = seeded()
    first = Counter(tasks_in(sample(MAKE_BATCHES, generator)[:1])[0] for _ in range(2000))
    found = [first[name] for name in NUM_BATCHES]
    expected = [2000 * count / NUM_ALL for count in NUM_BATCHES.values()]
    return chisquare(found, expected).pvalue


def test_mt_dnn_shuffles_the_tasks_evenly():
    assert chance_of_first(mt_dnn) > 1e-4, (
        "some tasks come first too often: are batches shuffled within each task only, is each "
        "swapped with any other, or has each task the same chance, whatever it has left? "
        "torch.randperm draws each order alike"
    )


def test_negative_control_a_pool_that_is_not_shuffled_breaks_the_law():
    def unshuffled(make_batches: dict[str, Make], generator: torch.Generator) -> list[Step]:
        steps = []
        for name, make in make_batches.items():
            steps += [[(name, batch)] for batch in make(generator)]
        return steps

    assert chance_of_first(unshuffled) < 1e-4


def test_weights_are_passes():
    weights = {"sst": 2}
    try:
        mt_dnn(MAKE_BATCHES, seeded(), weights)
    except (KeyError, ValueError) as error:
        pytest.fail(f"a task that weights leaves out has the weight 1: {error}")
    assert weights == {"sst": 2}, "weights was written to; it belongs to the caller"
    steps = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 2, "para": 1 / 3})
    counts = Counter(tasks_in(steps))
    assert counts["sst"] == 6, "a weight multiplies the number of batches"
    assert counts["para"] == 3, (
        "a third of nine batches is three: is the weight itself made a whole number?"
    )
    assert counts["sts"] == 2, "a task without an entry in weights has the weight 1"
    assert rows_in(batches_of("sst", steps)) == sorted([*range(10)] * 2), "two whole passes"

    # Three of the nine batches. The last batch of a pass holds one row.
    rows = rows_in(batches_of("para", steps))
    assert len(set(rows)) == len(rows) == 12 or len(rows) == 9
    assert mt_dnn(MAKE_BATCHES, seeded(), {"sst": 1.0}) == mt_dnn(MAKE_BATCHES, seeded())
    more = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 1.3})
    assert len(batches_of("sst", more)) == 4, "3 batches x 1.3 is 3.9: round to 4, not down to 3"
    more = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 1.1})
    assert len(batches_of("sst", more)) == 3, "3 batches x 1.1 is 3.3: round to 3, not up to 4"
    more = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 1.5})
    assert len(batches_of("sst", more)) == 4, (
        "3 batches x 1.5 is 4.5: round half to even, to 4, as Python's `round` does"
    )
    half_more = mt_dnn(MAKE_BATCHES, seeded(), {"para": 1.5})
    assert set(rows_in(batches_of("para", half_more))) == set(range(33)), (
        "with the weight 1.5 a row of the first pass is missing: take this pass whole, and half of "
        "the second one"
    )
    few = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 0.01})
    assert len(batches_of("sst", few)) == 1, (
        "a task never drops out: where the number of its batches rounds to 0, one batch stays"
    )
    none = mt_dnn(MAKE_BATCHES, seeded(), {"sst": 0.0})
    assert len(batches_of("sst", none)) == 1, (
        "with the weight 0 a task has one batch: `or 1` takes 0 for nothing"
    )


# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["largest", "smallest"])
def test_batch_round_robin_takes_the_batches_of_joint_one_after_the_other(limit):
    steps = batch_round_robin(MAKE_BATCHES, seeded(), limit)
    of_options = sampler("batch-round-robin", joint_limit=limit)
    assert steps == of_options(MAKE_BATCHES, seeded())
    expected = []
    for step in joint(MAKE_BATCHES, seeded(), limit):
        expected += [[batch] for batch in step]
    assert steps == expected
    assert tasks_in(steps) == ["sst", "para", "sts"] * (len(steps) // 3)


def test_epoch_round_robin_follows_the_order_and_forms_repeated_tasks_anew():
    order = ["sts", "sst", "para", "sst", "sts"]
    steps = epoch_round_robin(MAKE_BATCHES, seeded(), order)
    expected = ["sts"] * 2 + ["sst"] * 3 + ["para"] * 9 + ["sst"] * 3 + ["sts"] * 2
    assert tasks_in(steps) == expected
    first, second = passes_of("sst", steps)
    assert rows_in(first) == rows_in(second) == list(range(10))
    assert first != second


def test_sequential_ends_a_task_before_the_next():
    order = ["sts", "para", "sst"]
    epochs = [sequential(MAKE_BATCHES, seeded(), order, epoch, epochs=2) for epoch in range(6)]
    tasks = [set(tasks_in(steps)) for steps in epochs]
    assert tasks == [{"sts"}, {"sts"}, {"para"}, {"para"}, {"sst"}, {"sst"}]
    assert rows_in(batches_of("para", epochs[2])) == list(range(33))


def test_only_sequential_has_an_epoch_for_each_task():
    tasks = ("sts", "sst", "sts")
    assert SAMPLERS["sequential"].num_epochs(3, tasks) == 9, "as often as a task is named"
    assert SAMPLERS["epoch-round-robin"].num_epochs(3, tasks) == 3


# --- powers ---------------------------------------------------------------------------------------


def chance_of_power(draw: Callable[[], list[Step]], exponent: float) -> float:
    """Chi-square over 300 epochs of 14 draws of the law p_k ~ N_k ^ exponent."""
    counts: Counter[str] = Counter()
    for _ in range(300):
        counts.update(tasks_in(draw()))
    shares = {name: size**exponent for name, size in NUM_BATCHES.items()}
    total = sum(shares.values())
    found = [counts[name] for name in shares]
    expected = [300 * NUM_ALL * share / total for share in shares.values()]
    return chisquare(found, expected).pvalue


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_power_draws_tasks_by_its_law(exponent, seed):
    draw = partial(power, MAKE_BATCHES, seeded(seed), exponent)
    assert chance_of_power(draw, exponent) > 1e-4
    other = 1.0 if exponent < 1 else 0.0
    assert chance_of_power(draw, other) < 1e-4, "the negative control: another power"


@pytest.mark.parametrize(
    ("epoch", "exponent", "other"), [(0, 1.0, 0.6), (2, 0.6, 0.2), (4, 0.2, 0.6)]
)
def test_annealed_draws_tasks_by_the_law_of_its_epoch(epoch, exponent, other):
    draw = partial(sampler("annealed", epochs=5), MAKE_BATCHES, seeded(), epoch)
    assert chance_of_power(draw, exponent) > 1e-4 > chance_of_power(draw, other)


def test_power_goes_through_whole_passes():
    generator = seeded()
    for _ in range(20):
        steps = power(MAKE_BATCHES, generator, 0.0)
        assert len(steps) == NUM_ALL and all(len(step) == 1 for step in steps)
        for task, num_batches in NUM_BATCHES.items():
            for batches in passes_of(task, steps):
                rows = rows_in(batches)
                assert len(set(rows)) == len(rows), "a row twice in one pass"
                assert len(batches) < num_batches or len(rows) == NUM_ROWS[task]


def test_the_exponent_anneals():
    exponents = [annealed_exponent(epoch, 5) for epoch in range(5)]
    assert exponents == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert annealed_exponent(0, 1) == pytest.approx(0.2)
    for epoch, exponent in enumerate(exponents):
        steps = sampler("annealed", epochs=5)(MAKE_BATCHES, seeded(), epoch)
        assert steps == power(MAKE_BATCHES, seeded(), exponent)


# --- a task drawn by weight -----------------------------------------------------------------------


@pytest.mark.parametrize("weights", [{}, {"para": 2.0}])
def test_random_task_draws_by_its_weights_whatever_the_size(weights):
    counts: Counter[str] = Counter()
    generator = seeded()
    for _ in range(300):
        counts.update(tasks_in(random_task(MAKE_BATCHES, generator, weights)))
    shares = [weights.get(name, 1.0) for name in NUM_BATCHES]
    expected = [300 * NUM_ALL * share / sum(shares) for share in shares]
    found = [counts[name] for name in NUM_BATCHES]
    assert chisquare(found, expected).pvalue > 1e-4, (
        "the law is p_k ~ w_k. Do the sizes of the tasks count, as in mt_dnn?"
    )
    # The negative control: the sizes of the tasks.
    pooled = [300 * num for num in NUM_BATCHES.values()]
    assert chisquare(found, pooled).pvalue < 1e-4


def test_random_task_has_as_many_steps_as_asked():
    assert len(random_task(MAKE_BATCHES, seeded())) == NUM_ALL
    assert len(random_task(MAKE_BATCHES, seeded(), num_steps=5)) == 5
    with pytest.raises(ValueError, match="weights names qqp"):
        random_task(MAKE_BATCHES, seeded(), {"qqp": 2.0})


def test_random_task_without_weights_is_power_without_sizes():
    assert random_task(MAKE_BATCHES, seeded()) == power(MAKE_BATCHES, seeded(), 0.0)


def numbered(num_rows: int = 2) -> Make:
    """A task of batches of one row, other rows with every pass that is formed."""
    passes: list[int] = []

    def make(generator: torch.Generator) -> list[list[int]]:
        passes.append(len(passes))
        return [[num_rows * passes[-1] + row] for row in range(num_rows)]

    return make


FURTHER_PASSES = {
    "mt-dnn": lambda: mt_dnn({"a": numbered()}, seeded(), {"a": 3}),
    "power": lambda: power({"a": numbered(), "b": numbered(40)}, seeded(), 0.0),
}


@pytest.mark.parametrize("name", FURTHER_PASSES)
def test_a_further_pass_is_formed_anew(name):
    seen = rows_in(batches_of("a", FURTHER_PASSES[name]()))
    assert len(seen) >= 6 and len(set(seen)) == len(seen), (
        "a batch came twice: each further pass calls the task's function, which forms new ones"
    )


# --- every sampler --------------------------------------------------------------------------------

NAMES = list(SAMPLERS)


def sampler(name: str, epochs: int = 4, **changes) -> Callable[..., list[Step]]:
    """A function: make_batches, generator, epoch -> the steps of --sampling `name`."""

    def sample(
        make_batches: dict[str, Make], generator: torch.Generator, epoch: int = 0
    ) -> list[Step]:
        values = {"sampling": name, "tasks": ",".join(make_batches), **changes}
        options = from_flat(TaskOptions, values)
        of_run = Epoch(epoch, epochs, options.order)
        return plan_epoch(name, make_batches, generator, options.of_sampler, of_run)

    return sample


every_sampler = pytest.mark.parametrize(
    "sample",
    [*map(sampler, NAMES), sampler("joint", joint_limit="smallest")],
    ids=[*NAMES, "joint-smallest"],
)


def test_each_name_is_another_plan():
    """In their last epoch. The first one of sequential and of a round of one task are alike."""
    plans = [sampler(name)(MAKE_BATCHES, seeded(), 3) for name in NAMES]
    for index, plan in enumerate(plans):
        assert plan not in plans[:index], NAMES[index]


@every_sampler
def test_the_same_state_gives_the_same_plan_and_another_seed_another(sample):
    first = sample(MAKE_BATCHES, seeded())
    assert first == sample(MAKE_BATCHES, seeded()), (
        "draw from the generator only: is there another source of chance?"
    )
    assert first != sample(MAKE_BATCHES, seeded(4)), "the generator is not used"


@every_sampler
def test_a_restored_state_gives_the_same_later_epochs(sample):
    generator = seeded()
    first = sample(MAKE_BATCHES, generator)
    state = generator.get_state()
    second = sample(MAKE_BATCHES, generator)
    third = sample(MAKE_BATCHES, generator)
    restored = torch.Generator()
    restored.set_state(state)
    assert sample(MAKE_BATCHES, restored) == second, "a resumed run would take other batches"
    assert sample(MAKE_BATCHES, restored) == third, "the third epoch would be another one"
    assert first != second and second != third, (
        "two epochs are the same: is the generator that is passed advanced, and no copy of it?"
    )


@every_sampler
def test_nothing_is_drawn_from_the_global_generator(sample):
    before = torch.get_rng_state()
    sample(MAKE_BATCHES, seeded())
    assert torch.equal(torch.get_rng_state(), before), (
        "pass generator=generator to every draw, or dropout masks depend on the sampler"
    )


@every_sampler
def test_one_task_alone_is_one_pass(sample):
    steps = sample({"sts": MAKE_BATCHES["sts"]}, seeded())
    assert [len(step) for step in steps] == [1, 1], "one task has a step for each of its batches"
    assert rows_in(batches_of("sts", steps)) == list(range(7)), "one pass has every row once"


@every_sampler
def test_tasks_without_batches_are_refused(sample):
    calls: list[int] = []

    def make(generator: torch.Generator) -> list[list[int]]:
        calls.append(len(calls))
        assert len(calls) < 100, "it is asked for batches again and again"
        return []

    fault = "a task without batches (`first_passes` sees to that)"
    assert_refused(partial(sample, {**MAKE_BATCHES, "sst": make}), fault)


def test_tasks_without_batches_are_refused_with_the_limit_smallest():
    tasks = {**MAKE_BATCHES, "sst": lambda generator: []}
    assert_refused(
        partial(joint, tasks),
        "a task without batches, with limit='smallest', too,",
        limit="smallest",
    )


def test_lists_of_batches_stay_as_they_are():
    given: list[list[list[int]]] = []

    def make(generator: torch.Generator) -> list[list[int]]:
        given.append([[0], [1]])
        return given[-1]

    joint({"a": make, "b": lambda generator: [[row] for row in range(5)]}, seeded())
    mt_dnn({"a": make}, seeded(), {"a": 1.5})
    assert all(batches == [[0], [1]] for batches in given), (
        "a list that make_batches returned was changed: copy it, as by list(...)"
    )


def assert_refused(sample: Callable[..., list[Step]], fault: str, **options) -> None:
    """A fault of the arguments is a ValueError."""
    try:
        sample(generator=seeded(), **options)
    except ValueError:
        return
    except Exception as error:
        pytest.fail(f"{fault} must be a ValueError; here it is {type(error).__name__}: {error}")
    pytest.fail(f"{fault} must raise a ValueError; here it is taken")


REFUSED = {
    "joint without any task (`first_passes` sees to that)": partial(joint, {}),
    "mt_dnn without any task (`first_passes` sees to that)": partial(mt_dnn, {}),
    "joint with limit='median', which is no limit,": partial(joint, MAKE_BATCHES, limit="median"),
    "joint with limit='Largest', which is no limit,": partial(joint, MAKE_BATCHES, limit="Largest"),
    "mt_dnn with a weight of a task that is not there (`check_names` sees to that)": partial(
        mt_dnn, MAKE_BATCHES, weights={"qqp": 2.0}
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_the_docstring_refuses_is_refused(fault):
    assert_refused(REFUSED[fault], fault)
