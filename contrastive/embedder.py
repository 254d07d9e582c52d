"""A model that turns sentences into vectors, and the search for the nearest ones. Before: embed.py, the command.

N vectors, Q queries, K neighbours, C queries of a chunk, H hidden. Next: quality.py, whose `embed` does the encoding.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.readers import Example
from minbert import BertConfig, BertModel, BertTokenizer, weights
from minbert.commands.files import write_atomically
from minbert.pooling import check_pooling, stored_pooling
from minbert.training import runtime

GRID = (
    2.0**30
)  # cosines are rounded to 1 / GRID, more coarsely than by float64, so that equal vectors tie
MAX_CELLS = 2**22  # cosines at once: 32 MiB in float64


@dataclass(frozen=True)
class Embedder:
    """An encoder in evaluation mode and how to ask it for vectors; `open_embedder` makes one."""

    encoder: BertModel
    tokenizer: BertTokenizer
    pooling: str
    precision: str
    batch_size: int
    max_length: int

    def encode(
        self, sentences: Sequence[str], progress: Callable = iter, name: str = "sentence {}"
    ) -> tuple[Tensor, int]:
        """Vectors (N, H) float32 on the CPU, in the order of the sentences, and how many sentences were cut.

        progress: is given the batches and yields them, as tqdm does. name: of a sentence in an error, {} its number.
        Raises ValueError for a sentence that the model reads nothing of, and for vectors that are not finite.
        """
        if isinstance(sentences, str):
            raise ValueError(
                "sentences is one string, which would be read letter by letter; give a list of strings."
            )
        examples = [
            Example(str(row), sentence, None, None) for row, sentence in enumerate(sentences)
        ]
        rows = EncodedExamples(examples, self.tokenizer, self.max_length)
        empty = next(
            (row for row, length in enumerate(rows.lengths) if length <= 2), None
        )  # [CLS] and [SEP] alone
        if empty is not None:
            raise ValueError(
                f"{name.format(empty + 1)} ({sentences[empty]!r}) holds nothing that the model reads; its "
                "vector would be that of nothing. Give another, or leave it out."
            )
        vectors = embed(
            self.encoder, rows, self.pooling, self.precision, self.batch_size, progress
        )  # (N, H)
        if not vectors.isfinite().all():
            raise ValueError(
                "the model gives vectors with numbers that are not finite; its weights are damaged. Use "
                "another model."
            )
        return vectors, rows.num_truncated


def open_embedder(
    model: str | Path,
    pooling: str = "auto",
    max_length: int = 128,
    batch_size: int = 64,
    device: str = "auto",
    precision: str = "fp32",
    is_bound: bool = True,
) -> tuple[Embedder, list[str]]:
    """The embedder, and a line on each choice with its reason. Arguments as the flags.

    is_bound: another pooling than the one the model was trained for is refused. Raises ValueError for that, for a model
    that is not found or cannot be read, a pooler without weights, a length beyond its positions, a device that is not
    there.
    """
    folder = weights.resolve(model)
    chosen_device, device_reason = runtime.choose_device(device)
    precision, precision_reason = runtime.choose_precision(precision, chosen_device)
    stored = stored_pooling(folder)
    pooling = (stored or "mean") if pooling == "auto" else pooling
    reason = (
        f"the model was trained for {'it' if stored == pooling else stored}"
        if stored
        else "its folder notes none"
    )
    if is_bound:
        check_pooling(folder, pooling)
    limit = BertConfig.from_pretrained(folder).max_position_embeddings
    if max_length > limit:
        raise ValueError(
            f"--max-length is {max_length}; {model} has {limit} positions. Pass at most that."
        )
    encoder = BertModel.from_pretrained(folder, attention_implementation="fused").to(chosen_device)
    if pooling == "pooler" and encoder.load_report.missing:
        raise ValueError(
            f"--pooling is pooler; {model} holds no weights for it ({encoder.load_report.missing[0]} is "
            "missing), and random ones would be noise. Pass --pooling mean or cls."
        )
    notes = [
        str(encoder.load_report),
        f"pooling: {pooling} ({reason})",
        f"device: {chosen_device} ({device_reason})",
        f"precision: {precision} ({precision_reason})",
    ]
    return Embedder(
        encoder, BertTokenizer.from_pretrained(folder), pooling, precision, batch_size, max_length
    ), notes


def nearest(
    vectors: Tensor,
    num_neighbours: int,
    queries: Tensor | None = None,
    max_cells: int = MAX_CELLS,
    progress: Callable = iter,
) -> tuple[Tensor, Tensor]:
    """The rows of `vectors` with the highest cosine to each query; without queries to each other, never to itself.

    vectors (N, H), finite; queries (Q, H). Returns cosines (Q, K) float32 in [-1, 1] and rows (Q, K) int64, the highest
    first, and of equal ones the lower row first. max_cells: cosines held at once; it bounds the memory and changes no
    result. progress: is given the chunks and yields them, as tqdm does. Raises ValueError where K is not 1 to N, or
    without queries to N - 1. Compare with sentence_transformers.util.semantic_search, which leaves ties in any order.

    In float64: in float32 the cosines of two equal vectors may differ in the last bit, depending on their places in
    the matrix product, and the size of a chunk would decide on their order.
    """
    num_rows = len(vectors)
    most = num_rows - (queries is None)
    if not 1 <= num_neighbours <= most:
        raise ValueError(
            f"{num_neighbours} neighbours are asked for; there are {most}. Ask for 1 to {most}."
        )
    unit = F.normalize(vectors.double(), dim=-1)  # (N, H)
    asked = unit if queries is None else F.normalize(queries.double(), dim=-1)  # (Q, H)
    descending = (
        num_rows - 1 - torch.arange(num_rows)
    )  # (N,): of equal cosines the lower row gets the higher key
    found: list[tuple[Tensor, Tensor]] = []
    for chunk in progress(torch.arange(len(asked)).split(max(1, max_cells // num_rows))):
        cosines = asked[chunk] @ unit.T  # (C, N)
        if queries is None:
            cosines[torch.arange(len(chunk)), chunk] = -2.0  # itself: below every cosine
        keys = (
            cosines * GRID
        ).round().long() * num_rows + descending  # (C, N), all different within a row
        rows = num_rows - 1 - keys.topk(num_neighbours).values % num_rows  # (C, K)
        found.append((cosines.gather(1, rows).clamp(-1, 1).float(), rows))
    return torch.cat([cosines for cosines, _ in found]), torch.cat([rows for _, rows in found])


def write_vectors(path: Path | None, vectors: Tensor, is_normalised: bool) -> None:
    """Write (N, H) float32 as .npy, atomically, or for None to standard output; is_normalised: rows of length 1."""
    stream = (
        io.BytesIO()
    )  # a pipe has no position, which np.save asks for, and a path without .npy would get one
    np.save(stream, (F.normalize(vectors, dim=-1) if is_normalised else vectors).numpy())
    if path is None:
        sys.stdout.buffer.write(stream.getbuffer())
    else:
        write_atomically(
            path.resolve(), lambda beside: beside.write_bytes(stream.getbuffer())
        )  # a link's own file
