"""STS sets and labelled sentences of any source -> examples, for measuring sentence vectors (contrastive/quality/__main__.py).

The name of the label column tells two kinds of file apart. `score` and `label` stand in plain files, as STS12 to 16 and
SICK are passed on: tab-separated, a line a row, a quotation mark is a character like any other (STS12 has sentences
that begin with one, which a csv reader would take for an open quote, and swallow the rows behind it). `similarity` and
`sentiment` stand in the course's files, which are quoted as csv and read by readers.py.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from data.readers import SST, STS, Example, read_examples

SUBSET_COLUMN = "subset"
SICK = {
    "relatedness_score": "score",
    "sentence_A": "sentence1",
    "sentence_B": "sentence2",
}  # as published


@dataclass(frozen=True)
class SentenceSet:
    """What a file holds, in file order: pairs with a number as label, or single sentences with a class.

    subsets: for each row the name of its part of the set; None where the file has no such column.
    classes: of single sentences the names, an example's label is the number of its name; () for pairs.
    summary: the line for the user.
    """

    path: str
    examples: tuple[Example, ...]
    subsets: tuple[str, ...] | None
    classes: tuple[str, ...]
    summary: str


def read_pairs(path: str | Path) -> SentenceSet:
    """An STS file: columns score or similarity, sentence1, sentence2, and where there is one subset; or SICK's own.

    Raises ValueError with file, line, what was found, what is needed and what to do; also where all labels are equal,
    since no correlation can be had from them.
    """
    header, lines = _read_lines(path)
    header = [SICK.get(name, name) for name in header]
    if "score" not in header and STS.label_column in header:
        table = read_examples(path, STS)
        examples, subsets, summary = table.examples, None, table.summary
    else:
        rows = _plain_rows(
            path, header, lines, ("score", "sentence1", "sentence2"), "similarity for score"
        )
        examples = tuple(
            Example(
                f"line {number}",
                row["sentence1"],
                row["sentence2"],
                _number(path, number, row["score"]),
            )
            for number, row in rows
        )
        subsets = tuple(row[SUBSET_COLUMN] for _, row in rows) if SUBSET_COLUMN in header else None
        summary = f"{path}: {len(rows)} rows read"
    if len({example.label for example in examples}) < 2:
        raise ValueError(
            f"{path}: all labels are {examples[0].label:g}; needed are different ones, or there is no "
            "correlation. Add rows, or leave the file out."
        )
    return SentenceSet(str(path), examples, subsets, (), summary)


def read_labelled(path: str | Path, rows_of_class: int) -> SentenceSet:
    """A classification file: columns sentence, and sentiment (the course's files) or label (any text names a class).

    Raises ValueError with file, line, what was found, what is needed and what to do; also for fewer than two classes
    and for a class with fewer than `rows_of_class` different sentences.
    """
    header, lines = _read_lines(path)
    if "label" not in header and SST.label_column in header:
        table = read_examples(path, SST)
        names, summary = [f"{example.label:g}" for example in table.examples], table.summary
        sentences = [(example.id, example.sentence_1) for example in table.examples]
    else:
        rows = _plain_rows(path, header, lines, ("label", "sentence"), "sentiment for label")
        names, summary = [row["label"] for _, row in rows], f"{path}: {len(rows)} rows read"
        sentences = [(f"line {number}", row["sentence"]) for number, row in rows]
    counts = Counter(
        name for name, _ in dict.fromkeys(zip(names, (text for _, text in sentences), strict=True))
    )
    classes = tuple(sorted(counts))
    rarest = min(counts, key=counts.get)
    if len(classes) < 2 or counts[rarest] < rows_of_class:
        found = (
            f"{counts[rarest]} sentences of class '{rarest}'"
            if len(classes) > 1
            else f"the one class '{rarest}'"
        )
        raise ValueError(
            f"{path}: found is {found}; needed are two classes at least, each with {rows_of_class} "
            "different ones, one for each fold. Add rows, or leave the file out."
        )
    examples = tuple(
        Example(row_id, sentence, None, float(classes.index(name)))
        for (row_id, sentence), name in zip(sentences, names, strict=True)
    )
    return SentenceSet(str(path), examples, None, classes, summary)


def _read_lines(path: str | Path) -> tuple[list[str], list[tuple[int, str]]]:
    """The header's names, and the number and text of each other line that is not blank."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}); needed is a tab-separated file with a header. "
            "Check the path."
        ) from None
    try:
        text = content.decode("utf-8-sig")  # a byte-order mark is allowed
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: holds bytes that are not UTF-8; needed is UTF-8 text. Convert the "
            "file."
        ) from None
    # Not splitlines(), which also breaks at characters that stand inside sentences, such as U+2028.
    lines = [
        (number, line.removesuffix("\r"))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if len(lines) < 2:
        found = "a header and no rows" if lines else "empty"
        raise ValueError(
            f"{path}: the file is {found}; needed are a header and a row at least. Restore the file."
        )
    return [name.strip() for name in lines[0][1].split("\t")], lines[1:]


def _plain_rows(
    path: str | Path,
    header: list[str],
    lines: list[tuple[int, str]],
    needed: tuple[str, ...],
    alternative: str,
) -> list[tuple[int, dict[str, str]]]:
    """Line number and values by column of every row of a plain file; none of those needed is empty."""
    missing = [name for name in needed if name not in header]
    if missing:
        raise ValueError(
            f"{path}, line 1: the header has no column {', '.join(missing)}; found are: "
            f"{', '.join(name for name in header if name) or 'none with a name'}. Needed are "
            f"{', '.join(needed)}, separated by tabs (or {alternative}, in the course's files). Fix the "
            "header, or pass another file."
        )
    rows = []
    for number, line in lines:
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != len(header):
            raise ValueError(
                f"{path}, line {number}: the row has {len(fields)} fields; the header names "
                f"{len(header)}. Fix the row."
            )
        row = dict(zip(header, fields, strict=True))
        empty = [
            name for name in (*needed, SUBSET_COLUMN) if not row.get(name, "-")
        ]  # "-": a file without subsets
        if empty:
            raise ValueError(
                f"{path}, line {number}: {' and '.join(empty)} is empty; each row needs a value there. "
                "Fix or remove the row."
            )
        rows.append((number, row))
    return rows


def _number(path: str | Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{path}, line {line}: score '{text}' is not a number; needed is how similar the sentences "
            "are, such as 0 to 5. Fix or remove the row."
        )
    return value
