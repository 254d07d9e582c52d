"""The rows of a table as text, however its file is written.

Every reader of tables gives a RawTable: names of columns, and rows of text fields. It does not know
what the columns mean. columns.py finds those that a task needs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data.tables.file_text import damage_in

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
    """A field of JSON that holds a list or an object, as JSON text. It is no sentence."""


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

    def fault_of(self, row: Row, columns: Sequence[int] = ()) -> str | None:
        """Say what is wrong with a row, whatever its columns mean. None: nothing.

        columns: positions of the columns that will be read.
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
            if isinstance(field, Nested):
                return f"'{self.columns[column]}' holds {field[:40]}; expected is one text"
            if field.strip() in FORMULA_ERRORS:
                return f"'{self.columns[column]}' holds {field}, a spreadsheet's failed formula"
        return None

    def _hint(self, row: Row) -> str:
        """What most often makes a row longer than the header."""
        delimiter = self.layout.delimiter
        if len(row.fields) < len(self.header.fields) or delimiter not in (",", ";", "|"):
            return ""
        return f" (a text that holds a {DELIMITER_NAMES[delimiter]} must stand in quotes)"


def parse_number(text: str, has_decimal_comma: bool = False) -> float:
    """Return the number in a text, or nan where it is none.

    A comma stands for the decimal point, as Excel writes it in many languages. "1,234" may be a
    thousand, too, so it is a number only with has_decimal_comma.
    """
    if re.fullmatch(r"[-+]?\d+,\d+", text):
        is_thousand = re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", text) is not None
        if has_decimal_comma or not is_thousand:
            text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return math.nan


def decimal_sign_of(text: str) -> str:
    """The decimal sign of a number, or "" for other texts and for a dot that may mean thousands."""
    number = re.fullmatch(r"[-+]?\d+([.,])\d+", text)
    return "" if number is None or is_grouped(text, ".") else number[1]


SIGNS = {".": "dots", ",": "commas"}
NUMBER_SHAPE = re.compile(r"[-+]?\d[\d.,]*")  # a number, or several groups of digits


def thousands_fault(table: RawTable, column: int) -> str | None:
    """Say that a column writes thousands as 6.124 or 6,124, or None where it does not.

    Such a number would be read as a fraction, or not at all. A sign is taken for that of thousands
    only if three digits follow it everywhere in the column, and something else shows it, too.
    """
    fields = [row.fields[column].strip() for row in table.rows if len(row.fields) > column]
    numbers = [field for field in fields if NUMBER_SHAPE.fullmatch(field)]
    for sign, decimal in ((".", ","), (",", ".")):
        with_sign = [number for number in numbers if sign in number]
        if not with_sign or not all(is_grouped(number, sign) for number in with_sign):
            continue
        certain = [item for item in with_sign if decimal in item or item.count(sign) > 1]
        if not certain and not are_thousands(table, numbers, sign):
            continue

        example = (certain or with_sign)[0]
        fault = (
            f"{table.name}, column '{table.columns[column]}': {SIGNS[sign]} stand before three "
            f"digits, as thousands are written, such as '{example}'. Write such numbers without "
            f"them: {example.replace(sign, '')}."
        )
        if certain:
            return fault
        return f"{fault} If it is a fraction, write {example.replace(sign, decimal)}."
    return None


def is_grouped(number: str, sign: str) -> bool:
    """Whether a sign stands before each three digits of a number, as in 1.234.567."""
    decimal = "," if sign == "." else "."
    pattern = rf"[-+]?[1-9]\d{{0,2}}(\{sign}\d{{3}})+(\{decimal}\d+)?"
    return re.fullmatch(pattern, number) is not None


def are_thousands(table: RawTable, numbers: Sequence[str], sign: str) -> bool:
    """Whether numbers such as 6.124 or 6,124 are thousands, by what else the table holds.

    numbers: those of the column. Only text is doubtful: a workbook and JSON hold numbers.
    """
    if table.layout.kind != "delimited":
        return False
    # parse_number takes 6,124 for a number only where the comma is the decimal sign.
    if sign == ",":
        return not table.has_decimal_comma
    # A comma that is a decimal sign, anywhere in the file.
    for row in table.rows:
        for field in row.fields:
            if re.fullmatch(r"[-+]?\d+,\d+", field.strip()) and not is_grouped(field.strip(), ","):
                return True
    # Whole numbers up to 999, and none above that is written without the sign.
    digits = [len(number.lstrip("+-")) for number in numbers if sign not in number]
    return table.has_decimal_comma and max(digits, default=0) == 3


def is_number(text: str) -> bool:
    """Whether a text is a number, with a point or a comma for its decimals."""
    return re.fullmatch(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?", text) is not None
