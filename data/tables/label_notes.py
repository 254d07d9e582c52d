"""Warnings about labels that may be mistakes: words for a missing value, two spellings, ids.

Such labels are legal. Nobody would see, though, that they became classes of their own.
"""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from collections import Counter
from decimal import Decimal
from typing import NamedTuple

from data.tables.numbers import parse_number

# Words in small letters that stand for a missing value. SNLI writes "-" where no label won.
MISSING_LABELS = {"-", "--", "?", "na", "n/a", "nan", "none", "null", "<na>", "nil"}
# Test files whose labels are secret have one of these in every row. GLUE writes -1.
HIDDEN_LABELS = MISSING_LABELS | {"-1", "-100", "hidden", "unknown"}
# Signs between several labels of one field.
SEPARATORS = ("|", ";", ",", "/", "+", "&", "#", "::", "~", "^", "\\", "，", "、", "；", "\t", "\n")
SHOWN_SEPARATORS = {"\t": "a tab", "\n": "a line end"}  # in messages
MAX_SHARE_OF_MISSING = 0.1  # of the rows, where -1 may also be a label
MIN_IDS = 20  # different whole numbers in as many rows
# A list of texts in quotes and whole numbers, as Python and JSON write it.
ITEM = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?(?:0|[1-9][0-9]*))"""
LIST = re.compile(rf"\[\s*(?:{ITEM}\s*(?:,\s*{ITEM}\s*)*)?\]")


def notes_on_labels(counts: Counter[str], place: str, kind: str, separator: str = "") -> list[str]:
    """The warnings about the labels of a task, one sentence or two each.

    counts: rows of each label. place: the file and the column. kind: of the answer. separator: of
    labels that were split at it, or "".
    """
    if kind == "score":
        return [*notes_on_numbers(counts, place), *notes_on_minus_one(counts, place)]
    return [
        *notes_on_missing(counts, place),
        *notes_on_spellings(counts, place),
        *notes_on_several_labels(counts, place, separator),
    ]


def notes_on_missing(counts: Counter[str], place: str) -> list[str]:
    """A warning where classes are words that often stand for a missing value."""
    missing = missing_labels(counts)
    if not missing:
        return []
    return [
        f"warning: {place}: {listed(missing, counts)} may stand for a missing label, and is "
        f'trained as a class. To drop such rows, add drop_labels="{"|".join(missing)}" to --task.'
    ]


def missing_labels(counts: Counter[str]) -> list[str]:
    """The labels that often stand for a missing one."""
    missing = sorted(label for label in counts if label.casefold() in MISSING_LABELS)
    return ["-1", *missing] if is_minus_one_missing(counts) else missing


def is_minus_one_missing(counts: Counter[str]) -> bool:
    """Whether -1 stands for a missing label, as in SNLI by `datasets`: beside 0, 1, 2 and so on.

    The labels -1, 0 and 1 may be a scale. Then -1 must be rare. Beside names it is no number.
    """
    others = counts.keys() - {"-1"}
    if "-1" in counts and all(math.isnan(parse_number(label)) for label in others):
        return True
    are_ids = others == {str(number) for number in range(len(others))}
    is_rare = counts["-1"] < MAX_SHARE_OF_MISSING * counts.total()
    return "-1" in counts and len(others) > 1 and are_ids and (len(others) > 2 or is_rare)


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


def notes_on_several_labels(counts: Counter[str], place: str, separator: str) -> list[str]:
    """A warning where fields hold several labels: each combination becomes a class of its own.

    separator: at which the labels were split already, or "".
    """
    joined = joined_labels(counts)
    if joined is None:
        return []
    seem = (
        f"warning: {place}: {listed(joined.labels[:3], counts)} seem to be several labels, with "
        f"{joined.shown_separator} between them."
    )
    if separator:
        return [
            f"{seem} Elsewhere {shown_separator(separator)} stands between them, so each is one "
            "label here. Write all of them alike."
        ]
    return [
        f"{seem} A row has one class here, so each combination is "
        "trained as a class of its own. To train them as several labels of a row, say "
        "kind=multilabel in --task."
    ]


class JoinedLabels(NamedTuple):
    """Fields that hold several labels, and the sign between these."""

    labels: list[str]
    separator: str

    @property
    def shown_separator(self) -> str:
        """The sign for a message, such as "'|'"."""
        return shown_separator(self.separator)


def shown_separator(separator: str) -> str:
    """A sign between labels for a message, such as "'|'"."""
    return SHOWN_SEPARATORS.get(separator, f"'{separator}'")


def joined_labels(counts: Counter[str]) -> JoinedLabels | None:
    """Find fields that hold several labels, such as "a|b". None: there are none.

    All their parts come in other fields, too. Or two of the parts, at least, are labels alone.
    Names of classes hold blanks, so between blanks all parts must be labels alone.
    """
    for separator in (*SEPARATORS, " "):
        parts = {label: set(parts_of(label, separator)) for label in counts}
        joined = [label for label in sorted(counts) if len(parts[label]) > 1]
        uses: Counter[str] = Counter()
        for label in counts:
            uses.update(parts[label])
        in_joined = set().union(*(parts[label] for label in joined))
        alone = [label for label in in_joined if label in counts]
        if separator == " ":
            is_several = len(alone) == len(in_joined)
        else:
            is_several = len(alone) > 1 or all(uses[part] > 1 for part in in_joined)
        if joined and is_several:
            return JoinedLabels(joined, separator)
    return None


def parts_of(label: str, separator: str) -> list[str]:
    """The labels in a field, such as those of "a|b" and of the list "['a', 'b']"."""
    if separator == "," and is_list(label):
        return items_of(label)
    inside = label[1:-1] if label.startswith("[") and label.endswith("]") else label
    parts = [part.strip().strip("'\"") for part in inside.split(separator)]
    return [part for part in parts if part]


def is_list(label: str) -> bool:
    """Whether a field is a list of texts in quotes and whole numbers, such as "['a', 'b']"."""
    return LIST.fullmatch(label) is not None


def items_of(label: str) -> list[str]:
    """The labels in a list. A comma inside quotes belongs to a label."""
    items = [text_of(item).strip() for item in re.findall(ITEM, label)]
    return [item for item in items if item]


def text_of(item: str) -> str:
    """The text of an item of a list: without its quotes and escapes, where these mean something."""
    for read in (json.loads, ast.literal_eval):
        try:
            text = str(read(item))
        except (ValueError, SyntaxError):
            continue
        # Half of a pair of escapes is no character.
        if not re.search("[\ud800-\udfff]", text):
            return text
    return item.strip("'\"")


def plain_spelling(label: str) -> str:
    """A label in small letters, with single blanks, or as a number: equal for all its spellings."""
    if math.isfinite(parse_number(label)):
        # As a float, two long ids would be the same number.
        return f"{Decimal(label.replace(',', '.')).normalize()}"
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


def notes_on_minus_one(counts: Counter[str], place: str) -> list[str]:
    """A warning where -1 comes several times among scores, and is the only one below 0."""
    others = [parse_number(label) for label in counts if label != "-1"]
    if counts["-1"] < 2 or min(others, default=-1) < 0:
        return []
    return [
        f"warning: {place}: {listed(['-1'], counts)} may stand for a missing label, and is trained "
        'as a score. To drop such rows, add drop_labels="-1" to --task.'
    ]


def listed(labels: list[str], counts: Counter[str]) -> str:
    """Labels with their numbers of rows, such as "'-' (12 rows), 'NA' (1 row)"."""
    items = []
    for label in labels:
        rows = "row" if counts[label] == 1 else "rows"
        shown = label.replace("\t", "\\t").replace("\n", "\\n")
        items.append(f"'{shown}' ({counts[label]:,} {rows})")
    return ", ".join(items)
