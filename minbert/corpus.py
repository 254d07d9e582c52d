"""Files of plain text -> paragraphs. Next: blocks.py, or contrastive/text.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

MAX_CHARACTERS = 20_000  # a longer line counts as several paragraphs, so that none has to fit into memory


def check_files(paths: list[Path]) -> None:
    """ValueError for the first file that is missing, a folder or not readable, before any work is done."""
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ValueError(
                f"{path}: {error.strerror}. Give plain-text files in UTF-8, a paragraph a line.") from error


def read_lines(paths: list[Path]) -> Iterator[str]:
    """Every paragraph of every file, in order: the lines that are not blank, those that have no end cut at a space.

    Raises ValueError with file and line where a byte is not UTF-8.
    """
    for path in paths:
        try:
            with open(path, encoding="utf-8-sig") as file:
                yield from (text for text in (piece.strip() for piece in pieces(file)) if text)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {undecodable_line(path)}: not UTF-8 ({error.reason}). Convert the file, "
                             "for instance with iconv -f latin1 -t utf-8, or leave it out.") from error


def pieces(file: TextIO) -> Iterator[str]:
    """The lines of `file`; one of more than MAX_CHARACTERS comes in parts that end at a space where there is one."""
    rest = ""
    while part := file.readline(MAX_CHARACTERS):
        text, rest = rest + part, ""
        if len(part) == MAX_CHARACTERS and not part.endswith("\n") and " " in text:
            text, _, rest = text.rpartition(" ")
        yield text
    yield rest


def undecodable_line(path: Path) -> int:
    """The number, from 1, of the first line that is not UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    raise ValueError(f"{path} has changed while it was read; start again.")
