"""Tables: of finished texts for a report, and of scores for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

# What a column holds. It decides the alignment, the font and where a line may break.
ColumnKind = Literal["heading", "sentence", "words", "number", "identifier"]

NO_VALUE = "–"


class Column(NamedTuple):
    """A column of a table."""

    title: str
    kind: ColumnKind = "number"


@dataclass(frozen=True)
class Table:
    """A table of finished texts.

    columns: K columns. A column of kind "heading" holds the names of the rows.
    rows: each row has K texts.
    shades: for each cell a number from -1 to 1 that says how strongly it is coloured.
        Positive cells are blue (right answers, high values). Negative cells are orange (wrong
        answers). 0 means no colour. Empty for a table without colours. Only HTML shows colours.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        # A wrong table is a mistake in the code, and not in the user's input.
        lengths = [len(row) for row in (self.columns, *self.rows, *self.shades)]
        assert len(set(lengths)) == 1, f"rows of different lengths in one table: {lengths}"
        kinds = {column.kind for column in self.columns}
        assert kinds <= set(get_args(ColumnKind)), f"unknown kinds of columns in {sorted(kinds)}"
        assert len(self.shades) in (0, len(self.rows)), (
            f"{len(self.shades)} rows of shades for {len(self.rows)} rows"
        )

    @property
    def header(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return tuple(column.title for column in self.columns)


def heading_and_numbers(heading: str, *titles: str) -> tuple[Column, ...]:
    """Columns for a common table: the names of the rows come first, all others are numbers."""
    return (Column(heading, "heading"), *(Column(title) for title in titles))


def number_text(value: float | None) -> str:
    """A score with four decimals, or a dash where there is none."""
    return NO_VALUE if value is None else f"{value:.4f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Write rows of texts as a table for the terminal: the first column left, the others right.

    rows: the titles first, each row with as many texts.
    """
    columns = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for first, *others in rows:
        line = first.ljust(widths[0])
        for cell, width in zip(others, widths[1:], strict=True):
            line += "  " + cell.rjust(width)
        lines.append(line.rstrip())
    return "\n".join(lines)


def score_table(
    heading: str, columns: Mapping[str, str], rows: Mapping[str, Mapping[str, float | str]]
) -> str:
    """Write scores with four decimals as a table for the terminal.

    heading: the title above the names of the rows.
    columns: the title of each column by its key.
    rows: the scores of each row by the columns' keys. A text stays as it is. A row without a score
        gets "–".
    """
    name_width = max(len(name) for name in (heading, *rows))
    # Two spaces between columns, and room for "-0.1234" below a short title.
    widths = {key: max(9, len(title) + 2) for key, title in columns.items()}
    for key in columns:
        for scores in rows.values():
            if isinstance(scores.get(key), str):
                widths[key] = max(widths[key], len(str(scores[key])) + 2)
    titles = [title.rjust(widths[key]) for key, title in columns.items()]
    lines = [heading.ljust(name_width) + "".join(titles)]
    for name, scores in rows.items():
        line = name.ljust(name_width)
        for key, width in widths.items():
            score = scores.get(key, NO_VALUE)
            cell = score if isinstance(score, str) else f"{score:.4f}"
            line += cell.rjust(width)
        lines.append(line)
    return "\n".join(lines)
