"""CSV row -> Example: the first station on the way from disk to prediction.

The course's files are tab-separated, with csv quoting and a header. They have an index column
without a name, and an id of 25 hexadecimal digits. Columns are found by NAME, because the SST test
file has one index column more than the others.

No row disappears silently. A row that does not become an example is an error, or it is dropped,
counted and named. Next: token_cache.py.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, NoReturn

ID_COLUMN = "id"
NUM_DROPPED_SHOWN = 5
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What a file is that begins with these two bytes, and what to do.
FIRST_BYTES = {
    b"\xff\xfe": "UTF-16; convert it with iconv -f utf-16 -t utf-8 first",
    b"\xfe\xff": "UTF-16; convert it with iconv -f utf-16 -t utf-8 first",
    b"\x1f\x8b": "compressed; unpack it with gunzip first",
}

COURSE_FILES = {
    "sst": {
        "train": "ids-sst-train.csv",
        "dev": "ids-sst-dev.csv",
        "test": "ids-sst-test-student.csv",
    },
    "para": {"train": "quora-train.csv", "dev": "quora-dev.csv", "test": "quora-test-student.csv"},
    "sts": {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test-student.csv"},
}


@dataclass(frozen=True)
class Example:
    """One row of a task: a sentence or a pair, and its label (None in a test file)."""

    id: str
    sentence_1: str
    sentence_2: str | None
    label: float | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, or both sentences of a pair."""
        return (self.sentence_1,) if self.sentence_2 is None else (self.sentence_1, self.sentence_2)


@dataclass(frozen=True)
class Format:
    """The columns of a task's files, and the labels they may hold, from `low` to `high`."""

    name: str
    text_columns: tuple[str, ...]
    label_column: str
    low: float
    high: float
    is_integer: bool

    @property
    def is_pair(self) -> bool:
        """Whether a row has two sentences."""
        return len(self.text_columns) == 2

    @property
    def label_rule(self) -> str:
        """The allowed labels in words, such as "SST labels are whole numbers 0 to 4"."""
        kind = "whole numbers " if self.is_integer else ""
        return f"{self.name.upper()} labels are {kind}{self.low:g} to {self.high:g}"


SST = Format("sst", ("sentence",), "sentiment", 0, 4, is_integer=True)
PARA = Format("para", ("sentence1", "sentence2"), "is_duplicate", 0, 1, is_integer=True)
STS = Format("sts", ("sentence1", "sentence2"), "similarity", 0, 5, is_integer=False)
FORMATS = {format.name: format for format in (SST, PARA, STS)}

# A label of a training pair may be the probability that it is a paraphrase. An ensemble gives such
# labels to unlabelled text.
TRAINING_FORMATS = FORMATS | {"para": replace(PARA, is_integer=False)}


@dataclass(frozen=True)
class Table:
    """The content of a file.

    examples: in file order.
    dropped: for each dropped row its line, id and reason, as text.
    num_left_out: examples that `cut` left out.
    """

    path: str
    examples: tuple[Example, ...]
    dropped: tuple[str, ...]
    num_left_out: int = 0

    def cut(self, num_rows: int) -> Table:
        """Return the table with at most `num_rows` examples, taken at even distances.

        So a file that is sorted by label stays balanced.
        """
        num_examples = len(self.examples)
        if num_rows >= num_examples:
            return self
        kept = []
        for position in range(num_rows):
            kept.append(self.examples[position * num_examples // num_rows])
        return Table(self.path, tuple(kept), self.dropped, num_examples - num_rows)

    @property
    def summary(self) -> str:
        """The line for the user, such as "data/sts-dev.csv: 863 rows read, 0 dropped"."""
        num_dropped = len(self.dropped)
        num_rows = len(self.examples) + num_dropped + self.num_left_out
        summary = f"{self.path}: {num_rows} rows read, {num_dropped} dropped"
        if self.dropped:
            reasons = list(self.dropped[:NUM_DROPPED_SHOWN])
            if num_dropped > NUM_DROPPED_SHOWN:
                reasons.append(f"and {num_dropped - NUM_DROPPED_SHOWN} more")
            summary += f" ({'; '.join(reasons)})"
        if self.num_left_out:
            summary += f", {self.num_left_out} left out as asked"
        return summary


class BadRow(Exception):
    """A row that cannot become an example. is_empty: only its label or a sentence is empty."""

    def __init__(self, reason: str, is_empty: bool = False) -> None:
        super().__init__(reason)
        self.is_empty = is_empty


class Row(NamedTuple):
    """The fields of a row, and the number of the line on which it ends."""

    line: int
    fields: list[str]


def read_examples(
    path: str | Path, format: Format, labelled: bool = True, drop_bad_rows: bool = False
) -> Table:
    """Read one file of a task.

    path: tab-separated UTF-8 with a header. A byte-order mark is allowed. Blank lines are skipped.
    labelled: whether the file has labels. A labelled row with an empty label or sentence is dropped
        and named (the course's Quora dev file has two). An unlabelled file loses no row, because a
        leaderboard wants a prediction for each id.
    drop_bad_rows: drop and name the malformed rows of a labelled file too, instead of raising.

    Raises ValueError with file, line, what was found, what is expected and what to do.
    """
    rows = read_rows(path, read_text(path))
    header = next(rows, None)
    if header is None:
        raise empty_file(path, "is empty")
    parser = RowParser(path, format, labelled, header)

    examples: list[Example] = []
    dropped: list[str] = []
    for row in rows:
        try:
            examples.append(parser.parse(row))
        except BadRow as problem:
            is_droppable = labelled and (problem.is_empty or drop_bad_rows)
            if not is_droppable:
                parser.refuse(row, problem)
            dropped.append(f"line {row.line}, id {parser.printable_id(row)}: {problem}")

    if not examples:
        first = f", the first: {dropped[0]}" if dropped else ""
        raise empty_file(path, f"has a header and no usable rows ({len(dropped)} dropped{first})")
    return Table(str(path), tuple(examples), tuple(dropped))


def empty_file(path: str | Path, state: str) -> ValueError:
    """Return the error about a file that holds no example."""
    return ValueError(
        f"{path}: the file {state}; expected are a header and at least one row. Restore the file, "
        "or fetch the course's with `python -m data.download --out DIR`."
    )


def read_text(path: str | Path) -> str:
    """Return the text of a file, without its byte-order mark.

    Bytes that are not UTF-8 become lone surrogates, so that the row that holds them can be named.
    Raises ValueError where the file cannot be read, or is UTF-16 or compressed.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path}: there is no such file. Check the path or --data-dir, or resume where the run "
            "began; `python -m data.download --out DIR` fetches the course's files."
        ) from None
    except OSError as error:
        raise ValueError(
            f"{path}: the file cannot be read ({error.strerror}). Expected is a readable file; "
            "check the path and its permissions."
        ) from None

    content = content.removeprefix(BYTE_ORDER_MARK)
    problem = FIRST_BYTES.get(content[:2])
    if problem:
        raise ValueError(f"{path}: the file is {problem}. Expected is tab-separated text in UTF-8.")

    # Some versions of the csv module refuse a zero byte, so it becomes a byte that is not UTF-8.
    content = content.replace(b"\0", b"\xff")
    return content.decode("utf-8", errors="surrogateescape")


def read_rows(path: str | Path, text: str) -> Iterator[Row]:
    """Yield the rows of a text that are not blank, the header first.

    Raises ValueError where the csv module cannot read the text, and where an open quote swallowed
    rows.
    """
    # The csv module stops at 131,072 characters in a field. A field with a quote that is never
    # closed is long, too: it is found below.
    csv.field_size_limit(2**31 - 1)
    # Quoted fields may hold line breaks, so the csv module must see them untouched: newline="".
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
    end = 0
    try:
        for fields in reader:
            begin = end + 1
            end = reader.line_num
            if any(has_swallowed_rows(field) for field in fields):
                raise csv.Error(
                    f"the row that begins on line {begin} has a field with tabs and line breaks"
                )
            if fields:
                yield Row(end, fields)
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: not readable as tab-separated text ({error}); a "
            "quote that is never closed, or stands where none belongs, does this. Fix it."
        ) from error


def has_swallowed_rows(field: str) -> bool:
    """Return whether a field holds tabs and line breaks, as behind a quote that is not closed."""
    return "\t" in field and ("\n" in field or "\r" in field)


class RowParser:
    """Turns the rows of one file into examples.

    Raises ValueError where the header lacks a column.
    """

    def __init__(self, path: str | Path, format: Format, labelled: bool, header: Row) -> None:
        self.path = path
        self.format = format
        self.labelled = labelled
        self.num_fields = len(header.fields)
        self.line_of_id: dict[str, int] = {}

        names = [ID_COLUMN, *format.text_columns]
        if labelled:
            names.append(format.label_column)
        self.check_header(header, names)
        self.columns = [header.fields.index(name) for name in names]

    def check_header(self, header: Row, names: list[str]) -> None:
        """Raise ValueError where the header lacks one of the columns."""
        missing = [name for name in names if name not in header.fields]
        if not missing:
            return
        # Names with bytes that are not UTF-8 must be printable.
        present = [
            name.encode("utf-8", "backslashreplace").decode() for name in header.fields if name
        ]
        listed = ", ".join(present) or "none with a name"
        raise ValueError(
            f"{self.path}, line {header.line}: the header has no column {', '.join(missing)}; "
            f"found are: {listed}. {self.format.name.upper()} files need {', '.join(names)}, "
            "separated by tabs. Fix the header, or pass the file that belongs to this task."
        )

    def parse(self, row: Row) -> Example:
        """Return the example of a row. Raises BadRow where it is none."""
        if len(row.fields) != self.num_fields:
            raise BadRow(
                f"the row has {len(row.fields)} fields; the header names {self.num_fields}"
            )
        if not all(is_utf8(field) for field in row.fields):
            raise BadRow("the row holds bytes that are not UTF-8; the files are UTF-8 text")

        row_id, *values = [row.fields[column].strip() for column in self.columns]
        self.check_id(row_id)
        self.line_of_id[row_id] = row.line

        num_sentences = len(self.format.text_columns)
        first = values[0]
        second = values[1] if num_sentences == 2 else None
        if not self.labelled:
            return Example(row_id, first, second, None)
        self.check_not_empty(values)
        return Example(row_id, first, second, self.parse_label(values[num_sentences]))

    def check_id(self, row_id: str) -> None:
        """Raise BadRow for an id that is empty, is in a row above, or has a blank or comma."""
        if not row_id:
            raise BadRow("the id is empty; each row needs an id of its own")
        if re.search(r"[\s,]", row_id):
            raise BadRow(
                f"the id '{row_id}' holds a blank or a comma; in a leaderboard's file, these end "
                "the id"
            )
        if row_id in self.line_of_id:
            raise BadRow(
                f"the id {row_id} stands on line {self.line_of_id[row_id]} already; each row needs "
                "its own"
            )

    def check_not_empty(self, values: list[str]) -> None:
        """Raise BadRow where a sentence or the label is empty."""
        names = (*self.format.text_columns, "label")
        empty = [name for name, value in zip(names, values, strict=True) if not value]
        if empty:
            raise BadRow(f"empty {' and '.join(empty)}", is_empty=True)

    def parse_label(self, text: str) -> float:
        """Return the label of a row. Raises BadRow where it is no number or not an allowed one."""
        try:
            label = float(text)
        except ValueError:
            label = math.nan
        if math.isnan(label):
            raise BadRow(f"label '{text}' is not a number; {self.format.label_rule}")

        is_in_range = self.format.low <= label <= self.format.high
        is_whole_enough = label.is_integer() or not self.format.is_integer
        if not (is_in_range and is_whole_enough):
            raise BadRow(f"label '{text}' is not allowed; {self.format.label_rule}")
        return label

    def printable_id(self, row: Row) -> str:
        """Return the id of a bad row for a message, or "unusable"."""
        column = self.columns[0]
        row_id = row.fields[column].strip() if column < len(row.fields) else ""
        return row_id if row_id.isprintable() else "unusable"

    def refuse(self, row: Row, problem: BadRow) -> NoReturn:
        """Raise the ValueError about a row that is not dropped."""
        if self.labelled:
            advice = "Fix the row, or pass --drop-bad-rows to skip and count such rows."
        else:
            advice = (
                "Fix the row: each row of a file without labels needs a prediction, so none is "
                "skipped."
            )
        raise ValueError(f"{self.path}, line {row.line}: {problem}. {advice}")


def is_utf8(text: str) -> bool:
    """Return whether a text has no lone surrogate, which stands for a byte that is not UTF-8."""
    return text.isascii() or not re.search("[\udc80-\udcff]", text)


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
