"""JSON lines and JSON arrays -> rows.

Their fields have types. Here they become text, as a CSV file would hold them: 3 and not 3.0, true
and false, and an empty text for a value that is missing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any, NamedTuple

from data.tables.file_text import damage_in
from data.tables.rows import (
    JSON_ARRAY,
    JSON_LINES,
    EmptyTable,
    HalfCharacter,
    Layout,
    Nested,
    RawTable,
    Row,
)

TO_JSON_LINES = (
    "Expected is one JSON object per line. pandas writes it with to_json(PATH, orient='records', "
    "lines=True)."
)
# The beginning of an array of objects, on one line or on several.
ARRAY = re.compile(r"\s*\[\s*\{")
EMPTY_ARRAY = re.compile(r"\s*\[\s*\]\s*")
# Keys under which other programs write an array of rows.
NAMES_OF_ROWS = ("data", "rows", "records", "examples", "items")
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
# A table of more cells than this must fill one of so many.
MANY_CELLS = 1_000_000
MAX_CELLS_PER_VALUE = 100


class Record(NamedTuple):
    """A JSON object, and the number of its line or of its place in an array."""

    line: int
    values: dict[str, Any]


def is_json(text: str, suffix: str) -> bool:
    """Whether a text is meant to be JSON: by the name of its file, or by its first characters."""
    if suffix in (".jsonl", ".ndjson", ".json") or ARRAY.match(text):
        return True
    # An object, on one line or on several, with nothing behind it on its last line.
    beginning = len(text) - len(text.lstrip())
    if not text.startswith("{", beginning):
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(text, beginning)
    except (ValueError, RecursionError):
        return False
    return not text[end:].partition("\n")[0].strip()


def read_json(name: str, text: str, encoding: str) -> RawTable:
    """Return the table in a text with a JSON object on each line, or with an array of objects.

    Its columns are all keys, in the order of their first use.

    Raises ValueError with the place, what was found, what is expected and what to do.
    """
    if EMPTY_ARRAY.fullmatch(text):
        raise EmptyTable(f"{name}: the file is empty. {TO_JSON_LINES}")
    is_array = ARRAY.match(text) is not None
    records = parse_array(name, text) if is_array else parse_lines(name, text)
    if not records:
        raise EmptyTable(f"{name}: the file is empty. {TO_JSON_LINES}")

    if not is_array and len(records) == 1:
        refuse_whole_table(name, records[0].values)

    # A dict keeps the order in which its keys came first.
    columns: dict[str, None] = {}
    for record in records:
        columns.update(dict.fromkeys(record.values))
    num_values = sum(len(record.values) for record in records)
    fault = emptiness(len(records) * len(columns), num_values)
    if fault:
        raise ValueError(f"{name}: {fault}. {TO_JSON_LINES}")
    # Bytes that are no text look like halves of characters. rows.py names them.
    is_damaged = damage_in(text) is not None
    rows = []
    for record in records:
        fields = [to_field(record.values.get(column), is_damaged) for column in columns]
        rows.append(Row(record.line, fields))
    layout = Layout(JSON_ARRAY if is_array else JSON_LINES, encoding)
    return RawTable(name, Row(0, list(columns)), tuple(rows), layout)


def refuse_whole_table(name: str, values: dict[str, Any]) -> None:
    """Raise ValueError where the only object of a file holds all rows.

    It holds an array of objects under a usual name, or each of its values is an object or a list.
    """
    for key in NAMES_OF_ROWS:
        items = values.get(key)
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            raise ValueError(
                f"{name}: one JSON object holds the rows in an array called '{key}'. Write that "
                "array alone into the file."
            )
    if all(isinstance(value, dict | list) for value in values.values()):
        raise ValueError(
            f"{name}: one JSON object holds the whole table, as pandas writes it with "
            f"to_json(PATH) alone. {TO_JSON_LINES}"
        )


def refuse_long_values(name: str, text: str) -> None:
    """Raise ValueError where the first JSON value of a text stands on several lines."""
    beginning = len(text) - len(text.lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(text, beginning)
    except (ValueError, RecursionError):
        return
    if "\n" not in text[beginning:end]:
        return
    is_alone = not text[end:].strip()
    if is_alone and isinstance(value, dict):
        refuse_whole_table(name, value)
    if is_alone and isinstance(value, list):
        raise ValueError(
            f"{name}: holds an array of other things than JSON objects. {TO_JSON_LINES}"
        )
    first = text.count("\n", 0, beginning) + 1
    last = text.count("\n", 0, end) + 1
    raise ValueError(f"{name}: one JSON value fills lines {first} to {last}. {TO_JSON_LINES}")


def parse_lines(name: str, text: str) -> list[Record]:
    """Return the objects of a text with one on each line. Blank lines are none."""
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            if not records:
                refuse_long_values(name, text)
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


def emptiness(num_cells: int, num_values: int) -> str:
    """Say that nearly all cells of a large table are empty, or "".

    A few values can claim a table that does not fit into memory: one cell far out in a sheet, or
    JSON objects with different keys each.
    """
    if num_cells <= max(MANY_CELLS, MAX_CELLS_PER_VALUE * num_values):
        return ""
    return f"it has {num_cells:,} cells, but only {num_values:,} values"


def to_field(value: Any, is_damaged: bool = False) -> str:
    """Return a value of JSON or of a cell as the text that a CSV file would hold.

    is_damaged: whether the file holds bytes that are no text.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value if is_damaged else text_field(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_field(value)
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        # Half of a character stays an escape, so that it does not look like a damaged byte.
        return Nested(json.dumps(value) if HALF_CHARACTER.search(text) else text)
    if isinstance(value, datetime):
        # A cell with a date alone also comes as midnight of that day.
        is_date = value.time() == time()
        return value.date().isoformat() if is_date else value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def number_field(value: float) -> str:
    """Return a number as text. Python's json writes NaN for a number that is missing."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return Nested(json.dumps(value))
    return str(int(value)) if value.is_integer() else str(value)


def text_field(text: str) -> str:
    """Return a text as a field. Half of a pair of escapes marks it as one that cannot be used."""
    half = HALF_CHARACTER.search(text)
    if half is None:
        return text
    field = HalfCharacter(HALF_CHARACTER.sub("\ufffd", text))
    field.escape = f"\\u{ord(half[0]):04x}"
    return field
