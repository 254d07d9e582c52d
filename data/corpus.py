"""Files of plain text -> paragraphs, one per line.

Next: minbert/pretraining/packing.py, or contrastive/sentences.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from data.tables.file_text import encoding_of_mark, encoding_without_mark
from data.tables.reader import looks_like_table

# A longer line counts as several paragraphs, so that no line has to fit into memory.
MAX_CHARACTERS = 20_000
UTF_8 = "utf-8-sig"  # a byte-order mark is allowed
NUM_SNIFFED = 1 << 16  # bytes that show what a file is


def check_files(paths: list[Path]) -> None:
    """Check that all files can be read as text, before any work is done.

    Raises ValueError for the first file that cannot be read, is a table, or comes twice.
    """
    for position, path in enumerate(paths):
        problem = find_problem(path, paths[:position])
        if problem:
            raise ValueError(f"{path}: {problem}.")
        # This raises for files that are no text, such as compressed ones.
        if looks_like_table(str(path), read_beginning(path)):
            raise ValueError(
                f"{path}: the file is a table; expected is plain text, a paragraph a line. Write "
                "its column of texts to a file that ends in .txt, one text a line."
            )


def find_problem(path: Path, earlier: list[Path]) -> str:
    """Return what is wrong with a file and what to do, or "". earlier: the files before it."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        return (
            f"{error.strerror}. Give a file of plain text in UTF-8, a paragraph a line; for "
            "--resume put back the one that the run began with"
        )
    if not path.is_file():
        return "not a file that can be read more than once, and it will be; write the text to one"
    if any(path.samefile(other) for other in earlier):
        return "given twice, so that what is held out would also be trained on; give it once"
    return ""


def read_beginning(path: Path) -> bytes:
    """Return the first lines of a file, all of them whole unless one is very long."""
    with open(path, "rb") as file:
        content = file.read(NUM_SNIFFED)
        is_all = not file.read(1)
    if is_all:
        return content
    encoding = encoding_of(path)
    if encoding != UTF_8:
        # The last character may be cut.
        content = content.decode(encoding, errors="ignore").encode()
    end = content.rfind(b"\n") + 1
    return content[:end] if end else content


def encoding_of(path: Path) -> str:
    """Return the encoding of a file: UTF-16 or UTF-32 where its first bytes say so, or UTF-8."""
    with open(path, "rb") as file:
        beginning = file.read(2000)
    encoding = encoding_of_mark(beginning) or encoding_without_mark(beginning)
    return UTF_8 if encoding in (None, "UTF-8") else str(encoding)


def read_lines(paths: list[Path]) -> Iterator[str]:
    """Yield every paragraph of every file, in order: the lines that are not blank.

    Very long lines come in parts. Raises ValueError with file and line where a byte is not UTF-8.
    """
    for path in paths:
        try:
            with open(path, encoding=encoding_of(path)) as file:
                for part in split_lines(file):
                    text = part.strip()
                    if text:
                        yield text
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {undecodable_line(path)}: not UTF-8 ({error.reason}). Convert the "
                "file, for instance with iconv -f cp1252 -t utf-8, or leave it out."
            ) from error


def split_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, those of more than MAX_CHARACTERS in parts.

    A part ends between two words where that is possible.
    """
    rest = ""
    while part := file.readline(MAX_CHARACTERS):
        text = rest + part
        rest = ""

        # The part may end inside a word. That word begins the next part.
        is_cut = len(part) == MAX_CHARACTERS and not part[-1].isspace()
        words = text.rsplit(maxsplit=1) if is_cut else []
        if len(words) == 2:
            text, rest = words
        yield text
    yield rest


def undecodable_line(path: Path) -> int:
    """Return the number, counted from 1, of the first line that is not UTF-8."""
    number = 1
    # surrogateescape keeps a wrong byte as a lone surrogate, which cannot be encoded.
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        while part := file.readline(MAX_CHARACTERS):
            if part.encode("utf-8", "replace").decode("utf-8") != part:
                return number
            number += part.endswith("\n")
    raise ValueError(f"{path} has changed while it was read; start again.")
