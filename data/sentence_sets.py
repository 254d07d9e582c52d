"""STS sets and labelled sentences of any source -> examples, for measuring sentence vectors.

The commands in contrastive/quality read these files. There are two kinds, and the name of the label
column tells them apart:

- `score` and `label` stand in plain files, as STS12 to STS16 and SICK are passed on. They are
  tab-separated with one row per line, and a quotation mark is a character like any other. STS12 has
  sentences that begin with one. A csv reader would take it for an open quote and swallow the rows
  behind it.
- `similarity` and `sentiment` stand in the course's files. They are quoted as csv, and readers.py
  reads them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.readers import SST, STS, Example, read_examples

SUBSET_COLUMN = "subset"

# The columns of SICK as it was published, and their names here.
SICK_COLUMNS = {
    "relatedness_score": "score",
    "sentence_A": "sentence1",
    "sentence_B": "sentence2",
}


@dataclass(frozen=True)
class SentenceSet:
    """The content of a file, in file order: pairs with a number as label, or sentences in classes.

    subsets: for each row the name of its part of the set; None where the file has no such column.
    classes: the names of the classes; () for pairs. The label of an example is the position of its
        class among them.
    summary: the line for the user.
    """

    path: str
    examples: tuple[Example, ...]
    subsets: tuple[str, ...] | None
    classes: tuple[str, ...]
    summary: str


class Line(NamedTuple):
    """A line of a plain file: its number, counted from 1, and its text."""

    number: int
    text: str


class PlainRow(NamedTuple):
    """A row of a plain file: the number of its line, and its values by column."""

    line: int
    values: dict[str, str]


class ClassRow(NamedTuple):
    """A row of a classification file."""

    id: str
    sentence: str
    class_name: str


def read_pairs(path: str | Path) -> SentenceSet:
    """Read an STS file.

    Its columns are score or similarity, sentence1, sentence2 and, where there are parts, subset.
    SICK may have its own column names.

    Raises ValueError with file, line, what was found, what is expected and what to do. It is also
    raised where all labels are equal, because they have no correlation with anything.
    """
    header, lines = read_lines(path)
    header = [SICK_COLUMNS.get(name, name) for name in header]
    if "score" not in header and STS.label_column in header:
        table = read_examples(path, STS)
        pairs = SentenceSet(str(path), table.examples, None, (), table.summary)
    else:
        pairs = read_plain_pairs(path, header, lines)

    if len({example.label for example in pairs.examples}) < 2:
        raise ValueError(
            f"{path}: all labels are {pairs.examples[0].label:g}; expected are different ones, or "
            "there is no correlation. Add rows, or leave the file out."
        )
    return pairs


def read_plain_pairs(path: str | Path, header: list[str], lines: list[Line]) -> SentenceSet:
    """Read the pairs of a plain file. Arguments as in `parse_plain_rows`."""
    columns = ("score", "sentence1", "sentence2")
    rows = parse_plain_rows(path, header, lines, columns, "similarity for score")
    examples = []
    for row in rows:
        score = parse_score(path, row.line, row.values["score"])
        first = row.values["sentence1"]
        second = row.values["sentence2"]
        examples.append(Example(f"line {row.line}", first, second, score))

    # STS16, for instance, has five parts, such as headlines and questions.
    subsets = None
    if SUBSET_COLUMN in header:
        subsets = tuple(row.values[SUBSET_COLUMN] for row in rows)
    summary = f"{path}: {len(rows)} rows read"
    return SentenceSet(str(path), tuple(examples), subsets, (), summary)


def read_labelled(path: str | Path, rows_of_class: int) -> SentenceSet:
    """Read a classification file.

    Its columns are sentence, and sentiment (the course's files) or label (any text names a class).

    rows_of_class: different sentences that each class must have at least.

    Raises ValueError with file, line, what was found, what is expected and what to do. It is also
    raised for fewer than two classes and for a class with too few different sentences.
    """
    header, lines = read_lines(path)
    rows = []
    if "label" not in header and SST.label_column in header:
        table = read_examples(path, SST)
        summary = table.summary
        for example in table.examples:
            rows.append(ClassRow(example.id, example.sentence_1, f"{example.label:g}"))
    else:
        columns = ("label", "sentence")
        plain_rows = parse_plain_rows(path, header, lines, columns, "sentiment for label")
        summary = f"{path}: {len(plain_rows)} rows read"
        for row in plain_rows:
            values = row.values
            rows.append(ClassRow(f"line {row.line}", values["sentence"], values["label"]))

    classes = list_classes(path, rows, rows_of_class)
    examples = []
    for class_row in rows:
        label = float(classes.index(class_row.class_name))
        examples.append(Example(class_row.id, class_row.sentence, None, label))
    return SentenceSet(str(path), tuple(examples), None, classes, summary)


def list_classes(path: str | Path, rows: list[ClassRow], rows_of_class: int) -> tuple[str, ...]:
    """Return the names of the classes, sorted.

    Raises ValueError for fewer than two classes, and for a class with fewer than `rows_of_class`
    different sentences.
    """
    # Two rows with the same sentence and class count once.
    different = dict.fromkeys((row.class_name, row.sentence) for row in rows)
    counts = Counter(class_name for class_name, _ in different)
    rarest = min(counts, key=lambda name: counts[name])
    if len(counts) < 2 or counts[rarest] < rows_of_class:
        if len(counts) < 2:
            found = f"the one class '{rarest}'"
        else:
            found = f"{counts[rarest]} sentences of class '{rarest}'"
        raise ValueError(
            f"{path}: found is {found}; expected are two classes at least, each with "
            f"{rows_of_class} different ones, one for each fold. Add rows, or leave the file out."
        )
    return tuple(sorted(counts))


def read_lines(path: str | Path) -> tuple[list[str], list[Line]]:
    """Return the names in the header, and all other lines that are not blank.

    Raises ValueError where the file cannot be read, is not UTF-8, or has no line after the header.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}); expected is a tab-separated file with a "
            "header. Check the path."
        ) from None
    try:
        # This encoding drops a byte-order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {number}: holds bytes that are not UTF-8; expected is UTF-8 text. "
            "Convert the file."
        ) from None

    # splitlines() would also break at characters that stand inside sentences, such as U+2028.
    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            lines.append(Line(number, line))
    if len(lines) < 2:
        state = "a header and no rows" if lines else "empty"
        raise ValueError(
            f"{path}: the file is {state}; expected are a header and a row at least. Restore the "
            "file."
        )
    header = [name.strip() for name in lines[0].text.split("\t")]
    return header, lines[1:]


def parse_plain_rows(
    path: str | Path,
    header: list[str],
    lines: list[Line],
    columns: tuple[str, ...],
    alternative: str,
) -> list[PlainRow]:
    """Return the rows of a plain file.

    columns: the columns that must be there and must have a value in each row.
    alternative: what the course's files have instead, for the message.

    Raises ValueError where the header lacks a column, where a row has another number of fields than
    the header, and where a value is empty.
    """
    missing = [name for name in columns if name not in header]
    if missing:
        present = ", ".join(name for name in header if name) or "none with a name"
        raise ValueError(
            f"{path}, line 1: the header has no column {', '.join(missing)}; found are: {present}. "
            f"Expected are {', '.join(columns)}, separated by tabs (or {alternative}, in the "
            "course's files). Fix the header, or pass another file."
        )

    filled = [name for name in (*columns, SUBSET_COLUMN) if name in header]
    rows = []
    for line in lines:
        fields = [field.strip() for field in line.text.split("\t")]
        if len(fields) != len(header):
            raise ValueError(
                f"{path}, line {line.number}: the row has {len(fields)} fields; the header names "
                f"{len(header)}. Fix the row."
            )
        values = dict(zip(header, fields, strict=True))
        empty = [name for name in filled if not values[name]]
        if empty:
            raise ValueError(
                f"{path}, line {line.number}: {' and '.join(empty)} is empty; each row needs a "
                "value there. Fix or remove the row."
            )
        rows.append(PlainRow(line.number, values))
    return rows


def parse_score(path: str | Path, line: int, text: str) -> float:
    """Return the score of a row. Raises ValueError where it is not a finite number."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(
            f"{path}, line {line}: score '{text}' is not a number; expected is how similar the "
            "sentences are, such as 0 to 5. Fix or remove the row."
        )
    return score
