"""Options -> model, sampling, weights of the losses -> minbert.training.loop: the multitask stage.

Next: minbert/training/loop.py, in which the job runs; then evaluate.py and predictions.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from data.batching import Batch, EncodedExamples, length_grouped_batches
from data.options import DataOptions, numbers_by_task
from data.readers import FORMATS, TRAINING_FORMATS, Table, read_examples
from minbert import AdamW, BertModel, BertTokenizer
from minbert.commands.options import NONE
from minbert.optimizer import layer_decayed, parameter_groups
from minbert.pretraining.stage import StageRows
from minbert.training import processes
from minbert.training.job import Job, Step
from minbert.training.options import TrainingOptions
from multitask import surgery
from multitask.evaluation import evaluate, labels_of, predict
from multitask.losses import fitted_range, paraphrase_loss, prior_shift, similarity_regression
from multitask.model import MultitaskBert
from multitask.options import MultitaskOptions, TaskOptions
from multitask.sampling import MakeBatches, mt_dnn, num_epochs, steps_of_epoch
from multitask.tasks import TASKS

FUSION_PREFIX = "contrastive-"  # before a task's name: its batch for the companion's loss
HEADS_LR = 1e-3  # of heads on a frozen encoder, as with --option pretrain
SPLITS = ("train", "dev", "test")
Rows = dict[str, dict[str, EncodedExamples]]  # [task][split]


def read_tables(options: DataOptions) -> dict[str, dict[str, Table]]:
    """The nine files of a run, as tables[task][split]. ValueError names the first unusable one.

    Training and dev files are cut to --train_rows and --dev_rows. Test files stay whole, for the
    leaderboard.
    """
    tables: dict[str, dict[str, Table]] = {}
    for task in TASKS:
        tables[task] = {}
        for split in SPLITS:
            formats = TRAINING_FORMATS if split == "train" else FORMATS
            tables[task][split] = read_examples(
                options.file_of(task, split),
                formats[task],
                labelled=split != "test",
                drop_bad_rows=options.drop_bad_rows,
            )
    for split, limits in {"train": options.train_rows, "dev": options.dev_rows}.items():
        for task, limit in numbers_by_task(limits).items():
            tables[task][split] = tables[task][split].cut(int(limit))
    return tables


def encode_tables(
    tables: dict[str, dict[str, Table]],
    tokenizer: BertTokenizer,
    max_length: int,
    pair_encoding: str,
) -> dict[str, dict[str, EncodedExamples]]:
    """Token ids of every row, made once: rows[task][split]. Of several processes the first fills the others' cache."""

    def encode() -> dict[str, dict[str, EncodedExamples]]:
        return {
            task: {
                split: EncodedExamples(table.examples, tokenizer, max_length, pair_encoding)
                for split, table in splits.items()
            }
            for task, splits in tables.items()
        }

    if processes.count() > 1:
        processes.from_first(
            lambda: encode() and None
        )  # None: the others read the cache, no ids are sent to them
    return encode()


def cuts(rows: dict[str, dict[str, EncodedExamples]], max_length: int) -> str:
    """The line for the user that says how many rows were too long."""
    every = [each for splits in rows.values() for each in splits.values()]
    return (
        f"{sum(each.num_truncated for each in every):,} of {sum(map(len, every)):,} rows are longer than "
        f"--max_length {max_length} and were cut to it"
    )


def batches_of(
    rows: dict[str, dict[str, EncodedExamples]], batch_size: int, max_tokens: int = 0
) -> MakeBatches:
    """For each task the function that forms its training batches, as the samplers take it."""
    return {
        task: partial(
            length_grouped_batches, splits["train"].sizes, batch_size, max_tokens=max_tokens
        )
        for task, splits in rows.items()
    }


def rows_for_mlm(
    rows: Rows, options: MultitaskOptions, batch_size: int, data: DataOptions
) -> StageRows:
    """The rows of the tasks as the stage `--pretrain mlm` takes them."""
    make_batches = batches_of(rows, batch_size, options.fine_tuning.max_tokens)
    examples = []
    for splits in rows.values():
        examples += [*splits["train"].examples, *splits["dev"].examples]
    return StageRows(
        train={task: splits["train"] for task, splits in rows.items()},
        dev=[splits["dev"] for splits in rows.values()],
        examples=examples,
        plan=lambda generator: mt_dnn(make_batches, generator),
        identity={
            "max_length": data.max_length,
            "max_tokens": options.fine_tuning.max_tokens,
            "pair_encoding": options.heads.pair_encoding,
        },
        packages=("data", "multitask"),
    )


def how_to_combine(options: TaskOptions, seed: int) -> dict[str, Any]:
    """What --surgery means for the Job: weights of the losses, or a change of the tasks' gradients."""
    if options.surgery == "mean":
        return {"weigh": surgery.mean}
    if not options.changes_gradients:  # sum or weighted; "sum" takes no --loss_weights: each is 1
        weights = numbers_by_task(options.loss_weights)
        return {"weigh": partial(surgery.weighted, weights=weights)}
    return {
        "surgery": surgery.GradientSurgery(
            options.surgery,
            options.surgery_reduction,
            options.gradvac_beta,
            options.order,
            seed,
        )
    }


def build_job(
    options: MultitaskOptions,
    training: TrainingOptions,
    pooling: str,
    has_encoder_dropout: bool,
    encoder: BertModel,
    rows: Rows,
    folder: Path,
    companion: nn.Module | None = None,
) -> Job:
    """The multitask stage as a Job. Its model wraps `encoder` and trains it in place.

    With --option pretrain the encoder is frozen, and only the shared layer and the heads are
    trained. The dev score --score selects the best model. folder: of the run.

    companion: for fusion training ([GEN] section 4.2), a module that gives the contrastive loss of a
    batch on the same encoder, and whose `projection` is trained, too. After each step its batches
    come once more, for that loss.
    """
    tasks, heads, fine_tuning = options.tasks, options.heads, options.fine_tuning
    device = torch.device(training.device)
    model = MultitaskBert(
        encoder,
        pooling,
        heads.pair_encoding,
        heads.hidden_dropout_prob,
        training.seed,
        heads.head,
        heads.head_of_para,
        heads.sharing,
        heads.common_layer == "tanh",
        heads.sts_range,
        heads.vector_dropout_prob,
        has_encoder_dropout,
    )
    if companion is not None:
        model.companion = companion.projection
    model.to(device)

    trained = {task: rows[task] for task in tasks.order}
    dev = {task: splits["dev"] for task, splits in trained.items()}
    para_shift = shift_of_para(heads.para_prior, rows)
    make_batches = batches_of(trained, fine_tuning.batch_size, fine_tuning.max_tokens)

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        steps = steps_of_epoch(tasks, fine_tuning.epochs, make_batches, generator, epoch)
        return steps if companion is None else with_companion(steps)

    def load(task: str, indices: list[int]) -> Batch:
        return rows[task.removeprefix(FUSION_PREFIX)]["train"].batch(indices).to(device)

    def loss(task: str, batch: Batch) -> Tensor:
        if companion is not None and task.startswith(FUSION_PREFIX):
            return companion(batch) / processes.count()
        return task_loss(model, task, batch, para_shift)

    def scores() -> dict[str, float]:
        dev_scores = processes.from_first(lambda: evaluate(model, dev, training.precision))
        return dev_scores | model.fitted()

    learning_rates = None
    peak = float(fine_tuning.lr)
    if fine_tuning.layer_decay < 1:
        num_layers = encoder.config.num_hidden_layers
        learning_rates = layer_decayed(peak, fine_tuning.layer_decay, num_layers)
    parameters = parameter_groups(model, training.weight_decay, learning_rates)

    closing_tokens = num_tokens(rows, "dev") + num_tokens(rows, "test")
    if model.has_range:  # fit_range predicts the training rows of STS
        closing_tokens += num_tokens({"sts": rows["sts"]}, "train")
    return Job(
        name="multitask",
        folder=folder / "checkpoint" / "multitask",
        model=model,
        optimizer=AdamW(parameters, lr=peak, fused=True),
        plan=plan,
        load=load,
        loss=loss,
        **how_to_combine(tasks, training.seed),
        evaluate=scores,
        before_epoch=lambda epoch: fit_range(model, rows, training.precision),
        score=tasks.score,
        patience=fine_tuning.patience,
        epochs=num_epochs(tasks, fine_tuning.epochs),
        device=device,
        precision=training.precision,
        seed=training.seed,
        schedule=training.schedule,
        warmup=training.warmup,
        max_grad_norm=training.max_grad_norm,
        accumulation=fine_tuning.accumulation,
        save_every=training.save_every,
        evaluation_tokens=num_tokens(trained, "dev"),
        closing_tokens=closing_tokens,
        frozen=frozen_parameters(options, pooling, encoder, companion),
    )


def num_tokens(rows: Rows, split: str) -> int:
    """Tokens of one split of all tasks."""
    return sum(int(splits[split].sizes.sum()) for splits in rows.values())


def with_companion(steps: list[Step]) -> list[Step]:
    """Each step, and after it the same batches for the contrastive loss ([GEN] section 4.2)."""
    both = []
    for step in steps:
        both.append(step)
        both.append([(FUSION_PREFIX + task, indices) for task, indices in step])
    return both


def shift_of_para(prior: float | str, rows: Rows) -> float:
    """What is added to PARA's logits in training where --para_prior is set (losses.prior_shift)."""
    if prior == NONE:
        return 0.0
    labels = labels_of(rows["para"]["train"])
    classes = labels[labels % 1 == 0]  # a label that is a probability needs no shift
    share = float(classes.mean()) if len(classes) else 0.0
    return prior_shift(share, float(prior))


def task_loss(model: MultitaskBert, task: str, batch: Batch, para_shift: float) -> Tensor:
    """The mean loss of a batch, a float32 scalar; of several processes each gets its own rows' share of it.

    para_shift is added to PARA's logits (losses.py::prior_shift).
    """
    rows, share = processes.own_rows(len(batch.ids))
    own = batch if processes.count() == 1 else batch.part(rows)
    with processes.own_randomness():
        outputs = model(task, own)
    if task == "sts" and model.has_range:
        return similarity_regression(outputs, own.labels, model.lowest) * share
    if task == "para":
        return paraphrase_loss(outputs, own.labels, para_shift) * share
    return TASKS[task].loss(outputs, own.labels) * share


def fit_range(
    model: MultitaskBert, rows: dict[str, dict[str, EncodedExamples]], precision: str
) -> None:
    """With --sts_range fitted: set where the cosines of STS begin, from its training rows under the model as it is.

    Done when training begins, not in build_job: the stages of --pretrain run in between and change the cosines. Done
    once: later epochs, the job after --heads_first and a resumed run (its checkpoint holds the value) find it set.
    """
    if model.has_range and not model.lowest:
        pairs = rows["sts"]["train"]
        cosines = (
            torch.from_numpy(processes.from_first(lambda: predict(model, "sts", pairs, precision)))
            / 5
        )  # (N,)
        model.lowest.fill_(fitted_range(cosines, torch.from_numpy(labels_of(pairs))))


def frozen_parameters(
    options: MultitaskOptions, pooling: str, encoder: BertModel, companion: nn.Module | None
) -> tuple[nn.Parameter, ...]:
    """The encoder's parameters that --option pretrain or --freeze keep as they are."""
    freeze = options.fine_tuning.freeze
    if options.fine_tuning.option == "pretrain":
        return tuple(encoder.parameters())
    if freeze == NONE:
        return ()
    num_layers = 0 if freeze == "embeddings" else int(freeze)
    if num_layers > len(encoder.layers):
        raise ValueError(
            f"--freeze is {num_layers}; this encoder has {len(encoder.layers)} layers. Pass at most "
            "that."
        )
    is_all_frozen = num_layers == len(encoder.layers) and pooling != "pooler"
    if is_all_frozen and needs_encoder(options, companion):
        raise ValueError(
            f"--freeze {num_layers} leaves nothing to train for a loss on the vectors themselves "
            "(--head cosine, --contrastive_order fusion), or that the tasks of --surgery share; "
            "freeze fewer."
        )
    frozen = list(encoder.embeddings.parameters())
    for layer in encoder.layers[:num_layers]:
        frozen += layer.parameters()
    return tuple(frozen)


def needs_encoder(options: MultitaskOptions, companion: nn.Module | None) -> bool:
    """Whether a loss, or gradient surgery, has no other parameters than the encoder's."""
    heads, tasks = options.heads, options.tasks
    has_no_layer = heads.head == "cosine" and heads.common_layer == NONE
    if has_no_layer and "sts" in tasks.order:
        return True
    if tasks.changes_gradients and not heads.shares_a_layer(tasks):
        return True
    return companion is not None and not list(companion.projection.parameters())


def heads_job(job: Job, options: MultitaskOptions, training: TrainingOptions) -> Job:
    """The job before `job` with --heads_first: the same model, its encoder frozen, an own optimizer.

    Each of its epochs is sampled as the first one of `job`: annealing begins after them.
    """
    parameters = parameter_groups(job.model, training.weight_decay)
    return replace(
        job,
        name="heads",
        folder=job.folder.with_name("heads"),
        epochs=options.fine_tuning.heads_first,
        optimizer=AdamW(parameters, lr=HEADS_LR, fused=True),
        plan=lambda epoch, generator: job.plan(0, generator),
        frozen=tuple(job.model.encoder.parameters()),
        closing_tokens=0,
        **how_to_combine(options.tasks, training.seed),
    )
