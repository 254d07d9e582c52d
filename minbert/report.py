"""A report as a list of sections, rendered as Markdown, as one HTML page that needs nothing beside itself, and as text.

Whoever has something to show makes sections of plain strings; what looks like markup in them is shown as it stands. The
page follows the reader's light or dark mode, runs no script, and prints.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from minbert.pictures import PICTURE_STYLE, Picture, draw


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
        assert len(widths) == 1 and set(self.kinds) <= set("htwni"), f"columns of a table: {widths}, {self.kinds}"
        assert len(self.shades) in (0, len(self.rows)), f"{len(self.shades)} rows of shades, {len(self.rows)} rows"


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

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfc; --ink: #1f2530; --soft: #626b7a; --line: #dcdfe5;
  --right: 38 112 214; --wrong: 214 120 20; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #14171c; --ink: #e4e7ec; --soft: #99a2b1; --line: #333a45;
    --right: 94 156 245; --wrong: 236 151 66; }
}
* { box-sizing: border-box; }
body { max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .25rem; }
p { max-width: 46rem; margin: .25rem 0 .75rem; color: var(--soft); }
nav a { margin-right: 1rem; color: rgb(var(--right)); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 600; white-space: nowrap; }
.t { min-width: 14rem; overflow-wrap: anywhere; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.w { min-width: 6rem; }
.i { font: .75rem/1.9 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; color: var(--soft); }
thead .i { font: inherit; font-weight: 600; }
td.right { background: rgb(var(--right) / var(--shade)); }
td.wrong { background: rgb(var(--wrong) / var(--shade)); }
""" + PICTURE_STYLE + """@media print {
  :root { color-scheme: light; --paper: #fff; }
  body { max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  nav { display: none; }
  h2, h3, p { break-after: avoid; }
  tr, svg, .plot .wide { break-inside: avoid; }
  .wide { overflow: visible; }
  .t, .w { min-width: 0; }
  .i { font-size: 6.5pt; }
  svg { max-width: 11cm; }
}
"""


def render_html(title: str, sections: Sequence[Section]) -> str:
    """The report as one HTML page with its style and pictures inside, whatever characters the texts hold."""
    links = "\n".join(f'<a href="#section-{number}">{escape(section.title)}</a>'
                      for number, section in enumerate(sections) if section.level == 2)
    lines = ["<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", "</head>", "<body>",
             f"<h1>{escape(title)}</h1>", f"<nav>\n{links}\n</nav>", "<main>"]
    for number, section in enumerate(sections):
        lines.append(f'<h{section.level} id="section-{number}">{escape(section.title)}</h{section.level}>')
        lines += [f"<p>{escape(section.prose)}</p>"] if section.prose else []
        if isinstance(section.body, Grid):
            lines.append(_html_grid(section.body))
        elif section.body is not None:
            lines.append(f'<div class="plot">\n{draw(section.body)}\n{_html_grid(section.body.summary)}\n</div>')
    return "\n".join([*lines, "</main>", "</body>", "</html>\n"])


def _html_grid(grid: Grid) -> str:
    header = "".join(f'<th scope="col" class="{kind}">{escape(cell)}</th>'
                     for kind, cell in zip(grid.kinds, grid.header, strict=True))
    lines = ['<div class="wide"><table>', f"<thead><tr>{header}</tr></thead>", "<tbody>"]
    for row, shades in zip(grid.rows, grid.shades or [[0.0] * len(grid.kinds)] * len(grid.rows), strict=True):
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
        blocks.append(section.title + (f"\n{'-' * len(section.title)}" if section.level == 2 else ""))
        blocks += [textwrap.fill(section.prose, 100)] if section.prose else []
        if section.body is not None:
            grid = _table_of(section.body)
            widths = [max(map(len, column)) for column in zip(grid.header, *grid.rows, strict=True)]
            blocks.append("\n".join(
                "  ".join(cell.rjust(width) if kind == "n" else cell.ljust(width)
                          for cell, width, kind in zip(row, widths, grid.kinds, strict=True)).rstrip()
                for row in (grid.header, *grid.rows)))
    return "\n\n".join(blocks) + "\n"
