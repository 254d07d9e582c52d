"""A file of a task -> Examples: the first station on the way from disk to prediction.

The course's files have tabs, quotes as in CSV, and a header. They have an index column without a
name, and an id of 25 hexadecimal digits. Columns are found by NAME, because the SST test file has
one index column more than the others. Python's csv module reads such a file here.

All other files go to tables/: those that are written in another way, and those with a damaged row.

No row disappears silently. A row that does not become an example is an error, or it is dropped,
counted and named. Next: token_cache.py.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from data.examples import CFIMDB_FILES, ID_COLUMN, Example, Format, Table, label_text
from data.tables.columns import ColumnNames
from data.tables.delimited import note_on_backslashes
from data.tables.headers import name_by_position
from data.tables.label_notes import HIDDEN_LABELS, is_list, items_of, parts_of
from data.tables.numbers import parse_number
from data.tables.reader import read_table
from data.tables.rows import FORMULA_ERRORS, EmptyTable, Layout, Nested, RawTable, Row
from data.task_columns import TaskColumns, find_task_columns

FETCH = "`python -m data.download --out DIR`"
TRUTH_VALUES = {"true": 1.0, "false": 0.0}
# The course's files hold none of these: a zero byte, marks of databases, and a failed formula that
# fills a field. tables/ knows what they mean.
ERRORS = "|".join(map(re.escape, sorted(FORMULA_ERRORS)))
UNUSUAL = re.compile(rf'\0|\\"|\\N|[\t\n,"]\s*({ERRORS})\s*([\t\n,"]|\Z)')


class BadRow(Exception):
    """A row that cannot become an example. is_empty: only its label or a sentence is empty."""

    def __init__(self, reason: str, is_empty: bool = False) -> None:
        super().__init__(reason)
        self.is_empty = is_empty


def read_examples(
    path: str | Path,
    format: Format,
    labelled: bool = True,
    drop_bad_rows: bool | None = None,
    names: ColumnNames | None = None,
) -> Table:
    """Read one file of a task.

    path: a file of the course, or any other table that tables/ reads. Blank lines are skipped.
    labelled: whether the file has labels. A labelled row with an empty label or sentence is dropped
        and named (the course's Quora dev file has two). An unlabelled file loses no row, because a
        leaderboard wants a prediction for each id.
    drop_bad_rows: drop and name the malformed rows of a labelled file too, instead of raising.
        None: the command has no flag for this.
    names: the columns, where they are not those of the format.

    Raises ValueError with file, line, what was found, what is expected and what to do.
    """
    names = names or ColumnNames()
    table = open_table(path, format.is_course, (*names, *format.columns))
    return parse_examples(table, format, labelled, drop_bad_rows, names)


def parse_examples(
    table: RawTable,
    format: Format,
    labelled: bool = True,
    drop_bad_rows: bool | None = None,
    names: ColumnNames | None = None,
) -> Table:
    """Return the examples in a table that open_table has read. The rest is as in read_examples."""
    names = names or ColumnNames()
    columns = find_task_columns(table, format, labelled, names)
    parser = RowParser(table, columns, format, labelled)

    examples: list[Example] = []
    dropped: list[str] = []
    for row in table.rows:
        try:
            examples.append(parser.parse(row))
        except BadRow as problem:
            is_droppable = labelled and (problem.is_empty or drop_bad_rows)
            if not is_droppable:
                parser.refuse(row, problem, has_flag=drop_bad_rows is not None)
            place = table.place_in_file(row)
            dropped.append(f"{place}, id {parser.printable_id(row)}: {problem}")

    if not examples:
        first = f", the first: {dropped[0]}" if dropped else ""
        state = f"has a header and no usable rows ({len(dropped)} dropped{first})"
        raise empty_file(table.name, state, format.is_course)
    notes = (*table.notes, *columns.notes)
    return Table(table.name, tuple(examples), tuple(dropped), notes=notes, style=table.style)


# --- a file -> rows of text -----------------------------------------------------------------------


def open_table(
    path: str | Path, is_course: bool = True, names: Sequence[str | None] = ()
) -> RawTable:
    """Return the table in a file of a task. Raises ValueError where there is none.

    is_course: whether it is one of the course's files.
    names: of its columns. Numbers name them by position, where the file has no header.
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
    table = read_course_file(path) if is_course else None
    if table is not None:
        return name_by_position(table, names)
    try:
        return read_table(path, names=names)
    except EmptyTable:
        raise empty_file(path, "is empty", is_course) from None


def read_course_file(path: str | Path) -> RawTable | None:
    """Read a file that is written as the course's files are: the short way for a row.

    None: the file is written in another way, or a row is damaged.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    header = text.partition("\n")[0]
    delimiter = "\t" if "\t" in header else ","
    # pandas wrote a column without a name, so quotes are those of CSV. Elsewhere they may be text.
    is_csv = "" in header.split(delimiter)[:-1] or '"' not in text
    if not is_csv or UNUSUAL.search(text):
        return None

    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    line = 1
    try:
        for fields in reader:
            # A blank line has no fields.
            if fields:
                rows.append(Row(line, fields))
            # An open quote joins several rows.
            if reader.line_num > line and any(delimiter in field for field in fields):
                return None
            line = reader.line_num + 1
    except csv.Error:
        return None
    if not are_regular(rows):
        return None
    notes = tuple(filter(None, [note_on_backslashes(rows[1:])]))
    layout = Layout("delimited", "UTF-8", delimiter)
    return RawTable(str(path), rows[0], tuple(rows[1:]), layout, notes, is_checked=True)


def are_regular(rows: Sequence[Row]) -> bool:
    """Whether there are a header with an id and rows, all with as many fields, none of them blank.

    rows: the header first.
    """
    header = rows[0].fields if rows else []
    if len(rows) < 2 or ID_COLUMN not in header:
        return False
    for row in rows[1:]:
        fields = row.fields
        if len(fields) != len(header) or fields == header or not "".join(fields).strip():
            return False
    return True


def empty_file(path: str | Path, state: str, is_course: bool = True) -> ValueError:
    """Return the error about a file that holds no example."""
    fetch = f", or fetch the course's with {FETCH}" if is_course else ""
    return ValueError(
        f"{path}: the file {state}; expected are a header and at least one row. Restore the file"
        f"{fetch}."
    )


def labels_in(text: str, separator: str) -> list[str]:
    """The labels in a field, each once. A field that is the separator alone has none."""
    parts = items_of(text) if is_list(text) else parts_of(text, separator)
    return list(dict.fromkeys(label_text(part) for part in parts))


# --- a row -> an example --------------------------------------------------------------------------


class RowParser:
    """Turns the rows of one file into examples."""

    def __init__(
        self, table: RawTable, columns: TaskColumns, format: Format, labelled: bool
    ) -> None:
        self.table = table
        self.columns = columns
        self.format = format
        self.labelled = labelled
        self.has_decimal_comma = table.has_decimal_comma
        self.line_of_id: dict[str, int] = {}
        self.number_of_class: dict[str, float] = {}
        for number, name in enumerate(format.classes):
            self.number_of_class[label_text(name)] = float(number)

    def parse(self, row: Row) -> Example:
        """Return the example of a row. Raises BadRow where it is none."""
        # A regular file of the course has no damaged row.
        fault = None
        if not self.table.is_checked:
            labels = self.columns.values[-1:] if self.format.separator and self.labelled else ()
            fault = self.table.fault_of(row, self.columns.values, lists=labels)
        if fault:
            raise BadRow(f"{fault}{self.hint_on_list(row)}")
        row_id = self.id_of(row)
        values = [row.fields[column].strip() for column in self.columns.values]

        num_sentences = len(self.format.text_columns)
        first = values[0]
        second = values[1] if num_sentences == 2 else None
        if not self.labelled:
            return Example(row_id, first, second, None)
        if not all(values):
            raise self.empty_values(values)
        label = values[num_sentences]
        if self.format.separator:
            return Example(row_id, first, second, None, self.parse_label_set(label))
        return Example(row_id, first, second, self.parse_label(label))

    def hint_on_list(self, row: Row) -> str:
        """What to say about a label that is a list, or "" where it is none."""
        column = self.columns.values[-1]
        label = row.fields[column] if self.labelled and column < len(row.fields) else ""
        is_list_of_labels = isinstance(label, Nested) and label.is_plain_list
        if self.format.is_course or not is_list_of_labels:
            return ""
        return "; several labels of a row need kind=multilabel in --task"

    def id_of(self, row: Row) -> str:
        """Return the id of a row, or its line where the file has no ids.

        Raises BadRow for an id that is empty, is in a row above, or has a comma. An early release
        of the course's Quora files has ids with blanks.
        """
        if self.columns.id is None:
            return f"line-{row.line}"
        row_id = row.fields[self.columns.id].strip()
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
        self.line_of_id[row_id] = row.line
        return row_id

    def empty_values(self, values: Sequence[str]) -> BadRow:
        """The error about a row whose label or sentence is empty."""
        names = (*self.format.text_columns, "label")
        empty = [name for name, value in zip(names, values, strict=True) if not value]
        return BadRow(f"empty {' and '.join(empty)}", is_empty=True)

    def parse_label_set(self, text: str) -> tuple[float, ...]:
        """Return for each class 1 or 0, of a row with several labels. Raises BadRow as below."""
        if label_text(text) in self.format.dropped_labels:
            raise BadRow(f"label '{text}', which drop_labels= names", is_empty=True)
        numbers = {self.parse_class(part) for part in labels_in(text, self.format.separator)}
        return tuple(float(number in numbers) for number in range(len(self.format.classes)))

    def parse_label(self, text: str) -> float:
        """Return the label of a row. Raises BadRow where it is no number or not an allowed one."""
        format = self.format
        if format.dropped_labels and label_text(text) in format.dropped_labels:
            raise BadRow(f"label '{text}', which drop_labels= names", is_empty=True)
        if format.classes:
            return self.parse_class(text)
        label = parse_number(text, self.has_decimal_comma)
        # A label of two values may be written as true and false.
        if math.isnan(label) and (format.low, format.high) == (0, 1):
            label = TRUTH_VALUES.get(text.casefold(), math.nan)
        if math.isnan(label):
            raise BadRow(f"label '{text}' is not a number; {format.label_rule}")

        is_in_range = format.low <= label <= format.high
        if not format.has_limits:
            is_in_range = math.isfinite(label)
        is_whole_enough = label.is_integer() or not format.is_integer
        if not (is_in_range and is_whole_enough):
            raise BadRow(f"label '{text}' is not allowed; {format.label_rule}")
        return label

    def parse_class(self, text: str) -> float:
        """Return the number of the class that a label names. Raises BadRow for another text."""
        number = self.number_of_class.get(label_text(text))
        if number is not None:
            return number
        similar = get_close_matches(text, self.format.classes, n=1)
        hint = f"; did you mean '{similar[0]}'?" if similar else ""
        if label_text(text).casefold() in HIDDEN_LABELS:
            hint = "; it often stands for a hidden label"
        raise BadRow(f"label '{text}' is not allowed; {self.format.label_rule}{hint}")

    def printable_id(self, row: Row) -> str:
        """Return the id of a bad row for a message, or "unusable"."""
        column = self.columns.id
        if column is None:
            return "none"
        row_id = row.fields[column].strip() if column < len(row.fields) else ""
        return row_id if row_id.isprintable() else "unusable"

    def refuse(self, row: Row, problem: BadRow, has_flag: bool) -> NoReturn:
        """Raise the ValueError about a row that is not dropped.

        has_flag: whether the command can drop such rows.
        """
        if self.labelled and has_flag:
            advice = "Fix the row, or pass --drop-bad-rows to skip and count such rows."
        elif self.labelled:
            advice = "Fix or remove the row."
        else:
            advice = (
                "Fix the row: each row of a file without labels needs a prediction, so none is "
                "skipped."
            )
        raise ValueError(f"{self.table.place(row)}: {problem}. {advice}")
