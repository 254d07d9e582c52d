"""From plain text to an encoder: the work of `python -m minbert.pretraining`.

Text (a paragraph a line) -> WordPiece vocabulary -> packed sequences of token ids without padding
-> masked language modelling through the one loop -> a folder that `--model` opens.

B batch, T tokens of a sequence, N sequences, P positions, H hidden.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from data.batching import MOSTLY_UNKNOWN
from data.corpus import read_lines
from minbert import fast
from minbert.bert import BertModel
from minbert.commands.ending import only_warn
from minbert.commands.files import digest_of_file
from minbert.commands.options import flat
from minbert.config import BertConfig
from minbert.optimizer import AdamW, parameter_groups
from minbert.pretraining.mlm import BertForMaskedLM, MaskedRows, Masking, num_chosen
from minbert.pretraining.options import PlainTextOptions, PlainTextRun
from minbert.pretraining.packing import (
    OpenFiles,
    PackedText,
    pair_up,
    plan_steps,
    release_pages,
    split_and_pack,
    train_tokenizer,
)
from minbert.pretraining.run_report import write_model_card, write_report
from minbert.pretraining.sizes import SIZES
from minbert.reporting import terminal
from minbert.reporting.curves import Curves, missing_libraries
from minbert.reporting.terminal import Fact
from minbert.tokenizer import BertTokenizer
from minbert.training import cost_estimate, processes, run_folder, runtime
from minbert.training.job import Job, Progress, Step
from minbert.training.loop import fit
from minbert.training.step_log import StepLog

MAX_EVALUATIONS = 50
PIECE = 4096  # packed sequences that are read at once
MAX_HELD_OUT = 512  # sequences that are scored
EVALUATION_BATCH = 32  # sequences
SAVE_EVERY = 500  # updates
WEIGHT_DECAY = 0.01
BETAS = (0.9, 0.98)  # of AdamW
DROPOUT = 0.1  # BERT's own, for whoever fine-tunes the encoder
PAGES = {"model card": write_model_card, "report": write_report}
FEW_HELD_OUT = 50
FEW = ", which are few: held-out loss and accuracy, by which the weights are chosen, are rough"


class Corpus(NamedTuple):
    """A text in the form in which the model reads it."""

    tokenizer: BertTokenizer
    train: np.ndarray  # (N, T)
    held_out: np.ndarray  # (N, T)


class Rounds(NamedTuple):
    """The epochs of the loop: the model is evaluated after each of them."""

    number: int
    num_batches: int  # of each


# --- the model ------------------------------------------------------------------------------------


def sinusoids(num_positions: int, width: int, scale: float = 0.1) -> Tensor:
    """The start values of the position embeddings, (P, H), which are trained afterwards.

    Vaswani et al. 2017, section 3.5, times `scale`.
    """
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)  # (H / 2,)
    angles = torch.arange(num_positions).unsqueeze(1) * frequencies  # (P, H / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1) * scale  # (P, H)


def fresh_encoder(config: BertConfig) -> BertModel:
    """An encoder with random weights, but sinusoids as positions.

    So neighbours have similar position embeddings before any training.
    """
    encoder = BertModel(config)
    positions = encoder.embeddings.position.weight
    positions.data.copy_(sinusoids(*positions.shape))
    return encoder


def build_model(
    options: PlainTextOptions, tokenizer: BertTokenizer, device: torch.device
) -> BertForMaskedLM:
    """The model of --size or --init, without dropout: each pass over the text masks it anew."""
    overrides: dict[str, Any] = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # torch's fused kernel has a slow backward pass on CPU.
        "attention_implementation": "fused" if device.type == "cuda" else "eager",
    }
    torch.manual_seed(options.seed)
    if options.has_init:
        model = BertForMaskedLM.from_pretrained(options.init, **overrides)
    else:
        overrides["vocab_size"] = max(tokenizer.vocabulary.values()) + 1
        overrides["pad_token_id"] = tokenizer.pad_token_id
        config = replace(SIZES[options.named_size], **overrides)
        model = BertForMaskedLM(fresh_encoder(config))
    runtime.compile_layers(model.to(device).bert, options.compile)
    return model


# --- the job --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainTextTraining:
    """The parts of the job, and the functions that the loop calls."""

    options: PlainTextOptions
    model: BertForMaskedLM
    masking: Masking
    sep_token_id: int
    packed: PackedText
    rounds: Rounds
    precision: str

    def plan(self, epoch: int, generator: torch.Generator) -> list[Step]:
        """The batches of one round. They depend on the seed alone, not on the generator."""
        return plan_steps(
            len(self.packed.train),
            self.options.batch_size,
            self.rounds.num_batches,
            epoch,
            self.options.seed,
        )

    def load(self, task: str, rows: list[int]) -> MaskedRows:
        """The training sequences with these numbers, under masks that are drawn anew.

        Some of them are pairs where --pairs asks for them.
        """
        sequences = as_ids(self.packed.train[rows])  # (B, T)
        release_pages(self.packed.train)
        paired, token_type_ids = pair_up(sequences, self.options.pairs, self.sep_token_id)
        input_ids, labels = self.masking(paired)
        return MaskedRows(input_ids, labels, token_type_ids, None, tuple(map(str, rows)))

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy at the masked tokens of the held-out sequences."""
        return processes.from_first(
            lambda: self.model.score(self.held_out_batches(), self.masking, self.precision)
        )

    def held_out_batches(self) -> Iterator[tuple[Tensor]]:
        """The held-out sequences as `BertForMaskedLM.score` takes them."""
        held_out = self.packed.held_out
        for start in range(0, len(held_out), EVALUATION_BATCH):
            yield (as_ids(held_out[start : start + EVALUATION_BATCH]),)


def as_ids(sequences: np.ndarray) -> Tensor:
    """Packed sequences as token ids, int64."""
    return torch.from_numpy(sequences.astype(np.int64))


def build_job(
    run: PlainTextRun, tokenizer: BertTokenizer, train: np.ndarray, held_out: np.ndarray
) -> Job:
    """Masked language modelling on packed sequences, (N, T) each, as a Job."""
    options = run.options
    device, _ = runtime.choose_device(options.device)
    precision, _ = runtime.choose_precision(options.precision, device)
    model = build_model(options, tokenizer, device)
    masking = Masking.of(tokenizer, options.whole_word)
    rounds = plan_rounds(options)
    training = PlainTextTraining(
        options,
        model,
        masking,
        tokenizer.sep_token_id,
        PackedText(train, held_out),
        rounds,
        precision,
    )
    num_tokens = rounds.number * rounds.num_batches * options.batch_tokens
    start = options.init if options.has_init else options.named_size
    title = f"{start}, {num_tokens:,} tokens, seed {options.seed}"
    parameters = parameter_groups(model, WEIGHT_DECAY)
    return Job(
        name="mlm",
        folder=run.folder / "checkpoint",
        model=model,
        optimizer=AdamW(parameters, lr=options.lr, betas=BETAS, fused=True),
        plan=training.plan,
        load=training.load,
        loss=lambda task, batch: model.loss_of(batch),
        size=num_chosen,
        evaluate=training.evaluate,
        score="-held_out_loss",
        epochs=rounds.number,
        device=device,
        precision=precision,
        seed=options.seed,
        warmup=options.warmup,
        accumulation=options.accumulation,
        save_every=SAVE_EVERY,
        evaluation_tokens=held_out.size,
        on_evaluation=Curves(run.folder, options.batch_tokens * options.accumulation, title),
    )


def plan_rounds(options: PlainTextOptions) -> Rounds:
    """At most MAX_EVALUATIONS rounds that see at least --tokens.

    A round has a multiple of --accumulation batches.
    """
    num_updates = divide_up(options.tokens, options.batch_tokens * options.accumulation)
    updates_in_round = divide_up(num_updates, MAX_EVALUATIONS)
    num_rounds = divide_up(num_updates, updates_in_round)
    return Rounds(num_rounds, updates_in_round * options.accumulation)


def divide_up(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


# --- the text -------------------------------------------------------------------------------------


def read_corpus(run: PlainTextRun) -> Corpus:
    """The tokenizer (trained, or that of a folder), and the packed sequences of the text.

    ValueError where the text is too short, or the sequences too long for the model.
    """
    options = run.options
    runtime.choose_device(options.device)  # refuses a missing device before any work
    if options.has_init:
        config = BertForMaskedLM.from_pretrained(options.init).bert.config
    else:
        config = SIZES[options.named_size]
    if options.block_size > config.num_positions:
        raise ValueError(
            f"--block-size is {options.block_size}; this model has "
            f"{config.num_positions} positions. Pass at most that."
        )
    for path in run.corpus:
        if next(read_lines([path]), None) is None:
            terminal.say(f"{path}: an empty file; there is no text in it")

    terminal.doing("making the vocabulary")
    tokenizer = choose_tokenizer(run, config.vocab_size)
    if options.pairs and not tokenizer.has_segments:
        raise ValueError(
            f"--pairs is {options.pairs}; pairs have two segments, and this vocabulary's tokenizer "
            "has none, as RoBERTa's. Drop --pairs."
        )
    terminal.doing("tokenizing the text and packing it into sequences")
    train, held_out = pack_once(run, tokenizer)
    if len(train) < options.batch_size or len(held_out) == 0:
        raise ValueError(
            f"the corpus makes {len(train)} training and {len(held_out)} held-out sequences of "
            f"{options.block_size} tokens; needed are {options.batch_size} and 1. Give more text, "
            "or a smaller --batch-size or --block-size."
        )
    num_unknown = sum(int((piece == tokenizer.unk_token_id).sum()) for piece in pieces_of(train))
    share = num_unknown / train.size
    if share > MOSTLY_UNKNOWN:
        terminal.say(
            f"warning: {share:.0%} of all tokens of the corpus are {tokenizer.unk_token}, words "
            "that the vocabulary cannot spell. Use a vocabulary of this language and script."
        )
    # Always the same ones, whatever the seed of the run, so that runs can be compared.
    order = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(0))
    return Corpus(tokenizer, train, held_out[order[:MAX_HELD_OUT].numpy()])


def pack_once(run: PlainTextRun, tokenizer: BertTokenizer) -> PackedText:
    """The packed sequences of the text, in files beside the run's folder.

    Of several processes the first one of a machine packs them. All map its files into memory.
    """
    folder = run.folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    with OpenFiles(folder) as place:
        length = run.options.block_size
        files = processes.from_first_here(
            lambda: split_and_pack(list(run.corpus), tokenizer, length, place)
        )
        packed = PackedText(*[file.map() for file in files])
        processes.wait()  # the files are removed when all have mapped them
    return packed


def pieces_of(sequences: np.ndarray) -> Iterator[np.ndarray]:
    """The sequences (N, T) in pieces of up to PIECE, of which one is in memory at a time."""
    for start in range(0, len(sequences), PIECE):
        yield sequences[start : start + PIECE]
        release_pages(sequences)


def choose_tokenizer(run: PlainTextRun, vocab_size: int) -> BertTokenizer:
    """The tokenizer that a run began with, that of --init or --vocabulary, or a new one.

    Of several processes the first one trains it: two trainings may differ in a few pieces.
    """
    options = run.options
    if run.is_resumed:
        return BertTokenizer.from_pretrained(run.folder)
    if options.has_init:
        return BertTokenizer.from_pretrained(options.init)
    if options.has_vocabulary:
        return BertTokenizer.from_pretrained(options.vocabulary)
    lines = read_lines(list(run.corpus))
    return processes.from_first(lambda: train_tokenizer(lines, vocab_size))


# --- the run --------------------------------------------------------------------------------------


def pretrain(run: PlainTextRun) -> None:
    """Train and write the folder, unless it is finished. ValueError for what cannot be used."""
    if run_folder.is_finished(run.folder):
        return
    train(run)
    processes.end()


def train(run: PlainTextRun) -> None:
    """Train and write the folder; raises ValueError for what cannot be used."""
    processes.join(run.options.device)
    check_command(run)
    terminal.title("Text", "reading the text")
    corpus = read_corpus(run)
    runtime.settle_memory()
    terminal.doing("building the model")
    job = build_job(run, *corpus)
    describe(run.options, job, corpus)
    # The ids depend on the text, the vocabulary and the length, and on nothing else.
    files = {"the corpus": digest_of_ids(corpus)}
    if processes.count() > 1:
        facts = {"packed text": files["the corpus"], "model": digest_of_weights(job.model)}
        processes.check_agreement(facts)
    terminal.title("Cost estimate", "planning the steps")
    estimates = cost_estimate.estimate([job], run.folder, run.is_resumed)
    terminal.table(cost_estimate.table(estimates))
    if missing_libraries():
        terminal.say(missing_libraries())

    options = stored_options(run, job)
    save_tokenizer = corpus.tokenizer.save_pretrained
    run_folder.claim(run.folder, options, files, run.is_resumed, save_tokenizer)
    cost_estimate.write_estimates(estimates, run.folder)

    terminal.title("Training")
    job.on_step = StepLog(run.folder).write
    progress = fit(job, run.is_resumed)
    num_processes = processes.count()
    processes.leave()  # the first process goes on alone

    terminal.title("Results", "measuring the speed of this machine")
    save_model(run, job)
    actual = {
        "seconds": progress.seconds,
        "peak_memory": cost_estimate.peak_memory(job.device),
    }
    results = measure(run.options, job, progress, num_processes)
    record = run_folder.make_record(
        options,
        files,
        history=progress.history,
        **results,
        predicted=[asdict(item) for item in estimates],
        actual=actual,
    )
    terminal.say(cost_estimate.comparison(estimates, **actual), f"written to {run.folder}")
    for page, write in PAGES.items():
        with only_warn(f"the {page}"):
            terminal.say(f"{page}: {write(run, record)}")
    # The last file: a run that was killed before is resumed, and writes the pages again.
    run_folder.write_record(run.folder, record)


def check_command(run: PlainTextRun) -> None:
    """ValueError in all processes where their flags or their texts differ."""
    flags = {f"--{name}": value for name, value in flat(run.options).items()}
    processes.check_agreement({"--resume": run.is_resumed, **flags})
    # Of one machine only the first process packs the text, but all must have the same.
    if processes.count() > 1:
        digests = [digest_of_file(path) for path in run.corpus]
        processes.check_agreement({"corpus": " ".join(digests)})


def digest_of_ids(corpus: Corpus) -> str:
    """SHA-256 of all token ids, those for training first."""
    digest = hashlib.sha256()
    for piece in itertools.chain(pieces_of(corpus.train), [corpus.held_out]):
        digest.update(piece.tobytes())
    return digest.hexdigest()


def digest_of_weights(model: torch.nn.Module) -> str:
    """SHA-256 of all weights of a model."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def describe(options: PlainTextOptions, job: Job, corpus: Corpus) -> None:
    """Print the device, the precision, the formulas, and the sizes of vocabulary, model, text."""
    device, device_reason = runtime.choose_device(options.device)
    precision, precision_reason = runtime.choose_precision(options.precision, job.device)
    terminal.facts(
        [
            Fact("device", device.type, device_reason),
            Fact("precision", precision, precision_reason),
            Fact("formulas", *fast.choose(options.formulas)),
        ]
    )
    num_parameters = 0
    for name, parameter in job.model.named_parameters():
        if "pooler" not in name:  # no objective here trains it
            num_parameters += parameter.numel()
    warning = FEW if len(corpus.held_out) < FEW_HELD_OUT else ""
    terminal.say(
        f"vocabulary of {len(corpus.tokenizer.vocabulary):,}; {num_parameters:,} parameters; "
        f"{len(corpus.train):,} training sequences of {options.block_size} tokens, "
        f"{len(corpus.held_out):,} held out{warning}"
    )


def stored_options(run: PlainTextRun, job: Job) -> dict[str, Any]:
    """The options as options.json and run.json hold them, with what "auto" became."""
    options = run.options
    return {
        **flat(options),
        "size": options.size if options.has_init else options.named_size,
        "device": job.device.type,
        "precision": job.precision,
        "formulas": "fast" if fast.is_on() else "readable",
        "corpus": [str(path.absolute()) for path in run.corpus],
        "out": str(run.folder),
        "resume": None,
    }


def save_model(run: PlainTextRun, job: Job) -> None:
    """Write the model in half precision. Its config.json has BERT's own dropout."""
    model: Any = job.model
    dropout = {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
    model.bert.config = replace(model.bert.config, **dropout)
    model.save_pretrained(run.folder, dtype=torch.float16)


def measure(
    options: PlainTextOptions, job: Job, progress: Progress, num_processes: int
) -> dict[str, Any]:
    """Print the speed and the best scores of the run; returns the numbers for run.json.

    The limit of N processes is N times that of one. Limit and share are None where the precision is
    emulated: to measure it would take minutes, and it is no limit of the machine.
    """
    model: Any = job.model
    num_tokens = progress.step * options.accumulation * options.batch_tokens
    per_second = num_tokens / progress.seconds
    # For each token, without the embeddings: 2 forward and 4 backward for each weight.
    num_weights = sum(parameter.numel() for parameter in model.bert.layers.parameters())
    flops = 6 * num_weights
    limit = None
    share = None
    of_limit = (
        f".\nThe limit of this machine in {job.precision} is not measured: {runtime.NO_BF16}."
    )
    if runtime.is_native(job.precision, job.device):
        limit = num_processes * cost_estimate.matrix_product_limit(job.device, job.precision)
        share = flops * per_second / limit
        of_limit = (
            f", {share:.0%} of the {limit / 1e9:,.0f} that this machine reaches in {job.precision} "
            "matrix products"
        )
    best = next(entry for entry in progress.history if entry["step"] == progress.best_step)
    terminal.say(
        f"{num_tokens:,} tokens in {progress.seconds / 60:.1f} minutes, {per_second:,.0f} "
        f"tokens/s; that is {flops * per_second / 1e9:,.0f} GFLOP/s{of_limit}",
        f"held-out loss {best['held_out_loss']:.3f} nats, masked accuracy "
        f"{best['masked_accuracy']:.3f}",
    )
    return {
        "tokens": num_tokens,
        "seconds": progress.seconds,
        "tokens_per_second": per_second,
        "flops_per_token": flops,
        "matrix_product_limit": limit,
        "share_of_limit": share,
        "best": best,
    }
