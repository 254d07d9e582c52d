"""JSON lines, JSON arrays and Excel workbooks -> rows.

Their fields have types. Here they become text, as a CSV file would hold them: 3 and not 3.0, true
and false, and an empty text for a value that is missing.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple

from data.tables.rows import (
    JSON_ARRAY,
    JSON_LINES,
    WORKBOOK,
    EmptyTable,
    Layout,
    Nested,
    RawTable,
    Row,
)

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

TO_JSON_LINES = (
    "Expected is one JSON object per line. pandas writes it with to_json(PATH, orient='records', "
    "lines=True)."
)
# The beginning of an array of objects, on one line or on several.
ARRAY = re.compile(r"\s*\[\s*\{")


# --- JSON -----------------------------------------------------------------------------------------


class Record(NamedTuple):
    """A JSON object, and the number of its line or of its place in an array."""

    line: int
    values: dict[str, Any]


def is_json(text: str, suffix: str) -> bool:
    """Whether a text is meant to be JSON: by the name of its file, or by its first characters."""
    if suffix in (".jsonl", ".ndjson", ".json") or ARRAY.match(text):
        return True
    first = text.lstrip()[:100_000].partition("\n")[0].strip()
    if not first.startswith("{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def read_json(name: str, text: str, encoding: str) -> RawTable:
    """Return the table in a text with a JSON object on each line, or with an array of objects.

    Its columns are all keys, in the order of their first use.

    Raises ValueError with the place, what was found, what is expected and what to do.
    """
    is_array = ARRAY.match(text) is not None
    records = parse_array(name, text) if is_array else parse_lines(name, text)
    if not records:
        raise EmptyTable(f"{name}: the file is empty. {TO_JSON_LINES}")

    # A dict keeps the order in which its keys came first.
    columns: dict[str, None] = {}
    for record in records:
        columns.update(dict.fromkeys(record.values))
    rows = []
    for record in records:
        fields = [to_field(record.values.get(column)) for column in columns]
        rows.append(Row(record.line, fields))
    layout = Layout(JSON_ARRAY if is_array else JSON_LINES, encoding)
    return RawTable(name, Row(0, list(columns)), tuple(rows), layout)


def parse_lines(name: str, text: str) -> list[Record]:
    """Return the objects of a text with one on each line. Blank lines are none."""
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            records.append(Record(number, parse_record(name, number, line)))
    return records


def parse_array(name: str, text: str) -> list[Record]:
    """Return the objects of an array. Raises ValueError where it holds anything else."""
    try:
        items = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{name}: begins as a JSON array of objects, and is not readable as one ({error}). "
            "Write the file again."
        ) from None
    records = []
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise ValueError(
                f"{name}, item {number}: holds {json.dumps(item)[:40]}. Expected is an array of "
                "JSON objects."
            )
        records.append(Record(number, item))
    return records


def parse_record(name: str, number: int, line: str) -> dict[str, Any]:
    """Return the object on a line. Raises ValueError where there is none."""
    try:
        value = json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{name}, line {number}: not readable as JSON ({error}). {TO_JSON_LINES}"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{name}, line {number}: holds {line.strip()[:40]}. {TO_JSON_LINES}")
    return value


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError where a key comes twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{double}' comes twice")
    return values


def to_field(value: Any) -> str:
    """Return a value of JSON or of a cell as the text that a CSV file would hold."""
    if value is None:
        return ""
    if isinstance(value, str):
        # Half of a pair of escapes such as \ud83d is no character.
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict | list):
        return Nested(json.dumps(value, ensure_ascii=False))
    if isinstance(value, datetime):
        # A cell with a date alone also comes as midnight of that day.
        is_date = value.time() == time()
        return value.date().isoformat() if is_date else value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


# --- Excel workbooks ------------------------------------------------------------------------------


def read_workbook(name: str, content: bytes) -> RawTable:
    """Return the table in an Excel workbook that has one sheet with cells.

    Raises ValueError where openpyxl is missing, where the content is no workbook, for several
    sheets, and for a formula whose result was not saved.
    """
    check_archive(name, content)
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise ValueError(
            f"{name}: an Excel workbook needs the package openpyxl, which is not installed. Run "
            "`bash setup.sh --excel`, or save the sheet as CSV in UTF-8."
        ) from None
    try:
        workbook = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(content))
    # openpyxl raises the errors of many libraries for a damaged file.
    except Exception as error:
        raise ValueError(
            f"{name}: the workbook cannot be opened ({type(error).__name__}: {error}). Save it as "
            "CSV in UTF-8."
        ) from None

    # Which of several sheets is meant cannot be known.
    filled = [sheet for sheet in workbook.worksheets if has_cells(sheet)]
    if len(filled) != 1:
        titles = ", ".join(sheet.title for sheet in filled) or "none"
        raise ValueError(
            f"{name}: expected is a workbook with one sheet that has cells; it has {len(filled)} "
            f"({titles}). Save the sheet as CSV in UTF-8, or in a workbook of its own."
        )
    rows = read_sheet(name, filled[0], formulas[filled[0].title])
    return RawTable(name, rows[0], tuple(rows[1:]), Layout(WORKBOOK))


def check_archive(name: str, content: bytes) -> None:
    """Raise ValueError for an archive that is no Excel workbook."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = archive.namelist()
    except zipfile.BadZipFile:
        raise ValueError(
            f"{name}: the file begins as an archive, but is damaged. Fetch or save it again."
        ) from None
    if "xl/workbook.xml" in files:
        return
    if "content.xml" in files:
        raise ValueError(
            f"{name}: an OpenDocument file. Save its table as .xlsx, or as CSV in UTF-8."
        )
    if "xl/workbook.bin" in files:
        raise ValueError(
            f"{name}: a binary workbook (.xlsb). Save it as .xlsx, or as CSV in UTF-8."
        )
    listed = ", ".join(files[:3])
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    raise ValueError(f"{name}: an archive of {count} ({listed}). Unpack it first.")


def has_cells(sheet: Worksheet) -> bool:
    """Whether any cell of a sheet holds a value."""
    values: list[Any] = []
    for row in sheet.iter_rows(values_only=True):
        values += row
    return any(value is not None for value in values)


def read_sheet(name: str, sheet: Worksheet, formulas: Worksheet) -> list[Row]:
    """Return the rows of a sheet that hold values, the header first.

    formulas: the same sheet, with formulas where `sheet` has their results.
    """
    rows = []
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        values = [cell.value for cell in cells]
        for cell in cells:
            # Programs other than Excel may write a formula and leave its result to Excel.
            formula = formulas[cell.coordinate]
            if cell.value is None and formula.data_type == "f":
                raise ValueError(
                    f"{name}, cell {cell.coordinate}: holds a formula without its result. Open and "
                    "save the workbook in Excel, or save the sheet as CSV in UTF-8."
                )
        if any(value is not None for value in values):
            rows.append(Row(number, [to_field(value) for value in values]))
    return without_empty_columns(rows)


def without_empty_columns(rows: list[Row]) -> list[Row]:
    """Return rows without the columns at the right end that no row fills."""
    width = 0
    for row in rows:
        filled = [column for column, field in enumerate(row.fields, start=1) if field]
        width = max(width, *filled, 0)
    return [Row(row.line, row.fields[:width]) for row in rows]
