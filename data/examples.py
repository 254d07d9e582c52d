"""What a file of a task holds: an Example for each row, and the Format of its columns and labels.

Here are also the names of the course's files, and the Table of examples that reading a file gives.
Next: readers.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from data.tables.rows import Style

Item = TypeVar("Item")

ID_COLUMN = "id"
NUM_DROPPED_SHOWN = 5

COURSE_FILES = {
    "sst": {
        "train": "ids-sst-train.csv",
        "dev": "ids-sst-dev.csv",
        "test": "ids-sst-test-student.csv",
    },
    "para": {"train": "quora-train.csv", "dev": "quora-dev.csv", "test": "quora-test-student.csv"},
    "sts": {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test-student.csv"},
}
# The second sentiment task of the course. It is read only where --tasks names it.
CFIMDB_FILES = {
    "train": "ids-cfimdb-train.csv",
    "dev": "ids-cfimdb-dev.csv",
    "test": "ids-cfimdb-test-student.csv",
}
BUILT_IN_FILES = COURSE_FILES | {"cfimdb": CFIMDB_FILES}


@dataclass(frozen=True)
class Example:
    """One row of a task: a sentence or a pair, and its label (None in a test file).

    label_set: in place of the label, of a task whose rows have several: for each class 1 or 0.
    """

    id: str
    sentence_1: str
    sentence_2: str | None
    label: float | None
    label_set: tuple[float, ...] | None = None

    @property
    def answer(self) -> float | tuple[float, ...] | None:
        """The label, or the labels of a row that may have several. None in a test file."""
        return self.label if self.label_set is None else self.label_set

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, or both sentences of a pair."""
        return (self.sentence_1,) if self.sentence_2 is None else (self.sentence_1, self.sentence_2)


@dataclass(frozen=True)
class Format:
    """The columns of a task's files, and the labels they may hold, from `low` to `high`.

    classes: the labels as they stand in the files, the lowest class first. Class 0 is `low`. () is
        for files that hold the numbers themselves.
    id_column: the name of the column with the ids. "": it may be called id, or not be there.
    is_course: whether the files are the course's. They have quotes as in CSV, and their ids go into
        a leaderboard's file.
    has_limits: whether a number outside low to high is refused.
    dropped_labels: rows with these labels are dropped and counted.
    separator: the sign between the labels of a row that may have several. "": a row has one label.
    """

    name: str
    text_columns: tuple[str, ...]
    label_column: str
    low: float
    high: float
    is_integer: bool
    classes: tuple[str, ...] = ()
    id_column: str = ID_COLUMN
    is_course: bool = True
    has_limits: bool = True
    dropped_labels: tuple[str, ...] = ()
    separator: str = ""

    @property
    def is_pair(self) -> bool:
        """Whether a row has two sentences."""
        return len(self.text_columns) == 2

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns. That of the ids may be ""."""
        return (*self.text_columns, self.label_column, self.id_column)

    @property
    def label_rule(self) -> str:
        """The allowed labels in words, such as "SST labels are whole numbers 0 to 4"."""
        if self.classes:
            rule = f"{self.title} labels are {list_names(self.classes)}"
            return f"{rule}, with '{self.separator}' between several" if self.separator else rule
        if not self.has_limits:
            return f"{self.title} labels are numbers"
        kind = "whole numbers " if self.is_integer else ""
        return f"{self.title} labels are {kind}{self.low:g} to {self.high:g}"

    @property
    def title(self) -> str:
        """The name of the task for messages and tables: "SST", or a user's own name."""
        return self.name.upper() if self.is_course else self.name

    @property
    def advice(self) -> str:
        """What to do where a column is missing."""
        if self.is_course:
            return "Fix the header, or pass the file that belongs to this task."
        keys = "text=, text_pair= and label=" if self.is_pair else "text= and label="
        return f"Fix the header, or name its columns with {keys} in --task name={self.name},..."


SST = Format("sst", ("sentence",), "sentiment", 0, 4, is_integer=True)
PARA = Format("para", ("sentence1", "sentence2"), "is_duplicate", 0, 1, is_integer=True)
STS = Format("sts", ("sentence1", "sentence2"), "similarity", 0, 5, is_integer=False)
CFIMDB = Format("cfimdb", ("sentence",), "sentiment", 0, 1, is_integer=True)
FORMATS = {format.name: format for format in (SST, PARA, STS)}

# A label of a training pair may be the probability that it is a paraphrase. An ensemble gives such
# labels to unlabelled text.
TRAINING_FORMATS = FORMATS | {"para": replace(PARA, is_integer=False)}


NUM_NAMES_SHOWN = 20  # of classes, in a message


def list_names(names: Sequence[str]) -> str:
    """The names of classes for a message, such as "a, b, c"."""
    return join_some([quoted(name) for name in names])


def quoted(name: str) -> str:
    """The name of a class in a list. One that holds a comma stands in quotes."""
    return f"'{name}'" if "," in name else name


def join_some(items: Sequence[str]) -> str:
    """The items of a list for a message. A long list is cut."""
    num_more = len(items) - NUM_NAMES_SHOWN
    listed = ", ".join(items[:NUM_NAMES_SHOWN])
    return f"{listed} and {num_more} more" if num_more > 0 else listed


def label_text(text: str) -> str:
    """The text of a label without what a program has added: pandas writes 1.0 for a class 1."""
    text = text.strip()
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)


def evenly_spaced(items: Sequence[Item], limit: int) -> Sequence[Item]:
    """At most `limit` of the items, at even distances and in their order.

    Of rows that are sorted by task or by label, each task or label keeps its share.
    """
    if limit >= len(items):
        return items
    return [items[place * len(items) // limit] for place in range(limit)]


@dataclass(frozen=True)
class Table:
    """The content of a file.

    examples: in file order.
    dropped: for each dropped row its line, id and reason, as text.
    num_left_out: examples that `cut` left out.
    notes: what the user should know about how the file was read.
    origin: a sentence in place of the counts, where the examples are a part of a file.
    style: of a table for a spreadsheet that goes with the file.
    """

    path: str
    examples: tuple[Example, ...]
    dropped: tuple[str, ...]
    num_left_out: int = 0
    notes: tuple[str, ...] = ()
    origin: str = ""
    style: Style = Style()

    def cut(self, num_rows: int) -> Table:
        """Return the table with at most `num_rows` examples, taken at even distances.

        So a file that is sorted by label stays balanced.
        """
        num_left_out = len(self.examples) - num_rows
        if num_left_out <= 0:
            return self
        kept = tuple(evenly_spaced(self.examples, num_rows))
        return replace(self, examples=kept, num_left_out=num_left_out)

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
        # The origin of a part already says what the whole file holds.
        summary = self.origin or summary
        if self.num_left_out:
            summary += f", {self.num_left_out} left out as asked"
        if self.origin:
            return summary
        return "; ".join([summary, *self.notes])
