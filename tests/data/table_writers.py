"""Tables as other programs write them, drawn at random: hard texts, and the rules of each writer.

A program that writes CSV puts quotes around some fields and doubles the quotes inside. Which fields
these are differs from program to program. `draw_file` draws a table and a writer, and knows the
rows that must be read.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

Value = str | int | float | None


class Drawn(NamedTuple):
    """A file, and the table that it holds.

    rows: the texts that must be read, without blanks around them.
    """

    writer: str
    suffix: str
    content: bytes
    header: list[str]
    rows: list[list[str]]


# --- texts ----------------------------------------------------------------------------------------

WORDS = ("good", "bad", "the film", "Café", "5 €", "it's", "naïve", "NA", "#1", "a b", "x", "-1")


class Style(NamedTuple):
    """How often a text holds something special, from 0 to 1.

    whole: quotes around the whole text, as part of it.
    """

    comma: float
    quote: float
    doubled: float
    opening: float
    whole: float
    line_break: float
    tab: float
    backslash: float
    empty: float


def draw_style(random: Random) -> Style:
    """A file often has many of one thing and nothing of most others."""
    return Style(*(random.choice((0, 0, 0, 0.05, 0.3, 1)) for _ in Style._fields))


def draw_text(random: Random, style: Style) -> str:
    """A text. It holds what the style says."""
    if random.random() < style.empty / 3:
        return ""
    pieces = random.choices(WORDS, k=random.randint(1, 5))
    specials = (
        (style.comma, ", "),
        (style.comma / 2, "; "),
        (style.quote, random.choice(('"', '" ', ' "yes" ', '"yes", '))),
        (style.doubled, '""'),
        (style.line_break, "\n"),
        (style.tab, "\t"),
        (style.backslash, "\\"),
    )
    for share, special in specials:
        if random.random() < share:
            pieces.insert(random.randint(0, len(pieces)), special)
    text = " ".join(pieces) if random.random() < 0.7 else "".join(pieces)
    if random.random() < style.opening:
        text = f'"{text}'
    if random.random() < style.whole:
        text = f'"{text}"'
    return text.strip()


def draw_table(random: Random) -> tuple[list[str], list[list[Value]]]:
    """A header, and rows of values: an id, one or two texts, perhaps a label, in any order."""
    style = draw_style(random)
    columns: dict[str, Callable[[int], Value]] = {
        "id": lambda number: f"r{number}",
        "sentence": lambda number: draw_text(random, style),
    }
    if random.random() < 0.3:
        other = draw_style(random)
        columns["remark, long"] = lambda number: draw_text(random, other)
    kind = random.randint(0, 3)
    if kind == 1:
        columns["label"] = lambda number: random.randint(0, 4)
    elif kind == 2:
        columns["label"] = lambda number: random.choice((0.5, 2.25, -1.5, None))
    elif kind == 3:
        columns["label"] = lambda number: random.choice(("good", "bad"))
    if random.random() < 0.15:
        del columns["id"]
    names = list(columns)
    random.shuffle(names)
    num_rows = random.choice((1, 2, 3, 5, 12, 30))
    rows = []
    for number in range(num_rows):
        row = [columns[name](number) for name in names]
        # A row of nothing is a blank line in most formats.
        if any(to_text(value).strip() for value in row):
            rows.append(row)
    return names, rows or [["x"] * len(names)]


# --- writers --------------------------------------------------------------------------------------


class Policy(NamedTuple):
    """Which fields of a row a program puts into quotes.

    must_quote: for a value, its text and the delimiter.
    quotes_header: whether the header's names are quoted as any text is, or never.
    """

    must_quote: Callable[[Value, str, str], bool]
    quotes_header: bool = True


def is_special(text: str, delimiter: str) -> bool:
    """Whether a text cannot stand without quotes."""
    return any(sign in text for sign in (delimiter, '"', "\n", "\r"))


POLICIES = {
    "Python, QUOTE_MINIMAL": Policy(lambda value, text, sign: is_special(text, sign)),
    "PowerShell": Policy(lambda value, text, sign: value is not None),
    "all, also what is missing": Policy(lambda value, text, sign: True),
    "R": Policy(lambda value, text, sign: isinstance(value, str)),
    "a database, texts only": Policy(
        lambda value, text, sign: isinstance(value, str), quotes_header=False
    ),
    "Excel": Policy(lambda value, text, sign: is_special(text, sign) or "," in text),
    "PostgreSQL": Policy(lambda value, text, sign: is_special(text, sign) or value == ""),
    "Ruby": Policy(
        lambda value, text, sign: is_special(text, sign) or value == "" or text[:1] == " "
    ),
    "texts with blanks": Policy(
        lambda value, text, sign: is_special(text, sign) or " " in text, quotes_header=False
    ),
}


def to_text(value: Value) -> str:
    """A value as a table holds it."""
    return "" if value is None else str(value)


def write_with(
    policy: Policy, delimiter: str, end: str, header: Sequence[str], rows: Sequence[Sequence[Value]]
) -> str:
    """A table as a program with this policy writes it."""
    lines = []
    for number, row in enumerate([header, *rows]):
        fields = []
        for value in row:
            text = to_text(value)
            is_quoted = policy.must_quote(value, text, delimiter)
            if number == 0 and not policy.quotes_header:
                is_quoted = is_special(text, delimiter)
            fields.append('"' + text.replace('"', '""') + '"' if is_quoted else text)
        lines.append(delimiter.join(fields) + end)
    return "".join(lines)


def write_plain(delimiter: str, header: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    """A table without any quotes around fields, as of `print(*row, sep=delimiter)`."""
    lines = [delimiter.join(map(to_text, row)) for row in (header, *rows)]
    return "\n".join(lines) + "\n"


def write_csv_module(random: Random, delimiter: str, end: str, header, rows) -> str:
    """A table from Python's csv module, in a dialect drawn at random."""
    file = io.StringIO(newline="")
    quoting = random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))
    escapes = {"doublequote": False, "escapechar": "\\"} if random.random() < 0.2 else {}
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end, **escapes)
    writer.writerows([header, *rows])
    return file.getvalue()


def change_texts(
    rows: Sequence[Sequence[Value]], change: Callable[[str], str]
) -> list[list[Value]]:
    """The rows with every text changed."""
    changed: list[list[Value]] = []
    for row in rows:
        changed.append([change(value) if isinstance(value, str) else value for value in row])
    return changed


def without(signs: str, text: str) -> str:
    """A text with blanks in place of some signs."""
    return "".join(" " if sign in signs else sign for sign in text)


def without_outer_quotes(text: str) -> str:
    """A text that does not stand in quotes. No reader of CSV could know that they are its own."""
    while text.startswith('"') and text.endswith('"'):
        text = text[1:-1].strip()
    return text


def draw_file(seed: int) -> Drawn:
    """Draw a table and a program that writes it."""
    random = Random(seed)
    header, rows = draw_table(random)
    kind = random.choice(
        ("plain", "print", "policy", "policy", "policy", "csv module", "JSON lines")
    )
    delimiter = random.choice(("\t", "\t", "\t", ",", ",", ";", "|"))
    end = random.choice(("\n", "\r\n"))
    suffix = random.choice((".csv", ".tsv", ".txt"))
    writer = kind
    if kind == "plain":
        rows = change_texts(rows, lambda text: without("\t\n", text))
        content = write_plain("\t", header, rows)
    elif kind == "print":
        delimiter = random.choice((",", ";", "|"))
        header = [without(delimiter, name) for name in header]
        rows = change_texts(
            rows, lambda text: without_outer_quotes(without(f"{delimiter}\n", text))
        )
        content = write_plain(delimiter, header, rows)
    elif kind == "policy":
        writer = random.choice(tuple(POLICIES))
        content = write_with(POLICIES[writer], delimiter, end, header, rows)
    elif kind == "csv module":
        content = write_csv_module(random, delimiter, end, header, rows)
    else:
        suffix = ".jsonl"
        is_ascii = random.random() < 0.5
        lines = []
        for row in rows:
            record = dict(zip(header, row, strict=True))
            lines.append(json.dumps(record, ensure_ascii=is_ascii))
        content = end.join(lines) + end
    encoding = random.choice(("utf-8", "utf-8-sig", "utf-16", "cp1252"))
    expected = [[to_text(value).strip() for value in row] for row in rows]
    return Drawn(f"{writer} {delimiter!r}", suffix, content.encode(encoding), header, expected)
