"""A row with its source, which split it is in, and the nine files."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

from data.examples import COURSE_FILES, SST, Format
from minbert.commands.files import write_text
from tools.sample.held_out import normal_form

SPLITS = ("train", "dev", "test")
NUM_LOOKED_AT = 1 << 13  # letters that tell whether a file is ours


class Source(Enum):
    """Where a row is from. The value is the beginning of the row's id."""

    FILMS = "f1"  # Pang and Lee
    PRODUCTS = "a1"  # Hu, Liu and Ding
    PROS_AND_CONS = "a2"  # Ganapathibhotla and Liu
    GRADED_WORDS = "c1"  # our templates with words of VADER's lexicon
    CONTROLLED = "c0"  # tools/sample/controlled.py
    NEAR_QUESTIONS = "d1"  # two questions, labelled by the teacher
    NEW_WORDING = "d2"  # a question and another wording of it
    OTHER_CONTENT = "d3"  # a question and one that asks something else in similar words
    ALIKE_QUESTIONS = "d4"  # two questions, with the teacher's cosine
    NEAR_SENTENCES = "e1"  # two everyday sentences, labelled by the teacher
    EDITED_SENTENCE = "e2"  # an everyday sentence and a small change of it
    NEAR_WIKIPEDIA = "b1"  # two sentences of Wikipedia, labelled by the teacher
    EDITED_WIKIPEDIA = "b2"  # a sentence of Wikipedia and a small change of it


class Row(NamedTuple):
    """The sentence or the two sentences of a row, its label, and where it is from."""

    texts: tuple[str, ...]
    label: float
    source: Source


def split_of(text: str) -> str:
    """Return the split of a source sentence. Every row made of it is in this split.

    It depends on the sentence alone: 80 % are in train, 10 % in dev and 10 % in test.
    """
    digest = hashlib.sha256(normal_form(text).encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    if share < 0.8:
        return "train"
    return "dev" if share < 0.9 else "test"


def in_split(texts: Sequence[str], split: str) -> list[str]:
    """Return the source sentences of a split."""
    return [text for text in texts if split_of(text) == split]


def unique(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without those whose texts came before, in either order."""
    seen: set[frozenset[str]] = set()
    kept = []
    for row in rows:
        key = frozenset(normal_form(text) for text in row.texts)
        is_trivial = len(key) < len(row.texts)
        if key not in seen and not is_trivial:
            kept.append(row)
        seen.add(key)
    return kept


def write_split(
    path: Path, format: Format, split: str, rows: Sequence[Row], random: Random
) -> None:
    """Write one file of the sample. The ids begin with the source of the row."""
    fields: list[list[str | float]] = []
    for row in rows:
        row_id = f"{row.source.value}{random.getrandbits(92):023x}"
        texts = row.texts
        if format is SST:
            # The course's sentences begin with a space.
            texts = tuple(f" {text}" for text in texts)
        label = f"{row.label:g}" if format.name != "para" else f"{row.label:.1f}"
        fields.append([row_id, *texts, label])
    write_fields(path, format, split, fields)


def write_fields(
    path: Path, format: Format, split: str, rows: Sequence[Sequence[str | float]]
) -> None:
    """Write one file as the course does. rows: id, texts and label. A test file has no labels."""
    lines: list[list[str | float]] = [["", "id", *format.text_columns, format.label_column]]
    for number, row in enumerate(rows):
        lines.append([number, *row])
    if split == "test":
        lines = [line[:-1] for line in lines]
    if split == "test" and format is SST:
        # The course's file has one more index column.
        lines = [[number, *line] for number, line in enumerate(lines)]
    write_text(path, to_text(lines))


def to_text(table: Iterable[Sequence[str | float]]) -> str:
    """Return the text of a file, with tabs between the fields."""
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(table)
    return text.getvalue()


def is_sample(path: Path) -> bool:
    """Whether a file was written by `write_split`, whose ids begin with the source of the row."""
    sources = tuple(source.value for source in Source)
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read(NUM_LOOKED_AT).split("\n")
    header = lines[0].split("\t")
    # The last line may be cut.
    rows = [line.split("\t") for line in lines[1:-1]]
    if "id" not in header or not rows:
        return False
    column = header.index("id")
    return all(len(row) > column and row[column].startswith(sources) for row in rows)


def write_task(folder: Path, format: Format, rows_of: dict[str, list[Row]], random: Random) -> None:
    """Write the three files of a task, each in random order."""
    for split in SPLITS:
        rows = list(rows_of[split])
        random.shuffle(rows)
        write_split(folder / COURSE_FILES[format.name][split], format, split, rows, random)
