"""A model that turns sentences into vectors, and the search for the nearest vectors.

N vectors, Q queries, K neighbours, C queries of a chunk, H hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.sentence_folder import SentenceFolder, read_sentence_folder, unused_parts
from contrastive.zero_shot import SHOW_PROGRESS, Batches, Progress, Read, encode, make_reader
from data.batching import EncodedExamples, sorted_batches
from data.examples import Example
from data.token_cache import Tokenizer, TokenRows, tokenize_once
from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.pooling import check_pooling, stored_pooling
from minbert.training import int8, processes, runtime
from minbert.training.stage import encoder_fingerprint

ChunkProgress = Callable[[Sequence[Tensor]], Iterable[Tensor]]  # yields the chunks

STEPS = 2.0**30  # cosines are rounded to 1 / STEPS, so that equal vectors tie in spite of rounding
MAX_CELLS = 2**22  # cosines in memory at once: 32 MiB in float64
NUM_SPECIAL_TOKENS = 2  # [CLS] and [SEP]
DEFAULT_LENGTH = 128  # tokens of a row, where neither the user nor the model says another number


# --- sentences to vectors -------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedder:
    """An encoder in evaluation mode, and how to ask it for vectors. `open_embedder` makes one."""

    encoder: BertModel
    tokenizer: BertTokenizer
    pooling: str
    precision: str
    batch_size: int
    max_length: int

    # The modules of a sentence-transformers folder that make the vectors, or None for `pooling`.
    modules: SentenceFolder | None = None

    # Sentences in a row that are sorted by length together, 0 for all.
    block_size: int = 0

    # Whether the processes of torchrun each tokenize a share of the sentences, and compute a share
    # of the batches. All of them must then ask for the same vectors, and all get them.
    shares_batches: bool = False

    # The encoder in int8 where the precision asks for it. `encoder` keeps the exact weights.
    quantised: BertModel | None = None

    @property
    def is_normalised(self) -> bool:
        """Whether its vectors have length 1, by a module of a sentence-transformers folder."""
        return self.modules is not None and "Normalize" in self.modules.step_names

    def identity(self) -> dict[str, str]:
        """All that decides which vectors it gives, by name. Models and modules are digests."""
        # Only the pooler may be missing in the files of a model. It is random then, and not used.
        report = self.encoder.load_report
        has_pooler = report is None or not report.missing
        return {
            "model": encoder_fingerprint(self.encoder, self.tokenizer, has_pooler),
            "pooling": self.pooling,
            "precision": self.precision,
            "max_length": str(self.max_length),
            "modules": "" if self.modules is None else self.modules.digest,
        }

    def encode(
        self,
        sentences: Sequence[str],
        progress: Progress = SHOW_PROGRESS,
        name: str = "sentence {}",
    ) -> tuple[Tensor, int]:
        """Vectors (N, H) float32 on the CPU, in the order of the sentences, and how many were cut.

        progress: receives the batches and yields them. name: of a sentence in an
        error, {} stands for its number.

        ValueError for one string in place of a list, for a sentence without any token, and for
        vectors that are not finite.
        """
        if isinstance(sentences, str):
            raise ValueError(
                "sentences is one string, which would be read letter by letter; pass a list of "
                "strings."
            )
        rows = self.rows_of(sentences, "" if self.modules is None else self.modules.prompt)
        for row, length in enumerate(rows.lengths):
            if length <= NUM_SPECIAL_TOKENS:
                raise ValueError(
                    f"{name.format(row + 1)} ({sentences[row]!r}) holds no token that the model "
                    "reads, so its vector would mean nothing. Change it, or leave it out."
                )

        warn_of_unknown(rows, "the sentences")
        return self.vectors_of(rows, progress), rows.num_truncated

    def rows_of(self, sentences: Sequence[str], prompt: str) -> EncodedExamples:
        """Turn sentences into token ids. prompt: put before each sentence."""
        examples = []
        for row, sentence in enumerate(sentences):
            examples.append(Example(str(row), prompt + sentence, None, None))
        tokenize = tokenize_together if self.shares_batches else tokenize_once
        return EncodedExamples(examples, self.tokenizer, self.max_length, tokenize=tokenize)

    def vectors_of(self, rows: EncodedExamples, progress: Progress = SHOW_PROGRESS) -> Tensor:
        """The vectors (N, H) of encoded rows. ValueError where they are not finite."""
        vectors = self._pooled(rows, progress)  # (N, H)
        if not vectors.isfinite().all():
            raise ValueError(
                "the model gives vectors with numbers that are not finite; its weights are "
                "damaged. Use another model."
            )
        return vectors

    def _pooled(self, rows: EncodedExamples, progress: Progress) -> Tensor:
        """The vectors (N, H) of encoded rows, by the modules where there are any."""
        # With "mean" every token is computed, as the modules may read any.
        read, pooling = make_reader(self.pooling), self.pooling
        if self.modules is not None:
            read, pooling = self.modules.read, "mean"

        batches = sorted_batches(rows.lengths, self.batch_size, self.block_size)
        if not self.shares_batches:
            return self._of_batches(rows, progress(batches), read, pooling)
        share = processes.share_out(batches)
        vectors = self._of_batches(rows, progress(share.batches), read, pooling)
        return processes.join_rows(share, vectors, len(rows))

    def _of_batches(
        self, rows: EncodedExamples, batches: Batches, read: Read, pooling: str
    ) -> Tensor:
        """The vectors of the rows of some batches, in the order of the rows."""
        encoder = self.quantised or self.encoder
        tensors = encode(encoder, rows, read, self.precision, batches, pooling=pooling)
        return tensors["vectors"]


def tokenize_together(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> TokenRows:
    """Return what `tokenize_once` returns. Each process of torchrun makes the ids of some rows.

    A row's ids do not depend on other rows, so they are those of one process.
    """
    num_processes = processes.count()
    if len(first) < num_processes:
        return tokenize_once(tokenizer, first, second, max_length)
    bounds = [len(first) * number // num_processes for number in range(num_processes + 1)]
    share = slice(bounds[processes.number()], bounds[processes.number() + 1])
    second_share = None if second is None else second[share]
    parts = processes.from_each(tokenize_once(tokenizer, first[share], second_share, max_length))
    return TokenRows(
        tokens=numpy.concatenate([part.tokens for part in parts], axis=1),  # (2, N)
        lengths=numpy.concatenate([part.lengths for part in parts]),  # (R,)
        num_truncated=sum(part.num_truncated for part in parts),
    )


def warn_of_unknown(rows: EncodedExamples, source: str) -> None:
    """Say on standard error that the model does not know most of a text. source: its name."""
    warning = rows.warn_of_unknown(source)
    if warning is not None:
        print(warning, file=sys.stderr)


def open_embedder(
    model: str | Path,
    pooling: str = "auto",
    max_length: int | None = None,
    batch_size: int = 64,
    device: str = "auto",
    precision: str = "fp32",
    is_bound: bool = True,
) -> tuple[Embedder, list[str]]:
    """Open a model to embed sentences with.

    Arguments as the flags of `python -m contrastive.embed`. is_bound: refuse another pooling than
    the one that the model was trained for. Without it, the encoder and the tokenizer are used by
    themselves, so the modules of a sentence-transformers folder must not matter.

    Returns the embedder, and a line on each choice with its reason. ValueError for a model that
    cannot be found or read, a pooling that it was not trained for, a pooler without weights, a
    length beyond its positions, and a device that is not there.
    """
    folder = hub.resolve(model)
    chosen_device, device_reason = runtime.choose_device(device)
    precision, precision_reason = runtime.choose_precision(precision, chosen_device)
    described = read_sentence_folder(folder)
    modules = choose_modules(folder, described, pooling, is_bound)
    notes_on_folder = [] if modules is None else notes_on_modules(modules)
    stored = stored_pooling(folder)
    if described is not None and stored is None:
        stored = described.pooling
        if modules is None:
            notes_on_folder = notes_on_unused_parts(folder)
    if modules is not None:
        folder = modules.encoder
    if pooling == "auto":
        pooling = stored or "mean"
    if is_bound:
        check_pooling(folder, pooling)
    asked_length = max_length or (None if described is None else described.max_length)
    length = choose_length(model, folder, asked_length)
    if length < DEFAULT_LENGTH and asked_length is None:
        notes_on_folder.append(f"max_length: {length} (the model has as many positions)")

    encoder = BertModel.from_pretrained(folder, attention_implementation="fused").to(chosen_device)
    if pooling == "pooler":
        check_pooler(model, encoder)
    report = encoder.load_report
    notes = [
        *([] if report is None else [report.describe(pooling)]),
        f"pooling: {pooling} ({reason_for_pooling(pooling, stored)})",
        f"device: {chosen_device} ({device_reason})",
        f"precision: {precision} ({precision_reason})",
    ]
    tokenizer = BertTokenizer.from_pretrained(folder)
    if modules is not None and modules.lowercases:
        tokenizer.lowercase_first()
    embedder = Embedder(encoder, tokenizer, pooling, precision, batch_size, length, modules)
    runtime.pack_for_good(encoder, precision)
    if precision == "int8":
        embedder = replace(embedder, quantised=int8.quantised(encoder, chosen_device))
    return embedder, notes + notes_on_folder


def choose_modules(
    folder: Path, modules: SentenceFolder | None, pooling: str, is_bound: bool
) -> SentenceFolder | None:
    """Take the modules of a sentence-transformers folder, or None where they are not used.

    An export of ours (with sentence.json) that has a pooler is read as the encoder with that
    pooler. ValueError for another pooling than that of the modules if is_bound, and where the
    modules matter and only the encoder would be used. Without is_bound, another pooling asks for
    the encoder alone.
    """
    stored = stored_pooling(folder)
    if modules is None or stored not in (None, modules.pooling):
        return None
    if pooling not in ("auto", modules.pooling):
        if is_bound and stored is None:
            raise ValueError(
                f"{folder}: its sentence-transformers modules make the sentence vector by the "
                f"pooling {modules.pooling}; asked for is --pooling {pooling}, for which it was "
                "not trained. Leave out --pooling. `python -m contrastive.quality` measures the "
                "encoder with any pooling."
            )
        return None
    if not is_bound and not modules.is_plain:
        raise ValueError(
            f"{folder}: its vectors are made by the pooling {modules.pooling}"
            f"{''.join(f', {name}' for name in modules.step_names)}"
            f"{', a prompt' if modules.prompt else ''}"
            f"{', truncate_dim' if modules.truncate_dim else ''}. Only the encoder's own vectors "
            "are measured here. Pass --pooling mean, cls or pooler to measure these."
        )
    return modules


def notes_on_modules(modules: SentenceFolder) -> list[str]:
    """A line on each thing that a sentence-transformers folder adds to its encoder."""
    notes = []
    if modules.step_names:
        notes.append(f"modules: {', '.join(modules.step_names)} after the pooling")
    if modules.prompt:
        notes.append(f"prompt: {modules.prompt!r} before each sentence")
    if modules.lowercases:
        notes.append("text: lower-cased first (sentence_bert_config.json)")
    if modules.truncate_dim:
        notes.append(f"vectors: cut to {modules.truncate_dim} units (truncate_dim)")
    return notes


def notes_on_unused_parts(folder: Path) -> list[str]:
    """A line on what is left out where the encoder of a sentence-transformers folder is alone."""
    parts = unused_parts(folder)
    return [f"left out of the vectors: {', '.join(parts)} ({folder})"] if parts else []


def reason_for_pooling(pooling: str, stored: str | None) -> str:
    """Why a sentence vector is used. stored: the one that the model's folder notes."""
    if stored is None:
        return "its folder notes none"
    return f"the model was trained for {'it' if stored == pooling else stored}"


def choose_length(model: str | Path, folder: Path, asked: int | None) -> int:
    """The most tokens of a row: what is asked for, or else 128 or all positions of the encoder.

    folder: of the encoder. ValueError where more is asked for than the model has positions.
    """
    num_positions = BertConfig.from_pretrained(folder).num_positions
    if asked is not None and asked > num_positions:
        raise ValueError(
            f"--max-length is {asked}; {model} has {num_positions} positions. Pass at most that."
        )
    return asked or min(num_positions, DEFAULT_LENGTH)


def check_pooler(model: str | Path, encoder: BertModel) -> None:
    """Raise ValueError where the model's files hold no weights for the pooler."""
    missing = encoder.load_report.missing if encoder.load_report else ()
    if missing:
        raise ValueError(
            f"--pooling is pooler; {model} holds no weights for it ({missing[0]} is missing). "
            "Random weights would give noise. Pass --pooling mean or cls."
        )


# --- the nearest vectors --------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """The nearest vectors to each of Q queries, the nearest first."""

    cosines: Tensor  # (Q, K) float32 in [-1, 1]
    rows: Tensor  # (Q, K) int64, places among the vectors


def nearest(
    vectors: Tensor,
    num_neighbours: int,
    queries: Tensor | None = None,
    max_cells: int = MAX_CELLS,
    progress: ChunkProgress = iter,
) -> Neighbours:
    """The vectors with the highest cosine to each query.

    Of equal cosines the lower row comes first.

    Arguments:
        vectors: (N, H), finite.
        num_neighbours: K, from 1 to N, without queries to N - 1.
        queries: (Q, H). Without them each vector is a query, and it is no neighbour of itself.
        max_cells: cosines in memory at once. It bounds the memory and changes no result.
        progress: receives the chunks and yields them.

    ValueError for a K out of range. Compare with sentence_transformers.util.semantic_search, which
    leaves ties in any order.

    It computes in float64. In float32 the cosines of two equal vectors may differ in the last bit,
    depending on their places in the matrix product. Then the size of a chunk would decide on their
    order.
    """
    num_rows = len(vectors)
    most = num_rows if queries is not None else num_rows - 1
    if not 1 <= num_neighbours <= most:
        raise ValueError(
            f"{num_neighbours} neighbours are asked for; there are {most}. Ask for 1 to {most}."
        )
    unit = F.normalize(vectors.double(), dim=-1)  # (N, H)
    asked = unit if queries is None else F.normalize(queries.double(), dim=-1)  # (Q, H)

    # One whole number for each cosine, all different within a row: the rounded cosine, and below it
    # the row, so that of equal cosines the lower row gets the higher key.
    descending = num_rows - 1 - torch.arange(num_rows)  # (N,)
    all_cosines = []
    all_rows = []
    for chunk in progress(torch.arange(len(asked)).split(max(1, max_cells // num_rows))):
        cosines = asked[chunk] @ unit.T  # (C, N)
        if queries is None:
            cosines[torch.arange(len(chunk)), chunk] = -2.0  # itself: below every cosine
        keys = (cosines * STEPS).round().long() * num_rows + descending  # (C, N)
        highest = keys.topk(num_neighbours).values  # (C, K)
        rows = num_rows - 1 - highest % num_rows  # (C, K)
        all_cosines.append(cosines.gather(1, rows).clamp(-1, 1).float())
        all_rows.append(rows)
    return Neighbours(torch.cat(all_cosines), torch.cat(all_rows))


class Pair(NamedTuple):
    """Two vectors with a high cosine."""

    first: int  # the lower row
    second: int
    cosine: float


def pairs_above(
    vectors: Tensor,
    threshold: float,
    max_cells: int = MAX_CELLS,
    progress: ChunkProgress = iter,
) -> Iterator[Pair]:
    """Yield all pairs of vectors with a cosine of at least `threshold`, in the order of their rows.

    vectors: (N, H), finite. threshold: -1 to 1. max_cells and progress as of `nearest`.

    It compares all pairs exactly, in float64. Cosines are rounded as in `nearest`, so that two
    equal vectors have 1. Compare with sentence_transformers.util.paraphrase_mining, which looks at
    the nearest ones of each sentence only.
    """
    num_rows = len(vectors)
    unit = F.normalize(vectors.double(), dim=-1)  # (N, H)
    limit = round(threshold * STEPS)
    for chunk in progress(torch.arange(num_rows).split(max(1, max_cells // num_rows))):
        start = int(chunk[0])
        cosines = unit[chunk] @ unit[start:].T  # (C, N - start)
        steps = (cosines * STEPS).round().long()  # (C, N - start)
        # Above the diagonal each pair stands once, and no vector with itself.
        is_high = (steps >= limit).triu(diagonal=1)  # (C, N - start)
        for place, other in is_high.nonzero().tolist():
            cosine = min(1.0, max(-1.0, float(cosines[place, other])))
            yield Pair(start + place, start + other, cosine)
