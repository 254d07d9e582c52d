"""Which words a model has seen in training, and the sentences that hold few of them.

A model answers whatever it is asked. About a sentence of words that its training rows never held,
the answer means little, and the user should know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from data.examples import Example
from minbert.commands.digests import check_recorded, recording
from minbert.commands.files import read_json, write_json

WORDS_FILE = "training_words.json"  # in the folder of a model

# A run of letters and digits, such as "2nd". An apostrophe inside belongs to it: "don't".
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters, without punctuation."""
    return [word.replace("’", "'") for word in WORD.findall(text.casefold())]


def words_in(examples: Iterable[Example]) -> set[str]:
    """Return all words of some rows."""
    words: set[str] = set()
    for example in examples:
        for text in example.texts:
            words.update(words_of(text))
    return words


class UnknownWords(NamedTuple):
    """The words of one row that training never held."""

    row: str  # its id
    unknown: tuple[str, ...]  # in the order of the text
    num_words: int


def rows_of_unknown_words(examples: Sequence[Example], known: set[str]) -> list[UnknownWords]:
    """Return the rows of which more than half of the words are not known."""
    rows = []
    for example in examples:
        words: list[str] = []
        for text in example.texts:
            words += words_of(text)
        unknown = tuple(word for word in words if word not in known)
        if len(unknown) > len(words) / 2:
            rows.append(UnknownWords(example.id, unknown, len(words)))
    return rows


def share_of_known_words(examples: Iterable[Example], known: set[str]) -> float:
    """Return which part of all words in some rows is known, from 0 to 1. 1 where there is none."""
    words: list[str] = []
    for example in examples:
        for text in example.texts:
            words += words_of(text)
    return sum(word in known for word in words) / len(words) if words else 1.0


# --- in the folder of a model ---------------------------------------------------------------------


def save_words(folder: Path, rows: Mapping[str, Iterable[Example]]) -> None:
    """Write the words of each task's training rows. rows: by task."""
    content = {task: " ".join(sorted(words_in(examples))) for task, examples in rows.items()}
    with recording(folder) as digests:
        digests[WORDS_FILE] = write_json(folder / WORDS_FILE, content)


def load_words(folder: Path, task: str) -> set[str] | None:
    """Return the words of a task's training rows; None where an older version noted none.

    Raises ValueError for a damaged file.
    """
    path = folder / WORDS_FILE
    if not path.is_file():
        return None
    check_recorded(path)
    try:
        content = read_json(path)
        return set(content[task].split())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: cannot be read ({error!r}). Bring the folder back as the run wrote it, or "
            "remove this file to go without a warning about unknown words."
        ) from error
