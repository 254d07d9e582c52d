"""What a training stage tells the loop (Job), and how far the loop has come (Progress)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from minbert.training.averaging import WeightAverage
from minbert.training.step_log import StepRecord


class TaskBatch(NamedTuple):
    """One batch in a step of the plan."""

    task: str
    rows: list[int]  # numbers of the task's training rows


Step = list[TaskBatch]


class Part(NamedTuple):
    """One batch of an update."""

    task: str
    rows: list[int]
    weight: float  # of its loss


class Surgery(Protocol):
    """How K gradients become one: sum_k w_k g_k. The weights follow from what is given here."""

    def __call__(self, gramian: Tensor, losses: Mapping[str, float]) -> Tensor:
        """Compute the weights of the tasks' gradients.

        losses: of the K tasks of the step, each the mean over its rows, without a weight.
        gramian: (K, K) float64 on the CPU, the dot products of their gradients in that order.
        Returns the weights, (K,) float64.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint has to hold."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""


class WeightFollower(Protocol):
    """Something that follows the weights from step to step, such as a moving average of them."""

    def update(self, step: int, num_steps: int) -> None:
        """Follow the weights after a step. step: counted from 1. num_steps: of the whole job."""

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint has to hold."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put back what `state_dict` returned."""

    def clear(self) -> None:
        """Free the memory of the weights. It has followed no step afterwards."""


def equal_weights(tasks: Sequence[str]) -> Sequence[float]:
    """The mean of the losses: each of them weighs 1 / K."""
    return [1 / len(tasks)] * len(tasks)


def number_of_rows(_: str, batch: Any) -> int:
    """The rows of a batch: a loss is the mean over them where a job says nothing else."""
    return len(batch.ids)


def do_nothing(_: Any) -> None:
    """The default of the functions that a job may ask the loop to call."""


@dataclass
class Job:
    """What a training stage tells the loop: data, loss, evaluation, and how to train."""

    name: str  # in messages
    folder: Path  # of its checkpoints
    model: nn.Module
    optimizer: torch.optim.Optimizer

    # The steps of an epoch. Every draw must come from the generator, so that a resumed run makes
    # the same plan again.
    plan: Callable[[int, torch.Generator], list[Step]]
    # Task and numbers of rows -> a batch. The loop reads its `ids` (names of rows, for messages)
    # and its `input_ids` (for its size).
    load: Callable[[str, list[int]], Any]
    # Task and batch -> a scalar. Each of several processes returns its share, and the shares add
    # up.
    loss: Callable[[str, Any], Tensor]
    evaluate: Callable[[], dict[str, float]]  # named scores of the model as it is
    # The score that selects the best model, the higher the better. "-" before its name: the lower.
    # "": there is none, so the model of the last step is kept.
    score: str

    epochs: int
    device: torch.device
    precision: str  # "fp32" or "bf16", of matrix products; weights and losses stay in float32
    seed: int

    # Task and batch -> the number of things whose mean the loss is: rows, or masked tokens.
    size: Callable[[str, Any], int] = number_of_rows
    weigh: Callable[[Sequence[str]], Sequence[float]] = equal_weights  # of the losses of a step
    surgery: Surgery | None = None  # replaces the weights, see gradients.py
    schedule: str = "linear"  # a name in SCHEDULES of minbert/schedule.py
    warmup: float = 0.1  # share of all steps
    max_grad_norm: float = 1.0  # 0: no clipping
    average: WeightAverage | None = None  # of the weights, which is scored in their place
    reference: WeightFollower | None = None  # an earlier model, with which the loss compares
    step_cost: float = 1.0  # of a step, in forward and backward passes of its rows
    accumulation: int = 1  # steps of the plan that make one update
    evaluations_per_epoch: int = 1
    evaluation_tokens: int = 0  # of one evaluation, for the cost estimate
    closing_tokens: int = 0  # of the predictions after the last step, for the cost estimate
    keeps_last: bool = False  # the model of the last evaluation in place of the best one
    patience: int = 0  # evaluations without a better score that end the job; 0: never end early
    save_every: int = 200  # steps
    frozen: Sequence[nn.Parameter] = ()  # keep their values in this job
    # Called with the number of the epoch. Not called again for an epoch that is resumed midway.
    before_epoch: Callable[[int], None] = do_nothing
    # Called after each step.
    on_step: Callable[[StepRecord], None] = do_nothing
    # Called with all scores so far, after each evaluation.
    on_evaluation: Callable[[list[dict[str, Any]]], None] = do_nothing

    def selection_value(self, scores: dict[str, float]) -> float:
        """The number that selects the best model, the higher the better. 0 without a score."""
        if not self.score:
            return 0.0
        if self.score.startswith("-"):
            return -scores[self.score[1:]]
        return scores[self.score]

    @contextmanager
    def freezing(self) -> Iterator[None]:
        """Within it no gradient is computed for the frozen parameters."""
        were_trained = [parameter.requires_grad for parameter in self.frozen]
        try:
            for parameter in self.frozen:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, was_trained in zip(self.frozen, were_trained, strict=True):
                parameter.requires_grad_(was_trained)

    def release(self) -> None:
        """Free the memory that only training needs. The model keeps its weights."""
        self.optimizer.state.clear()
        for follower in (self.average, self.reference):
            if follower is not None:
                follower.clear()

    def epoch_steps(self, epoch: int, generator: torch.Generator) -> list[list[Part]]:
        """The updates of one epoch: `accumulation` steps of the plan make one update.

        The share of a step in its update is its share of the rows: an update is the mean over its
        rows, however the rows are cut into batches. The last update of an epoch may join fewer
        steps.

        generator: a CPU generator that gives the plan; it is advanced.
        """
        plan = self.plan(epoch, generator)
        updates = []
        for start in range(0, len(plan), self.accumulation):
            joined = plan[start : start + self.accumulation]
            num_rows = [count_rows(step) for step in joined]
            update = []
            for step, num_rows_of_step in zip(joined, num_rows, strict=True):
                weights = self.weigh([task for task, _ in step])
                # For steps of equal length it is the number of steps, without rounding.
                divisor = sum(num_rows) / num_rows_of_step
                for (task, rows), weight in zip(step, weights, strict=True):
                    update.append(Part(task, rows, weight / divisor))
            updates.append(update)
        return updates

    def all_steps(self) -> Iterator[list[Part]]:
        """As many updates as all epochs will have, and of the same kind.

        It holds one epoch's plan in memory at a time.
        """
        generator = torch.Generator().manual_seed(self.seed)
        for epoch in range(self.epochs):
            yield from self.epoch_steps(epoch, generator)


def count_rows(step: Step) -> int:
    """The number of rows of all batches of a step."""
    return sum(len(batch.rows) for batch in step)


@dataclass
class Progress:
    """How far a job has come: all of its state that is not a tensor. state.json holds it."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    num_steps: int = 0
    evaluated_step: int = -1
    best_score: float | None = None  # as Job.selection_value gives it
    best_step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # since the last evaluation
    seconds: float = 0.0  # of training and evaluation, over all parts of a resumed run
    is_finished: bool = False

    def check(self) -> None:
        """Raise ValueError or TypeError for a value that no training would have written."""
        counts = [self.epoch, self.step_in_epoch, self.step, self.num_steps, self.best_step]
        counts += [self.evaluated_step, *(entry["step"] for entry in self.history)]
        if any(type(count) is not int or count < -1 for count in counts):
            raise ValueError("one of its steps is no count")
        numbers = [self.seconds, *self.losses]
        if self.best_score is not None:
            numbers.append(self.best_score)
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise ValueError("a loss, a score or its seconds is no number")
        if type(self.is_finished) is not bool:
            raise ValueError("it does not say whether it is finished")
