"""Fifty steps of every stage, alone or in several processes by torchrun; for test_processes.py.

    python tests/toy_processes.py MODEL DATA OUT STAGE...

Writes OUT/losses.json: the loss of each step and the first gradients, by stage; and for each process
OUT/weights-NUMBER.json, the sums of its weights at the end. With "death" as a stage the second process ends in the
fifth step, without a word.
"""

import atexit
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from command_line.options import Options
from contrastive import methods
from contrastive.presets import PRESETS
from contrastive.stage import build_companion
from minbert import BertModel, BertTokenizer
from minbert.pretraining import __main__ as pretrain
from minbert.pretraining import plain_text as from_text
from minbert.pretraining import stage as further
from minbert.training import checkpoint, processes
from minbert.training.job import Job
from minbert.training.loop import fit
from multitask import stage as train
from tests.toy_stages import make_chain, write_triplets

CPU = torch.device("cpu")
NUM_STEPS = 50
# A batch of 5 has no equal halves; the last one of 16 rows is a single row, and a second process has none of it.
COMMON = {
    "precision": "fp32",
    "max_length": 48,
    "batch_size": 5,
    "lr": 1e-3,
    "epochs": NUM_STEPS,
    "warmup": 0.0,
    "hidden_dropout_prob": 0.0,
    "pair_encoding": "cross",
}
CHANGES = {
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


def make_job(name: str, model: Path, data: Path, out: Path) -> Job:
    """The job of a stage on the first 16 training rows of each task; of "pretrain" on SST's training sentences."""
    tokenizer = BertTokenizer.from_pretrained(model)
    options = Options(data_dir=str(data), model=str(model), **COMMON).with_files()
    if name == "pretrain":
        out.mkdir(parents=True, exist_ok=True)
        sentences = [
            example.sentence_1 for example in train.read_tables(options)["sst"]["train"].examples
        ]
        corpus = out / f"corpus-{processes.number()}.txt"
        corpus.write_text("\n".join(sentences), encoding="utf-8")
        flags = {
            "--corpus": corpus,
            "--out": out / "model",
            "--size": "tiny",
            "--vocabulary": model,
            "--batch-size": 5,
            "--block-size": 16,
            "--tokens": 8000,
            "--precision": "fp32",
            "--device": "cpu",
        }
        arguments = pretrain.parse([str(word) for flag in flags.items() for word in flag])
        return from_text.build_job(arguments, *from_text.read_corpus(arguments))
    num_rows = (
        48 if name in PRESETS else 16
    )  # simcse-nli makes its triplets of 48; of all others a stage takes 16
    tables = {
        task: {split: table.cut(num_rows) for split, table in splits.items()}
        for task, splits in train.read_tables(options).items()
    }
    if name in PRESETS:
        shuffle = {"bsc_shuffle": "knn"} if name == "bsc" else {}
        size = {} if name == "ct" else {"contrastive_batch_size": 5}
        size |= {"contrastive_chunk": 2} if name in ("simcse", "simcse-nli") else {}
        # A file of each process's own: one that both write is empty at the moment in which the other one reads it.
        nli = (
            {"nli": write_triplets(out.parent / f"nli-{processes.number()}.tsv", tables)}
            if "nli" in name
            else {}
        )
        (stage,) = make_chain(
            name,
            model,
            tables,
            tokenizer,
            out,
            contrastive_epochs=NUM_STEPS,
            contrastive_lr=5e-5,
            **size,
            **shuffle,
            **nli,
        )
        return stage.job
    options = replace(options, **CHANGES[name])
    rows = train.encode_tables(tables, tokenizer, options.max_length, options.pair_encoding)
    encoder = BertModel.from_pretrained(model)
    if name == "mlm":
        return further.build_stage(
            options, encoder, tokenizer, rows, model, out, "encoder", "", CPU
        ).job
    companion = build_companion(options, encoder, CPU) if name == "fusion" else None
    job = train.build_job(options, encoder, rows, out, CPU, companion)
    return train.heads_job(job, options) if name == "heads-first" else job


class Enough(Exception):
    """The steps that were wanted are done."""


def losses_of(job: Job, dies: bool) -> tuple[list[float], list[float]]:
    """The losses of the first NUM_STEPS steps, of which only the first process hears, and the first step's gradients.

    Of each parameter's gradient the sum of its magnitudes before it is clipped: one that is too small by a factor would
    hardly change AdamW's steps.
    """
    found: list[float] = []
    gradients: list[float] = []
    clip = torch.nn.utils.clip_grad_norm_
    num_evaluations = num_steps = 0

    def dying(task: str, batch) -> torch.Tensor:
        nonlocal num_steps
        num_steps += 1
        if num_steps == 5 and processes.number() == 1:
            os._exit(9)
        return job.loss(task, batch)

    def look_and_clip(parameters, max_norm):
        if not gradients:
            gradients.extend(
                float(parameter.grad.abs().double().sum())
                for parameter in parameters
                if parameter.grad is not None
            )
        return clip(parameters, max_norm)

    def evaluate() -> dict[str, float]:
        nonlocal num_evaluations
        num_evaluations += 1
        if num_evaluations > NUM_STEPS:
            raise Enough
        return {"score": -num_evaluations}

    with suppress(Enough), mock.patch("torch.nn.utils.clip_grad_norm_", look_and_clip):
        fit(
            replace(
                job,
                patience=0,
                evaluations_per_epoch=10_000,
                evaluate=evaluate,
                score="score",
                loss=dying if dies else job.loss,
                on_evaluation=lambda history: found.append(history[-1]["loss"]),
            )
        )
    return found, gradients


def main(model: str, data: str, out: str, *names: str) -> None:
    """Run the stages one after the other."""
    torch.set_num_threads(1)
    methods.GUIDED_WIDTH = (
        64  # instead of 4,096, which is most of what two processes would tell each other
    )
    checkpoint.write_tensors = checkpoint.save_checkpoint = lambda *saved: (
        None
    )  # after each step it would take long
    processes.join("cpu")
    losses, gradients, weights = {}, {}, {}
    for name in names:
        job = make_job(name, Path(model), Path(data), Path(out) / name)
        if (
            name == "death"
        ):  # torchrun ends the other one too, which on a busy machine could be before it has spoken
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        losses[name], gradients[name] = losses_of(job, name == "death")
        weights[name] = sum(
            float(parameter.detach().double().sum()) for parameter in job.model.parameters()
        )
    (Path(out) / f"weights-{processes.number()}.json").write_text(json.dumps(weights))
    atexit.register((Path(out) / f"cleared-up-{processes.number()}").touch)
    processes.leave()
    (Path(out) / "losses.json").write_text(json.dumps({"losses": losses, "gradients": gradients}))
    processes.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
