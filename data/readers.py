"""Row of a table -> Example: the first station on the way from disk to prediction.

The course's files are tab-separated, with csv quoting and a header. They have an index column
without a name, and an id of 25 hexadecimal digits. Columns are found by NAME, because the SST test
file has one index column more than the others. Files that other programs wrote are read as well:
tables/ finds how they are written.

No row disappears silently. A row that does not become an example is an error, or it is dropped,
counted and named. Next: token_cache.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeVar

from data.tables.columns import ColumnNames, Role, find_column, find_columns
from data.tables.delimited import CMU_DELIMITER
from data.tables.reader import read_table
from data.tables.rows import EmptyTable, RawTable, Row, parse_number, thousands_fault

Item = TypeVar("Item")

ID_COLUMN = "id"
NUM_DROPPED_SHOWN = 5
FETCH = "`python -m data.download --out DIR`"

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
    """The columns of a task's files, and the labels they may hold, from `low` to `high`.

    classes: the labels as they stand in the files, the lowest class first. Class 0 is `low`. () is
        for files that hold the numbers themselves.
    id_column: the name of the column with the ids. "": it may be called id, or not be there.
    is_course: whether the files are the course's. They have quotes as in CSV, and their ids go into
        a leaderboard's file.
    has_limits: whether a number outside low to high is refused.
    dropped_labels: rows with these labels are dropped and counted.
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

    @property
    def is_pair(self) -> bool:
        """Whether a row has two sentences."""
        return len(self.text_columns) == 2

    @property
    def label_rule(self) -> str:
        """The allowed labels in words, such as "SST labels are whole numbers 0 to 4"."""
        if self.classes:
            return f"{self.title} labels are {list_names(self.classes)}"
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
    """

    path: str
    examples: tuple[Example, ...]
    dropped: tuple[str, ...]
    num_left_out: int = 0
    notes: tuple[str, ...] = ()
    origin: str = ""

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


class BadRow(Exception):
    """A row that cannot become an example. is_empty: only its label or a sentence is empty."""

    def __init__(self, reason: str, is_empty: bool = False) -> None:
        super().__init__(reason)
        self.is_empty = is_empty


def read_examples(
    path: str | Path,
    format: Format,
    labelled: bool = True,
    drop_bad_rows: bool = False,
    names: ColumnNames | None = None,
) -> Table:
    """Read one file of a task.

    path: any table that tables/reader.py reads. Blank lines are skipped.
    labelled: whether the file has labels. A labelled row with an empty label or sentence is dropped
        and named (the course's Quora dev file has two). An unlabelled file loses no row, because a
        leaderboard wants a prediction for each id.
    drop_bad_rows: drop and name the malformed rows of a labelled file too, instead of raising.
    names: the columns, where they are not those of the format.

    Raises ValueError with file, line, what was found, what is expected and what to do.
    """
    table = open_table(path, format.is_course)
    parser = RowParser(table, format, labelled, names or ColumnNames())

    examples: list[Example] = []
    dropped: list[str] = []
    for row in table.rows:
        try:
            examples.append(parser.parse(row))
        except BadRow as problem:
            is_droppable = labelled and (problem.is_empty or drop_bad_rows)
            if not is_droppable:
                parser.refuse(row, problem)
            place = table.place_in_file(row)
            dropped.append(f"{place}, id {parser.printable_id(row)}: {problem}")

    if not examples:
        first = f", the first: {dropped[0]}" if dropped else ""
        state = f"has a header and no usable rows ({len(dropped)} dropped{first})"
        raise empty_file(path, state, format.is_course)
    notes = (*table.notes, *parser.notes)
    return Table(str(path), tuple(examples), tuple(dropped), notes=notes)


def open_table(path: str | Path, is_course: bool = True) -> RawTable:
    """Return the table in a file of a task. Raises ValueError where there is none.

    is_course: whether it is one of the course's files.
    """
    if not Path(path).exists():
        place = "--data-dir" if is_course else "--task"
        fetch = f"; {FETCH} fetches the course's files" if is_course else ""
        if Path(path).name in CFIMDB_FILES.values():
            fetch = "; `python -m data.download --cfimdb --out DIR` fetches those of CFIMDB, too"
        raise ValueError(
            f"{path}: there is no such file. Check the path or {place}, or resume where the run "
            f"began{fetch}."
        )
    try:
        return read_table(path)
    except EmptyTable:
        raise empty_file(path, "is empty", is_course) from None


def empty_file(path: str | Path, state: str, is_course: bool = True) -> ValueError:
    """Return the error about a file that holds no example."""
    fetch = f", or fetch the course's with {FETCH}" if is_course else ""
    return ValueError(
        f"{path}: the file {state}; expected are a header and at least one row. Restore the file"
        f"{fetch}."
    )


class RowParser:
    """Turns the rows of one file into examples.

    Raises ValueError where the header lacks a column.
    """

    def __init__(self, table: RawTable, format: Format, labelled: bool, names: ColumnNames) -> None:
        self.table = table
        self.format = format
        self.labelled = labelled
        self.line_of_id: dict[str, int] = {}
        self.number_of_class: dict[str, float] = {}
        for number, name in enumerate(format.classes):
            self.number_of_class[label_text(name)] = float(number)
        self.notes: list[str] = []
        self.columns = self.find_value_columns(names)
        self.id_column = self.find_id_column(names)
        if labelled and not format.is_integer:
            self.check_thousands()

    def find_value_columns(self, names: ColumnNames) -> list[int]:
        """Return the positions of the sentences and, in a labelled file, of the label."""
        format = self.format
        roles = []
        for flag, name in zip(("--text", "--text-pair"), format.text_columns, strict=False):
            roles.append(Role(flag, (name,)))
        passed = [names.text, names.text_pair][: len(roles)]
        if self.labelled:
            # `label ||| sentence` has the column under its own name.
            is_cmu = self.table.layout.delimiter == CMU_DELIMITER
            usual: tuple[str, ...] = (format.label_column,)
            if is_cmu and "label" not in usual:
                usual = ("label", format.label_column)
            roles.append(Role("--label", usual))
            passed.append(names.label)
        ids = [ID_COLUMN] if format.is_course else []
        expected = ", ".join([*ids, *(role.names[-1] for role in roles)])
        advice = f"{format.title} files need {expected}. {format.advice}"
        return find_columns(self.table, roles, passed, advice)

    def check_thousands(self) -> None:
        """Raise ValueError where the numbers of the label have signs between thousands."""
        fault = thousands_fault(self.table, self.columns[-1])
        if fault:
            raise ValueError(fault)

    def find_id_column(self, names: ColumnNames) -> int | None:
        """Return the position of the ids. None: rows are called by their lines.

        A leaderboard knows the rows of an unlabelled file by their ids, so it must have them. Files
        `label ||| sentence` never have any.
        """
        if not self.format.is_course:
            return self.find_own_ids()
        role = Role("--id", (ID_COLUMN,))
        is_cmu = self.table.layout.delimiter == CMU_DELIMITER
        if not (self.labelled or is_cmu):
            advice = f"A file without labels needs the column {ID_COLUMN}. Fix the header."
            return find_columns(self.table, [role], [names.id], advice)[0]
        column = find_column(self.table, role, names.id)
        if column is None:
            self.notes.append("it has no column id, so rows are called by their lines")
        return column

    def find_own_ids(self) -> int | None:
        """Return the position of the ids in a file of a user's own task, or None.

        A column with the usual name may hold something else. Then rows are called by their lines.
        """
        is_named = self.format.id_column != ""
        name = self.format.id_column or ID_COLUMN
        role = Role(f"id={name} in --task", (name,))
        column = find_column(self.table, role, name if is_named else None)
        if column is None or is_named:
            return column
        ids = [row.fields[column].strip() for row in self.table.rows if len(row.fields) > column]
        if len(set(ids)) == len(ids) and "" not in ids:
            return column
        self.notes.append("its ids are not unique, so rows are called by their lines")
        return None

    def parse(self, row: Row) -> Example:
        """Return the example of a row. Raises BadRow where it is none."""
        fault = self.table.fault_of(row, self.columns)
        if fault:
            raise BadRow(fault)
        row_id = self.id_of(row)
        values = [row.fields[column].strip() for column in self.columns]

        num_sentences = len(self.format.text_columns)
        first = values[0]
        second = values[1] if num_sentences == 2 else None
        if not self.labelled:
            return Example(row_id, first, second, None)
        self.check_not_empty(values)
        return Example(row_id, first, second, self.parse_label(values[num_sentences]))

    def id_of(self, row: Row) -> str:
        """Return the id of a row. Raises BadRow where a row cannot have it."""
        if self.id_column is None:
            return f"line-{row.line}"
        row_id = row.fields[self.id_column].strip()
        self.check_id(row_id)
        self.line_of_id[row_id] = row.line
        return row_id

    def check_id(self, row_id: str) -> None:
        """Raise BadRow for an id that is empty, is in a row above, or has a comma.

        An early release of the course's Quora files has ids with blanks.
        """
        if not row_id:
            raise BadRow("the id is empty; each row needs an id of its own")
        if self.format.is_course and re.search(r"[,\t\r\n]", row_id):
            raise BadRow(
                f"the id {row_id!r} holds a comma, tab or line break; in a leaderboard's file, "
                "these end the id"
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
        if label_text(text) in self.format.dropped_labels:
            raise BadRow(f"label '{text}', which drop_labels= names", is_empty=True)
        if self.format.classes:
            return self.parse_class(text)
        label = self.parse_truth(text)
        if label is None:
            label = parse_number(text, self.table.has_decimal_comma)
        if math.isnan(label):
            raise BadRow(f"label '{text}' is not a number; {self.format.label_rule}")

        is_in_range = self.format.low <= label <= self.format.high
        if not self.format.has_limits:
            is_in_range = math.isfinite(label)
        is_whole_enough = label.is_integer() or not self.format.is_integer
        if not (is_in_range and is_whole_enough):
            raise BadRow(f"label '{text}' is not allowed; {self.format.label_rule}")
        return label

    def parse_class(self, text: str) -> float:
        """Return the number of the class that a label names. Raises BadRow for another text."""
        number = self.number_of_class.get(label_text(text))
        if number is not None:
            return number
        similar = get_close_matches(text, self.format.classes, n=1)
        hint = f"; did you mean '{similar[0]}'?" if similar else ""
        raise BadRow(f"label '{text}' is not allowed; {self.format.label_rule}{hint}")

    def parse_truth(self, text: str) -> float | None:
        """Return 1 or 0 for a label of two values that is written as true or false."""
        if (self.format.low, self.format.high) != (0, 1):
            return None
        return {"true": 1.0, "false": 0.0}.get(text.casefold())

    def printable_id(self, row: Row) -> str:
        """Return the id of a bad row for a message, or "unusable"."""
        if self.id_column is None:
            return "none"
        fields = row.fields
        row_id = fields[self.id_column].strip() if self.id_column < len(fields) else ""
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
        raise ValueError(f"{self.table.place(row)}: {problem}. {advice}")
