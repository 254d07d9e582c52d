"""Warnings about labels that may be mistakes: words for a missing value, two spellings, ids.

Such labels are legal. Nobody would see, though, that they became classes of their own.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter

from data.tables.numbers import parse_number

# Words in small letters that stand for a missing value. SNLI writes "-" where no label won.
MISSING_LABELS = {"-", "--", "?", "na", "n/a", "nan", "none", "null", "<na>", "nil"}
MIN_IDS = 20  # different whole numbers in as many rows


def notes_on_labels(counts: Counter[str], place: str, kind: str) -> list[str]:
    """The warnings about the labels of a task, one sentence or two each.

    counts: rows of each label. place: the file and the column. kind: of the answer.
    """
    if kind == "score":
        return notes_on_numbers(counts, place)
    return notes_on_missing(counts, place) + notes_on_spellings(counts, place)


def notes_on_missing(counts: Counter[str], place: str) -> list[str]:
    """A warning where classes are words that often stand for a missing value."""
    missing = sorted(label for label in counts if label.casefold() in MISSING_LABELS)
    if not missing:
        return []
    return [
        f"warning: {place}: {listed(missing, counts)} may stand for a missing label, and is "
        f'trained as a class. To drop such rows, add drop_labels="{"|".join(missing)}" to --task.'
    ]


def notes_on_spellings(counts: Counter[str], place: str) -> list[str]:
    """A warning for each group of classes that are one label in several spellings."""
    groups: dict[str, list[str]] = {}
    for label in sorted(counts):
        groups.setdefault(plain_spelling(label), []).append(label)
    warnings = []
    for labels in groups.values():
        if len(labels) > 1:
            warnings.append(
                f"warning: {place}: {listed(labels, counts)} differ only in how they are written, "
                f"and are {len(labels)} classes. If they mean the same, write them alike."
            )
    return warnings


def plain_spelling(label: str) -> str:
    """A label in small letters, with single blanks, or as a number: equal for all its spellings."""
    number = parse_number(label)
    if math.isfinite(number):
        return f"{number!r}"
    return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


def notes_on_numbers(counts: Counter[str], place: str) -> list[str]:
    """A warning where the numbers look like ids: whole, and different in each row."""
    numbers = [parse_number(label) for label in counts]
    are_ids = len(numbers) >= MIN_IDS and max(counts.values()) == 1
    if not are_ids or not all(number.is_integer() for number in numbers):
        return []
    return [
        f"warning: {place}: all {len(numbers):,} labels are different whole numbers, as ids are. "
        "If they are no scores, name another column with label= in --task."
    ]


def listed(labels: list[str], counts: Counter[str]) -> str:
    """Labels with their numbers of rows, such as "'-' (12 rows), 'NA' (1 row)"."""
    items = []
    for label in labels:
        rows = "row" if counts[label] == 1 else "rows"
        items.append(f"'{label}' ({counts[label]:,} {rows})")
    return ", ".join(items)
