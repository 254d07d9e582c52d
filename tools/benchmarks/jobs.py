"""The jobs of a run, made from option values as run_multitask.py makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from command_line import automatic
from command_line.options import Options
from contrastive.stage import Place, StageText
from contrastive.stage import build_stage as build_contrastive
from data.examples import Table
from minbert import BertModel, BertTokenizer
from minbert.training.job import Job
from minbert.training.loop import Loop
from minbert.training.stage import Stage, encoder_fingerprint
from minbert.training.starting_model import StartingModel
from multitask import stage as multitask_stage
from multitask.model import MultitaskBert
from multitask.rows import EncodedTables, encode_tables
from multitask.tasks import open_tasks

# More steps than any benchmark takes, so the learning rate hardly changes.
MANY_STEPS = 10**6


def resolve_options(
    hidden_size: int, device: torch.device, precision: str, **values: Any
) -> Options:
    """Return the options of a run with these values and no "auto".

    hidden_size: of the encoder. values: options by their flat names.
    """
    options = Options.of(**values).with_files()
    reason = "chosen by the benchmark"
    # Device and precision are the benchmark's choice, also where the options say auto.
    resolved, _ = automatic.resolve(
        options,
        hidden_size,
        automatic.Choice(device.type, reason),
        automatic.Choice(precision, reason),
    )
    return resolved


def encode_rows(
    options: Options, tables: dict[str, dict[str, Table]], tokenizer: BertTokenizer
) -> EncodedTables:
    """Return the token ids of all tables, as rows[task][split]."""
    pair_encoding = options.multitask.heads.pair_encoding
    return encode_tables(tables, tokenizer, options.data.max_length, pair_encoding)


def build_task_job(options: Options, encoder: BertModel, rows: EncodedTables, folder: Path) -> Job:
    """Return the multitask stage. options: without "auto". folder: of the run."""
    model = MultitaskBert(
        encoder,
        options.encoder.pooling,
        options.multitask.heads,
        options.training.seed,
        automatic.has_dropout_in_tasks(options, encoder.config.hidden_size),
        open_tasks(options.data, rows).tasks,
    )
    return multitask_stage.build_job(options.multitask, options.training, model, rows, folder)


def build_contrastive_stage(
    options: Options,
    encoder: BertModel,
    tokenizer: BertTokenizer,
    tables: dict[str, dict[str, Table]],
    folder: Path,
) -> Stage:
    """Return the only stage of --pretrain, a contrastive one. options: without "auto"."""
    text = StageText(
        train={task: splits["train"].examples for task, splits in tables.items()},
        sts_dev=tables["sts"]["dev"].examples,
        sts_max_length=options.data.max_length,
    )
    start = encoder_fingerprint(encoder, tokenizer)
    model = StartingModel(encoder, tokenizer, Path(options.encoder.model), start)
    return build_contrastive(
        options.run.pretrain,
        options.contrastive,
        options.training,
        options.encoder.pooling,
        model,
        text,
        Place(start, folder / "encoder", folder / "checkpoint"),
    )


def make_loop(job: Job) -> Loop:
    """Return the job's loop for steps that are taken one by one."""
    loop = Loop(job, resume=False)
    loop.progress.num_steps = MANY_STEPS
    return loop
