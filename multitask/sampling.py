"""Which batches make the next step: one epoch's plan, made before the epoch starts. Next: surgery.py, train.py.

A batch is a list of row numbers of its task's training examples; a step is a list of (task name, batch), all of them
in the same update. A sampler is a pure function of the batches and of a generator: the same generator state gives the
same plan, so a job resumes from the state saved at the epoch's start and the number of steps done since.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch

from data.options import numbers_by_task
from minbert.training.job import Step
from multitask.options import TaskOptions

Rows = list[int]  # the numbers of a batch's rows
# For each task: forms its batches for one pass over its rows, every row in exactly one, drawn anew at each call.
MakeBatches = dict[str, Callable[[torch.Generator], list[Rows]]]
Limit = Literal["largest", "smallest"]


def joint(
    make_batches: MakeBatches, generator: torch.Generator, limit: Limit = "largest"
) -> list[Step]:
    """One batch of every task in the same update ("average loss" in [GEN]).

    The epoch is one pass over the task with the most batches, and the smaller tasks cycle, their batches formed
    anew for each pass: a small task has many passes per epoch, and no row comes twice within one of them. With
    limit="smallest" ([GEN] section 4.2) it is one pass over the task with the fewest, and the larger tasks are sampled
    down to it: which of their rows an epoch sees is drawn anew each time. That is not the default, for of the course's
    PARA an epoch would see one row in twenty. Compare with mt_dnn, where a task's share of the updates is its share of
    the batches.

    make_batches: task name -> a function that forms its batches; called in the order of the dict, which is also
    the order of the tasks within a step. generator: a CPU generator; it is advanced.
    Returns the steps of one epoch, each with one batch per task.
    Raises ValueError for no tasks, a task without batches, or another limit.
    """
    if limit not in ("largest", "smallest"):
        raise ValueError(
            f"limit is {limit!r}; it is 'largest' (smaller tasks cycle) or 'smallest' (larger are cut)"
        )
    passes = _first_pass(make_batches, generator)
    num_batches = [len(batches) for batches in passes.values()]
    num_steps = max(num_batches) if limit == "largest" else min(num_batches)
    for name, batches in passes.items():
        while len(batches) < num_steps:
            batches.extend(make_batches[name](generator))
    return [
        [(name, batches[step]) for name, batches in passes.items()] for step in range(num_steps)
    ]


def batch_round_robin(
    make_batches: MakeBatches, generator: torch.Generator, limit: Limit = "largest"
) -> list[Step]:
    """One batch of each task in turn, an update after each ([GEN] "batch round robin").

    The batches of joint, which takes them together. Arguments, errors and the meaning of `limit` as there. Returns the
    steps of one epoch, each with a single batch.
    """
    return [[batch] for step in joint(make_batches, generator, limit) for batch in step]


def epoch_round_robin(
    make_batches: MakeBatches, generator: torch.Generator, order: Sequence[str]
) -> list[Step]:
    """All batches of a task, then all of the next, within every epoch ([ROB] "round-robin", [GEN] "epoch round robin").

    order: task names, any of them several times (sts, sst, para, sst, sts); each time its batches are formed anew.
    Returns the steps of one epoch, each with a single batch. Raises ValueError as joint does.
    """
    passes = [_first_pass({name: make_batches[name]}, generator) for name in order]
    return [
        [(name, batch)] for turn in passes for name, batches in turn.items() for batch in batches
    ]


def sequential(
    make_batches: MakeBatches,
    generator: torch.Generator,
    order: Sequence[str],
    epoch: int,
    epochs: int,
) -> list[Step]:
    """One task until its epochs end, then the next, never to return ([ROB] "sequential training").

    What an early task taught is forgotten while the later ones train; that is what it is there to show. A run has
    len(order) x epochs passes: `epoch` counts them from 0. Returns the steps of that pass, each with a single batch.
    Raises ValueError as joint does.
    """
    return epoch_round_robin(make_batches, generator, [order[epoch // epochs]])


def mt_dnn(
    make_batches: MakeBatches,
    generator: torch.Generator,
    weights: Mapping[str, float] | None = None,
) -> list[Step]:
    """All mini-batches of all tasks pooled and shuffled, one per update (Liu et al. 2019, MT-DNN, algorithm 1).

    A task's share of the updates is its share of the batches, so a large task leads; every row of every task comes
    exactly once per epoch. Compare with joint, where all tasks weigh the same in every update.

    make_batches, generator: as in joint. weights: passes over a task's rows in one epoch, 1 where nothing is said; 2
    doubles its share ([ROB] PARA), 0.5 takes half of its batches, drawn anew each time.
    Returns the steps of one epoch, each with a single batch. Raises ValueError for no tasks or a task without batches.
    """
    unknown = sorted(set(weights or {}) - set(make_batches))
    if unknown:
        raise ValueError(
            f"weights names {unknown[0]}, which is no task here; there are {', '.join(make_batches)}."
        )
    pool = []
    for name, batches in _first_pass(make_batches, generator).items():
        wanted = max(1, round(len(batches) * (weights or {}).get(name, 1.0)))
        while len(batches) < wanted:
            batches.extend(make_batches[name](generator))
        pool += [(name, batch) for batch in batches[:wanted]]
    return [[pool[index]] for index in torch.randperm(len(pool), generator=generator).tolist()]


def power(make_batches: MakeBatches, generator: torch.Generator, exponent: float) -> list[Step]:
    """One batch a step, its task drawn with p_k ~ N_k ^ exponent (Stickland and Murray 2019, who anneal the exponent).

    N_k is the task's number of batches, in the paper of training examples: under a ceiling of tokens (--max_tokens) a
    batch of long rows holds fewer, and a task of such rows counts as larger. Exponent 1 is proportional to size, as
    mt_dnn is on average; 0.5 the square root; 0 gives all tasks the same share. An epoch has as many steps as all tasks
    have batches. A task drawn more often than it has batches starts another pass, formed anew; no row comes twice
    within a pass.

    make_batches, generator: as in joint. exponent: any finite number, 0 to 1 of use. Returns the steps of one epoch,
    each with a single batch. Raises ValueError as joint does. Compare with mt_dnn, where every row comes once.
    """
    passes = _first_pass(make_batches, generator)
    names = list(passes)
    sizes = torch.tensor([len(passes[name]) for name in names], dtype=torch.float64)
    drawn = torch.multinomial(
        sizes**exponent, int(sizes.sum()), replacement=True, generator=generator
    ).tolist()
    steps = []
    for name in (names[number] for number in drawn):
        passes[name] = passes[name] or list(make_batches[name](generator))
        steps.append([(name, passes[name].pop(0))])
    return steps


def annealed_exponent(epoch: int, epochs: int) -> float:
    """The exponent of `power` in one epoch: 1 - 0.8 e / (E - 1), from 1, proportional, to 0.2, nearly uniform.

    epoch e: 0 to E - 1; the paper counts from 1 (Stickland and Murray 2019, PAL, annealed sampling). epochs E: 1 or
    more; a single epoch takes the last value, 0.2.
    """
    return 1 - 0.8 * (epoch / (epochs - 1) if epochs > 1 else 1)


def steps_of_epoch(
    options: TaskOptions,
    epochs: int,
    make_batches: MakeBatches,
    generator: torch.Generator,
    epoch: int,
) -> list[Step]:
    """The steps of one epoch as --sampling names them.

    epochs: --epochs. epoch: counted from 0. Every draw comes from the generator.
    """
    match options.sampling:
        case "mt-dnn":
            weights = numbers_by_task(options.sampling_weights)
            return mt_dnn(make_batches, generator, weights)
        case "joint":
            return joint(make_batches, generator, options.joint_limit)
        case "batch-round-robin":
            return batch_round_robin(make_batches, generator, options.joint_limit)
        case "epoch-round-robin":
            return epoch_round_robin(make_batches, generator, options.order)
        case "sequential":
            return sequential(make_batches, generator, options.order, epoch, epochs)
        case "annealed":
            return power(make_batches, generator, annealed_exponent(epoch, epochs))
        case "power":
            return power(make_batches, generator, options.sampling_power)
    raise AssertionError(options.sampling)


def num_epochs(options: TaskOptions, epochs: int) -> int:
    """How many epochs a run plans: --epochs, and with "sequential" as many for each task in turn."""
    return epochs * len(options.order) if options.sampling == "sequential" else epochs


def _first_pass(make_batches: MakeBatches, generator: torch.Generator) -> dict[str, list[Rows]]:
    if not make_batches:
        raise ValueError("no task to sample from; name at least one")
    passes = {name: list(make(generator)) for name, make in make_batches.items()}
    for name, batches in passes.items():
        if not batches:  # joint would cycle through it for ever
            raise ValueError(
                f"task {name!r} has no training batches; give it rows, or leave it out"
            )
    return passes
