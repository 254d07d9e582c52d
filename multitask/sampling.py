"""Which batches make the next step: the plan of one epoch, made before the epoch starts.

A batch is a list of row numbers of its task's training examples. A step is a list of batches with
their tasks, all of them in the same update. A sampler is a pure function of the batches and of a
generator. The same generator state gives the same plan. So a job resumes from two things: the
state saved at the start of the epoch, and the number of steps done since.

A new sampler is a function, a line of FUNCTIONS at the end of this file, and an entry of
sampler_registry.py.

[ROB], [GEN]: two reports of the course (experiments/recipes.py).
Legend: K tasks, N_k batches of task k, E epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch

from minbert.commands.options import MethodOptions
from minbert.training.job import Step, TaskBatch
from multitask.sampler_registry import SAMPLERS, Epoch

RowNumbers = list[int]  # of a batch
# For each task a function that forms the batches of one pass over its rows. Every row is in exactly
# one batch. Each call draws new batches.
MakeBatches = Mapping[str, Callable[[torch.Generator], list[RowNumbers]]]
Limit = Literal["largest", "smallest"]


# --- joint: all tasks in every step ---------------------------------------------------------------


def joint(
    make_batches: MakeBatches, generator: torch.Generator, limit: Limit = "largest"
) -> list[Step]:
    """One batch of every task in the same update ("average loss" in [GEN]).

    limit="largest": the epoch is one pass over the task with the most batches. Smaller tasks
    start again, with new batches for each pass. So a small task has many passes per epoch, and no
    row comes twice within one of them. limit="smallest" ([GEN] section 4.2): the epoch is one
    pass over the task with the fewest batches. Of larger tasks it takes the first batches of a
    pass, which is drawn anew for each epoch. This is not the default: an epoch would see one row in
    twenty of the course's PARA.

    make_batches: called in the order of its keys, which is also the order of the tasks in a step.
    The lists that it returns are not changed. generator: a CPU generator. It is advanced. A pass of
    a task is used up before its next one is drawn. Whether passes beyond the first ones are drawn
    task by task or step by step is free.

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
    task without an entry. The number of batches is rounded (half to even, as `round` does), and at
    least 1. With 2, a second pass is formed, so the task's share doubles. With 0.5, one pass is
    formed, and any half of its batches is taken: a call forms new ones, so the first half will do.
    With 1.5, all of the first pass come, and any half of a second one.

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


def annealed(
    make_batches: MakeBatches, generator: torch.Generator, epoch: int, epochs: int
) -> list[Step]:
    """`power`, whose exponent falls from epoch to epoch (`annealed_exponent`).

    Arguments of the exponent: see there. The others, the steps and the errors are those of `power`.
    """
    return power(make_batches, generator, annealed_exponent(epoch, epochs))


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
    passes: dict[str, list[RowNumbers]],
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


def first_passes(
    make_batches: MakeBatches, generator: torch.Generator
) -> dict[str, list[RowNumbers]]:
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


# --- by name --------------------------------------------------------------------------------------

# The function of each entry in sampler_registry.py.
FUNCTIONS: dict[str, Callable[..., list[Step]]] = {
    "mt-dnn": mt_dnn,
    "random-task": random_task,
    "joint": joint,
    "batch-round-robin": batch_round_robin,
    "epoch-round-robin": epoch_round_robin,
    "sequential": sequential,
    "annealed": annealed,
    "power": power,
}


def plan_epoch(
    name: str,
    make_batches: MakeBatches,
    generator: torch.Generator,
    method_options: MethodOptions,
    epoch: Epoch,
) -> list[Step]:
    """The steps of one epoch. Every draw comes from the generator.

    name: of --sampling. method_options: TaskOptions.of_sampler. ValueError where the sampler makes
    no step, or names a task that is not trained.
    """
    entry = SAMPLERS[name]
    sample = entry.sample or FUNCTIONS[name]
    plan = sample(make_batches, generator, **entry.all_arguments(method_options, epoch))
    if not plan:
        raise ValueError(f"the sampler '{entry.title}' made no step of epoch {epoch.number}.")
    steps = []
    for step in plan:
        for task, _ in step:
            if task not in make_batches:
                raise ValueError(
                    f"the sampler '{entry.title}' names the task '{task}'; it may be "
                    f"{', '.join(make_batches)}."
                )
        steps.append([TaskBatch(task, rows) for task, rows in step])
    return steps
