"""Options -> model, sampling, weights of the losses -> minbert.loop: the multitask stage.

Next: minbert/loop.py, in which the job runs; then evaluate.py and predictions.py.
"""

from __future__ import annotations

from pathlib import Path

import torch

from data.batching import EncodedExamples, length_grouped_batches
from data.readers import Example, Table, read_examples
from minbert import AdamW, BertModel, BertTokenizer
from minbert.loop import Job, Step
from minbert.optimizer import parameter_groups
from multitask import surgery
from multitask.evaluate import evaluate
from multitask.model import MultitaskBert
from multitask.sampling import SAMPLERS, MakeBatches
from multitask.tasks import TASKS

SPLITS = ("train", "dev", "test")


def read_tables(options) -> dict[str, dict[str, Table]]:
    """The nine files of a run, as tables[task][split]; ValueError names the first that cannot be used."""
    return {
        task.name: {
            split: read_examples(getattr(options, f"{task.name}_{split}"), task.format, labelled=split != "test",
                                 drop_bad_rows=options.drop_bad_rows)
            for split in SPLITS
        }
        for task in TASKS.values()
    }


def encode_tables(
    tables: dict[str, dict[str, Table]], tokenizer: BertTokenizer, max_length: int, pair_encoding: str
) -> dict[str, dict[str, EncodedExamples]]:
    """Token ids of every row, made once: rows[task][split]."""
    return {
        task: {split: EncodedExamples(table.examples, tokenizer, max_length, pair_encoding)
               for split, table in splits.items()}
        for task, splits in tables.items()
    }


def examples_of(tables: dict[str, dict[str, Table]], split: str) -> list[Example]:
    """The examples of one split, all tasks in turn."""
    return [example for splits in tables.values() for example in splits[split].examples]


def batches_of(rows: dict[str, dict[str, EncodedExamples]], batch_size: int) -> dict[str, MakeBatches]:
    """For each task the function that forms its training batches, as the samplers take it."""
    return {
        task: lambda generator, lengths=splits["train"].lengths: length_grouped_batches(lengths, batch_size, generator)
        for task, splits in rows.items()
    }


def build_job(
    options, encoder: BertModel, rows: dict[str, dict[str, EncodedExamples]], folder: Path, device: torch.device,
) -> Job:
    """The multitask stage as a Job. `options` is the run's Options; its model wraps `encoder` and trains it in place.

    With --option pretrain the encoder is frozen and only the shared layer and the heads learn. The tasks are those of
    `rows`: all three, judged by the overall score of 2023, or a single one, judged by its own.
    """
    model = MultitaskBert(encoder, options.pooling, options.pair_encoding, options.hidden_dropout_prob, options.seed)
    model.to(device)
    sampler = SAMPLERS[options.sampling]
    limits = {"limit": options.joint_limit} if options.sampling == "joint" else {}

    def plan(epoch: int, generator: torch.Generator) -> list[Step]:
        return sampler(batches_of(rows, options.batch_size), generator, **limits)

    dev = {task: splits["dev"] for task, splits in rows.items()}
    num_tokens = {split: sum(int(splits[split].lengths.sum()) for splits in rows.values()) for split in ("dev", "test")}
    return Job(
        name="multitask", folder=folder / "checkpoint" / "multitask", model=model,
        optimizer=AdamW(parameter_groups(model, options.weight_decay), lr=options.lr),
        plan=plan, load=lambda task, indices: rows[task]["train"].batch(indices).to(device),
        loss=lambda task, batch: TASKS[task].loss(model(task, batch), batch.labels), weigh=surgery.mean,
        evaluate=lambda: evaluate(model, dev, options.precision),
        score="overall_2023" if len(rows) == len(TASKS) else next(iter(rows)),
        epochs=options.epochs, device=device, precision=options.precision, seed=options.seed, schedule=options.schedule,
        warmup=options.warmup, max_grad_norm=options.max_grad_norm, accumulation=options.accumulation,
        save_every=options.save_every, evaluation_tokens=num_tokens["dev"],
        closing_tokens=num_tokens["dev"] + num_tokens["test"],
        frozen=tuple(encoder.parameters()) if options.option == "pretrain" else (),
    )
