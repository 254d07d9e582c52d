"""Command: is a damaged file noticed before it is used?

`python -m benchmarks.bit_flips` writes each kind of file that a run reads again, turns over one
random bit of it, and reads it as the run does. A flip counts as noticed where the reader refuses
the file, and as without effect where it returns what it returned before. Everything else is silent
damage, and the command then ends with code 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

from data import token_cache
from minbert import BertConfig, BertModel
from minbert.commands.ending import exit_code
from minbert.commands.files import digest_of_file, read_json, write_json, write_tensors
from minbert.commands.flags import Parser
from minbert.reporting.tables import score_table
from minbert.training.checkpoint import STATE_FILE, load_checkpoint, save_checkpoint
from minbert.training.stage import STAGE_FILE, check_files

NUM_FLIPS = 200


class Kind(NamedTuple):
    """A kind of file, and how a run reads it.

    read: returns what the run would use, or None where the file is not used. It may raise
    ValueError.
    """

    name: str
    path: Path
    read: Callable[[], Any]


class Counts(NamedTuple):
    """What became of the flips in one file."""

    noticed: int
    without_effect: int
    silent: int


def try_flips(kind: Kind, num_flips: int, seed: int) -> Counts:
    """Turn over one random bit of the file at a time. The file is whole again afterwards."""
    content = kind.path.read_bytes()
    expected = kind.read()
    rng = random.Random(seed)
    noticed = without_effect = 0
    try:
        for _ in range(num_flips):
            damaged = bytearray(content)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            kind.path.write_bytes(damaged)
            try:
                result = kind.read()
            except ValueError:
                result = None
            if result is None:
                noticed += 1
            elif agrees(result, expected):
                without_effect += 1
    finally:
        kind.path.write_bytes(content)
    return Counts(noticed, without_effect, num_flips - noticed - without_effect)


def agrees(value: Any, expected: Any) -> bool:
    """Whether a value holds every bit of what is expected.

    A dictionary may have further keys, which no reader asks for.
    """
    if isinstance(expected, torch.Tensor):
        return isinstance(value, torch.Tensor) and agrees(value.numpy(), expected.numpy())
    if isinstance(expected, numpy.ndarray):
        is_alike = value.dtype == expected.dtype and value.shape == expected.shape
        return is_alike and value.tobytes() == expected.tobytes()
    if isinstance(expected, dict):
        return all(name in value and agrees(value[name], expected[name]) for name in expected)
    if isinstance(expected, list | tuple):
        if len(value) != len(expected):
            return False
        return all(agrees(one, other) for one, other in zip(value, expected, strict=True))
    return value == expected


def make_kinds(folder: Path) -> list[Kind]:
    """Write a small file of each kind into a folder."""
    return [*make_checkpoint(folder / "checkpoint"), *make_encoder(folder / "encoder")] + [
        make_options(folder / "options.json"),
        make_cache(folder / "cache.npz"),
    ]


def make_checkpoint(folder: Path) -> list[Kind]:
    """A checkpoint: the tensors of a step, the best model so far, and the state."""
    generator = torch.Generator().manual_seed(0)
    weights = {"model.weight": torch.randn(8, 16, generator=generator)}
    best = "best-00000002.safetensors"
    digests = {best: write_tensors(folder / best, weights)}
    state = {"step": 3, "keep": [best], "digests": digests, "history": [{"score": 0.25}]}
    save_checkpoint(folder, weights, state)
    names = {"checkpoint": "step-00000003.safetensors", "best model": best, "state": STATE_FILE}
    return [
        Kind(name, folder / file_name, lambda: load_checkpoint(folder))
        for name, file_name in names.items()
    ]


def make_encoder(folder: Path) -> list[Kind]:
    """The encoder of a finished stage, and its record."""
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )
    BertModel(config).save_pretrained(folder)
    digests = {path.name: digest_of_file(path) for path in folder.iterdir()}
    content = {"fingerprint": "f", "code": "c", "seconds": 1.5, "files": digests}
    write_json(folder / STAGE_FILE, content, has_checksum=True)

    def read() -> Any:
        stored = read_json(folder / STAGE_FILE)
        check_files(folder, stored)
        return [stored, BertModel.from_pretrained(folder).state_dict()]

    names = ["model.safetensors", "config.json", STAGE_FILE]
    return [Kind(f"encoder, {name}", folder / name, read) for name in names]


def make_options(path: Path) -> Kind:
    """The options of a run."""
    content = {"options": {"lr": 0.001, "epochs": 3, "head": "mlp"}, "files": {"a.csv": "0" * 64}}
    write_json(path, content, has_checksum=True)
    return Kind("options", path, lambda: read_json(path))


def make_cache(path: Path) -> Kind:
    """Token ids that are kept from run to run."""
    tokens = numpy.arange(120, dtype=numpy.int32).reshape(2, 60)
    rows = token_cache.TokenRows(tokens, numpy.full(6, 10, numpy.int32), 1)
    token_cache.write(path, rows)

    def read() -> Any:
        stored = token_cache.read(path)
        return None if stored is None else vars(stored)

    return Kind("token cache", path, read)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m benchmarks.bit_flips",
        allow_abbrev=False,
        description="Turn over single bits of files that a run reads again.",
    )
    parser.add_argument(
        "--flips", type=int, default=NUM_FLIPS, metavar="N", help="of each file (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all flips (%(default)s)")
    return parser


@exit_code("python -m benchmarks.bit_flips")
def main(argv: Sequence[str] | None = None) -> int:
    """Try all kinds and print a table. Exit code 1 where damage was silent."""
    arguments = build_parser().parse_args(argv)
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in make_kinds(Path(folder)):
            counts = try_flips(kind, arguments.flips, arguments.seed)
            table[kind.name] = {name: float(value) for name, value in counts._asdict().items()}
    headings = {name: name.replace("_", " ") for name in Counts._fields}
    print(score_table("flips", headings, table))
    return 1 if any(row["silent"] for row in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
