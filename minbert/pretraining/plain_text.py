"""From plain text to an encoder: the work of `python -m minbert.pretraining`, whose command line is pretrain.py.

Text (a paragraph a line) -> WordPiece vocabulary -> token ids packed into full blocks without padding -> masked-
language modelling through the one loop -> a folder that `--model` opens. T tokens a block, N blocks.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data.corpus import read_lines
from minbert.bert import BertModel
from minbert.config import BertConfig
from minbert.optimizer import AdamW, parameter_groups
from minbert.pretraining.mlm import BertForMaskedLM, Masking
from minbert.pretraining.packing import pair_up, plan_blocks, split_and_pack, train_tokenizer
from minbert.pretraining.sizes import SIZES
from minbert.reporting.curves import Curves, missing_libraries
from minbert.tokenizer import BertTokenizer
from minbert.training import cost_estimate as price
from minbert.training import processes, runtime
from minbert.training import run_folder as record
from minbert.training.job import Job, Progress
from minbert.training.loop import fit

MAX_EVALUATIONS = 50
MAX_HELD_OUT_BLOCKS = 512
FEW = ", which are few: held-out loss and accuracy, by which the weights are chosen, are rough"


@dataclass(frozen=True)
class Blocks:
    """A batch for the loop: token ids (B, T) int64 and, as names for messages, the blocks' numbers."""

    input_ids: Tensor
    ids: tuple[str, ...]


def sinusoids(num_positions: int, width: int, scale: float = 0.1) -> Tensor:
    """Where the learned position embeddings start, (P, H): Vaswani et al. 2017, section 3.5, times `scale`."""
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)  # (H / 2,)
    angles = torch.arange(num_positions).unsqueeze(1) * frequencies  # (P, H / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1) * scale  # (P, H)


def fresh_encoder(config: BertConfig) -> BertModel:
    """Random weights, but positions that are sinusoids: a neighbour is near before anything is learned."""
    encoder = BertModel(config)
    positions = encoder.embeddings.position.weight
    positions.data.copy_(sinusoids(*positions.shape))
    return encoder


def build_model(
    arguments: argparse.Namespace, vocab_size: int, device: torch.device
) -> BertForMaskedLM:
    """The model of --size, or that of --init, without dropout: each pass over the text masks it anew."""
    plain = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # torch's fused kernel has a slow backward pass on CPU
        "attention_implementation": "fused" if device.type == "cuda" else "eager",
    }
    torch.manual_seed(arguments.seed)
    if arguments.init:
        model = BertForMaskedLM.from_pretrained(arguments.init, **plain)
    else:
        model = BertForMaskedLM(
            fresh_encoder(replace(SIZES[arguments.size], vocab_size=vocab_size, **plain))
        )
    runtime.compile_layers(model.to(device).bert, arguments.compile)
    return model


def build_job(
    arguments: argparse.Namespace, tokenizer: BertTokenizer, train: np.ndarray, held_out: np.ndarray
) -> Job:
    """The masked-language-model stage as a Job; train and held_out are blocks, (N, T)."""
    device, _ = runtime.choose_device(arguments.device)
    precision, _ = runtime.choose_precision(arguments.precision, device)
    model = build_model(arguments, max(tokenizer.vocabulary.values()) + 1, device)
    masking = Masking.of(tokenizer, arguments.whole_word)
    rounds, num_steps = plan_rounds(arguments)

    def blocks(rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows.astype(np.int64))

    def loss(task: str, batch: Blocks) -> Tensor:
        input_ids, token_type_ids = pair_up(
            batch.input_ids, arguments.pairs, tokenizer.sep_token_id
        )
        corrupted, labels = masking(input_ids)
        return model.loss(corrupted.to(device), labels.to(device), token_type_ids.to(device))

    def evaluate() -> dict[str, float]:
        batches = ((blocks(held_out[start : start + 32]),) for start in range(0, len(held_out), 32))
        return processes.from_first(lambda: model.score(batches, masking, precision))

    batch_tokens = arguments.batch_size * arguments.block_size
    title = f"{arguments.init or arguments.size}, {rounds * num_steps * batch_tokens:,} tokens, seed {arguments.seed}"
    return Job(
        name="mlm",
        folder=arguments.out / "checkpoint",
        model=model,
        device=device,
        precision=precision,
        optimizer=AdamW(
            parameter_groups(model, 0.01), lr=arguments.lr, betas=(0.9, 0.98), fused=True
        ),
        plan=lambda epoch, _: plan_blocks(
            len(train), arguments.batch_size, num_steps, epoch, arguments.seed
        ),
        load=lambda _, rows: Blocks(blocks(train[rows]), tuple(map(str, rows))),
        loss=loss,
        evaluate=evaluate,
        score="-held_out_loss",
        epochs=rounds,
        seed=arguments.seed,
        warmup=arguments.warmup,
        accumulation=arguments.accumulation,
        save_every=500,
        evaluation_tokens=held_out.size,
        on_evaluation=Curves(arguments.out, batch_tokens * arguments.accumulation, title),
    )


def plan_rounds(arguments: argparse.Namespace) -> tuple[int, int]:
    """(evaluations, batches before each) that see at least --tokens; a multiple of --accumulation batches."""
    num_updates = -(
        -arguments.tokens // (arguments.batch_size * arguments.block_size * arguments.accumulation)
    )
    num_in_round = -(-num_updates // MAX_EVALUATIONS)
    return -(-num_updates // num_in_round), num_in_round * arguments.accumulation


def read_corpus(arguments: argparse.Namespace) -> tuple[BertTokenizer, np.ndarray, np.ndarray]:
    """The tokenizer (trained, or that of a folder) and blocks for training and held out, each (N, T)."""
    runtime.choose_device(arguments.device)
    config = (
        BertForMaskedLM.from_pretrained(arguments.init).bert.config
        if arguments.init
        else SIZES[arguments.size]
    )
    if arguments.block_size > config.max_position_embeddings:
        raise ValueError(
            f"--block-size is {arguments.block_size}; this model has {config.max_position_embeddings} "
            "positions. Pass at most that."
        )
    for path in arguments.corpus:
        if next(read_lines([path]), None) is None:
            print(f"{path}: an empty file; there is no text in it")
    stored = arguments.resume or arguments.init or arguments.vocabulary
    tokenizer = (
        BertTokenizer.from_pretrained(stored)
        if stored
        else processes.from_first(
            lambda: train_tokenizer(read_lines(arguments.corpus), config.vocab_size)
        )
    )
    train, held_out = split_and_pack(arguments.corpus, tokenizer, arguments.block_size)
    if len(train) < arguments.batch_size or not len(held_out):
        raise ValueError(
            f"the corpus makes {len(train)} training and {len(held_out)} held-out blocks of "
            f"{arguments.block_size} tokens; needed are {arguments.batch_size} and 1. Give more text, or "
            "a smaller --batch-size or --block-size."
        )
    rows = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(0))[
        :MAX_HELD_OUT_BLOCKS
    ].numpy()
    return tokenizer, train, held_out[rows]


def report(progress: Progress, job: Job, arguments: argparse.Namespace, num_processes: int) -> dict:
    """Print what the run was worth; returns the numbers for run.json. The limit of N processes is N times one's.

    Limit and share are None where the precision is emulated: that would be no limit of the machine, and take minutes.
    """
    seen = progress.step * arguments.accumulation * arguments.batch_size * arguments.block_size
    per_second = seen / progress.seconds
    flops = 6 * sum(
        parameter.numel() for parameter in job.model.bert.layers.parameters()
    )  # a token, embeddings apart
    best = next(entry for entry in progress.history if entry["step"] == progress.best_step)
    limit = share = None
    of_limit = (
        f".\nThe limit of this machine in {job.precision} is not measured: {runtime.NO_BF16}."
    )
    if runtime.is_native(job.precision, job.device):
        limit = num_processes * price.matrix_product_limit(job.device, job.precision)
        share = flops * per_second / limit
        of_limit = (
            f", {share:.0%} of the {limit / 1e9:,.0f} that this machine reaches in {job.precision} matrix "
            "products"
        )
    print(
        f"{seen:,} tokens in {progress.seconds / 60:.1f} minutes, {per_second:,.0f} tokens/s; that is "
        f"{flops * per_second / 1e9:,.0f} GFLOP/s{of_limit}"
    )
    print(
        f"held-out loss {best['held_out_loss']:.3f} nats, masked accuracy {best['masked_accuracy']:.3f}"
    )
    return {
        "tokens": seen,
        "seconds": progress.seconds,
        "tokens_per_second": per_second,
        "flops_per_token": flops,
        "matrix_product_limit": limit,
        "share_of_limit": share,
        "best": best,
    }


def run(arguments: argparse.Namespace) -> None:
    """From the arguments to the folder; raises ValueError for what cannot be used."""
    processes.join(arguments.device)
    tokenizer, train, held_out = read_corpus(arguments)
    runtime.settle_memory()
    job = build_job(arguments, tokenizer, train, held_out)
    print(f"device: {job.device.type} ({runtime.choose_device(arguments.device)[1]})")
    print(
        f"precision: {job.precision} ({runtime.choose_precision(arguments.precision, job.device)[1]})"
    )
    num_parameters = sum(
        p.numel() for name, p in job.model.named_parameters() if "pooler" not in name
    )
    print(
        f"vocabulary of {len(tokenizer.vocabulary):,}; {num_parameters:,} parameters; {len(train):,} training blocks "
        f"of {arguments.block_size} tokens, {len(held_out):,} held out{FEW if len(held_out) < 50 else ''}"
    )
    prices = price.quote([job], arguments.out, bool(arguments.resume))
    print(prices[0], *filter(None, [missing_libraries()]), sep="\n")
    options = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
    }
    options |= {
        "corpus": [str(path.absolute()) for path in arguments.corpus],
        "resume": None,
        "device": job.device.type,
        "precision": job.precision,
    }
    files = {
        "the corpus": hashlib.sha256(np.concatenate([train, held_out])).hexdigest()
    }  # as ids: what it depends on
    record.claim(arguments.out, options, files, bool(arguments.resume), tokenizer.save_pretrained)
    price.keep(prices, arguments.out)
    progress = fit(job, bool(arguments.resume))
    num_processes = processes.count()
    processes.leave()  # the first process goes on alone
    # trained without dropout; whoever fine-tunes it wants BERT's own
    job.model.bert.config = replace(
        job.model.bert.config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    job.model.save_pretrained(arguments.out, dtype=torch.float16)
    actual = {"seconds": progress.seconds, "peak_memory": price.peak_memory(job.device)}
    numbers = report(progress, job, arguments, num_processes)
    record.write_record(
        arguments.out,
        options,
        files,
        history=progress.history,
        **numbers,
        predicted=[asdict(item) for item in prices],
        actual=actual,
    )
    print(price.comparison(prices, **actual), f"written to {arguments.out}", sep="\n")
    processes.end()
