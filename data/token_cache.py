"""Texts -> token ids in flat arrays, made once per run or once for many runs.

R rows, N tokens of all rows together. Next: batching.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Protocol
from zipfile import BadZipFile

import numpy

# Rows that are tokenized at once. Python lists of all ids take ten times the memory of the arrays.
CHUNK = 8192

# What numpy may raise where a file or the header of an array is damaged.
DAMAGES = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    RuntimeError,
    MemoryError,
    NotImplementedError,
    BadZipFile,
    zlib.error,
    SyntaxError,
    TokenError,
)

# A maximum length that cuts no row.
NO_LIMIT = 1_000_000


class Tokenizer(Protocol):
    """What this package needs of a tokenizer. minbert.BertTokenizer offers it."""

    @property
    def pad_token_id(self) -> int:
        """The id that fills a row up to the length of its batch."""

    @property
    def unk_token_id(self) -> int:
        """The id of words that the vocabulary cannot spell."""

    @property
    def unk_token(self) -> str:
        """The name of that token, such as [UNK]."""

    @property
    def has_segments(self) -> bool:
        """Whether the encoder reads which sentence of a pair a token belongs to."""

    @property
    def cache(self) -> Path | None:
        """The folder that keeps token ids from run to run, or None."""

    @property
    def fingerprint(self) -> str:
        """A text that differs between tokenizers that may give different ids."""

    def encode(
        self,
        sentences: Sequence[str],
        second_sentences: Sequence[str] | None = None,
        max_length: int = 128,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return token ids and sentence ids, 0 or 1, of each row, without padding."""


@dataclass(frozen=True)
class TokenRows:
    """Token ids of R rows, one after the other, without padding.

    tokens: (2, N) int32, input_ids and sentence_ids.
    lengths: (R,) int32.
    num_truncated: rows that were longer than the maximum length.
    """

    tokens: numpy.ndarray
    lengths: numpy.ndarray
    num_truncated: int


def tokenize(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> TokenRows:
    """Return the token ids of R single sentences (second is None) or R pairs.

    max_length: tokens of a row at most, with [CLS] and [SEP].
    """
    chunks = []
    lengths: list[int] = []
    for start in range(0, len(first), CHUNK):
        rows = range(start, min(start + CHUNK, len(first)))
        input_ids, sentence_ids = encode_rows(tokenizer, first, second, rows, max_length)
        tokens = [flatten(input_ids), flatten(sentence_ids)]
        chunks.append(numpy.array(tokens, numpy.int32))
        lengths += [len(row) for row in input_ids]

    # A row of max_length tokens may have been cut, or may just fit. Without a limit it shows.
    num_truncated = 0
    full = [row for row, length in enumerate(lengths) if length >= max_length]
    if full:
        input_ids, _ = encode_rows(tokenizer, first, second, full, NO_LIMIT)
        num_truncated = sum(len(row) > max_length for row in input_ids)

    return TokenRows(
        tokens=numpy.concatenate(chunks, axis=1),  # (2, N)
        lengths=numpy.array(lengths, numpy.int32),  # (R,)
        num_truncated=num_truncated,
    )


def encode_rows(
    tokenizer: Tokenizer,
    first: Sequence[str],
    second: Sequence[str] | None,
    rows: Sequence[int],
    max_length: int,
) -> tuple[list[list[int]], list[list[int]]]:
    """Return token ids and sentence ids of some of the rows."""
    chosen_first = [first[row] for row in rows]
    chosen_second = None if second is None else [second[row] for row in rows]
    return tokenizer.encode(chosen_first, chosen_second, max_length=max_length)


def flatten(rows: list[list[int]]) -> list[int]:
    """Return the numbers of all rows, one row after the other."""
    numbers: list[int] = []
    for row in rows:
        numbers += row
    return numbers


def tokenize_once(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> TokenRows:
    """Return what `tokenize` returns, from the folder `tokenizer.cache` where it has it.

    None as the folder: nothing is read or written. A file belongs to its texts, max_length and
    `tokenizer.fingerprint`. A damaged file is made again. One that cannot be written is no error.
    """
    if tokenizer.cache is None:
        return tokenize(tokenizer, first, second, max_length)

    path = tokenizer.cache / f"{fingerprint(tokenizer, first, second, max_length)}.npz"
    rows = read(path)
    if rows is None:
        rows = tokenize(tokenizer, first, second, max_length)
        with contextlib.suppress(OSError):
            write(path, rows)
    return rows


def fingerprint(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> str:
    """Return the SHA-256 of all that the token ids depend on, as hexadecimal digits."""
    settings = f"{tokenizer.fingerprint} {max_length} {len(first)} {second is None}"
    digest = hashlib.sha256(settings.encode())
    # With its length before it, a text cannot be mistaken for two texts.
    for text in (*first, *(second or ())):
        digest.update(f"{len(text)} {text}".encode())
    return digest.hexdigest()


def digest_of(path: Path, rows: TokenRows) -> str:
    """Return the SHA-256 of token ids, and of the name of their file without its folder.

    With the name, the ids of other texts are noticed, too.
    """
    digest = hashlib.sha256(f"{path.name} {rows.num_truncated} {rows.tokens.shape} ".encode())
    digest.update(numpy.ascontiguousarray(rows.tokens).data)
    digest.update(numpy.ascontiguousarray(rows.lengths).data)
    return digest.hexdigest()


def write(path: Path, rows: TokenRows) -> None:
    """Write the three fields and their digest to a zip file.

    The file is written beside its place and then renamed: a reader never finds half of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.npz")
    try:
        numpy.savez(beside, digest=digest_of(path, rows), **vars(rows))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path) -> TokenRows | None:
    """Return what `write` wrote, or None where there is no file or a damaged one.

    Files of older versions have no digest. They count as damaged.
    """
    try:
        with numpy.load(path, allow_pickle=False) as stored:
            rows = TokenRows(stored["tokens"], stored["lengths"], int(stored["num_truncated"]))
            digest = str(stored["digest"])
    except DAMAGES:
        return None
    has_types = rows.tokens.dtype == rows.lengths.dtype == numpy.int32
    return rows if has_types and digest == digest_of(path, rows) else None
