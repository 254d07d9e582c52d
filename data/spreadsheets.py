"""Tables that a spreadsheet opens: CSV in UTF-8 with a byte-order mark.

Excel takes a CSV file without the mark for Windows-1252. It runs a cell that begins like a formula,
so such a cell gets an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from data.rows import is_number

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula. A number stays as it is."""
    if not text.startswith(FORMULA_SIGNS) or is_number(text):
        return text
    return f"'{text}"


def new_column(name: str, columns: Iterable[str]) -> str:
    """Return a name for a new column that none of the columns has: `name`, or `name_2`."""
    folded = {column.casefold() for column in columns}
    candidate = name
    number = 1
    while candidate.casefold() in folded:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def write_spreadsheet(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ","
) -> None:
    """Write a table as CSV, whole or not at all.

    delimiter: a semicolon where the spreadsheet's language takes the comma for a decimal point.

    Raises ValueError where the folder cannot be written or the disk is full.
    """
    # Imported late: it imports torch, and a command must refuse bad input at once.
    from minbert.commands.files import write_atomically

    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
    for row in (header, *rows):
        writer.writerow([safe_cell(cell) for cell in row])
    # Half of a pair of escapes in JSON is no character of UTF-8.
    content = file.getvalue().encode("utf-8-sig", errors="replace")

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    write_atomically(path, write)
