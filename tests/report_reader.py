"""Reads reports back: an HTML page with all its faults, and a row of a Markdown table."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
FETCHING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href", "ping"}
FORBIDDEN = {"script", "link", "iframe", "object", "embed", "base"}


class Page(HTMLParser):
    """A parsed page.

    faults: all that is wrong with the page, in words.
    tables: the cells of each table. texts: the texts of each kind of tag, by its name.
    images: for each <svg> the attributes of the tag.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.images: list[dict[str, str]] = []
        self.ids: set[str] = set()
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def count(self, tag: str) -> int:
        """The number of tags of a kind."""
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
        elif tag == "svg":
            self.images.append(dict(attributes))
        if tag in FORBIDDEN:
            self.faults.append(f"<{tag}> on a page that needs no other file")
        for name, value in attributes:
            self.check_attribute(tag, name, value or "")

    def check_attribute(self, tag, name, value):
        leaves = name in FETCHING or (name == "href" and not value.startswith("#"))
        # url(#name) is a part of the same page.
        if leaves or name.startswith("on") or re.search(r"url\((?!#)", value):
            self.faults.append(f'<{tag} {name}="{value}"> leaves the page or runs code')
        if name == "id":
            if value in self.ids:
                self.faults.append(f'the id "{value}" occurs twice')
            self.ids.add(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        else:
            self.open.pop()

    def handle_data(self, text):
        # <bdi> isolates a text inside its tag.
        tags = [tag for tag in self.open if tag != "bdi"]
        if not tags:
            return
        self.texts[tags[-1]][-1] += text
        if tags[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += text
        if tags[-1] == "style" and ("url(" in text or "@import" in text):
            self.faults.append("the style fetches something")


def markdown_cells(line: str) -> list[str]:
    """The texts of a table's row, read back by GitHub's rules.

    A cell ends at a bare |. A backslash escapes the next character. Entities are characters.
    """
    cells = re.findall(r" ((?:\\.|[^\\|])*?) \|", line.removeprefix("|"))
    texts = []
    for cell in cells:
        text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell)
        texts.append(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return texts
