"""Twelve steps of every stage, alone or in several processes by torchrun; for test_processes.py.

    python tests/toy_processes.py MODEL DATA OUT STAGE...

Writes OUT/losses.json: the loss of each step and the first gradients, by stage. For each process it
writes OUT/weights-NUMBER.json, the sums of its weights at the end. With "death" as a stage the
second process ends in the fifth step, without a word.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from command_line.options import Options
from contrastive import methods
from contrastive.registry import METHODS
from contrastive.stage import build_companion
from minbert import BertModel, BertTokenizer
from minbert.pretraining import __main__ as pretraining
from minbert.pretraining import plain_text
from minbert.training import checkpoint, processes
from minbert.training.job import Job
from minbert.training.loop import fit
from multitask.heads_first import heads_job
from multitask.rows import read_tables
from tests.toy_multitask import encoded, resolved, task_job
from tests.toy_stages import make_chain, make_mlm_stage, write_triplets

NUM_STEPS = 12
# A batch of 5 has no equal halves. The last one of 16 rows is a single row, and a second process
# has none of it.
COMMON = {
    "device": "cpu",
    "precision": "fp32",
    "max_length": 48,
    "batch_size": 5,
    "lr": 1e-3,
    "epochs": NUM_STEPS,
    "warmup": 0.0,
    "hidden_dropout_prob": 0.0,
    "pair_encoding": "cross",
}
CHANGES: dict[str, dict] = {
    "mt-dnn": {},
    "death": {},
    "bi": {"pair_encoding": "bi"},
    "dual": {"pair_encoding": "dual", "head": "dpha", "sampling": "annealed"},
    "pcgrad": {"sampling": "joint", "surgery": "pcgrad"},
    "accumulation": {
        "sampling": "joint",
        "surgery": "pcgrad",
        "accumulation": 2,
        "epochs": 2 * NUM_STEPS,
    },
    "gradvac": {"sampling": "joint", "surgery": "gradvac"},
    "heads-first": {"heads_first": NUM_STEPS},
    "heads-alone": {"option": "pretrain"},
    "cosine": {"head": "cosine", "common_layer": "none", "tasks": "sst,sts", "pair_encoding": "bi"},
    "fusion": {"pretrain": "simcse", "contrastive_order": "fusion"},
    "mlm": {"pretrain": "mlm", "mlm_batch_size": 5, "mlm_epochs": NUM_STEPS, "mlm_lr": 1e-3},
}


class Places(NamedTuple):
    """The arguments of the program."""

    model: Path
    data: Path
    out: Path  # of the stage


def make_job(name: str, places: Places) -> Job:
    """The job of a stage on the first 16 training rows of each task."""
    data = {"data_dir": str(places.data), "model": str(places.model)}
    options = Options.of(**{**data, **COMMON, **CHANGES.get(name, {})}).with_files()
    tables = read_tables(options.data)
    if name == "pretrain":
        return plain_text_job(tables, places)
    # A file of triplets is made of 48 rows. Of all others a stage takes 16.
    num_rows = 48 if name in METHODS else 16
    for splits in tables.values():
        for split, table in splits.items():
            splits[split] = table.cut(num_rows)
    if name in METHODS:
        return contrastive_job(name, tables, places)

    rows = encoded(options, tables)
    if name == "mlm":
        return make_mlm_stage(options, rows, places.out, places.model).job
    encoder = BertModel.from_pretrained(places.model)
    options = resolved(options, encoder.config.hidden_size)
    companion = None
    if name == "fusion":
        pooling = options.encoder.pooling
        companion = build_companion(options.contrastive, options.training, pooling, encoder)
    job = task_job(options, rows, places.out, encoder, companion)
    if name == "heads-first":
        return heads_job(job, options.multitask, options.training)
    return job


def plain_text_job(tables: dict, places: Places) -> Job:
    """`python -m minbert.pretraining` on SST's training sentences."""
    places.out.mkdir(parents=True, exist_ok=True)
    sentences = [example.sentence_1 for example in tables["sst"]["train"].examples]
    corpus = places.out / f"corpus-{processes.number()}.txt"
    corpus.write_text("\n".join(sentences), encoding="utf-8")
    flags = ["--corpus", corpus, "--out", places.out / "model", "--size", "tiny"]
    flags += ["--vocabulary", places.model, "--batch-size", 5, "--block-size", 16]
    flags += ["--tokens", 8000, "--precision", "fp32", "--device", "cpu"]
    run = pretraining.parse(list(map(str, flags)))
    return plain_text.build_job(run, *plain_text.read_corpus(run))


def contrastive_job(method: str, tables: dict, places: Places) -> Job:
    """A contrastive stage with a loss for each step."""
    changes: dict = {"contrastive_epochs": NUM_STEPS, "contrastive_lr": 5e-5}
    if METHODS[method].groups is None:
        changes["contrastive_batch_size"] = 5
    if method in ("simcse", "simcse-nli"):
        changes["contrastive_chunk"] = 2
    if method == "bsc":
        changes["bsc_shuffle"] = "knn"
    if METHODS[method].reads == "triplets":
        # Each process has its own file: one that both write is empty while the other one reads it.
        path = places.out.parent / f"nli-{processes.number()}.tsv"
        changes["nli"] = write_triplets(path, tables)
    tokenizer = BertTokenizer.from_pretrained(places.model)
    (stage,) = make_chain(method, places.model, tables, tokenizer, places.out, **changes)
    return stage.job


class Enough(Exception):
    """The wanted steps are done."""


class Seen(NamedTuple):
    """What a job showed in its first NUM_STEPS steps."""

    losses: list[float]  # of each step; only the first process hears of them
    gradients: list[float]  # of the first step, for each parameter the sum of its magnitudes


def look_at(job: Job, dies: bool) -> Seen:
    """Run the first NUM_STEPS steps of a job.

    The gradients are those before clipping. One that is too small by a factor would hardly change
    AdamW's steps.
    """
    seen = Seen([], [])
    clip = torch.nn.utils.clip_grad_norm_
    num_evaluations = 0
    num_steps = 0

    def dying(task: str, batch) -> torch.Tensor:
        nonlocal num_steps
        num_steps += 1
        if num_steps == 5 and processes.number() == 1:
            os._exit(9)
        return job.loss(task, batch)

    def look_and_clip(parameters, max_norm):
        if not seen.gradients:
            for parameter in parameters:
                if parameter.grad is not None:
                    seen.gradients.append(float(parameter.grad.abs().double().sum()))
        return clip(parameters, max_norm)

    def evaluate() -> dict[str, float]:
        nonlocal num_evaluations
        num_evaluations += 1
        if num_evaluations > NUM_STEPS:
            raise Enough
        return {"score": -num_evaluations}

    changed = replace(
        job,
        patience=0,
        evaluations_per_epoch=10_000,
        evaluate=evaluate,
        score="score",
        loss=dying if dies else job.loss,
        on_evaluation=lambda history: seen.losses.append(history[-1]["loss"]),
    )
    with suppress(Enough), mock.patch("torch.nn.utils.clip_grad_norm_", look_and_clip):
        fit(changed)
    return seen


def main(model: str, data: str, out: str, *names: str) -> None:
    """Run the stages one after the other."""
    folder = Path(out)
    number = processes.number
    torch.set_num_threads(1)
    # Instead of 4,096, which is most of what two processes would tell each other.
    methods.GUIDED_WIDTH = 64
    # After each step it would take long.
    checkpoint.save_checkpoint = lambda *saved: None
    processes.join("cpu")
    seen = {}
    weights = {}
    with mock.patch("minbert.training.loop.write_tensors", lambda *saved: None):
        for name in names:
            job = make_job(name, Places(Path(model), Path(data), folder / name))
            if name == "death":
                # torchrun ends the other one, too. On a busy machine that could be before it has
                # spoken.
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            seen[name] = look_at(job, name == "death")
            sums = [
                float(parameter.detach().double().sum()) for parameter in job.model.parameters()
            ]
            weights[name] = sum(sums)
    (folder / f"weights-{number()}.json").write_text(json.dumps(weights))
    atexit.register((folder / f"cleared-up-{number()}").touch)
    processes.leave()
    content = {
        "losses": {name: stage.losses for name, stage in seen.items()},
        "gradients": {name: stage.gradients for name, stage in seen.items()},
    }
    (folder / "losses.json").write_text(json.dumps(content))
    processes.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
