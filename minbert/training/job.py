"""What a training stage tells the loop (Job), and how far it has come (Progress). Next: loop.py, gradients.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Step = list[tuple[str, list[int]]]
Part = tuple[
    str, list[int], float
]  # a batch of a step: task, numbers of its rows, weight of its loss


class Surgery(Protocol):
    """How K gradients become one: sum_k w_k g_k, with weights that follow from their dot products."""

    def __call__(self, gramian: Tensor, tasks: list[str]) -> Tensor:
        """gramian (K, K) float64 on the CPU, the dot products of the gradients of `tasks` -> weights (K,) float64."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint has to hold."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""


@dataclass
class Job:
    """What a training stage tells the loop: data, loss, evaluation, and how to train."""

    name: str  # in messages
    folder: Path  # of its checkpoints
    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan: Callable[
        [int, torch.Generator], list[Step]
    ]  # an epoch's steps; all that it draws comes from the generator
    load: Callable[
        [str, list[int]], Any
    ]  # task, numbers of rows -> a batch: .ids for messages, .input_ids for size
    loss: Callable[
        [str, Any], Tensor
    ]  # task, batch -> a scalar; of several processes each has its share
    evaluate: Callable[[], dict[str, float]]  # named scores of the model as it is
    score: str  # the one by which the best model is kept, the higher the better; with "-" before its name, the lower
    epochs: int
    device: torch.device
    precision: str  # "fp32" or "bf16": of matrix products; weights and losses are float32
    seed: int
    weigh: Callable[[Sequence[str]], Sequence[float]] = lambda tasks: (
        [1 / len(tasks)] * len(tasks)
    )  # a step's losses
    surgery: Surgery | None = (
        None  # instead of weights: how the tasks' gradients become one (gradients.py)
    )
    schedule: str = "linear"  # a name of schedule.py's SCHEDULES
    warmup: float = 0.1  # share of all steps
    max_grad_norm: float = 1.0  # 0: no clipping
    accumulation: int = 1  # steps of the plan that make one update
    evaluations_per_epoch: int = 1
    evaluation_tokens: int = 0  # of one evaluation, for the price tag
    closing_tokens: int = 0  # of what is predicted after the last step, likewise
    patience: int = (
        0  # evaluations in a row without a better score after which the job ends; 0: it never does
    )
    save_every: int = 200  # steps
    frozen: Sequence[nn.Parameter] = ()  # keep their values in this job
    before_epoch: Callable[[int], None] = lambda epoch: (
        None
    )  # not called again where an epoch is resumed in its middle
    on_evaluation: Callable[[list[dict]], None] = lambda history: (
        None
    )  # told the scores so far, after each evaluation

    def judge(self, scores: dict[str, float]) -> float:
        """The number by which models are compared, the higher the better."""
        return -scores[self.score[1:]] if self.score.startswith("-") else scores[self.score]

    @contextmanager
    def freezing(self) -> Iterator[None]:
        """Within it no gradient is computed for the frozen parameters."""
        learned = [parameter.requires_grad for parameter in self.frozen]
        try:
            for parameter in self.frozen:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, was_learned in zip(self.frozen, learned, strict=True):
                parameter.requires_grad_(was_learned)

    def epoch_steps(self, epoch: int, generator: torch.Generator) -> list[list[Part]]:
        """The epoch's steps with each batch's weight; `accumulation` steps of the plan make one optimizer step."""
        steps, size = self.plan(epoch, generator), self.accumulation
        groups = [steps[start : start + size] for start in range(0, len(steps), size)]
        return [
            [
                (task, rows, weight / len(group))
                for step in group
                for (task, rows), weight in zip(
                    step, self.weigh([task for task, _ in step]), strict=True
                )
            ]
            for group in groups
        ]

    def all_steps(self) -> Iterator[list[Part]]:
        """As many steps as all epochs will have, of the same kind, with one epoch's plan in memory at a time."""
        generator = torch.Generator().manual_seed(self.seed)
        for epoch in range(self.epochs):
            yield from self.epoch_steps(epoch, generator)


@dataclass
class Progress:
    """How far a job has come: all of its state that is not a tensor."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    num_steps: int = 0
    evaluated_step: int = -1
    best_score: float | None = None
    best_step: int = 0
    history: list[dict] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # since the last evaluation
    seconds: float = 0.0  # of training and evaluation, over all resumed parts
    is_finished: bool = False
