"""A report as a list of sections, rendered as Markdown, as one HTML page that needs nothing beside itself, and as text.

Whoever has something to show makes sections of plain strings; what looks like markup in them is shown as it stands. The
page follows the reader's light or dark mode, runs no script, and prints; its style is page.css.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from minbert.reporting.figures import Picture, draw
from minbert.reporting.tables import Grid

STYLE = Path(__file__).with_name("page.css")


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph and what it is about. Level 2 begins a chapter, which the page's contents list."""

    title: str
    prose: str = ""
    body: Grid | Picture | None = None
    level: int = 3


# --- Markdown ---------------------------------------------------------------------------------------------------------


def render_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report as GitHub-flavoured Markdown: headings, paragraphs, tables."""
    blocks = [f"# {_markdown_text(title)}"]
    for section in sections:
        blocks.append(f"{'#' * section.level} {_markdown_text(section.title)}")
        blocks += [_markdown_text(section.prose)] if section.prose else []
        if section.body is not None:
            blocks.append(_markdown_grid(_table_of(section.body)))
    return "\n\n".join(blocks) + "\n"


def _table_of(body: Grid | Picture) -> Grid:
    return body if isinstance(body, Grid) else body.summary


def _markdown_text(text: str) -> str:
    """On one line, for a line break ends a table's row, and with nothing in it that Markdown or HTML would obey."""
    return re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _markdown_grid(grid: Grid) -> str:
    rules = ["---:" if kind == "n" else "---" for kind in grid.kinds]
    rows = [[_markdown_text(cell) for cell in row] for row in (grid.header, *grid.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], rules, *rows[1:]])


# --- HTML -------------------------------------------------------------------------------------------------------------


def render_html(title: str, sections: Sequence[Section]) -> str:
    """The report as one HTML page with its style and pictures inside, whatever characters the texts hold."""
    links = "\n".join(
        f'<a href="#section-{number}">{escape(section.title)}</a>'
        for number, section in enumerate(sections)
        if section.level == 2
    )
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>",
        "</head>",
        "<body>",
        f"<h1>{escape(title)}</h1>",
        f"<nav>\n{links}\n</nav>",
        "<main>",
    ]
    for number, section in enumerate(sections):
        lines.append(
            f'<h{section.level} id="section-{number}">{escape(section.title)}</h{section.level}>'
        )
        lines += [f"<p>{escape(section.prose)}</p>"] if section.prose else []
        if isinstance(section.body, Grid):
            lines.append(_html_grid(section.body))
        elif section.body is not None:
            lines.append(
                f'<div class="plot">\n{draw(section.body)}\n{_html_grid(section.body.summary)}\n</div>'
            )
    return "\n".join([*lines, "</main>", "</body>", "</html>\n"])


def _html_grid(grid: Grid) -> str:
    header = "".join(
        f'<th scope="col" class="{kind}">{escape(cell)}</th>'
        for kind, cell in zip(grid.kinds, grid.header, strict=True)
    )
    lines = ['<div class="wide"><table>', f"<thead><tr>{header}</tr></thead>", "<tbody>"]
    for row, shades in zip(
        grid.rows, grid.shades or [[0.0] * len(grid.kinds)] * len(grid.rows), strict=True
    ):
        cells = (_html_cell(*cell) for cell in zip(grid.kinds, row, shades, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table></div>"])


def _html_cell(kind: str, text: str, shade: float) -> str:
    if kind == "h":
        return f'<th scope="row">{escape(text)}</th>'
    if not shade:
        return f'<td class="{kind}">{escape(text)}</td>'
    # At most 0.6 opaque, so that the text stays readable in light and in dark.
    side = "right" if shade > 0 else "wrong"
    return f'<td class="{kind} {side}" style="--shade: {0.6 * abs(shade):.3f}">{escape(text)}</td>'


# --- text -------------------------------------------------------------------------------------------------------------


def render_text(title: str, sections: Sequence[Section]) -> str:
    """The report for a terminal: paragraphs of 100 columns, and tables whose columns stand below each other."""
    blocks = [f"{title}\n{'=' * len(title)}"]
    for section in sections:
        blocks.append(
            section.title + (f"\n{'-' * len(section.title)}" if section.level == 2 else "")
        )
        blocks += [textwrap.fill(section.prose, 100)] if section.prose else []
        if section.body is not None:
            grid = _table_of(section.body)
            widths = [max(map(len, column)) for column in zip(grid.header, *grid.rows, strict=True)]
            blocks.append(
                "\n".join(
                    "  ".join(
                        cell.rjust(width) if kind == "n" else cell.ljust(width)
                        for cell, width, kind in zip(row, widths, grid.kinds, strict=True)
                    ).rstrip()
                    for row in (grid.header, *grid.rows)
                )
            )
    return "\n\n".join(blocks) + "\n"
