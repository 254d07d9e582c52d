"""--heads_first: a few epochs of the heads alone, on a frozen encoder, before all the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from minbert import AdamW
from minbert.optimizer import parameter_groups
from minbert.training.job import Job
from minbert.training.options import TrainingOptions
from multitask.combining import gradient_surgery, loss_weights
from multitask.model import MultitaskBert
from multitask.options import MultitaskOptions
from multitask.plan import Plan, StageParts, Train, TrainedTasks

HEADS_LR = 1e-3  # of heads on a frozen encoder, as with --option pretrain


def heads_job(job: Job, options: MultitaskOptions, training: TrainingOptions) -> Job:
    """The job before `job`: the same model with a frozen encoder.

    It has its own optimizer. Each of its epochs is sampled as the first one of `job`: annealing
    begins after them.
    """
    model = cast(MultitaskBert, job.model)
    parameters = parameter_groups(model, training.weight_decay)
    return replace(
        job,
        name="heads",
        folder=job.folder.with_name("heads"),
        epochs=options.fine_tuning.heads_first,
        optimizer=AdamW(parameters, lr=HEADS_LR, fused=True),
        plan=lambda epoch, generator: job.plan(0, generator),
        frozen=tuple(model.encoder.parameters()),
        closing_tokens=0,
        average=None,
        weigh=loss_weights(options.tasks),
        surgery=gradient_surgery(options.tasks, training.seed),
    )


class HeadsFirst(Plan):
    """The heads alone. All that follows starts from the model that they leave."""

    @staticmethod
    def is_asked_for(options: MultitaskOptions) -> bool:
        """Whether --heads_first has a number of epochs."""
        return options.fine_tuning.heads_first > 0

    def __init__(self, parts: StageParts) -> None:
        self.jobs = [heads_job(parts.job, parts.options, parts.training)]

    def train(self, train: Train, trained: TrainedTasks) -> TrainedTasks:
        """Train the heads."""
        train(self.jobs[0])
        return trained
