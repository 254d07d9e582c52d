"""Options -> model, sampling, weights of the losses -> minbert.training.loop: the multitask stage.

Next: minbert/training/loop.py, in which the job runs; then evaluate.py and predictions.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from data.batching import Batch, EncodedExamples, length_grouped_batches
from data.readers import FORMATS, TRAINING_FORMATS, Table, numbers_by_task, read_examples
from minbert import AdamW, BertModel, BertTokenizer
from minbert.optimizer import layer_decayed, parameter_groups
from minbert.training import processes
from minbert.training.job import Job, Step
from multitask import surgery
from multitask.evaluation import evaluate, labels_of, predict
from multitask.losses import fitted_range, paraphrase_loss, prior_shift, similarity_regression
from multitask.model import MultitaskBert
from multitask.sampling import MakeBatches, num_epochs, steps_of_epoch
from multitask.tasks import COURSE, TASKS

FUSION_PREFIX = "contrastive-"  # before a task's name: its batch for the companion's loss
HEADS_LR = 1e-3  # of heads on a frozen encoder, as with --option pretrain
SPLITS = ("train", "dev", "test")


def read_tables(options) -> dict[str, dict[str, Table]]:
    """The nine files of a run, as tables[task][split]; ValueError names the first that cannot be used.

    Of training and dev files at most --train_rows and --dev_rows are taken; test files stay whole, for the leaderboard.
    """
    tables = {
        task: {
            split: read_examples(
                getattr(options, f"{task}_{split}"),
                (TRAINING_FORMATS if split == "train" else FORMATS)[task],
                labelled=split != "test",
                drop_bad_rows=options.drop_bad_rows,
            )
            for split in SPLITS
        }
        for task in TASKS
    }
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


def how_to_combine(options) -> dict:
    """What --surgery means for the Job: weights of the losses, or what is done to each task's own gradient."""
    match options.surgery:
        case "mean":
            return {"weigh": surgery.mean}
        case "sum" | "weighted":  # "sum" takes no --loss_weights: each is 1
            return {
                "weigh": partial(surgery.weighted, weights=numbers_by_task(options.loss_weights))
            }
    return {
        "surgery": surgery.GradientSurgery(
            options.surgery,
            options.surgery_reduction,
            options.gradvac_beta,
            options.order,
            options.seed,
        )
    }


def build_job(
    options,
    encoder: BertModel,
    rows: dict[str, dict[str, EncodedExamples]],
    folder: Path,
    device: torch.device,
    companion: nn.Module | None = None,
) -> Job:
    """The multitask stage as a Job. `options` is the run's Options; its model wraps `encoder` and trains it in place.

    With --option pretrain the encoder is frozen and only the shared layer and the heads learn. The best model is that
    of the best --score; "auto" is the overall score of 2023, or with fewer --tasks the mean of theirs.

    companion: for fusion training ([GEN] section 4.2), a module that gives the contrastive loss of a batch on the same
    encoder, and whose `projection` learns too. After each step its batches come once more, for that loss.
    """
    model = MultitaskBert(
        encoder,
        options.pooling,
        options.pair_encoding,
        options.hidden_dropout_prob,
        options.seed,
        options.head,
        options.head_of_para,
        options.sharing,
        options.common_layer == "tanh",
        options.sts_range,
        options.vector_dropout_prob,
        options.drops_out(encoder.config.hidden_size),
    )
    if companion is not None:
        model.companion = companion.projection
    model.to(device)
    trained = {task: rows[task] for task in options.order}
    dev = {task: splits["dev"] for task, splits in trained.items()}
    shift = 0.0
    if options.para_prior != "none":
        labels = labels_of(rows["para"]["train"])
        classes = labels[labels % 1 == 0]  # a probability is right for other pairs as it is
        shift = prior_shift(float(classes.mean()) if len(classes) else 0.0, options.para_prior)

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        steps = steps_of_epoch(
            options, batches_of(trained, options.batch_size, options.max_tokens), generator, epoch
        )
        if companion is None:
            return steps
        return [
            each
            for step in steps
            for each in (step, [(FUSION_PREFIX + task, indices) for task, indices in step])
        ]

    def loss(task: str, batch: Batch) -> Tensor:
        if task.startswith(FUSION_PREFIX):
            return companion(batch) / processes.count()
        return task_loss(model, task, batch, shift)

    automatic = (
        "overall_2023" if dev.keys() == COURSE else "mean" if len(dev) > 1 else options.order[0]
    )
    rates = (
        layer_decayed(options.lr, options.layer_decay, encoder.config.num_hidden_layers)
        if options.layer_decay < 1
        else None
    )

    def num_tokens(of_rows: dict[str, dict[str, EncodedExamples]], split: str) -> int:
        return sum(int(splits[split].sizes.sum()) for splits in of_rows.values())

    return Job(
        name="multitask",
        folder=folder / "checkpoint" / "multitask",
        model=model,
        optimizer=AdamW(
            parameter_groups(model, options.weight_decay, rates), lr=options.lr, fused=True
        ),
        plan=plan,
        load=lambda task, indices: (
            rows[task.removeprefix(FUSION_PREFIX)]["train"].batch(indices).to(device)
        ),
        loss=loss,
        **how_to_combine(options),
        evaluate=lambda: (
            processes.from_first(lambda: evaluate(model, dev, options.precision)) | model.fitted()
        ),
        before_epoch=lambda epoch: fit_range(model, rows, options.precision),
        score=automatic if options.score == "auto" else options.score,
        patience=options.patience,
        epochs=num_epochs(options),
        device=device,
        precision=options.precision,
        seed=options.seed,
        schedule=options.schedule,
        warmup=options.warmup,
        max_grad_norm=options.max_grad_norm,
        accumulation=options.accumulation,
        save_every=options.save_every,
        evaluation_tokens=num_tokens(trained, "dev"),
        closing_tokens=num_tokens(rows, "dev")
        + num_tokens(rows, "test")
        + (
            num_tokens({"sts": rows["sts"]}, "train") if model.has_range else 0
        ),  # which fit_range predicts
        frozen=frozen_parameters(options, encoder),
    )


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


def frozen_parameters(options, encoder: BertModel) -> tuple[nn.Parameter, ...]:
    """Those of the encoder that --option pretrain or --freeze keep as they are."""
    if options.option == "pretrain":
        return tuple(encoder.parameters())
    if options.freeze == "none":
        return ()
    num_layers = 0 if options.freeze == "embeddings" else int(options.freeze)
    if num_layers > len(encoder.layers):
        raise ValueError(
            f"--freeze is {num_layers}; this encoder has {len(encoder.layers)} layers. Pass at most that."
        )
    reads_vectors = (
        options.head == "cosine" and options.common_layer == "none" and "sts" in options.order
    )
    reads_vectors |= (
        options.surgery not in ("mean", "sum", "weighted") and not options.shares_a_layer
    )
    reads_vectors |= (
        options.contrastive_order == "fusion" and options.contrastive_projection == "none"
    )
    if reads_vectors and num_layers == len(encoder.layers) and options.pooling != "pooler":
        raise ValueError(
            f"--freeze {num_layers} leaves nothing to train for a loss on the vectors themselves (--head "
            "cosine, --contrastive_order fusion), or that the tasks of --surgery share; freeze fewer."
        )
    parts = (encoder.embeddings, *encoder.layers[:num_layers])
    return tuple(parameter for part in parts for parameter in part.parameters())


def heads_job(job: Job, options) -> Job:
    """What goes before `job` with --heads_first: the same model, the encoder frozen, its own optimizer and epochs.

    Its epochs are sampled as the first one of `job`: annealing begins after them.
    """
    return replace(
        job,
        name="heads",
        folder=job.folder.with_name("heads"),
        epochs=options.heads_first,
        optimizer=AdamW(parameter_groups(job.model, options.weight_decay), lr=HEADS_LR, fused=True),
        plan=lambda epoch, generator: job.plan(0, generator),
        frozen=tuple(job.model.encoder.parameters()),
        closing_tokens=0,
        **how_to_combine(options),
    )
