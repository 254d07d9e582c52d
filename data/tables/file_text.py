"""The bytes of a file -> its text: which encoding it has, and what is no text at all.

Encodings that Excel, PowerShell and others write are read: UTF-8, UTF-16, UTF-32 and Windows-1252.
A file in another old encoding would turn into wrong letters. It is refused where that can be seen.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

SAVE_AS_UTF8 = "Save it again as CSV in UTF-8."

# What a file is that begins with these bytes, and what to do.
FIRST_BYTES = {
    b"\x1f\x8b": "compressed; unpack it with gunzip first",
    b"BZh": "compressed; unpack it with bunzip2 first",
    b"\xfd7zXZ": "compressed; unpack it with unxz first",
    b"\x28\xb5\x2f\xfd": "compressed; unpack it with unzstd first",
    b"7z\xbc\xaf": "compressed; unpack it with 7z first",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls) or one with a password; save it as .xlsx "
    "without a password, or as CSV in UTF-8",
    b"%PDF": "a PDF; copy its table into a file of CSV in UTF-8",
    b"{\\rtf": "a document with formats (RTF); save it as plain text in UTF-8",
    b"PAR1": "in Parquet format; write it with pandas.read_parquet(...).to_csv(...) first",
    b"ARROW1": "in Arrow format; write it with pandas.read_feather(...).to_csv(...) first",
    b"\x93NUMPY": "an array of NumPy; expected is text",
    b"SQLite format 3": "a database of SQLite; export the table as CSV first",
    b"\x80\x04\x95": "a pickle of Python; write it with to_csv(...) first",
    b"\x80\x05\x95": "a pickle of Python; write it with to_csv(...) first",
    b"version https://git-lfs": "only a pointer of Git LFS; fetch the file with git lfs pull",
}
ZIP_BYTES = b"PK\x03\x04"

# Longer marks stand first, because UTF-32 begins as UTF-16 does.
BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xef\xbb\xbf": "UTF-8",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}

# Stands for a zero byte. Some versions of the csv module refuse that.
NO_ZERO = "\udc00"

# Signs that no western language writes inside a word. Files in other encodings have them there.
SIGN_IN_WORD = re.compile(r"[^\W\d_][¡¢£¤¥¦¨©¬®¯±²³µ¶¸¹¼½¾¿÷†‡ˆ‰˜‚„”“][^\W\d_]")
CAPITAL_IN_WORD = re.compile(r"[a-zß-öø-ÿ][À-ÖØ-ÞŠŽŒŸ]")
ACCENTED_RUN = re.compile(r"[À-ÖØ-öø-ÿŠšŽžŒœŸƒ]{4}")
WORD_WITH_ACCENT = re.compile(r"\w{0,20}[^\0-\x7f]\w{0,20}")
MOST_STRANGE = 0.1  # of the words with accents
MOST_DAMAGED = 0.1  # of the lines of a file that is called UTF-8 with damage


class DecodedText(NamedTuple):
    """The text of a file, its encoding, and a sentence for the user or ""."""

    text: str
    encoding: str
    note: str = ""


def read_content(path: str | Path) -> bytes:
    """Return the bytes of a file. Raises ValueError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise ValueError(
            f"{path}: the file cannot be read ({error.strerror}). Expected is a readable file; "
            "check the path and its permissions."
        ) from None


def refuse_other_formats(name: str, content: bytes) -> None:
    """Raise ValueError for content that is no text, with what it is and what to do.

    name: the path of the file, or "standard input".
    """
    for beginning, format in FIRST_BYTES.items():
        if content.startswith(beginning):
            raise ValueError(f"{name}: the file is {format}.")
    # A link to a shared table gives a page of HTML to those who are not signed in.
    start = content[:1000].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise ValueError(
            f"{name}: the file is a web page, often one that asks to sign in. Download the table "
            "itself, as CSV."
        )
    if start.startswith(b"<?xml"):
        raise ValueError(f"{name}: the file is XML. {SAVE_AS_UTF8}")


def decode(name: str, content: bytes) -> DecodedText:
    """Return the text of a file, without its byte-order mark.

    A byte that is damaged becomes a lone surrogate, so that the row that holds it can be named.
    Raises ValueError for bytes that are no text, and for text in an encoding that is not read.
    """
    refuse_other_formats(name, content)
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return decode_marked(name, content, mark, encoding)
    wide = encoding_without_mark(content)
    if wide:
        return DecodedText(decode_wide(name, content, wide), "UTF-16")
    return decode_bytes(name, content)


def encoding_of_mark(content: bytes) -> str | None:
    """Return the encoding that a byte-order mark at the beginning says, or None without one."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return encoding
    return None


def decode_marked(name: str, content: bytes, mark: bytes, encoding: str) -> DecodedText:
    """Return the text behind a byte-order mark."""
    if encoding == "UTF-8":
        return decode_bytes(name, content.removeprefix(mark))
    return DecodedText(decode_wide(name, content, encoding), encoding)


def decode_wide(name: str, content: bytes, encoding: str) -> str:
    """Return the text of a file in UTF-16 or UTF-32. Raises ValueError where it is damaged."""
    try:
        return content.decode(encoding).replace("\0", NO_ZERO)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: the file begins as {encoding.upper()}, but byte {error.start:,} does not fit "
            f"it. {SAVE_AS_UTF8}"
        ) from None


def encoding_without_mark(content: bytes) -> str | None:
    """Return the name of UTF-16 where most bytes at even or at odd places are zero.

    Latin text in UTF-16 looks so. Other text without a mark is not noticed.
    """
    # In UTF-16 a Latin letter has one byte that is zero.
    beginning = content[:2000]
    if len(beginning) < 4:
        return None
    even = beginning[0::2].count(0) / len(beginning[0::2])
    odd = beginning[1::2].count(0) / len(beginning[1::2])
    if odd > 0.6 and even < 0.1:
        return "utf-16-le"
    if even > 0.6 and odd < 0.1:
        return "utf-16-be"
    return None


def decode_bytes(name: str, content: bytes) -> DecodedText:
    """Return the text of UTF-8, of UTF-8 with damaged bytes, or of Windows-1252.

    Some other characters in the file that are right UTF-8 show that it is damaged UTF-8.
    """
    text = content.decode("utf-8", errors="surrogateescape").replace("\0", NO_ZERO)
    if damage_in(text) is None:
        return DecodedText(text, "UTF-8")
    # Some right characters show damaged UTF-8. Chinese encodings have a few by chance.
    num_right = len(re.findall("[^\0-\x7f\udc00-\udcff]", text))
    num_wrong = len(re.findall("[\udc00-\udcff]", text))
    if NO_ZERO in text or num_right >= num_wrong:
        return DecodedText(text, "UTF-8")
    windows = None if num_right else decode_windows(content)
    if windows is None:
        refuse_many_damaged_lines(name, text)
        return DecodedText(text, "UTF-8")

    strange = find_strange_word(windows)
    if strange:
        line = 1 + windows[: windows.index(strange)].count("\n")
        raise ValueError(
            f"{name}, line {line}: the text is not UTF-8, and as Windows-1252 it would hold "
            f"'{strange}'. {SAVE_AS_UTF8}"
        )
    # No file says that it is Windows-1252, so the user is shown a word to judge by.
    word = WORD_WITH_ACCENT.search(windows)
    sample = word.group() if word else ""
    note = f"read as Windows-1252, because it is not UTF-8; it holds '{sample}'"
    return DecodedText(windows, "Windows-1252", note)


def refuse_many_damaged_lines(name: str, text: str) -> None:
    """Raise ValueError where so many lines are not UTF-8 that the file has another encoding."""
    lines = text.splitlines()
    damaged = []
    for number, line in enumerate(lines, start=1):
        if damage_in(line):
            damaged.append(number)
    if len(damaged) > MOST_DAMAGED * len(lines):
        raise ValueError(
            f"{name}, line {damaged[0]}: the text is neither UTF-8 nor Windows-1252. {SAVE_AS_UTF8}"
        )


def damage_in(text: str) -> str | None:
    """Say what is wrong with the bytes of a decoded text. None: nothing."""
    if text.isascii() or not re.search("[\udc00-\udcff]", text):
        return None
    if NO_ZERO in text:
        return "a zero byte, which is no text"
    return "bytes that are not UTF-8; expected is text in UTF-8"


def decode_windows(content: bytes) -> str | None:
    """Return the text as Windows-1252, or None where a byte has no meaning in it."""
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return None


def find_strange_word(text: str) -> str | None:
    """Return a word that no western language has, if there are many such words.

    They appear where MacRoman, DOS, Cyrillic, Polish or Chinese text is read as Windows-1252.
    """
    accented = [word for word in re.findall(r"\S+", text) if not word.isascii()]
    strange = [word for word in accented if is_strange(word)]
    if len(strange) <= MOST_STRANGE * len(accented):
        return None
    return strange[0]


def is_strange(word: str) -> bool:
    """Whether a word has a sign or a capital letter inside, or many accented letters in a row."""
    patterns = (SIGN_IN_WORD, CAPITAL_IN_WORD, ACCENTED_RUN)
    return any(pattern.search(word) for pattern in patterns)
