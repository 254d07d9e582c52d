"""Which batches make the next step: one epoch's plan, made before the epoch starts. Next: surgery.py, train.py.

A batch is a list of row numbers of its task's training examples; a step is a list of (task name, batch), all of them
in the same update. A sampler is a pure function of the batches and of a generator: the same generator state gives the
same plan, so a job resumes from the state saved at the epoch's start and the number of steps done since.
"""

from collections.abc import Callable
from typing import Literal

import torch

Batch = list[int]
Step = list[tuple[str, Batch]]
# Forms a task's batches for one pass over its rows: every row in exactly one batch, drawn anew at each call.
MakeBatches = Callable[[torch.Generator], list[Batch]]


def joint(
    make_batches: dict[str, MakeBatches],
    generator: torch.Generator,
    limit: Literal["largest", "smallest"] = "largest",
) -> list[Step]:
    """One batch of every task in the same update ("average loss" in [GEN]).

    The epoch is one pass over the task with the most batches, and the smaller tasks cycle, their batches formed
    anew for each pass: a small task has many passes per epoch, and no row comes twice within one of them. With
    limit="smallest" it is one pass over the task with the fewest, and the larger tasks are sampled down to it: which of
    their rows an epoch sees is drawn anew each time. Compare with mt_dnn, where a task's share of the updates is its
    share of the batches.

    make_batches: task name -> a function that forms its batches; called in the order of the dict, which is also
    the order of the tasks within a step. generator: a CPU generator; it is advanced.
    Returns the steps of one epoch, each with one batch per task.
    Raises ValueError for no tasks, a task without batches, or another limit.
    """
    if limit not in ("largest", "smallest"):
        raise ValueError(f"limit is {limit!r}; it is 'largest' (smaller tasks cycle) or 'smallest' (larger are cut)")
    passes = _first_pass(make_batches, generator)
    num_batches = [len(batches) for batches in passes.values()]
    num_steps = max(num_batches) if limit == "largest" else min(num_batches)
    for name, batches in passes.items():
        while len(batches) < num_steps:
            batches.extend(make_batches[name](generator))
    return [[(name, batches[step]) for name, batches in passes.items()] for step in range(num_steps)]


def mt_dnn(make_batches: dict[str, MakeBatches], generator: torch.Generator) -> list[Step]:
    """All mini-batches of all tasks pooled and shuffled, one per update (Liu et al. 2019, MT-DNN, algorithm 1).

    A task's share of the updates is its share of the batches, so a large task leads; every row of every task comes
    exactly once per epoch. Compare with joint, where all tasks weigh the same in every update.

    make_batches, generator: as in joint. Returns the steps of one epoch, each with a single batch.
    Raises ValueError for no tasks or a task without batches.
    """
    passes = _first_pass(make_batches, generator)
    pool = [(name, batch) for name, batches in passes.items() for batch in batches]
    return [[pool[index]] for index in torch.randperm(len(pool), generator=generator).tolist()]


SAMPLERS: dict[str, Callable[[dict[str, MakeBatches], torch.Generator], list[Step]]] = {
    "joint": joint,
    "mt-dnn": mt_dnn,
}


def _first_pass(make_batches: dict[str, MakeBatches], generator: torch.Generator) -> dict[str, list[Batch]]:
    if not make_batches:
        raise ValueError("no task to sample from; name at least one")
    passes = {name: list(make(generator)) for name, make in make_batches.items()}
    for name, batches in passes.items():
        if not batches:  # joint would cycle through it for ever
            raise ValueError(f"task {name!r} has no training batches; give it rows, or leave it out")
    return passes
