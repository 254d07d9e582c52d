"""The texts that a user gives a command: a table, or plain lines.

`python -m multitask.predict` and `python -m contrastive.embed` read them. A table is never read as
plain lines: then its header and its delimiters would become part of the texts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from data.tables.columns import ColumnNames, Role, find_column, find_columns
from data.tables.file_text import ZIP_BYTES, damage_in, decode
from data.tables.headers import is_first_line_a_row, name_by_position
from data.tables.reader import (
    STANDARD_INPUT,
    TABLE_SUFFIXES,
    looks_like_table,
    parse_table,
    read_source,
)
from data.tables.rows import RawTable, Row
from minbert.commands.texts import visible_everywhere

ID = Role("--id", ("id",))
TEXT = Role("--text", ("sentence", "text"))
# R and pandas write these words for a missing value. They may be texts, too.
MISSING = {"NA", "NaN", "nan", "None", "NULL", "null", "<NA>"}
# The name of a column is one word, as of "question1" or "text_a".
NAME = re.compile(r"[a-z_]+[0-9]*(_[a-z0-9]+)?")


class TextRow(NamedTuple):
    """One text, or two that belong together.

    id: that of its row in a table, or the number of its line.
    """

    id: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class UserTexts:
    """All texts of an input, in its order.

    table: the table that they come from, or None for plain lines.
    notes: what the user should know about the reading, one sentence each.
    places: the position of each row among the rows of the table. Rows without a text may be left
        out.
    """

    name: str
    rows: tuple[TextRow, ...]
    table: RawTable | None
    notes: tuple[str, ...]
    places: tuple[int, ...] = ()

    def spread(self, values: Sequence[str]) -> list[str]:
        """Return the values of the rows for all rows of the table: "" for those left out."""
        if self.table is None:
            return list(values)
        spread = [""] * len(self.table.rows)
        for place, value in zip(self.places, values, strict=True):
            spread[place] = value
        return spread


def read_texts(
    path: Path | None,
    roles: Sequence[Role],
    names: ColumnNames,
    has_lines: bool = False,
    skips_empty: bool = False,
    has_ids: bool = False,
) -> UserTexts:
    """Read the texts of a file, or of standard input for None.

    roles: of the columns of one text or of two. In plain lines, a tab separates two texts.
    names: the columns that the user passed. Then the input is a table.
    has_lines: whether the user says that each line is a row, and the input no table.
    skips_empty: whether rows of a table without a text are left out and noted. Else they are
        refused.
    has_ids: whether rows are called by the column of ids, if there is one. Else by their lines.

    Raises ValueError with the place, what was found, what is expected and what to do.
    """
    name = STANDARD_INPUT if path is None else str(path)
    content = read_source(path)
    if has_lines and names.are_given:
        raise ValueError("--lines says that the input has no columns; drop it, or their names.")
    if has_lines:
        return read_lines(name, content, len(roles))
    header = header_of_one_column(name, content, roles, names)
    if header:
        return take_texts(one_column(name, content, header), roles, names, skips_empty, has_ids)
    if not (names.are_given or is_table(name, content, roles)):
        return read_lines(name, content, len(roles))
    table = parse_table(name, content, names=names)
    # A task whose training file has no header calls its columns by position. A header may name
    # them in another order.
    if not names.are_given and is_first_line_a_row(table) is not False:
        usual: list[str] = []
        for role in roles:
            usual += role.names
        table = name_by_position(table, usual)
    return take_texts(table, roles, names, skips_empty, has_ids)


# --- a table, or plain lines? ---------------------------------------------------------------------


def is_table(name: str, content: bytes, roles: Sequence[Role]) -> bool:
    """Whether an input is a table with a header.

    Lines of two texts and one tab have no header, unless a usual name of a column is in the first.

    Raises ValueError where the first line may be either.
    """
    if not looks_like_table(name, content):
        return False
    is_named_table = Path(name).suffix.lower() in TABLE_SUFFIXES or content.startswith(ZIP_BYTES)
    if len(roles) != 2 or is_named_table:
        return True
    lines = [line for line in split_lines(decode(name, content).text) if line.strip()]
    if any(line.count("\t") != 1 for line in lines):
        return True

    fields = [field.strip().casefold() for field in lines[0].split("\t")]
    usual: set[str] = set()
    for role in roles:
        usual |= {column.casefold() for column in role.names}
    if usual & set(fields):
        return True
    if all(NAME.fullmatch(field) for field in fields):
        raise ValueError(
            f"{name}, line 1: '{' and '.join(fields)}' may be names of columns, or two texts. Name "
            f"the columns with {' and '.join(role.flag for role in roles)}, or pass --lines if "
            "each line is a row."
        )
    return False


def header_of_one_column(
    name: str, content: bytes, roles: Sequence[Role], names: ColumnNames
) -> str:
    """The first line of a file without delimiters, if it is the name of the expected column.

    "" where it is not, or where the name or the content says how the file is written.
    """
    if len(roles) != 1 or names.id is not None or looks_like_table(name, content):
        return ""
    lines = split_lines(decode(name, content).text)
    expected = roles[0].names if names.text is None else (names.text,)
    first = lines[0].strip() if len(lines) > 1 else ""
    return first if first.casefold() in {column.casefold() for column in expected} else ""


def one_column(name: str, content: bytes, header: str) -> RawTable:
    """The table of one column in a file whose first line is the header.

    Commas belong to the texts, unless a line stands in quotes as in CSV.
    """
    table = parse_table(name, content)
    note = f"the first line, '{header}', is the header (--lines reads it as a text)"
    lines = split_lines(decode(name, content).text)
    has_quoted = any(line.strip().startswith('"') and line.rstrip().endswith('"') for line in lines)
    if has_quoted or all(len(row.fields) == 1 for row in table.rows):
        return replace(table, notes=(*table.notes, note))
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            rows.append(Row(number, [line]))
    layout = table.layout._replace(delimiter="\t", has_quotes=False)
    return RawTable(name, Row(1, [header]), tuple(rows), layout, (*table.notes, note))


def split_lines(text: str) -> list[str]:
    """Split a text at "\n", or at "\r" where it has no other line end.

    str.splitlines would also split at characters that stand inside sentences, such as U+2028.
    """
    lines = text.split("\n" if "\n" in text else "\r")
    return lines[:-1] if lines[-1] == "" else lines


# --- the texts ------------------------------------------------------------------------------------


def read_lines(name: str, content: bytes, num_texts: int) -> UserTexts:
    """Return the texts of plain lines: one on each line, or two with a tab between.

    An empty line is refused. Left out, it would move all rows behind it. As a text, it means
    nothing.
    """
    decoded = decode(name, content)
    lines = split_lines(decoded.text)
    expected = "one text per line" if num_texts == 1 else "two texts per line, with a tab between"
    if not lines:
        advice = "Pass a file that has some."
        if name == STANDARD_INPUT:
            advice = "Pass them with < texts.txt or --input texts.txt."
        raise ValueError(f"{name} holds no lines; expected is {expected}, in UTF-8. {advice}")
    rows = []
    for number, line in enumerate(lines, start=1):
        place = f"{name}, line {number}"
        if not line.strip():
            raise ValueError(
                f"{place} is empty; expected is {expected}, so that row and line agree. Remove "
                "empty lines first: grep '[^[:space:]]'"
            )
        damage = damage_in(line)
        if damage:
            raise ValueError(f"{place} holds {damage}. Fix the line, or save the file as UTF-8.")
        pieces = [line] if num_texts == 1 else line.split("\t")
        texts = tuple(piece.strip() for piece in pieces)
        if len(texts) != num_texts or not all(texts):
            raise ValueError(
                f"{place} is {line.strip()!r}; expected are {expected}. Fix or remove the line."
            )
        rows.append(TextRow(str(number), texts))
    notes = (decoded.note,) if decoded.note else ()
    return UserTexts(name, tuple(rows), None, notes)


def take_texts(
    table: RawTable,
    roles: Sequence[Role],
    names: ColumnNames,
    skips_empty: bool,
    has_ids: bool,
) -> UserTexts:
    """Return the texts in the columns of a table."""
    flags = " and ".join(f"{role.flag} NAME" for role in roles)
    lines = "is a text of its own" if len(roles) == 1 else "has two texts with a tab between"
    advice = (
        f"Pass the columns of the texts with {flags}, or --lines if each line {lines}. If the "
        f"file has no header, a number names a column: 1 to {len(table.columns)}."
    )
    passed = [names.text, names.text_pair][: len(roles)]
    columns = find_columns(table, roles, passed, advice)
    id_column = find_column(table, ID, names.id) if has_ids else None

    rows = []
    places = []
    left_out = []
    for place, row in enumerate(table.rows):
        table.check_row(row, columns)
        texts = tuple(row.fields[column].strip() for column in columns)
        if not all(texts) and skips_empty:
            left_out.append(row)
            continue
        if not all(texts):
            empty = columns[texts.index("")]
            raise ValueError(
                f"{table.place(row)}: '{table.columns[empty]}' is empty; each row needs a text. "
                "Fix or remove the row."
            )
        row_id = str(row.line) if id_column is None else row.fields[id_column].strip()
        rows.append(TextRow(row_id, texts))
        places.append(place)
    if not rows:
        state = "no row with a text" if left_out else "a header and no rows"
        raise ValueError(f"{table.name} holds {state}; expected is at least one row.")
    listed = " and ".join(f"'{table.columns[column]}'" for column in columns)
    layout = f"{table.name}: {table.layout}, {len(rows):,} rows, text in {listed}"
    notes = [layout, *table.notes]
    if left_out:
        first = table.place_in_file(left_out[0])
        notes.append(f"{len(left_out):,} without a text left out, the first: {first}")
    missing = note_on_missing(rows)
    if missing:
        notes.append(missing)
    return UserTexts(table.name, tuple(rows), table, tuple(notes), tuple(places))


def note_on_missing(rows: Sequence[TextRow]) -> str:
    """A sentence for the user where texts are words that often stand for a missing value, or ""."""
    words = []
    for row in rows:
        words += [text for text in row.texts if text in MISSING]
    if not words:
        return ""
    return f"{len(words):,} texts are only a word such as '{words[0]}', and are read as texts"


def one_line(text: str) -> str:
    """Return a text without the tabs and line breaks that a table may hold, to print it.

    A terminal also gets no control characters. A pipe or a file gets the text as it is.
    """
    line = " ".join(text.split()) if set(text) & set("\t\r\n") else text
    return visible_everywhere(line) if sys.stdout.isatty() else line
