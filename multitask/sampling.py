"""Which batches make the next step: the plan of one epoch, made before the epoch starts.

A batch is a list of row numbers of its task's training examples. A step is a list of batches with
their tasks, all of them in the same update. A sampler is a pure function of the batches and of a
generator. The same generator state gives the same plan. So a job resumes from two things: the
state saved at the start of the epoch, and the number of steps done since.

A new sampler is a function and an entry of SAMPLERS at the end of this file.

[ROB], [GEN]: two reports of the course (experiments/recipes.py).
Legend: K tasks, N_k batches of task k, E epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from data.options import check_numbers, numbers_by_task
from minbert.commands.late import torch
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Entry, Fixture, Registry
from minbert.training.job import Step, TaskBatch

Rows = list[int]  # the row numbers of a batch
# For each task a function that forms the batches of one pass over its rows. Every row is in exactly
# one batch. Each call draws new batches.
MakeBatches = Mapping[str, Callable[["torch.Generator"], list[Rows]]]
Limit = Literal["largest", "smallest"]


# --- joint: all tasks in every step ---------------------------------------------------------------


def joint(
    make_batches: MakeBatches, generator: torch.Generator, limit: Limit = "largest"
) -> list[Step]:
    """One batch of every task in the same update ("average loss" in [GEN]).

    limit="largest": the epoch is one pass over the task with the most batches. Smaller tasks
    start again, with new batches for each pass. So a small task has many passes per epoch, and no
    row comes twice within one of them. limit="smallest" ([GEN] section 4.2): the epoch is one
    pass over the task with the fewest batches. Of larger tasks it takes as many, drawn anew each
    time. This is not the default: an epoch would see one row in twenty of the course's PARA.

    make_batches: called in the order of its keys, which is also the order of the tasks in a step.
    generator: a CPU generator. It is advanced.

    Returns the steps of one epoch, each with one batch per task. Raises ValueError for no tasks, a
    task without batches, or another limit. Compare with mt_dnn, where a task's share of the updates
    is its share of the batches.
    """
    if limit not in ("largest", "smallest"):
        raise ValueError(
            f"limit is {limit!r}; it is 'largest' (smaller tasks cycle) or 'smallest' (larger are "
            "cut)"
        )
    passes = first_passes(make_batches, generator)
    counts = [len(batches) for batches in passes.values()]
    num_steps = max(counts) if limit == "largest" else min(counts)

    for name, batches in passes.items():
        while len(batches) < num_steps:
            batches.extend(make_batches[name](generator))
    steps = []
    for number in range(num_steps):
        steps.append([TaskBatch(name, batches[number]) for name, batches in passes.items()])
    return steps


# --- turns: one task after the other --------------------------------------------------------------


def batch_round_robin(
    make_batches: MakeBatches, generator: torch.Generator, limit: Limit = "largest"
) -> list[Step]:
    """One batch of each task in turn, an update after each ([GEN] "batch round robin").

    The batches are those of joint, which puts them into one update. Arguments and errors are those
    of joint, too. Returns the steps of one epoch, each with a single batch.
    """
    steps = []
    for step in joint(make_batches, generator, limit):
        steps += [[batch] for batch in step]
    return steps


def epoch_round_robin(
    make_batches: MakeBatches, generator: torch.Generator, order: Sequence[str]
) -> list[Step]:
    """All batches of a task, then all of the next, within every epoch.

    [ROB] calls this "round-robin", [GEN] "epoch round robin".

    order: task names, any of them several times (sts, sst, para, sst, sts). Each time the batches
    are formed anew. Returns the steps of one epoch, each with a single batch. Raises ValueError
    as joint does.
    """
    steps: list[Step] = []
    for name in order:
        batches = first_passes({name: make_batches[name]}, generator)[name]
        steps += [[TaskBatch(name, batch)] for batch in batches]
    return steps


def sequential(
    make_batches: MakeBatches,
    generator: torch.Generator,
    order: Sequence[str],
    epoch: int,
    epochs: int,
) -> list[Step]:
    """All epochs of one task, then all of the next ([ROB] "sequential training").

    The model forgets an early task while the later ones train. The sampler is there to show that.

    epoch: 0 to len(order) x epochs - 1, since a run has so many passes. Returns the steps of that
    pass, each with a single batch. Raises ValueError as joint does.
    """
    task = order[epoch // epochs]
    return epoch_round_robin(make_batches, generator, [task])


# --- draws: tasks by their size -------------------------------------------------------------------


def mt_dnn(
    make_batches: MakeBatches,
    generator: torch.Generator,
    weights: Mapping[str, float] | None = None,
) -> list[Step]:
    """All mini-batches of all tasks pooled and shuffled, one per update.

    This is MT-DNN (Liu et al. 2019, algorithm 1). A task's share of the updates is its share of the
    batches, so a large task leads. Every row of every task comes exactly once per epoch.

    make_batches, generator: as in joint. weights: passes over a task's rows in one epoch, 1 for a
    task without an entry. 2 doubles its share. 0.5 takes half of its batches, drawn anew each
    time.

    Returns the steps of one epoch, each with a single batch. Raises ValueError for no tasks, a task
    without batches, or a weight of another task. Compare with joint, where all tasks weigh the same
    in every update.
    """
    weights = weights or {}
    check_names(weights, make_batches)
    pooled = []
    for name, batches in first_passes(make_batches, generator).items():
        count = max(1, round(len(batches) * weights.get(name, 1.0)))
        while len(batches) < count:
            batches.extend(make_batches[name](generator))
        pooled += [TaskBatch(name, batch) for batch in batches[:count]]

    order = torch.randperm(len(pooled), generator=generator).tolist()
    return [[pooled[index]] for index in order]


def power(make_batches: MakeBatches, generator: torch.Generator, exponent: float) -> list[Step]:
    """One batch a step, its task drawn with p_k ~ N_k ^ exponent (Stickland and Murray 2019).

    The paper anneals the exponent (`annealed_exponent`). Exponent 1 is proportional to size, as
    mt_dnn is on average. 0.5 is the square root. 0 gives all tasks the same share. N_k is the
    task's number of batches here, and of training examples in the paper. With --max_tokens a
    batch of long rows holds fewer of them, so a task of long rows counts as larger.

    An epoch has as many steps as all tasks have batches. A task drawn more often than it has
    batches starts another pass, formed anew. No row comes twice within a pass.

    make_batches, generator: as in joint. exponent: any finite number; 0 to 1 is useful. Returns the
    steps of one epoch, each with a single batch. Raises ValueError as joint does. Compare with
    mt_dnn, where every row comes once.
    """
    passes = first_passes(make_batches, generator)
    counts = [len(batches) for batches in passes.values()]
    chances = torch.tensor(counts, dtype=torch.float64) ** exponent  # (K,)
    return drawn_steps(make_batches, generator, passes, chances, sum(counts))


def random_task(
    make_batches: MakeBatches,
    generator: torch.Generator,
    weights: Mapping[str, float] | None = None,
    num_steps: int = 0,
) -> list[Step]:
    """One batch a step, its task drawn with p_k ~ w_k, whatever the size of the task ([ROB]).

    [ROB] draws the task with the weights 1 : 1 : 1, or with the double weight for PARA. It does not
    say how long an epoch is.

    make_batches, generator: as in joint. weights: w_k, 1 for a task without an entry. num_steps: of
    the epoch. 0: as many as all tasks have batches, as in mt_dnn. A task drawn more often than it
    has batches starts another pass, formed anew.

    Returns the steps of one epoch, each with a single batch. Raises ValueError as mt_dnn does.
    Compare with mt_dnn, where a large task leads, and with `power` of exponent 0.
    """
    weights = weights or {}
    check_names(weights, make_batches)
    passes = first_passes(make_batches, generator)
    chances = torch.tensor([weights.get(name, 1.0) for name in passes], dtype=torch.float64)  # (K,)
    count = num_steps or sum(len(batches) for batches in passes.values())
    return drawn_steps(make_batches, generator, passes, chances, count)


def drawn_steps(
    make_batches: MakeBatches,
    generator: torch.Generator,
    passes: dict[str, list[Rows]],
    chances: torch.Tensor,
    num_steps: int,
) -> list[Step]:
    """Steps of one batch each, whose tasks are drawn.

    passes: the batches of the first pass over each task. They are used up. chances: (K,) float64,
    of the tasks in the order of `passes`; they need not add up to 1.
    """
    names = list(passes)
    draws = torch.multinomial(chances, num_steps, replacement=True, generator=generator)
    steps: list[Step] = []
    for number in draws.tolist():
        name = names[number]
        if not passes[name]:
            passes[name] = list(make_batches[name](generator))
        steps.append([TaskBatch(name, passes[name].pop(0))])
    return steps


def check_names(weights: Mapping[str, float], make_batches: MakeBatches) -> None:
    """Raise ValueError where the weights name a task that is not there."""
    unknown = sorted(set(weights) - set(make_batches))
    if unknown:
        raise ValueError(
            f"weights names {unknown[0]}, which is no task here; there are "
            f"{', '.join(make_batches)}."
        )


def annealed_exponent(epoch: int, epochs: int) -> float:
    """The exponent of `power` in one epoch: 1 - 0.8 e / (E - 1).

    It falls from 1, proportional to size, to 0.2, nearly uniform (Stickland and Murray 2019, PAL,
    annealed sampling).

    epoch: e, 0 to E - 1. The paper counts from 1. epochs: E, 1 or more. A single epoch takes the
    last value, 0.2.
    """
    progress = epoch / (epochs - 1) if epochs > 1 else 1
    return 1 - 0.8 * progress


def first_passes(make_batches: MakeBatches, generator: torch.Generator) -> dict[str, list[Rows]]:
    """The batches of one pass over each task. ValueError for no task, or one without batches."""
    if not make_batches:
        raise ValueError("no task to sample from; name at least one")
    passes = {name: list(make(generator)) for name, make in make_batches.items()}
    for name, batches in passes.items():
        if not batches:  # joint would cycle through it for ever
            raise ValueError(
                f"task {name!r} has no training batches; give it rows, or leave it out"
            )
    return passes


# --- samplers by name -----------------------------------------------------------------------------


class Epoch(NamedTuple):
    """One epoch of a run."""

    number: int  # counted from 0
    epochs: int  # --epochs
    order: tuple[str, ...]  # --tasks; a name may come several times


def no_arguments(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For a sampler that needs nothing but batches and generator."""
    return {}


def accept(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For a sampler whose options fit all tasks."""


@dataclass(frozen=True, kw_only=True)
class Sampler(Entry):
    """A value of --sampling."""

    # (make_batches, generator, **arguments) -> the steps of one epoch
    sample: Callable[..., list[Step]]
    # From its own options and the epoch to the further arguments of `sample`.
    arguments: Callable[[MethodOptions, Epoch], dict[str, Any]] = no_arguments
    has_joint_steps: bool = False  # a step holds several tasks
    # A task keeps its turn for a whole pass. --tasks may name it several times.
    has_long_turns: bool = False
    has_epochs_per_task: bool = False  # --epochs counts for each task in turn
    # ValueError where its own options do not fit the tasks of the run.
    check: Callable[[MethodOptions, Sequence[str]], None] = accept

    def steps(
        self,
        make_batches: MakeBatches,
        generator: torch.Generator,
        method_options: MethodOptions,
        epoch: Epoch,
    ) -> list[Step]:
        """The steps of one epoch. Every draw comes from the generator.

        method_options: TaskOptions.of_sampler. ValueError where the sampler makes no step, or names
        a task that is not trained.
        """
        plan = self.sample(make_batches, generator, **self.arguments(method_options, epoch))
        if not plan:
            raise ValueError(f"the sampler '{self.title}' made no step of epoch {epoch.number}.")
        steps = []
        for step in plan:
            for task, _ in step:
                if task not in make_batches:
                    raise ValueError(
                        f"the sampler '{self.title}' names the task '{task}'; it may be "
                        f"{', '.join(make_batches)}."
                    )
            steps.append([TaskBatch(task, rows) for task, rows in step])
        return steps

    def num_epochs(self, epochs: int, order: Sequence[str]) -> int:
        """How many epochs a run plans: --epochs, or as many for each task in turn."""
        return epochs * len(order) if self.has_epochs_per_task else epochs


SAMPLERS: Registry[Sampler] = Registry("sampler", Sampler)


def register_sampler(name: str, sampler: Sampler) -> None:
    """Add a value of --sampling, from a file that is given to --plugin.

        from multitask import Sampler, register_sampler

        def shortest_first(make_batches, generator):
            # All batches of the task with the fewest, then those of the next one.
            passes = {task: make(generator) for task, make in make_batches.items()}
            steps = []
            for task in sorted(passes, key=lambda task: len(passes[task])):
                steps += [[(task, rows)] for rows in passes[task]]
            return steps

        register_sampler(
            "shortest-first",
            Sampler(title="one batch, the smallest task first", sample=shortest_first),
        )

    A step is a list of (task, rows): the batches of one update. `make_batches` has a function for
    each task of --tasks, which forms the batches of one pass over its rows. All random numbers must
    come from the generator, so that a run can be resumed.

    An option of your own is a field of an OptionGroup. Name the group in `options`, and read it in
    `arguments`, as the entries of this file do. ValueError where the name exists.
    """
    SAMPLERS.register(name, sampler)


# --- the samplers of this file --------------------------------------------------------------------


@dataclass(frozen=True)
class WeightOptions(OptionGroup):
    """Option of mt-dnn."""

    sampling_weights: str = flag(
        NONE,
        "With --sampling mt-dnn: how often an epoch passes over a task's rows, such as "
        "para=2,sts=0.5. Tasks without a number have 1.",
    )


@dataclass(frozen=True)
class DrawOptions(OptionGroup):
    """Options of random-task."""

    draw_weights: str = flag(
        NONE,
        "With --sampling random-task: how often a task is drawn beside the others, such as "
        "para=2. Tasks without a number have 1.",
    )
    steps_per_epoch: int = flag(
        0,
        "With --sampling random-task: number of steps in an epoch. 0: as many as all tasks have "
        "batches.",
        low=0,
        # The plan of an epoch is in memory.
        high=1_000_000,
    )


@dataclass(frozen=True)
class PowerOptions(OptionGroup):
    """Option of power."""

    sampling_power: float = flag(
        0.5,
        "With --sampling power: the probability of a task is proportional to its size to this "
        "power. 0: the same for all tasks.",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class LimitOptions(OptionGroup):
    """Option of joint and batch-round-robin."""

    joint_limit: str = flag(
        "largest",
        "With --sampling joint or batch-round-robin: an epoch is one pass over the largest task "
        "(smaller ones repeat), or over the smallest (larger ones are cut).",
        choices=("largest", "smallest"),
    )


def weights_argument(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For mt_dnn."""
    return {"weights": numbers_by_task(method_options[WeightOptions].sampling_weights)}


def check_weights(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For mt_dnn."""
    text = method_options[WeightOptions].sampling_weights
    check_numbers("sampling_weights", text, tasks, ",".join(tasks))


def draw_arguments(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For random_task."""
    options = method_options[DrawOptions]
    return {
        "weights": numbers_by_task(options.draw_weights),
        "num_steps": options.steps_per_epoch,
    }


def check_draws(method_options: MethodOptions, tasks: Sequence[str]) -> None:
    """For random_task."""
    check_numbers("draw_weights", method_options[DrawOptions].draw_weights, tasks, ",".join(tasks))


def limit_argument(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For joint and batch_round_robin."""
    return {"limit": method_options[LimitOptions].joint_limit}


def order_argument(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For epoch_round_robin."""
    return {"order": epoch.order}


def sequential_arguments(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For sequential."""
    return {"order": epoch.order, "epoch": epoch.number, "epochs": epoch.epochs}


def annealed_argument(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For power, with the exponent of the epoch."""
    return {"exponent": annealed_exponent(epoch.number, epoch.epochs)}


def power_argument(method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
    """For power, with the exponent of the option."""
    return {"exponent": method_options[PowerOptions].sampling_power}


SAMPLERS["mt-dnn"] = Sampler(
    title="one batch, the batches of all tasks are shuffled (Liu et al. 2019)",
    sample=mt_dnn,
    arguments=weights_argument,
    check=check_weights,
    options=(WeightOptions,),
    fixture=Fixture(values={"sampling_weights": ["none", "sst=0.1", "sts=5"]}),
)
SAMPLERS["random-task"] = Sampler(
    title="one batch, its task is drawn by --draw_weights, whatever its size",
    sample=random_task,
    arguments=draw_arguments,
    check=check_draws,
    options=(DrawOptions,),
    fixture=Fixture(
        values={"draw_weights": ["none", "sst=0.1", "sts=5"], "steps_per_epoch": [0, 3]}
    ),
)
SAMPLERS["joint"] = Sampler(
    title="one batch of every task",
    sample=joint,
    arguments=limit_argument,
    has_joint_steps=True,
    options=(LimitOptions,),
    fixture=Fixture(values={"joint_limit": ["largest", "smallest"]}),
)
SAMPLERS["batch-round-robin"] = Sampler(
    title="one batch, the tasks take turns",
    sample=batch_round_robin,
    arguments=limit_argument,
    options=(LimitOptions,),
    fixture=Fixture(values={"joint_limit": ["largest", "smallest"]}),
)
SAMPLERS["epoch-round-robin"] = Sampler(
    title="one batch, the tasks take turns after each epoch",
    sample=epoch_round_robin,
    arguments=order_argument,
    has_long_turns=True,
)
SAMPLERS["sequential"] = Sampler(
    title="one batch, a task begins when the one before it is finished",
    sample=sequential,
    arguments=sequential_arguments,
    has_long_turns=True,
    has_epochs_per_task=True,
)
SAMPLERS["annealed"] = Sampler(
    title="as power, from by size to almost evenly (Stickland and Murray 2019)",
    sample=power,
    arguments=annealed_argument,
)
SAMPLERS["power"] = Sampler(
    title="one batch, its task is drawn by size",
    sample=power,
    arguments=power_argument,
    options=(PowerOptions,),
    fixture=Fixture(values={"sampling_power": [0.0, 1.0]}),
)
