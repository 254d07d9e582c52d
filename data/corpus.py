"""Files of plain text -> paragraphs. Next: blocks.py, or contrastive/sentences.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

UTF_16 = "UTF-16; convert it with iconv -f utf-16 -t utf-8 first"
MAX_CHARACTERS = (
    20_000  # a longer line counts as several paragraphs, so that none has to fit into memory
)


def check_files(paths: list[Path]) -> None:
    """ValueError for the first file that cannot be read as text or comes twice, before any work is done."""
    first_bytes = {
        b"\x1f\x8b": "compressed; unpack it with gunzip first",
        b"\xff\xfe": UTF_16,
        b"\xfe\xff": UTF_16,
    }
    for number, path in enumerate(paths):
        try:
            with open(path, "rb") as file:
                problem = first_bytes.get(file.read(2), "")
        except OSError as error:
            problem = (
                f"{error.strerror}. Give a file of plain text in UTF-8, a paragraph a line; for --resume put "
                "back the one that the run began with"
            )
        if path.exists() and not path.is_file() and not problem:
            problem = (
                "not a file that can be read more than once, and it will be; write the text to one"
            )
        if any(path.samefile(other) for other in paths[:number] if not problem):
            problem = "given twice, so that what is held out would also be trained on; give it once"
        if problem:
            raise ValueError(f"{path}: {problem}.")


def read_lines(paths: list[Path]) -> Iterator[str]:
    """Every paragraph of every file, in order: the lines that are not blank; very long ones come in parts.

    Raises ValueError with file and line where a byte is not UTF-8.
    """
    for path in paths:
        try:
            with open(path, encoding="utf-8-sig") as file:
                yield from (text for text in (piece.strip() for piece in pieces(file)) if text)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {undecodable_line(path)}: not UTF-8 ({error.reason}). Convert the file, "
                "for instance with iconv -f latin1 -t utf-8, or leave it out."
            ) from error


def pieces(file: TextIO) -> Iterator[str]:
    """The lines of `file`; one of more than MAX_CHARACTERS comes in parts that end between words where possible."""
    rest = ""
    while part := file.readline(MAX_CHARACTERS):
        text, rest = rest + part, ""
        if (
            len(part) == MAX_CHARACTERS
            and not part[-1].isspace()
            and len(words := text.rsplit(maxsplit=1)) == 2
        ):
            text, rest = words
        yield text
    yield rest


def undecodable_line(path: Path) -> int:
    """The number, from 1, of the first line that is not UTF-8."""
    number = 1
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        while part := file.readline(MAX_CHARACTERS):
            if part.encode("utf-8", "replace").decode("utf-8") != part:
                return number
            number += part.endswith("\n")
    raise ValueError(f"{path} has changed while it was read; start again.")
