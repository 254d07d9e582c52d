"""The samplers of --sampling by name, each with its options. No torch here.

sampling.py has the functions that make the batches of an epoch into steps, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from data.options import check_numbers, numbers_by_task
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Entry, Registry


class Epoch(NamedTuple):
    """One epoch of a run."""

    number: int  # counted from 0
    epochs: int  # --epochs
    order: tuple[str, ...]  # --tasks; a name may come several times


@dataclass(frozen=True, kw_only=True)
class Sampler(Entry):
    """A value of --sampling."""

    # Of a user's sampler: (make_batches, generator, **arguments) -> the steps of one epoch
    sample: Callable[..., Any] | None = None
    # Further parameters of this function, and the fields of Epoch that they get.
    of_epoch: Mapping[str, str] = field(default_factory=dict)
    # Its options that have a number for each task, such as "para=2,sts=0.5".
    numbers_of_tasks: tuple[str, ...] = ()
    has_joint_steps: bool = False  # a step holds several tasks
    # A task keeps its turn for a whole pass. --tasks may name it several times.
    has_long_turns: bool = False
    has_epochs_per_task: bool = False  # --epochs counts for each task in turn

    def all_arguments(self, method_options: MethodOptions, epoch: Epoch) -> dict[str, Any]:
        """The arguments of its function besides the batches and the generator, by name."""
        of_epoch = {name: getattr(epoch, of) for name, of in self.of_epoch.items()}
        return {**self.arguments_from(method_options), **of_epoch}

    def check(self, method_options: MethodOptions, tasks: Sequence[str]) -> None:
        """ValueError where its own options do not fit the tasks of the run."""
        for name in self.numbers_of_tasks:
            check_numbers(name, method_options.value(name), tasks, ",".join(tasks))

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

    An option of your own is a field of an OptionGroup. Name the group in `options`, and say in
    `arguments` which parameter of the function gets it, as the entries of this file do. ValueError
    where the name exists, or where the entry has no function.
    """
    if isinstance(sampler, Sampler) and sampler.sample is None:
        raise ValueError(f"the sampler '{name}' has no function; pass Sampler(sample=..., ...).")
    SAMPLERS.register(name, sampler)


# --- the samplers of sampling.py ------------------------------------------------------------------


@dataclass(frozen=True)
class WeightOptions(OptionGroup):
    """Option of mt-dnn."""

    sampling_weights: str = flag(
        NONE,
        "With --sampling mt-dnn: how often an epoch passes over a task's rows, such as "
        "para=2,sts=0.5. Tasks without a number have 1.",
    )

    @property
    def weights(self) -> dict[str, float]:
        """The number of each task that has one."""
        return numbers_by_task(self.sampling_weights)


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

    @property
    def weights_of_draws(self) -> dict[str, float]:
        """The number of each task that has one."""
        return numbers_by_task(self.draw_weights)


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


SAMPLERS["mt-dnn"] = Sampler(
    title="one batch, the batches of all tasks are shuffled (Liu et al. 2019)",
    options=(WeightOptions,),
    arguments={"weights": "weights"},
    numbers_of_tasks=("sampling_weights",),
)
SAMPLERS["random-task"] = Sampler(
    title="one batch, its task is drawn by --draw_weights, whatever its size",
    options=(DrawOptions,),
    arguments={"weights": "weights_of_draws", "num_steps": "steps_per_epoch"},
    numbers_of_tasks=("draw_weights",),
)
SAMPLERS["joint"] = Sampler(
    title="one batch of every task",
    options=(LimitOptions,),
    arguments={"limit": "joint_limit"},
    has_joint_steps=True,
)
SAMPLERS["batch-round-robin"] = Sampler(
    title="one batch, the tasks take turns",
    options=(LimitOptions,),
    arguments={"limit": "joint_limit"},
)
SAMPLERS["epoch-round-robin"] = Sampler(
    title="one batch, the tasks take turns after each epoch",
    of_epoch={"order": "order"},
    has_long_turns=True,
)
SAMPLERS["sequential"] = Sampler(
    title="one batch, a task begins when the one before it is finished",
    of_epoch={"order": "order", "epoch": "number", "epochs": "epochs"},
    has_long_turns=True,
    has_epochs_per_task=True,
)
SAMPLERS["annealed"] = Sampler(
    title="as power, from by size to almost evenly (Stickland and Murray 2019)",
    of_epoch={"epoch": "number", "epochs": "epochs"},
)
SAMPLERS["power"] = Sampler(
    title="one batch, its task is drawn by size",
    options=(PowerOptions,),
    arguments={"exponent": "sampling_power"},
)
