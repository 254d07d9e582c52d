"""For tests of the multitask stage: its job from flat options, and comparisons of weights."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from command_line.automatic import Choice, has_dropout_in_tasks, resolve
from command_line.options import Options
from minbert import BertModel, BertTokenizer
from minbert.training.job import Job
from minbert.training.loop import fit
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
from multitask.plan import StageParts
from multitask.rows import EncodedTables, encode_tables
from multitask.tasks import TASKS, Tasks, open_tasks


def resolved(options: Options, hidden_size: int) -> Options:
    """The options without "auto", as a run on this machine's CPU has them."""
    precision = Choice(options.training.precision, "")
    return resolve(options, hidden_size, Choice("cpu", ""), precision)[0]


def stage_parts(
    options: Options,
    rows: EncodedTables,
    folder: Path,
    encoder: BertModel | None = None,
    companion: nn.Module | None = None,
) -> StageParts:
    """The parts of the multitask stage as run_multitask.py has them, on the CPU.

    encoder: that of --model where none is given.
    """
    encoder = encoder or BertModel.from_pretrained(options.encoder.model)
    hidden_size = encoder.config.hidden_size
    options = resolved(options, hidden_size)
    model = MultitaskBert(
        encoder,
        options.encoder.pooling,
        options.multitask.heads,
        options.training.seed,
        has_dropout_in_tasks(options, hidden_size),
        open_tasks(options.data, rows).tasks,
    )
    return StageParts(options.multitask, options.training, model, rows, folder, companion)


def task_job(
    options: Options,
    rows: EncodedTables,
    folder: Path,
    encoder: BertModel | None = None,
    companion: nn.Module | None = None,
) -> Job:
    """The job of all tasks together."""
    return stage_parts(options, rows, folder, encoder, companion).job


def encoded(options: Options, tables) -> EncodedTables:
    """The rows of the tables, by the tokenizer of --model."""
    tokenizer = BertTokenizer.from_pretrained(options.encoder.model)
    max_length = options.data.max_length
    return encode_tables(tables, tokenizer, max_length, options.multitask.heads.pair_encoding)


def two_task_options(sample_data: Path, tiny_model: Path, **changes) -> Options:
    """The options of a short training of SST and STS, without "auto"."""
    options = Options.of(
        data_dir=str(sample_data),
        model=str(tiny_model),
        tasks="sst,sts",
        pair_encoding="cross",
        sampling="joint",
        precision="fp32",
        batch_size=8,
        surgery="pcgrad",
        save_every=1,
        train_rows="sst=16,sts=16",
        dev_rows="sst=24,sts=24",
        **changes,
    ).with_files()
    return resolved(options, 32)


class Kill(Exception):
    """Ends a job in its middle."""


class TwoSteps(Exception):
    """Ends a job after two updates."""


def after_two_steps(job: Job) -> dict[str, Tensor]:
    """The weights after two updates of the real loop."""
    step = job.optimizer.step
    count = 0

    def counted():
        nonlocal count
        step()
        count += 1
        if count == 2:
            raise TwoSteps

    job.optimizer.step = counted
    with pytest.raises(TwoSteps):
        fit(job)
    return copy.deepcopy(job.model.state_dict())


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two states have the same bits."""
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def differ(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether weights differ.

    Where the heads have other names or shapes, only the encoders are compared: they must feel it.
    """
    shapes = {name: tensor.shape for name, tensor in one.items()}
    are_alike = shapes == {name: tensor.shape for name, tensor in other.items()}
    names = [name for name in one if are_alike or name.startswith("encoder.")]
    return any(not torch.equal(one[name], other[name]) for name in names)


def make_bert(
    source: Path | BertModel,
    pooling: str = "mean",
    pair_encoding: str = "cross",
    dropout: float = 0.1,
    seed: int = 0,
    has_encoder_dropout: bool = True,
    tasks: Tasks = TASKS,
    **heads,
) -> MultitaskBert:
    """A MultitaskBert on the encoder in a folder, or on the given one. heads: other HeadOptions."""
    encoder = source if isinstance(source, BertModel) else BertModel.from_pretrained(source)
    options = HeadOptions(pair_encoding=pair_encoding, hidden_dropout_prob=dropout, **heads)
    return MultitaskBert(encoder, pooling, options, seed, has_encoder_dropout, tasks)
