"""Tables: of text cells, and of scores for the terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table of finished strings.

    kinds: a letter for each column, "h" heading of its row, "t" text, "w" a word or two, "n" number, "i" identifier.
    shades: for each cell -1 to 1, how strongly it is coloured: above 0 for what is right, below for what is wrong.
        Empty for a table without colours; Markdown has none.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: str
    shades: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        widths = {len(self.header), len(self.kinds), *map(len, self.rows), *map(len, self.shades)}
        assert len(widths) == 1 and set(self.kinds) <= set("htwni"), (
            f"columns of a table: {widths}, {self.kinds}"
        )
        assert len(self.shades) in (0, len(self.rows)), (
            f"{len(self.shades)} rows of shades, {len(self.rows)} rows"
        )


def score_table(heading: str, columns: dict[str, str], rows: dict[str, dict[str, float]]) -> str:
    """A line a row, under a line with `heading` and the titles of the columns by their keys; – where a row has none."""
    width = max(len(name) for name in (heading, *rows))
    lines = [(heading, columns.values())]
    lines += [
        (name, [f"{of[key]:.4f}" if key in of else "–" for key in columns])
        for name, of in rows.items()
    ]
    widths = [max(9, len(title) + 2) for title in columns.values()]
    return "\n".join(
        name.ljust(width) + "".join(map(str.rjust, cells, widths)) for name, cells in lines
    )
