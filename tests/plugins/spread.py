"""A sampler that spreads the batches of each task evenly over the epoch, as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/spread.py --sampling spread

mt-dnn shuffles all batches, so a small task may come twice in a row and then not for long.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minbert.commands.options import OptionGroup, flag
from minbert.commands.registry import Fixture
from minbert.training.job import Step, TaskBatch
from multitask import Sampler, register_sampler
from multitask.sampling import MakeBatches, first_passes


@dataclass(frozen=True)
class SpreadOptions(OptionGroup):
    """Option of spread."""

    spread_jitter: float = flag(
        0.0,
        "With --sampling spread: how far a batch may move from its place, in distances between two "
        "batches of its task. 0: not at all.",
        low=0,
        high=1,
    )


def spread(
    make_batches: MakeBatches, generator: torch.Generator, jitter: float = 0.0
) -> list[Step]:
    """All batches of all tasks, one a step. Batch j of N stands at the place (j + 1/2) / N.

    Every row of every task comes exactly once per epoch. Without jitter, the first n of S steps
    hold n N / S batches of a task, less than one more or less.

    jitter: 0 to 1. A batch moves by up to half of it, in either direction, as the generator draws.
    Raises ValueError for no tasks, or a task without batches.
    """
    placed: list[tuple[float, TaskBatch]] = []
    for task, batches in first_passes(make_batches, generator).items():
        moves = torch.rand(len(batches), generator=generator).sub(0.5).mul(jitter)
        for number, (rows, move) in enumerate(zip(batches, moves.tolist(), strict=True)):
            place = (number + 0.5 + move) / len(batches)
            placed.append((place, TaskBatch(task, rows)))
    placed.sort(key=lambda item: item[0])
    return [[batch] for _, batch in placed]


register_sampler(
    "spread",
    Sampler(
        title="one batch, those of each task evenly over the epoch",
        sample=spread,
        arguments={"jitter": "spread_jitter"},
        options=(SpreadOptions,),
        fixture=Fixture(values={"spread_jitter": [0.0, 1.0]}),
    ),
)
