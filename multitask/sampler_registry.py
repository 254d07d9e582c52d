"""The samplers of --sampling by name, each with its options and with everything that belongs to it.

sampling.py has the functions that make the batches of an epoch into steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from data.options import check_numbers, numbers_by_task
from minbert.commands.late import torch
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Entry, Fixture, Registry
from minbert.training.job import Step, TaskBatch
from multitask.sampling import (
    MakeBatches,
    annealed_exponent,
    batch_round_robin,
    epoch_round_robin,
    joint,
    mt_dnn,
    power,
    random_task,
    sequential,
)


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


# --- the samplers of sampling.py ------------------------------------------------------------------


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
