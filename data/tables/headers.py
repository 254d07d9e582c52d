"""Tables without a header: whether the first line looks like a row, and columns by position.

Published sets such as the SMS Spam Collection, CoLA and STS-B have no header. A number names a
column by its position, if no header has it as a name: text=2,label=1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from data.tables.delimited import column_checks
from data.tables.numbers import is_number
from data.tables.rows import RawTable, Row

# A line with one of these is a header, whatever else stands in it.
USUAL_NAMES = {"id", "text", "sentence", "sentence1", "sentence2", "label", "score", "sentiment"}


def name_by_position(table: RawTable, names: Sequence[str | None]) -> RawTable:
    """Return the table with columns that are called 1, 2, 3, if the user names them so.

    names: those that the user passed. The first line becomes a row, unless it looks like a header.
    A note says which of the two it is.
    """
    positions = [name for name in names if name is not None and name.isascii() and name.isdecimal()]
    count = len(table.header.fields)
    if not positions or not all(1 <= int(name) <= count for name in positions):
        return table
    # Of a header, a number may also be a name.
    is_row = is_first_line_a_row(table)
    if not is_row and all(name in table.columns for name in positions):
        return table
    numbers = [str(number) for number in range(1, count + 1)]
    by_position = replace(table, header=Row(0, numbers))
    if table.header.line == 0:
        return by_position

    rows = table.rows if is_row is False else (table.header, *table.rows)
    meaning = "a header" if is_row is False else "a row"
    place = table.place_in_file(table.header)
    note = f"its columns are named by position, and {place} is read as {meaning}"
    return replace(by_position, rows=rows, notes=(*table.notes, note))


def is_first_line_a_row(table: RawTable) -> bool | None:
    """Whether the header holds values as the rows below it do. None: nothing tells.

    Columns that hold only numbers, or few words, can tell: most of them must have such a value.
    """
    columns = table.columns
    # JSON has names in every row.
    if table.header.line == 0:
        return False
    if any(name.casefold() in USUAL_NAMES for name in columns):
        return False
    # pandas writes 0, 1, 2 above columns without names.
    if columns == [str(number) for number in range(len(columns))]:
        return False
    fitting = []
    for column, words in column_checks(table).items():
        value = table.header.fields[column].strip()
        if words is None:
            # pandas writes its index of numbers below an empty name.
            fitting.append(is_number(value))
        elif value:
            fitting.append(value in words)
    if not fitting:
        return None
    return fitting.count(True) > len(fitting) / 2


def missing_header(table: RawTable, flags: Sequence[str]) -> str:
    """A sentence for the user where a table seems to have no header, or "".

    flags: those that name columns, such as "--text".
    """
    if not is_first_line_a_row(table):
        return ""
    fields = ", ".join(f"'{field[:20]}'" for field in table.header.fields[:3])
    count = len(table.header.fields)
    advice = "Write a line with the names of the columns above it."
    if flags:
        advice = f"Name the columns by position, from 1 to {count}, with {' and '.join(flags)}."
    return (
        f"{table.place(table.header)}: expected is a header with the names of the columns; found "
        f"is a line like the rows below it: {fields}. {advice}"
    )
