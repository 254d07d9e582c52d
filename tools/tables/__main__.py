"""Writes the tables of measured numbers in the documents: `python -m tools.tables`.

A table stands between two markers, and it is written from the records. tables.toml has
an entry for each table.

    <!-- table real-sentences: begin, written by python -m tools.tables -->
    <!-- table real-sentences: end -->

`--check` writes nothing, and fails if a table and the records disagree.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.files import write_text
from minbert.commands.flags import Parser
from minbert.training.code_version import ROOT
from tools.tables.answers import all_tables

BLOCK = re.compile(
    r"(?P<begin><!-- table (?P<name>[\w-]+): begin, written by python -m tools\.tables -->\n)"
    r"(?P<content>.*?)"
    r"(?P<end><!-- table (?P=name): end -->)",
    re.DOTALL,
)
MARKER = re.compile(r"<!-- table ([\w-]+): (?:begin|end)")


def pages_of(root: Path) -> list[Path]:
    """Return the documents that may hold tables: README.md and docs."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def with_tables(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with its tables written anew.

    tables: the function that makes each table, by name. Raises ValueError for a marker without its
    partner, and for a table that nobody makes.
    """
    for name in MARKER.findall(text):
        if name not in tables:
            raise ValueError(f"no table is called {name}; there are {', '.join(tables)}.")
    blocks = list(BLOCK.finditer(text))
    if len(MARKER.findall(text)) != 2 * len(blocks):
        raise ValueError("a table has only one of its two markers, or its markers are changed.")

    def fill(match: re.Match[str]) -> str:
        return f"{match['begin']}{tables[match['name']]()}\n{match['end']}"

    return BLOCK.sub(fill, text)


def find_changes(root: Path, tables: Mapping[str, Callable[[], str]]) -> dict[Path, str]:
    """Return the new text of each page whose tables disagree with the records.

    Raises ValueError as `with_tables` does, with the page.
    """
    changes = {}
    for page in pages_of(root):
        text = page.read_text(encoding="utf-8")
        try:
            new_text = with_tables(text, tables)
        except ValueError as error:
            raise ValueError(f"{page}: {error}") from error
        if new_text != text:
            changes[page] = new_text
    return changes


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = Parser(
        prog="python -m tools.tables",
        description="Write the tables of measured numbers in the documents.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a table is out of date"
    )
    return parser


@exit_code("python -m tools.tables")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where --check finds a table that disagrees with the records."""
    arguments = build_parser().parse_args(argv)
    changes = find_changes(ROOT, all_tables())
    for page, text in changes.items():
        name = page.relative_to(ROOT)
        if arguments.check:
            print(f"{name}: a table disagrees with the records; run python -m tools.tables.")
        else:
            write_text(page, text)
            print(f"{name}: written")
    return 1 if arguments.check and changes else 0


if __name__ == "__main__":
    sys.exit(main())
