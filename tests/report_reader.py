"""Reads reports back: an HTML page, with all that is wrong with it, and a row of a Markdown table.

test_report.py and test_errors.py use it.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
FETCHING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href", "ping"}


class Page(HTMLParser):
    """A parsed page: its `faults` in words, the cells of its `tables`, and the `texts` of each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def count(self, tag: str) -> int:
        return len(self.texts.get(tag, []))

    def handle_starttag(self, tag, attributes):
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag in ("script", "link", "iframe", "object", "embed", "base"):
            self.faults.append(f"<{tag}> on a page that needs nothing beside itself")
        for name, value in attributes:
            is_elsewhere = name in FETCHING or name == "href" and not value.startswith("#")
            if is_elsewhere or name.startswith("on") or "url(" in (value or ""):
                self.faults.append(f'<{tag} {name}="{value}"> leaves the page or runs code')

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        else:
            self.open.pop()

    def handle_data(self, text):
        if self.open:
            self.texts[self.open[-1]][-1] += text
            if self.open[-1] in ("td", "th"):
                self.tables[-1][-1][-1] += text
            if self.open[-1] == "style" and ("url(" in text or "@import" in text):
                self.faults.append("the style fetches something")


def markdown_cells(line: str) -> list[str]:
    """The texts of a table's row, read back by GitHub's rules: cells end at a bare |, backslash escapes, entities."""
    cells = re.findall(r" ((?:\\.|[^\\|])*?) \|", line.removeprefix("|"))
    plain = [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell) for cell in cells]
    return [cell.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for cell in plain]
