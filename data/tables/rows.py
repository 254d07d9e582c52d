"""The rows of a table as text, however its file is written.

Every reader of tables gives a RawTable: names of columns, and rows of text fields. It does not know
what the columns mean. columns.py finds those that a task needs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data.tables.file_text import damage_in
from data.tables.numbers import decimal_sign_of

DELIMITER_NAMES = {
    "\t": "tab",
    ",": "comma",
    ";": "semicolon",
    "|": "vertical bar",
    " ||| ": "' ||| '",
}
JSON_LINES = "JSON lines"
JSON_ARRAY = "JSON array"
WORKBOOK = "Excel workbook"

# A spreadsheet writes these words where a formula went wrong. Excel also takes a text that begins
# with "=" or "-" for a formula, and saves #NAME? in its place.
FORMULA_ERRORS = {"#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", "#SPILL!", "#N/A"}


class EmptyTable(ValueError):
    """A file that holds no table: no header and no rows."""


class Row(NamedTuple):
    """The fields of a row, and the number of the line on which it begins.

    Of a JSON array, it is the number of the item, from 1.
    """

    line: int
    fields: list[str]


class Nested(str):
    """A field of JSON that holds a list, an object or Infinity, as JSON text. It is no sentence."""

    @property
    def is_plain_list(self) -> bool:
        """Whether it is a list of texts and whole numbers, as several labels of a row are."""
        value = json.loads(self)
        if not isinstance(value, list):
            return False
        # Half of a character cannot be written.
        text = "".join(str(item) for item in value)
        has_halves = any("\ud800" <= character <= "\udfff" for character in text)
        return not has_halves and all(type(item) in (str, int) for item in value)


class HalfCharacter(str):
    """A field of JSON that holds half of a pair of escapes, which is no character.

    escape: the half, such as "\\ud83d", which begins an emoji.
    """

    escape: str


class Layout(NamedTuple):
    """How a file is written.

    kind: "delimited", JSON_LINES, JSON_ARRAY or WORKBOOK.
    has_quotes: whether a quotation mark opens a field that may hold the delimiter.
    """

    kind: str
    encoding: str = "UTF-8"
    delimiter: str = ""
    has_quotes: bool = True

    def __str__(self) -> str:
        if self.kind != "delimited":
            return self.kind
        delimiter = DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        return f"{delimiter}-separated {self.encoding}"


class Style(NamedTuple):
    """What separates the columns of a table for a spreadsheet, and the decimal sign of numbers."""

    delimiter: str = ","
    decimal_sign: str = "."

    def number(self, text: str) -> str:
        """A number in this style, from one with a decimal point."""
        return text.replace(".", self.decimal_sign)


@dataclass(frozen=True)
class RawTable:
    """A table as text.

    name: the path of the file, or "standard input".
    header: the names of the columns, as they stand in the file.
    rows: all other rows that hold any text. A damaged row may have more or fewer fields.
    notes: what the user should know about the reading, one sentence each.
    is_checked: whether the reader knows that no row is damaged.
    """

    name: str
    header: Row
    rows: tuple[Row, ...]
    layout: Layout
    notes: tuple[str, ...] = ()
    is_checked: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of the columns, with single blanks and without blanks around them."""
        return [" ".join(name.split()) for name in self.header.fields]

    @property
    def has_decimal_comma(self) -> bool:
        """Whether a comma in a number is its decimal point.

        Programs separate columns by semicolons where the comma is taken for that.
        """
        return self.layout.delimiter == ";"

    @property
    def decimal_sign(self) -> str:
        """The sign with which the numbers of the table are written: "." or ",".

        A table with semicolons may have decimal points, as pandas writes it with sep=";".
        """
        if not self.has_decimal_comma:
            return "."
        signs = set()
        for row in self.rows:
            for field in row.fields:
                signs.add(decimal_sign_of(field.strip()))
        return "." if "." in signs and "," not in signs else ","

    @property
    def style(self) -> Style:
        """The style of a table for a spreadsheet that goes with this one."""
        return Style(";" if self.has_decimal_comma else ",", self.decimal_sign)

    @property
    def shown_columns(self) -> str:
        """The names for a message. Names with bytes that are not UTF-8 are made printable."""
        names = []
        for name in self.columns:
            if name:
                names.append(name.encode("utf-8", "backslashreplace").decode())
        return ", ".join(names) or "none with a name"

    def place(self, row: Row) -> str:
        """Where a row stands, for a message: "answers.csv, line 3"."""
        return f"{self.name}, {self.place_in_file(row)}"

    def place_in_file(self, row: Row) -> str:
        """Where a row stands in its file: "line 3", "row 3" of a workbook, "item 3" of an array."""
        word = {WORKBOOK: "row", JSON_ARRAY: "item"}.get(self.layout.kind, "line")
        return f"{word} {row.line}"

    def check_row(self, row: Row, columns: Sequence[int] = ()) -> None:
        """ValueError where something is wrong with a row. columns: those that will be read."""
        fault = self.fault_of(row, columns)
        if fault:
            raise ValueError(f"{self.place(row)}: {fault}. Fix or remove the row.")

    def fault_of(
        self, row: Row, columns: Sequence[int] = (), lists: Sequence[int] = ()
    ) -> str | None:
        """Say what is wrong with a row, whatever its columns mean. None: nothing.

        columns: positions of the columns that will be read. lists: of those that may hold a list of
            labels in JSON.
        """
        expected = len(self.header.fields)
        count = len(row.fields)
        if count != expected:
            return f"the row has {count} fields; the header names {expected}{self._hint(row)}"
        # Two tables were joined, such as with cat.
        if row.fields == self.header.fields:
            return "the row repeats the header"
        for field in row.fields:
            damage = damage_in(field)
            if damage:
                return f"the row holds {damage}"
        for column in columns:
            field = row.fields[column]
            if isinstance(field, Nested) and column in lists and field.is_plain_list:
                continue
            if isinstance(field, Nested):
                return f"'{self.columns[column]}' holds {field[:40]}; expected is one text"
            if isinstance(field, HalfCharacter):
                return (
                    f"'{self.columns[column]}' holds the escape {field.escape}, which is half of a "
                    "character; the text was cut there"
                )
            if field.strip() in FORMULA_ERRORS:
                return f"'{self.columns[column]}' holds {field}, a spreadsheet's failed formula"
        return None

    def _hint(self, row: Row) -> str:
        """What most often makes a row longer than the header."""
        delimiter = self.layout.delimiter
        if len(row.fields) < len(self.header.fields) or delimiter not in (",", ";", "|"):
            return ""
        return f" (a text that holds a {DELIMITER_NAMES[delimiter]} must stand in quotes)"
