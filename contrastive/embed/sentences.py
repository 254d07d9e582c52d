"""The sentences that `python -m contrastive.embed` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from contrastive.embed.options import EmbedOptions
from data.user_texts import TEXT, UserTexts, one_line, read_texts
from minbert.reporting import terminal


class Sentence(NamedTuple):
    """A sentence, and the id of its row or the number of its line."""

    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.id}: {one_line(self.text)}"


def read_sentences(request: EmbedOptions, log: Callable[[str], None]) -> list[Sentence]:
    """The sentences of a file, or of standard input.

    log: receives how a table was read. ValueError where the input cannot be read, and for too few
    sentences to give each one --nearest others.
    """
    # Stored vectors have a row for each row of the input.
    skips_empty = request.out is None and request.vectors is None
    with terminal.typing("sentence", request.input):
        texts = read_texts(
            request.input, [TEXT], request.column_names, request.lines, skips_empty, has_ids=True
        )
    for note in texts.notes:
        log(note)
    sentences = [Sentence(row.id, row.texts[0]) for row in texts.rows]
    check_number(texts, request)
    return sentences


def check_number(texts: UserTexts, request: EmbedOptions) -> None:
    """Raise ValueError for too few sentences."""
    count = len(texts.rows)
    unit = "line" if texts.table is None else "row"
    listed = f"1 {unit}" if count == 1 else f"{count:,} {unit}s"
    if request.nearest is not None and request.nearest >= count:
        smaller = "a smaller K, or " if count > 1 else ""
        raise ValueError(
            f"--nearest is {request.nearest}; {texts.name} holds {listed}, so each sentence has "
            f"{count - 1:,} others. Pass {smaller}more sentences."
        )
    if request.duplicates and count < 2:
        raise ValueError(f"--duplicates compares two sentences; {texts.name} holds {listed}.")
