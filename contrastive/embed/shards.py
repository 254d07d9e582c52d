"""A shard: the part of the sentences that one call of the command embeds, and its file.

Sentences are sorted by length within blocks of BLOCK_SIZE, and a shard is a row of whole blocks. So
the batches of all shards together are those of one call without shards, and so are the vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

BLOCK_SIZE = 4096  # sentences that are sorted by length together

PART = re.compile(r"part-(\d+)-of-(\d+)\.npy")


class Shard(NamedTuple):
    """Shard `number` of `total`, counted from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    @property
    def file_name(self) -> str:
        """The name of its file. Sorted by name, the files of all shards are in order."""
        return f"part-{self.number:05d}-of-{self.total:05d}.npy"

    def rows(self, num_sentences: int) -> range:
        """The numbers of its sentences. ValueError where there are fewer blocks than shards."""
        num_blocks = -(-num_sentences // BLOCK_SIZE)
        if num_blocks < self.total:
            raise ValueError(
                f"--shard is {self}; {num_sentences:,} sentences make {num_blocks:,} blocks of "
                f"{BLOCK_SIZE:,}, and a shard holds whole blocks. Pass at most {num_blocks} shards."
            )
        first_block = (self.number - 1) * num_blocks // self.total
        end_block = self.number * num_blocks // self.total
        return range(first_block * BLOCK_SIZE, min(end_block * BLOCK_SIZE, num_sentences))


def parse_shard(text: str) -> Shard:
    """The shard that "2/8" names. ValueError for anything else."""
    match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(
            f"--shard is {text!r}; expected are two whole numbers I/N, and I from 1 to N. An "
            "example: 2/8 is the second of eight shards."
        )
    return Shard(int(match[1]), int(match[2]))


def shards_in(folder: Path) -> list[Shard]:
    """The shards whose files are in a folder, in their order."""
    shards = []
    for path in folder.iterdir():
        match = PART.fullmatch(path.name)
        if match:
            shards.append(Shard(int(match[1]), int(match[2])))
    return sorted(shards)


def check_complete(folder: Path, shards: Iterable[Shard]) -> list[Path]:
    """The files of all shards in their order. ValueError where one is missing."""
    shards = list(shards)
    totals = {shard.total for shard in shards}
    if len(totals) != 1:
        files = "files of different numbers of shards" if totals else "no file of a shard"
        raise ValueError(
            f"--vectors is {folder}, a folder with {files}. Pass a folder that --out and --shard "
            "have filled, or a .npy file."
        )
    total = totals.pop()
    missing = sorted(set(range(1, total + 1)) - {shard.number for shard in shards})
    if missing:
        raise ValueError(
            f"--vectors is {folder}, where {len(missing)} of {total} shards are missing. Compute "
            f"the first one with --shard {missing[0]}/{total} --out {folder}."
        )
    return [folder / shard.file_name for shard in shards]
