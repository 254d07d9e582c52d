"""Tables that a spreadsheet opens: CSV in UTF-8 with a byte-order mark, or an Excel workbook.

Excel takes a CSV file without the mark for Windows-1252. It runs a cell that begins like a formula,
so such a cell gets an apostrophe in front. A workbook says of each cell whether it is a text.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from data.tables.numbers import is_number
from minbert.commands.files import write_atomically
from minbert.commands.optional import install_command
from minbert.commands.outputs import STREAM

# A spreadsheet takes a cell for a formula by its first character. Some drop a blank before it, or
# read the wide forms of Chinese and Japanese keyboards, too.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

# The limits of Excel.
MAX_CHARACTERS = 32_767  # of a cell
MAX_ROWS = 1_048_576
MAX_DIGITS = 15  # of a number that keeps all of them
FRACTION = re.compile(r"-?[0-9]+[.,]([0-9]+)")
NOT_IN_WORKBOOKS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


# --- before any work ------------------------------------------------------------------------------


def check_spreadsheet(path: Path) -> None:
    """Raise ValueError where a file of this name cannot be written."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".xlsx"):
        raise ValueError(f"--out is {path}; expected is a name that ends in .csv or .xlsx.")
    if suffix == ".xlsx" and importlib.util.find_spec("openpyxl") is None:
        raise ValueError(
            f"--out is {path}; an Excel workbook needs the package openpyxl, which is not "
            f"installed. Run `{install_command(['openpyxl'], '--excel')}`, or pass a name that "
            "ends in .csv."
        )


def check_cells(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Raise ValueError where rows do not fit into a workbook. CSV has no limits."""
    if path.suffix.lower() != ".xlsx":
        return
    advice = "Pass a name for --out that ends in .csv."
    # One row is the header.
    if len(rows) >= MAX_ROWS:
        raise ValueError(f"--out is {path}; Excel holds {MAX_ROWS - 1:,} rows below it. {advice}")
    for number, row in enumerate(rows, start=1):
        longest = max(map(len, row))
        if longest > MAX_CHARACTERS:
            raise ValueError(
                f"--out is {path}; row {number} has a cell of {longest:,} characters, and Excel "
                f"keeps {MAX_CHARACTERS:,}. {advice}"
            )


# --- cells and columns ----------------------------------------------------------------------------


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula. A number stays as it is."""
    if not text.lstrip(" ").startswith(FORMULA_SIGNS) or is_number(text):
        return text
    return f"'{text}"


def typed_cell(text: str, has_decimal_comma: bool, decimals: int = 0) -> str | int | float:
    """Return the number that a text is, or else the text.

    Only a number that is written in the usual way is one, so that ids such as 007 stay as they are.

    decimals: how many digits behind the point all numbers of its column have, or 0. Then a final
    zero is usual as well.
    """
    if not is_number(text) or len(text) > MAX_DIGITS:
        return text
    written = text.replace(",", ".") if has_decimal_comma else text
    if "," in written:
        return text
    number = int(written) if written.lstrip("-").isdecimal() else float(written)
    is_usual = str(number) == written or (decimals > 0 and f"{number:.{decimals}f}" == written)
    return number if is_usual else text


def decimals_of(column: Iterable[str]) -> int:
    """How many digits behind the point every number of a column has, or 0.

    It is 0 where they differ, and where a cell is no number. Empty cells do not count.
    """
    lengths = set()
    for text in filter(None, column):
        fraction = FRACTION.fullmatch(text)
        lengths.add(len(fraction[1]) if fraction else 0)
        if len(lengths) > 1:
            return 0
    return lengths.pop() if lengths else 0


def new_column(name: str, columns: Iterable[str]) -> str:
    """Return a name for a new column that none of the columns has: `name`, or `name_2`."""
    folded = {column.casefold() for column in columns}
    candidate = name
    number = 1
    while candidate.casefold() in folded:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


# --- writing --------------------------------------------------------------------------------------


def write_spreadsheet(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ","
) -> None:
    """Write a table as CSV or as a workbook, whole or not at all.

    path: its suffix, .csv or .xlsx, decides. "-" is standard output, as CSV.
    delimiter: a semicolon where the spreadsheet's language takes the comma for a decimal point.

    Raises ValueError where the folder cannot be written or the disk is full.
    """
    if path == STREAM:
        sys.stdout.buffer.write(csv_of(header, rows, delimiter))
        return
    if path.suffix.lower() == ".xlsx":
        content = workbook_of(header, rows, has_decimal_comma=delimiter == ";")
    else:
        content = csv_of(header, rows, delimiter)

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    write_atomically(path, write)


def csv_of(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str) -> bytes:
    """Return the bytes of a table as CSV."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
    for row in (header, *rows):
        writer.writerow([safe_cell(cell) for cell in row])
    # Half of a pair of escapes in JSON is no character of UTF-8.
    return file.getvalue().encode("utf-8-sig", errors="replace")


def workbook_of(
    header: Sequence[str], rows: Iterable[Sequence[str]], has_decimal_comma: bool
) -> bytes:
    """Return the bytes of a table as a workbook with one sheet.

    Where all numbers of a column have as many decimals, it shows them all, also those that are 0.
    """
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet("predictions")
    body = list(rows)
    decimals = []
    for place in range(len(header)):
        column = [row[place] for row in body]
        decimals.append(decimals_of(column))
    for number, row in enumerate((header, *body)):
        cells = []
        for text, digits in zip(row, decimals, strict=True):
            value = text if number == 0 else typed_cell(text, has_decimal_comma, digits)
            if isinstance(value, str):
                value = NOT_IN_WORKBOOKS.sub("\ufffd", value)
                value = value.encode("utf-8", errors="replace").decode()
            cell = WriteOnlyCell(sheet, value)
            # Without this, a text that begins with "=" would be a formula.
            if isinstance(value, str):
                cell.data_type = "s"
                cell.quotePrefix = value.startswith(FORMULA_SIGNS)
            elif digits:
                cell.number_format = f"0.{'0' * digits}"
            cells.append(cell)
        sheet.append(cells)
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()
