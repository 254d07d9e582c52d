"""The multitask stage: from options and rows to the job that minbert/training/loop.py runs.

rows.py reads the rows.

[CT]: contrastive tension, Carlsson et al. 2021. [GEN]: a report of the course
(experiments/recipes.py).
Legend: N training rows of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from data.batching import Batch, EncodedExamples, length_grouped_batches
from data.examples import Example, join_some, quoted
from minbert import AdamW
from minbert.commands.options import NONE
from minbert.optimizer import layer_decayed, parameter_groups
from minbert.training import processes
from minbert.training.averaging import WeightAverage
from minbert.training.job import Job, Step, TaskBatch
from minbert.training.options import TrainingOptions
from multitask.combining import gradient_surgery, loss_weights
from multitask.evaluation import evaluate, predict
from multitask.head_registry import HEADS
from multitask.losses import (
    absolute_regression,
    balanced_weights,
    fitted_range,
    paraphrase_loss,
    prior_shift,
    similarity_regression,
)
from multitask.model import MultitaskBert
from multitask.options import FineTuningOptions, MultitaskOptions
from multitask.proximal import ReferenceModel
from multitask.regularised_loss import (
    RegularisedBatch,
    check_regulariser,
    reference_model,
    task_loss,
)
from multitask.rows import EncodedTables, num_tokens
from multitask.sampler_registry import Epoch
from multitask.sampling import MakeBatches, plan_epoch
from multitask.tasks import Loss, Task, Tasks, labels_of

FUSION_PREFIX = "contrastive-"  # before a task's name: its batch for the companion's loss
SEED_STRIDE = 1_000_003  # between two ingredients of --soup; seeds of users are closer together
BUCKETS_OF_RANGE = 20  # of the labels, for --sts_range fitted: [CT] has them .25 wide for STS


# --- the batches ----------------------------------------------------------------------------------


def batch_makers(rows: EncodedTables, batch_size: int, max_tokens: int = 0) -> MakeBatches:
    """For each task the function that forms its training batches, as the samplers take it."""
    makers = {}
    for task, splits in rows.items():
        sizes = splits["train"].sizes
        makers[task] = partial(length_grouped_batches, sizes, batch_size, max_tokens=max_tokens)
    return makers


# --- the job --------------------------------------------------------------------------------------


def build_job(
    options: MultitaskOptions,
    training: TrainingOptions,
    model: MultitaskBert,
    rows: EncodedTables,
    folder: Path,
    companion: nn.Module | None = None,
    number: int = 0,
) -> Job:
    """The multitask stage as a Job. It trains the model, with its encoder, in place.

    With --option pretrain the encoder is frozen, and only the shared layer and the heads are
    trained. The dev score --score selects the best model. folder: of the run.

    companion: for fusion training ([GEN] section 4.2), a module that gives the contrastive loss
    of a batch on the same encoder, and whose `projection` is trained, too. After each step its
    batches come once more, for that loss.

    number: of the ingredient, from 0, with --soup. The ingredients have different seeds.
    """
    check_regulariser(options.fine_tuning, model, training.precision)
    # As a part of the model, the projection is trained and goes into checkpoints.
    if companion is not None:
        model.companion = companion.projection
    model.to(torch.device(training.device))

    tasks = TaskTraining.build(options, training, model, rows, companion)
    name = f"multitask-{number + 1}" if number else "multitask"
    seed = seed_of(training.seed, number)
    return Job(
        name=name,
        folder=folder / "checkpoint" / name,
        model=model,
        optimizer=build_optimizer(model, options.fine_tuning, training),
        plan=tasks.plan,
        load=tasks.load,
        loss=tasks.loss,
        weigh=loss_weights(options.tasks),
        surgery=gradient_surgery(options.tasks, seed),
        evaluate=tasks.evaluate,
        before_epoch=tasks.before_epoch,
        score=options.tasks.score,
        patience=options.fine_tuning.patience,
        epochs=options.tasks.sampler.num_epochs(options.fine_tuning.epochs, options.tasks.order),
        device=tasks.device,
        precision=training.precision,
        seed=seed,
        schedule=training.schedule,
        warmup=training.warmup,
        max_grad_norm=training.max_grad_norm,
        average=weight_average(options.fine_tuning, model),
        reference=tasks.reference,
        step_cost=options.fine_tuning.step_cost,
        accumulation=options.fine_tuning.accumulation,
        save_every=training.save_every,
        evaluation_tokens=num_tokens(tasks.trained_rows, "dev"),
        closing_tokens=num_closing_tokens(options, model, rows, number),
        frozen=frozen_parameters(options, model, companion),
    )


def seed_of(seed: int, number: int) -> int:
    """The seed of a training of all tasks. seed: of the run. number: of the training, from 0."""
    return (seed + number * SEED_STRIDE) % 2**32


@dataclass(frozen=True)
class TaskTraining:
    """The functions that the loop calls during the multitask stage."""

    options: MultitaskOptions
    model: MultitaskBert
    rows: EncodedTables
    losses: dict[str, Loss]  # by task
    device: torch.device
    precision: str
    companion: nn.Module | None
    reference: ReferenceModel | None

    @classmethod
    def build(
        cls,
        options: MultitaskOptions,
        training: TrainingOptions,
        model: MultitaskBert,
        rows: EncodedTables,
        companion: nn.Module | None,
    ) -> TaskTraining:
        """The functions with the losses that the options ask for."""
        return cls(
            options=options,
            model=model,
            rows=rows,
            losses=task_losses(options, model, rows),
            device=torch.device(training.device),
            precision=training.precision,
            companion=companion,
            reference=reference_model(options.fine_tuning, model),
        )

    @property
    def trained_rows(self) -> EncodedTables:
        """The rows of the tasks that are trained, in the order of --tasks."""
        return {task: self.rows[task] for task in self.options.tasks.order}

    def plan(self, epoch: int, generator: torch.Generator) -> list[Step]:
        """The steps of one epoch."""
        fine_tuning = self.options.fine_tuning
        make_batches = batch_makers(
            self.trained_rows, fine_tuning.batch_size, fine_tuning.max_tokens
        )
        tasks = self.options.tasks
        of_run = Epoch(epoch, fine_tuning.epochs, tasks.order)
        steps = plan_epoch(tasks.sampling, make_batches, generator, tasks.of_sampler, of_run)
        return steps if self.companion is None else with_companion(steps)

    def load(self, task: str, indices: list[int]) -> Batch:
        """A batch of training rows on the device."""
        train = self.rows[task.removeprefix(FUSION_PREFIX)]["train"]
        return train.batch(indices).to(self.device)

    def loss(self, task: str, batch: Batch) -> Tensor:
        """The mean loss of a batch, a float32 scalar; of several processes each has its share."""
        # The companion computes the whole loss in each process, so each takes its share of it.
        if self.companion is not None and task.startswith(FUSION_PREFIX):
            return self.companion(batch) / processes.count()
        fine_tuning = self.options.fine_tuning
        regularised = RegularisedBatch(
            model=self.model,
            task=task,
            batch=batch,
            loss=self.losses[task],
            method_options=fine_tuning.of_regulariser,
            reference=self.reference,
        )
        return task_loss(regularised, fine_tuning.regulariser)

    def evaluate(self) -> dict[str, float]:
        """The dev scores of the trained tasks, and the numbers that were fitted."""
        # All processes have the same model, so one of them is enough.
        dev = {task: splits["dev"] for task, splits in self.trained_rows.items()}
        scores = processes.from_first(lambda: evaluate(self.model, dev, self.precision))
        return scores | self.model.fitted()

    def before_epoch(self, epoch: int) -> None:
        """Fit the ranges of cosines before the first epoch, and begin the reference model."""
        fit_ranges(self.model, self.rows, self.precision)
        if self.reference is not None and epoch == 0:
            self.reference.begin()


def with_companion(steps: list[Step]) -> list[Step]:
    """Each step, and after it the same batches for the contrastive loss ([GEN] section 4.2)."""
    with_fusion = []
    for step in steps:
        with_fusion.append(step)
        with_fusion.append([TaskBatch(FUSION_PREFIX + batch.task, batch.rows) for batch in step])
    return with_fusion


def build_optimizer(
    model: MultitaskBert, options: FineTuningOptions, training: TrainingOptions
) -> AdamW:
    """AdamW on all parameters. With --layer_decay lower layers have smaller learning rates."""
    peak = float(options.lr)
    # Layer-wise learning-rate decay (Clark et al. 2020).
    learning_rates = None
    if options.layer_decay < 1:
        num_layers = model.encoder.config.num_hidden_layers
        learning_rates = layer_decayed(peak, options.layer_decay, num_layers)
    parameters = parameter_groups(model, training.weight_decay, learning_rates)
    return AdamW(parameters, lr=peak, fused=True)


def weight_average(options: FineTuningOptions, model: MultitaskBert) -> WeightAverage | None:
    """The average of the weights that --averaging asks for."""
    if options.averaging == NONE:
        return None
    return WeightAverage(
        model, options.averaging, options.ema_decay, options.swa_start, options.swa_every
    )


def num_closing_tokens(
    options: MultitaskOptions, model: MultitaskBert, rows: EncodedTables, number: int
) -> int:
    """Tokens that are predicted beside the evaluations of a job, for the cost estimate.

    Each ingredient of --soup predicts the training rows that fit a range. The files and the rows of
    --score_train are predicted once. They count for the first ingredient.

    number: of the ingredient, from 0.
    """
    ranged = {task: rows[task] for task in model.lowest_cosines()}
    tokens = num_tokens(ranged, "train")
    if number:
        return tokens
    tokens += num_tokens(rows, "dev") + num_tokens(rows, "test")
    return tokens + num_scored(options.fine_tuning, rows)


def num_scored(options: FineTuningOptions, rows: EncodedTables) -> int:
    """Tokens of the training rows that --score_train scores, about."""
    tokens = 0
    for splits in rows.values():
        train = splits["train"]
        share = options.num_scored_rows(len(train)) / len(train)
        tokens += round(share * int(train.sizes.sum()))
    return tokens


# --- the losses -----------------------------------------------------------------------------------


def task_losses(
    options: MultitaskOptions, model: MultitaskBert, rows: EncodedTables
) -> dict[str, Loss]:
    """The loss of each task, as the options change it.

    --para_prior shifts the logits of a binary task. --class_weights weighs the rows of a class.
    --sts_range moves the targets of a cosine. Raises ValueError as losses.prior_shift does.
    """
    heads = options.heads
    is_balanced = options.fine_tuning.class_weights == "balanced"
    lowest = model.lowest_cosines()
    losses: dict[str, Loss] = {}
    for name, task in model.tasks.items():
        prior = heads.prior_of(name)
        if prior is not None:
            shift = shift_for_prior(prior, rows[name]["train"])
            losses[name] = partial(paraphrase_loss, shift=shift)
        elif is_balanced and not task.is_regression:
            weights = weights_of_classes(task, rows[name]["train"].examples)
            device = next(model.parameters()).device
            weighted: Callable[..., Tensor] = task.loss
            losses[name] = partial(weighted, weights=weights.to(device))
        elif name in lowest:
            losses[name] = partial(regression_of(task), lowest=lowest[name])
        else:
            losses[name] = task.loss
    return losses


def weights_of_classes(task: Task, train: Sequence[Example]) -> Tensor:
    """The weights of --class_weights balanced, (C,). Of L labels, (2, L): of rows without and with.

    A label between two classes counts for both by its share.
    """
    labels = torch.from_numpy(labels_of(train))  # (N,) or (N, L)
    if task.kind == "classes":
        counts = torch.bincount(labels.long(), minlength=task.num_outputs).float()
    else:
        counts = torch.stack([(1 - labels).sum(dim=0), labels.sum(dim=0)])
    return balanced_weights(counts)


def describe_class_weights(task: Task, train: Sequence[Example]) -> str:
    """The line for the user with the weight of each class, or of a row with each label."""
    weights = weights_of_classes(task, train)
    if task.is_multilabel:
        weights = weights[1]
    listed = []
    for name, weight in zip(task.label_names, weights.tolist(), strict=True):
        listed.append(f"{quoted(name)} {weight:.2f}")
    return f"class weights of {task.title}: {join_some(listed)}"


def regression_of(task: Task) -> Callable[..., Tensor]:
    """The loss of a cosine in place of a task's loss of scores.

    Raises ValueError for a loss that has none.
    """
    regressions = {"mse": similarity_regression, "mae": absolute_regression}
    if task.loss_name not in regressions:
        raise ValueError(
            f"the task {task.name} has the loss {task.loss_name}, which no cosine has. Take "
            f"{' or '.join(regressions)}, or a head that does not answer by a cosine."
        )
    return regressions[task.loss_name]


def shift_for_prior(prior: float, rows: EncodedExamples) -> float:
    """What is added to a logit in training, if `prior` of the pairs to predict are paraphrases."""
    labels = labels_of(rows.examples)
    # A label that is a probability gets no shift, so it does not count.
    classes = labels[labels % 1 == 0]
    share = float(classes.mean()) if len(classes) else 0.0
    return prior_shift(share, prior)


def fit_ranges(model: MultitaskBert, rows: EncodedTables, precision: str) -> None:
    """With --sts_range fitted: set where the cosines begin, from the training rows under the model.

    This happens when training begins and not in build_job: the stages of --pretrain run in between
    and change the cosines. It happens once. Later epochs, the job after --heads_first and a resumed
    run (its checkpoint holds the value) find it set.
    """
    for task, lowest in model.lowest_cosines().items():
        if lowest:
            continue
        train = rows[task]["train"]
        points = processes.from_first(partial(predict, model, task, train, precision))
        # Until now M is 0, and a cosine of 1 is the highest score: 5 points of STS.
        low = model.tasks[task].format.low
        width = model.tasks[task].format.high - low
        cosines = (torch.from_numpy(points) - low) / width  # (N,)
        labels = torch.from_numpy(labels_of(train.examples))  # (N,)
        lowest.fill_(fitted_range(cosines, labels, width / BUCKETS_OF_RANGE, low))


# --- heads of a user's tasks ----------------------------------------------------------------------


def check_options_of_tasks(options: MultitaskOptions, tasks: Tasks) -> None:
    """Raise ValueError where an option has no meaning for the trained tasks.

    The kind of a user's task is known only when its file has been read. The course's tasks are
    checked before that, by the options themselves.
    """
    heads = options.heads
    trained = [tasks[name] for name in dict.fromkeys(options.tasks.order)]
    for task in trained:
        head = heads.head_of(task.name)
        if task.is_pair and not task.is_regression and not HEADS[head].has_weights:
            raise ValueError(
                f"--head {head} gives a number, and {task.title} has classes. Pass --head "
                f"features, or leave {task.title} out of --tasks."
            )
    if options.fine_tuning.class_weights != NONE and all(task.is_regression for task in trained):
        raise ValueError(
            f"--class_weights balanced has no effect with --tasks {options.tasks.tasks}: none of "
            "them has classes. Drop it."
        )
    freezing_flag = options.fine_tuning.freezing_flag
    if freezing_flag is not None and heads.common_layer == NONE:
        for task in trained:
            if task.is_pair and not HEADS[heads.head_of(task.name)].has_weights:
                raise ValueError(
                    f"--head {heads.head} with --common_layer none has nothing to train for "
                    f"{task.title} where the encoder is frozen. Drop {freezing_flag}."
                )
    has_pair_score = any(task.is_pair and task.is_regression for task in trained)
    if heads.sts_range == "fitted" and not has_pair_score:
        raise ValueError(
            f"--sts_range fitted has no effect with --tasks {options.tasks.tasks}: none of them is "
            "a score of pairs. Drop it."
        )


# --- what is frozen -------------------------------------------------------------------------------


def frozen_parameters(
    options: MultitaskOptions, model: MultitaskBert, companion: nn.Module | None
) -> Sequence[nn.Parameter]:
    """The encoder's parameters that --option pretrain or --freeze keep as they are.

    Raises ValueError if there are fewer layers, or if nothing would be left to train for some loss.
    """
    encoder = model.encoder
    freeze = options.fine_tuning.freeze
    if options.fine_tuning.option == "pretrain":
        return tuple(encoder.parameters())
    if freeze == NONE:
        return ()

    num_layers = 0 if freeze == "embeddings" else int(freeze)
    if num_layers > len(encoder.layers):
        raise ValueError(
            f"--freeze is {num_layers}; this encoder has {len(encoder.layers)} layers. Pass at "
            "most that."
        )
    # The pooler stands above all layers and is not frozen.
    is_all_frozen = num_layers == len(encoder.layers) and model.pooling != "pooler"
    user = only_user_of_encoder(options, model.tasks, companion) if is_all_frozen else None
    if user is not None:
        raise ValueError(
            f"--freeze {num_layers} freezes all layers of this encoder. It leaves nothing to train "
            f"for {user}. Freeze fewer layers."
        )

    frozen = list(encoder.embeddings.parameters())
    for layer in encoder.layers[:num_layers]:
        frozen += layer.parameters()
    return tuple(frozen)


def only_user_of_encoder(
    options: MultitaskOptions, all_tasks: Tasks, companion: nn.Module | None
) -> str | None:
    """A loss, or gradient surgery, that has no other parameters than the encoder's, in words.

    The words name its flags, for a message. None where there is no such loss.
    """
    heads = options.heads
    tasks = options.tasks
    # A cosine head has no weights, and without a common layer there are none below it.
    for name in tasks.order:
        head = heads.head_of(name)
        has_weights = not all_tasks[name].is_pair or HEADS[head].has_weights
        if not has_weights and heads.common_layer == NONE:
            return f"--head {head} with --common_layer none"
    # Surgery changes what all tasks share, so they must share something that is trained.
    if tasks.changes_gradients and not heads.shares_a_layer(tasks):
        return f"--surgery {tasks.surgery}, whose tasks share no other layer (--common_layer none)"
    # A contrastive loss on the vectors themselves has no projection.
    if companion is None:
        return None
    projection = cast(nn.Module, companion.projection)
    if list(projection.parameters()):
        return None
    return "--contrastive_order fusion with --contrastive_projection none"
