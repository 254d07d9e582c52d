"""Rows of text -> token ids in flat arrays, made once: in memory, and from run to run in a folder. Next: batching.py.

R rows, N tokens of all rows together.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy

CHUNK = 8192  # rows tokenized at once: Python lists of all ids would take ten times the memory of the arrays
NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class TokenRows:
    """Token ids of R rows, one after the other, without padding."""

    tokens: numpy.ndarray  # (2, N) int32: input_ids and token_type_ids
    lengths: numpy.ndarray  # (R,) int32
    num_truncated: int  # rows that max_length has cut


def tokenize(
    tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> TokenRows:
    """Token ids of single sentences (second is None) or pairs; `tokenizer.encode` as BertTokenizer has it."""

    def encode(rows: Sequence[int], limit: int) -> tuple[list[list[int]], list[list[int]]]:
        seconds = None if second is None else [second[row] for row in rows]
        return tokenizer.encode([first[row] for row in rows], seconds, max_length=limit)

    chunks, lengths = [], []
    for start in range(0, len(first), CHUNK):
        encoded = encode(range(start, min(start + CHUNK, len(first))), max_length)
        chunks.append(
            numpy.array([[token for row in kind for token in row] for kind in encoded], numpy.int32)
        )
        lengths += [len(row) for row in encoded[0]]
    # A full row may have been cut or may just fit; a second look without a limit tells.
    full = [row for row, length in enumerate(lengths) if length >= max_length]
    num_truncated = sum(len(row) > max_length for row in encode(full, NO_LIMIT)[0]) if full else 0
    return TokenRows(
        numpy.concatenate(chunks, axis=1), numpy.array(lengths, numpy.int32), num_truncated
    )


def tokenize_once(
    tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> TokenRows:
    """`tokenize`, or what an earlier run left of it in the folder `tokenizer.cache`; None: nothing is read or kept.

    A file is found by its texts, max_length and `tokenizer.fingerprint`. A damaged one is made anew, and one that
    cannot be written is no error.
    """
    if tokenizer.cache is None:
        return tokenize(tokenizer, first, second, max_length)
    path = tokenizer.cache / f"{fingerprint(tokenizer, first, second, max_length)}.npz"
    found = read(path)
    if found is None:
        found = tokenize(tokenizer, first, second, max_length)
        with contextlib.suppress(OSError):
            write(path, found)
    return found


def fingerprint(
    tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> str:
    """SHA-256 of all that the token ids depend on."""
    digest = hashlib.sha256(
        f"{tokenizer.fingerprint} {max_length} {len(first)} {second is None}".encode()
    )
    for text in (*first, *(second or ())):
        digest.update(f"{len(text)} {text}".encode())
    return digest.hexdigest()


def write(path: Path, rows: TokenRows) -> None:
    """The three fields by name, each with its checksum, as zip files have. Beside its place, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.npz")
    try:
        numpy.savez(beside, **vars(rows))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path) -> TokenRows | None:
    """What `write` wrote, or None where there is none of that, or a damaged one."""
    try:
        with numpy.load(path, allow_pickle=False) as stored:
            return TokenRows(stored["tokens"], stored["lengths"], int(stored["num_truncated"]))
    except (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, BadZipFile):
        return None
