"""Vectors on disk: a .npy file that also says of which sentences and which model it was made.

The file holds two arrays, one behind the other. The first is the matrix of the vectors, which
numpy.load(path) reads. The second holds the record as JSON, in UTF-8.

N vectors, H size of a vector, P vectors that are computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.lib.format import MAGIC_PREFIX
from torch import Tensor

from contrastive.embed.shards import check_complete, shards_in
from contrastive.embedder import Embedder
from data.token_cache import DAMAGES
from minbert.commands.files import write_atomically
from minbert.commands.outputs import OVERWRITE

Record = dict[str, Any]

NUM_CHECKED = 8  # vectors without a record that are compared with vectors computed again
LEAST_COSINE = 0.99  # between the two: bf16 keeps cosines to about 0.002

# What a record and a command must share, and how a message names it. Precision may differ: it
# changes cosines by about 0.002.
SHARED = {
    "model": "another model",
    "modules": "other modules behind the encoder",
    "pooling": "--pooling {}",
    "max_length": "--max-length {}",
}


def digest_of(text: str) -> str:
    """64 bits of the SHA-256 of a sentence, as 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def record_of(sentences: Sequence[str], embedder: Embedder) -> Record:
    """The record of vectors: what decides them in the model, and a digest of each sentence."""
    identity = embedder.identity()
    record: Record = {name: identity[name] for name in SHARED}
    record["sentences"] = [digest_of(sentence) for sentence in sentences]
    return record


def write_vectors(
    path: Path | None, vectors: Tensor, is_normalised: bool, record: Record | None = None
) -> None:
    """Write vectors (N, H) as .npy, float32, with their record behind them.

    path: a file, which is written atomically, or None for standard output. is_normalised: bring
    each vector to length 1.
    """
    if is_normalised:
        vectors = F.normalize(vectors, dim=-1)
    array = vectors.numpy()
    # np.save asks for a position, which a pipe lacks, and adds .npy to a path without it.
    stream = io.BytesIO()
    np.save(stream, array)
    if record is not None:
        text = json.dumps({**record, "vectors": digest_of_array(array)})
        np.save(stream, np.frombuffer(text.encode(), dtype=np.uint8))
    content = stream.getvalue()
    if path is None:
        sys.stdout.buffer.write(content)
        return

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    write_atomically(path, write)


def digest_of_array(array: np.ndarray) -> str:
    """SHA-256 of the numbers of an array."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def read_vectors(path: Path, sentences: Sequence[str], embedder: Embedder) -> tuple[Tensor, str]:
    """Read the vectors (N, H) of N sentences that `write_vectors` has stored.

    Returns them, and how they were checked. Raises ValueError for vectors of another sentence or
    another model, pooling or length, and for a file that holds no such array.
    """
    array, record = load_parts(path) if path.is_dir() else load(path)  # (N, H)
    if len(array) != len(sentences):
        raise ValueError(
            f"--vectors is {path} with {len(array):,} rows, and there are {len(sentences):,} "
            "sentences; expected is a row for each. Store them again with --out."
        )
    vectors = torch.from_numpy(array.astype(np.float32))  # (N, H)
    if record is None:
        return vectors, compare_some(path, vectors, sentences, embedder)
    if record.get("vectors") != digest_of_array(array):
        raise ValueError(
            f"--vectors is {path}, whose numbers were changed after --out stored them. Store them "
            "again with --out."
        )
    check_record(path, record, record_of(sentences, embedder))
    return vectors, "its record names this model and these sentences"


def check_record(path: Path, record: Record, expected: Record) -> None:
    """Raise ValueError where a record is not the expected one. The message names the difference."""
    for name, wording in SHARED.items():
        stored = record.get(name)
        if stored != expected[name]:
            # A digest has no place in a message.
            is_flag = "{}" in wording
            asked = f"; this command has {wording.format(expected[name])}" if is_flag else ""
            raise ValueError(
                f"--vectors is {path}, which was made with {wording.format(stored)}{asked}. Pass "
                "the model and the flags that it was made with, or store the vectors again with "
                "--out."
            )
    digests = record.get("sentences")
    if not isinstance(digests, list) or len(digests) != len(expected["sentences"]):
        raise ValueError(
            f"--vectors is {path}, whose record has no digest of each sentence, so it is damaged. "
            "Store the vectors again with --out."
        )
    others = [row for row, digest in enumerate(expected["sentences"]) if digests[row] != digest]
    if others:
        raise ValueError(
            f"--vectors is {path}; its row {others[0]} was made of another sentence than sentence "
            f"{others[0] + 1} ({len(others):,} of {len(digests):,} rows differ). Pass the "
            "sentences that it was made of, or store the vectors again with --out."
        )


def compare_some(path: Path, vectors: Tensor, sentences: Sequence[str], embedder: Embedder) -> str:
    """Compare some vectors (N, H) without a record with those that the model gives.

    Returns a note that says how many. Raises ValueError where they differ.
    """
    # At most NUM_CHECKED rows, the first and the last among them.
    count = min(NUM_CHECKED, len(sentences))
    places = np.linspace(0, len(sentences) - 1, count).round().astype(int).tolist()
    again, _ = embedder.encode([sentences[place] for place in places])  # (P, H)
    width = again.size(1)
    if vectors.size(1) != width:
        raise ValueError(
            f"--vectors is {path} with {vectors.size(1)} numbers in a row; the model gives "
            f"{width}. Pass the model that they come from."
        )
    cosines = F.cosine_similarity(again, vectors[places], dim=-1)  # (P,)
    lowest = int(cosines.argmin())
    if cosines[lowest] < LEAST_COSINE:
        raise ValueError(
            f"--vectors is {path}; its row {places[lowest]} has a cosine of only "
            f"{cosines[lowest]:.2f} with sentence {places[lowest] + 1}. It was made of other "
            "sentences, or with another model, pooling or --max-length. Store them again with "
            "--out."
        )
    return (
        f"NOT ALL CHECKED: it has no record of its sentences, as --out writes it. {count} of its "
        f"{len(sentences):,} rows were compared with the model, and the others are taken as they "
        "are"
    )


def is_stored(path: Path, expected: Record, overwrite: bool) -> bool:
    """Whether the file of a shard holds its vectors already.

    expected: its record, but for the digest of the vectors. ValueError where the file holds other
    vectors, unless overwrite.
    """
    if overwrite or not path.exists():
        return False
    record: Record | None = None
    with suppress(ValueError):
        array, record = load(path)
    if record is None or record.get("vectors") != digest_of_array(array):
        raise ValueError(f"{path} is damaged. Pass {OVERWRITE} to compute this shard again.")
    others = [name for name in expected if record.get(name) != expected[name]]
    if others:
        raise ValueError(
            f"{path} holds the vectors of another call: its {', '.join(others)} differ. Pass "
            f"another folder as --out, or {OVERWRITE} to compute this shard again."
        )
    return True


def load_parts(folder: Path) -> tuple[np.ndarray, Record]:
    """The vectors (N, H) of all shards in a folder, and one record for them.

    Raises ValueError where a shard is missing or damaged, or where two are of different models.
    """
    arrays = []
    whole: Record = {}
    for path in check_complete(folder, shards_in(folder)):
        array, record = load(path)
        if record is None or record.get("vectors") != digest_of_array(array):
            raise ValueError(f"--vectors: {path} is damaged. Remove it, and compute it again.")
        sentences = [*whole.get("sentences", []), *record.get("sentences", [])]
        kind = {name: record.get(name) for name in (*SHARED, "precision", "normalised")}
        if whole and any(whole[name] != value for name, value in kind.items()):
            raise ValueError(
                f"--vectors: {path} was made with another model or other flags than the shards "
                "before it. Remove it, and compute it again."
            )
        arrays.append(array)
        whole = {**kind, "sentences": sentences}
    array = np.concatenate(arrays)
    return array, {**whole, "vectors": digest_of_array(array)}


def load(path: Path) -> tuple[np.ndarray, Record | None]:
    """The finite numbers (N, H) of a .npy file, and its record if it has one.

    Raises ValueError where there are none.
    """
    try:
        with path.open("rb") as stream:
            # numpy takes any other file for pickled objects, and advises to open it unsafely.
            if stream.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise ValueError("it does not begin as one")
            stream.seek(0)
            array = np.load(stream, allow_pickle=False)
            rest = stream.read() if isinstance(array, np.ndarray) else b""
        record = record_in(rest) if rest else None
    except (*DAMAGES, RecursionError) as error:
        raise ValueError(
            f"--vectors is {path}, which cannot be read as a .npy file ({error}). Pass the file "
            "that --out wrote."
        ) from None
    is_matrix = isinstance(array, np.ndarray) and array.ndim == 2
    if not is_matrix or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(
            f"--vectors is {path}, which holds no matrix of finite numbers. Pass the file that "
            "--out wrote."
        )
    return array, record


def record_in(content: bytes) -> Record:
    """The record in the second array of a file. Raises ValueError for anything else."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    record = json.loads(array.tobytes())
    if not isinstance(record, dict):
        raise ValueError("its second array is no record of --out")
    return record
