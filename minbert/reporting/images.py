"""From a plot to SVG inside an HTML page, or to a PNG file.

Equal plots give equal bytes. matplotlib's settings are changed only while a plot is drawn, and
pyplot, which looks for a screen, is never imported.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from minbert.commands.files import write_atomically
from minbert.commands.texts import visible_everywhere
from minbert.reporting.figures import COLOURS, Plot, Tooltip

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

WIDTH = 6.0  # of a plot, in inches of 72 units
XLINK = "{http://www.w3.org/1999/xlink}href"
VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}


def svg(plot: Plot, name: str) -> str:
    """Draw a plot as one <svg> element for an HTML page.

    The colours become the variables of the page's style sheet, so they follow light and dark mode.
    Texts stay texts: a reader can select them, and they have the page's font.
    name: a short word that differs between the plots of a page, for the ids inside.
    """
    # Matplotlib writes each artist as a group with its id. So its marks can be found again.
    with _settings(name):
        canvas, tooltips = _draw([plot])
        for number, tooltip in enumerate(tooltips):
            tooltip.artist.set_gid(f"tooltip-{number}")
        stream = io.StringIO()
        canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None})

    root = ElementTree.fromstring(stream.getvalue())
    _remove_namespaces(root)
    for number, tooltip in enumerate(tooltips):
        _add_notes(root, f"tooltip-{number}", tooltip.notes)
    _remove_what_the_page_has(root)
    _use_variables(root)
    # Without a width, the image is as wide as the page lets it be.
    root.attrib = {
        "viewBox": root.get("viewBox", ""),
        "role": "img",
        "aria-label": visible_everywhere(plot.description),
    }
    return ElementTree.tostring(root, encoding="unicode")


def write_png(path: Path, plots: Sequence[Plot], title: str = "") -> None:
    """Write the plots side by side into a PNG file on white paper."""
    with _settings("png"):
        canvas, _ = _draw(plots)
        canvas.suptitle(visible_everywhere(title))
        write_atomically(path, lambda beside: canvas.savefig(beside, dpi=120, format="png"))


def write_pdf(path: Path, plots: Sequence[Plot]) -> None:
    """Write the plots side by side into a PDF file, for a paper."""
    with _settings("pdf"):
        canvas, _ = _draw(plots)
        # Without the date, equal plots give equal bytes.
        nothing = {"CreationDate": None}
        write_atomically(
            path, lambda beside: canvas.savefig(beside, format="pdf", metadata=nothing)
        )


@contextmanager
def _settings(name: str) -> Iterator[None]:
    """Matplotlib's own defaults, whatever the user has changed, and fixed ids in SVG."""
    import matplotlib
    from matplotlib import style

    ours = {
        # Ids depend on the name, and not on chance.
        "svg.hashsalt": name,
        # Texts are written as texts, and not as shapes of letters. A $ is a character.
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 11,
        "axes.unicode_minus": True,
    }
    with matplotlib.rc_context(), style.context(["default", ours]):
        yield


def _draw(plots: Sequence[Plot]) -> tuple[Canvas, list[Tooltip]]:
    """Draw the plots side by side; returns matplotlib's figure and the notes of all marks."""
    from matplotlib.figure import Figure as Canvas

    height = WIDTH * max(plot.aspect for plot in plots)
    canvas = Canvas(figsize=(WIDTH * len(plots), height), layout="constrained")
    tooltips = []
    for number, plot in enumerate(plots):
        axes = canvas.add_subplot(1, len(plots), number + 1)
        tooltips += plot.draw(axes)
    return canvas, [tooltip for tooltip in tooltips if any(tooltip.notes)]


def _remove_namespaces(root: ElementTree.Element) -> None:
    """Inside HTML, the elements and attributes of SVG have plain names."""
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
        if XLINK in element.attrib:
            element.set("href", element.attrib.pop(XLINK))


def _add_notes(root: ElementTree.Element, gid: str, notes: Sequence[str]) -> None:
    """Put each note inside its mark, as the <title> that browsers show under a pointer."""
    group = root.find(f".//g[@id='{gid}']")
    assert group is not None, f"matplotlib drew nothing for {gid}"
    # A marker is a <use> element. An artist without its own markers carries one note as a whole.
    marks = list(group.iter("use")) if len(notes) > 1 else [group]
    for mark, note in zip(marks, notes, strict=True):
        mark.set("class", "noted")
        title = ElementTree.Element("title")
        title.text = visible_everywhere(note)
        mark.insert(0, title)


def _remove_what_the_page_has(root: ElementTree.Element) -> None:
    """Remove metadata, styles, line breaks, and ids without a use, which may not occur twice."""
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    for parent in list(root.iter()):
        for child in list(parent):
            child.tail = None
            if child.tag in ("metadata", "style"):
                parent.remove(child)
        if len(parent):
            parent.text = None
        if parent.get("id") not in used:
            parent.attrib.pop("id", None)


def _use_variables(root: ElementTree.Element) -> None:
    """Replace colours by variables of the style sheet, and leave the font to the page."""
    for element in root.iter():
        style = element.get("style")
        if style is None:
            continue
        # Without a family, a text has the font of the page.
        style = re.sub(r"font-family:[^;]*;? ?", "", style)
        style = re.sub(r"#[0-9a-f]{6}", lambda match: VARIABLES[match[0]], style)
        element.set("style", style.strip("; "))
