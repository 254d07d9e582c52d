"""Texts of data that a person sees: signs that a reader cannot see become visible.

Sentences come from files of users. Some signs in them are commands to a terminal, such as ESC, or
change the direction of the text around them.
"""

from __future__ import annotations

import re

# Commands to a terminal, and halves of characters, which no file in UTF-8 can hold.
CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
# Signs that turn the direction of the text behind them.
DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
ON_A_PAGE = re.compile(f"[{CONTROLS}]")
# Without a line break behind it, \r moves a terminal back to the start of the line.
ANYWHERE = re.compile(rf"[{CONTROLS}{DIRECTIONS}]|\r(?!\n)")

# Characters at both ends of a line of a message that stay where the line is far too long.
LENGTH_OF_START = 1000
LENGTH_OF_END = 500


def visible(text: str) -> str:
    r"""The text with every control character as an escape, such as \x1b for ESC.

    Tabs and line breaks stay. So do signs of direction: a page isolates each text by <bdi>.
    """
    return ON_A_PAGE.sub(_escape, text)


def visible_everywhere(text: str) -> str:
    r"""As `visible`, with signs of direction as escapes, too, such as \u202e.

    For terminals and Markdown, which cannot isolate a text.
    """
    return ANYWHERE.sub(_escape, text)


def as_message(text: str) -> str:
    """As `visible_everywhere`, without the middle of lines that are far too long.

    A message may quote a row or a name, which can have a million characters. The line begins with
    its place and ends with what to do, so both ends stay.
    """
    return "\n".join(map(_shorten, visible_everywhere(text).split("\n")))


def _shorten(line: str) -> str:
    num_left_out = len(line) - LENGTH_OF_START - LENGTH_OF_END
    if num_left_out <= 0:
        return line
    note = f"... ({num_left_out:,} characters are left out) ..."
    return f"{line[:LENGTH_OF_START]}{note}{line[-LENGTH_OF_END:]}"


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
