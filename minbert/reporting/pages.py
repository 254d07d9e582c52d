"""A report as a list of sections, written as one HTML page, as Markdown, or for a terminal.

Whoever has something to show makes sections of plain texts. Markup inside these texts is shown as
it stands. The HTML page needs no other file, runs no script, follows the reader's light or dark
mode, and prints. Its template and its style sheet stand in templates/.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.commands.files import write_atomically
from minbert.commands.texts import visible, visible_everywhere
from minbert.reporting.figures import Figure
from minbert.reporting.images import svg
from minbert.reporting.tables import ColumnKind, Table

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"
TERMINAL_WIDTH = 100


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, and the table or the figure that they introduce.

    code: a command, which stands between the paragraph and the table.
    level: 2 begins a chapter, which the page's contents list. 3 is a section of a chapter.
    """

    title: str
    prose: str = ""
    body: Table | Figure | None = None
    level: int = 3
    code: str = ""

    @property
    def table(self) -> Table | None:
        """The numbers of the section: its table, or that of its figure."""
        return self.body.table if isinstance(self.body, Figure) else self.body


# --- HTML ---------------------------------------------------------------------------------------


def render_html(title: str, sections: Sequence[Section]) -> str:
    """Write the report as one HTML page with its style and its plots inside.

    The same report gives the same page. All texts are escaped.
    """
    template = template_environment(is_html=True).get_template("page.html")
    numbered = [_for_template(number, section) for number, section in enumerate(sections)]
    return template.render(title=title, sections=numbered)


def template_environment(is_html: bool) -> jinja2.Environment:
    """What reads the files in templates/. In HTML, it escapes all texts.

    The filter "visible" shows control characters as escapes, and "visible_everywhere" signs of
    direction, too. A cell of a table holds one text, and <bdi> isolates it. Other texts may hold
    ours beside a name of the user, which an unseen sign must not turn.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=is_html,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["visible"] = visible
    environment.filters["visible_everywhere"] = visible_everywhere
    return environment


def _for_template(number: int, section: Section) -> dict[str, Any]:
    """A section as page.html takes it: with its number and its plots as SVG."""
    from markupsafe import Markup

    plots = section.body.plots if isinstance(section.body, Figure) else ()
    images = [svg(plot, f"{number}-{place}") for place, plot in enumerate(plots)]
    return {
        "number": number,
        "title": section.title,
        "prose": section.prose,
        "level": section.level,
        "code": section.code,
        "table": section.table,
        # images.py has escaped the texts inside.
        "images": [Markup(image) for image in images],
    }


def write_html(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write `render_html` to a file, whole or not at all."""
    write_text(path, render_html(title, sections))


# --- Markdown -----------------------------------------------------------------------------------


def render_markdown(title: str, sections: Sequence[Section]) -> str:
    """Write the report as GitHub-flavoured Markdown: headings, paragraphs and tables."""
    blocks = [f"# {_escape_markdown(title)}"]
    for section in sections:
        blocks.append(f"{'#' * section.level} {_escape_markdown(section.title)}")
        if section.prose:
            blocks.append(_markdown_paragraph(section.prose))
        if section.code:
            blocks.append(_markdown_code(section.code))
        if section.table is not None:
            blocks.append(_markdown_table(section.table))
    return "\n\n".join(blocks) + "\n"


def write_markdown(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write `render_markdown` to a file, whole or not at all."""
    write_text(path, render_markdown(title, sections))


def _escape_markdown(text: str) -> str:
    """The text on one line, without anything that Markdown or HTML would obey."""
    # A line break would end the row of a table.
    line = visible_everywhere(" ".join(text.split()))
    return re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", escape(line, quote=False))


def _markdown_paragraph(text: str) -> str:
    """A paragraph, whose first sign begins no heading, list or rule."""
    return re.sub(r"^(\d*)(?=[#+=-]|(?<=\d)[.)]( |$))", r"\1\\", _escape_markdown(text))


def _markdown_code(code: str) -> str:
    """A block of code. Its fence is longer than any row of backticks inside."""
    runs = re.findall("`+", code)
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    return f"{fence}bash\n{visible_everywhere(code)}\n{fence}"


def _markdown_table(table: Table) -> str:
    rules = ["---:" if column.kind == "number" else "---" for column in table.columns]
    lines = [_markdown_row(table.header), f"| {' | '.join(rules)} |"]
    lines += [_markdown_row(row) for row in table.rows]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = [_escape_markdown(cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"


# --- terminal -----------------------------------------------------------------------------------


def render_text(title: str, sections: Sequence[Section]) -> str:
    """Write the report for a terminal: paragraphs of 100 columns, and aligned tables."""
    blocks = [_underline(title, "=")]
    for section in sections:
        is_chapter = section.level == 2
        blocks.append(_underline(section.title, "-") if is_chapter else section.title)
        if section.prose:
            blocks.append(textwrap.fill(section.prose, TERMINAL_WIDTH))
        if section.code:
            blocks.append(textwrap.indent(section.code, "    "))
        if section.table is not None:
            blocks.append(_text_table(section.table))
    return "\n\n".join(blocks) + "\n"


def _underline(text: str, character: str) -> str:
    return f"{text}\n{character * len(text)}"


def _text_table(table: Table) -> str:
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(map(len, texts)) for texts in columns]
    kinds = [column.kind for column in table.columns]

    lines = []
    for row in (table.header, *table.rows):
        cells = map(_align, row, widths, kinds)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _align(text: str, width: int, kind: ColumnKind) -> str:
    return text.rjust(width) if kind == "number" else text.ljust(width)


# --- files --------------------------------------------------------------------------------------


def write_text(path: Path, text: str) -> None:
    """Write a finished report to a file, whole or not at all."""

    def write(beside: Path) -> None:
        # As bytes, so that line ends are the same on every system.
        beside.write_bytes(text.encode("utf-8"))

    write_atomically(path, write)
