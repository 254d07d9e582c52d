"""One reader for every table: delimited text, `label ||| sentence`, JSON, Excel workbooks.

`read_table` finds how a file is written. `looks_like_table` says whether a file must be read so,
and not as one sentence per line. columns.py then finds the columns that a task needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from data.tables.delimited import (
    DELIMITERS,
    R_HEADER,
    first_rows,
    is_cmu,
    is_fasttext,
    is_regular,
    read_delimited,
    split_lines,
)
from data.tables.file_text import ZIP_BYTES, DecodedText, decode, read_content
from data.tables.headers import name_by_position
from data.tables.json_rows import is_json, read_json
from data.tables.rows import RawTable
from data.tables.workbooks import read_workbook

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods", ".parquet")
STANDARD_INPUT = "standard input"


def read_table(
    path: str | Path | None, has_quotes: bool | None = None, names: Sequence[str | None] = ()
) -> RawTable:
    """Read a table.

    path: None is standard input.
    has_quotes: whether quotation marks enclose fields. None: it is found from the file. It only
        matters for tables with tabs.
    names: those of the columns that the user passed. Numbers name the columns of a table without a
        header by position.

    Raises ValueError with file, line, what was found, what is expected and what to do.
    """
    name = STANDARD_INPUT if path is None else str(path)
    return parse_table(name, read_source(path), has_quotes, names)


def read_source(path: str | Path | None) -> bytes:
    """Return the bytes of a file, or of standard input for None."""
    return sys.stdin.buffer.read() if path is None else read_content(path)


def parse_table(
    name: str,
    content: bytes,
    has_quotes: bool | None = None,
    names: Sequence[str | None] = (),
) -> RawTable:
    """Return the table in the bytes of a file. name: its path, or "standard input"."""
    if content.startswith(ZIP_BYTES):
        return name_by_position(read_workbook(name, content), names)
    decoded = decode(name, content)
    suffix = Path(name).suffix.lower()
    if is_json(decoded.text, suffix):
        table = read_json(name, decoded.text, decoded.encoding)
    else:
        table = read_delimited(name, decoded.text, decoded.encoding, suffix, has_quotes)
    return name_by_position(with_note(table, decoded), names)


def with_note(table: RawTable, decoded: DecodedText) -> RawTable:
    """Return the table with what the user should know about its encoding."""
    if not decoded.note:
        return table
    notes = (decoded.note, *table.notes)
    return RawTable(table.name, table.header, table.rows, table.layout, notes)


def looks_like_table(name: str, content: bytes) -> bool:
    """Whether content must be read as a table, and not as one sentence per line.

    That is so by the name of the file, or where its first lines split into equally many columns.
    A comma or semicolon that a blank always follows belongs to prose.

    content: the whole file, or whole lines of its beginning.

    Raises ValueError for content that is neither, such as a compressed file.
    """
    suffix = Path(name).suffix.lower()
    if suffix in TABLE_SUFFIXES or content.startswith(ZIP_BYTES):
        return True
    text = decode(name, content).text
    if is_json(text, suffix):
        return True
    # Only tables begin with a line that says how they are written.
    lines = split_lines(text)
    if lines.num_skipped:
        return True
    filled = [line for line in lines.lines if line.strip()]
    if len(filled) < 2:
        return False
    if is_cmu(filled) or is_fasttext(filled) or R_HEADER.fullmatch(filled[0]):
        return True
    return any(splits_into_columns(filled, delimiter) for delimiter in DELIMITERS)


def splits_into_columns(lines: list[str], delimiter: str) -> bool:
    """Whether the first rows have equally many fields, and the delimiter is not one of prose."""
    rows = first_rows(lines, delimiter)
    if not is_regular(rows):
        return False
    pieces: list[str] = []
    for fields in rows:
        pieces += fields[1:]
    return delimiter == "\t" or any(piece[:1] not in ("", " ") for piece in pieces)
