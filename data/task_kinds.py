"""The labels of a training file -> the kind of a user's task: classes, two classes, or a score.

What --task says decides. Otherwise the labels do, and a warning says where two kinds are possible.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data.examples import label_text, list_names
from data.readers import labels_in
from data.tables.label_notes import MISSING_LABELS, SEPARATORS, is_list, items_of, joined_labels
from data.tables.numbers import parse_number
from data.tables.rows import Nested, RawTable, Row
from data.tables.thousands import NUMBER_SHAPE, thousands_fault
from data.task_flags import TaskRequest
from data.task_specs import KINDS, Kind

MAX_CLASSES = 200  # more are allowed where the user says kind=classes
MAX_NUMBERS = 20  # so many whole numbers are classes. Of more, it depends
MAX_CODES = 50  # so many numbers with fractions may be codes
ROWS_OF_A_CLASS = 4  # on average, so that a number comes many times
MIN_SHARE_OF_SERIES = 0.9  # of the whole numbers from the lowest to the highest


# --- the labels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """The labels of a training file, as texts.

    place: the file and the column, for messages.
    rows: the rows that have a label and texts. texts: of each row its label.
    """

    place: str
    table: RawTable
    rows: tuple[Row, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def numbers(self) -> list[float]:
        """The labels as numbers; nan for a text that is none."""
        return [parse_number(text, self.table.has_decimal_comma) for text in self.texts]

    @property
    def counts(self) -> Counter[str]:
        """How many rows each label has."""
        return Counter(self.texts)

    @property
    def are_numbers(self) -> bool:
        """Whether each label is a finite number."""
        return all(math.isfinite(number) for number in self.numbers)


def read_labels(table: RawTable, columns: Sequence[int], request: TaskRequest) -> Labels:
    """The labels of the rows that can be used. Other rows are named when the examples are read."""
    rows = []
    texts = []
    first_fault = ""
    dropped = {label_text(name) for name in request.drop_labels}
    for row in table.rows:
        lists = columns[-1:] if request.kind == "multilabel" else ()
        fault = table.fault_of(row, columns, lists)
        if fault:
            first_fault = first_fault or f"{table.place(row)}: {fault}. {advice_on(row, columns)}"
            continue
        values = [row.fields[column].strip() for column in columns]
        text = label_text(values[-1])
        if all(values) and text not in dropped:
            rows.append(row)
            texts.append(text)
    check_dropped(table, columns[-1], request)
    place = f"{table.name}, column '{table.columns[columns[-1]]}'"
    labels = Labels(place, table, tuple(rows), tuple(texts))
    if not texts and first_fault:
        raise ValueError(first_fault)
    if not texts:
        raise ValueError(
            f"{place}: no row has a text and a label; expected is one at least. Check the columns "
            f"of --task {request.name}."
        )
    if len(labels.counts) == 1:
        raise ValueError(
            f"{place}: all {len(texts):,} labels are '{texts[0]}'; a task needs two different ones "
            f"at least. Name another column with label= in --task {request.name}."
        )
    return labels


def advice_on(row: Row, columns: Sequence[int]) -> str:
    """What to do about a row that cannot be used. columns: of the texts and, last, of the label."""
    field = row.fields[columns[-1]] if len(row.fields) > columns[-1] else ""
    if isinstance(field, Nested) and field.is_plain_list:
        return "If these are several labels of a row, say kind=multilabel in --task."
    return "Fix the row."


def check_dropped(table: RawTable, column: int, request: TaskRequest) -> None:
    """Raise ValueError for a label of drop_labels= that no row has: it may be misspelt."""
    texts = {label_text(row.fields[column]) for row in table.rows if len(row.fields) > column}
    for name in request.drop_labels:
        if label_text(name) not in texts:
            raise ValueError(
                f"{table.name}, column '{table.columns[column]}': no row has the label '{name}', "
                f"which drop_labels= in --task {request.name} names. Fix or drop the name."
            )


def check_thousands(labels: Labels, column: int, request: TaskRequest) -> None:
    """Raise ValueError where the labels have signs between thousands, and may be numbers."""
    if request.labels or request.kind in ("classes", "binary", "multilabel"):
        return
    are_numbers = all(NUMBER_SHAPE.fullmatch(text) for text in labels.texts)
    fault = thousands_fault(labels.table, column)
    if fault is None or not (are_numbers or request.kind == "score"):
        return
    advice = f" If they are classes, say kind=classes in --task {request.name}."
    raise ValueError(fault if request.kind == "score" else fault + advice)


# --- the kind -------------------------------------------------------------------------------------


class KindChoice(NamedTuple):
    """A kind of answer, why, and a warning where another one is possible, or ""."""

    kind: Kind
    reason: str
    warning: str = ""


def choose_kind(labels: Labels, request: TaskRequest) -> KindChoice:
    """The kind that --task names, or the one that the labels suggest."""
    num_labels = len(labels.counts)
    counted = f"{num_labels:,} different labels"
    # What the user says, wins. It must fit the labels.
    if request.kind == "score":
        check_numbers(labels, request)
        return KindChoice("score", "as --task says")
    if request.kind == "binary" and num_labels != 2:
        raise ValueError(
            f"{labels.place}: it holds {counted}, and --task {request.name} says kind=binary, "
            "which has two. Pass kind=classes, or another column as label=."
        )
    if request.kind == "multilabel":
        return KindChoice("multilabel", "as --task says")
    if request.kind is not None:
        kind: Kind = "binary" if request.kind == "binary" else "classes"
        check_repeated(labels, request)
        return KindChoice(kind, "as --task says")
    if request.labels:
        kind = "binary" if len(request.labels) == 2 else "classes"
        return KindChoice(kind, f"labels= names {len(request.labels)}")
    # Otherwise the labels decide.
    if num_labels == 2:
        return KindChoice("binary", counted)
    if labels.are_numbers:
        choice = choose_kind_of_numbers(labels, request)
        if choice is not None:
            return choice
    check_repeated(labels, request)
    if num_labels > MAX_CLASSES:
        raise ValueError(
            f"{labels.place}: it holds {counted} in {len(labels):,} rows. If they are classes, say "
            f"kind=classes in --task {request.name}. Otherwise name another column with label=."
        )
    return KindChoice("classes", counted)


def choose_kind_of_numbers(labels: Labels, request: TaskRequest) -> KindChoice | None:
    """The kind that numbers suggest, with a warning where both are possible.

    None: there are few whole numbers, which are classes.
    """
    numbers = sorted(set(labels.numbers))
    has_fractions = any(not number.is_integer() for number in numbers)
    if len(numbers) <= MAX_NUMBERS and not has_fractions:
        return None

    is_score = request.loss in KINDS["score"].losses or request.metric in KINDS["score"].metrics
    comes_often = len(labels) >= ROWS_OF_A_CLASS * len(numbers)
    is_series = comes_often and not has_fractions and are_ids_of_classes(numbers)
    if is_series and not is_score:
        reason = f"its labels are the whole numbers {numbers[0]:g} to {numbers[-1]:g}"
        warning = (
            f"warning: {labels.place}: each of these numbers comes many times, so they are "
            f"classes. If they are scores, say kind=score in --task {request.name}."
        )
        return KindChoice("classes", reason, warning)

    reason = f"its labels are {len(numbers):,} different numbers"
    if has_fractions:
        reason = "its labels are numbers with fractions"
    warning = "" if is_score else warning_of_classes(labels, request, has_fractions, comes_often)
    return KindChoice("score", reason, warning)


def are_ids_of_classes(numbers: Sequence[float]) -> bool:
    """Whether different whole numbers, in their order, begin at 0 or 1 and leave hardly one out."""
    width = numbers[-1] - numbers[0] + 1
    is_series = numbers[0] in (0, 1) and len(numbers) >= MIN_SHARE_OF_SERIES * width
    return is_series and len(numbers) <= MAX_CLASSES


def warning_of_classes(
    labels: Labels, request: TaskRequest, has_fractions: bool, comes_often: bool
) -> str:
    """A warning where numbers that are taken for scores may be classes, or ""."""
    flag = f"say kind=classes in --task {request.name}"
    joined = joined_labels(labels.counts)
    is_comma_known = labels.table.has_decimal_comma
    # 2,5 may be a number, or the labels 2 and 5.
    if has_fractions and joined is not None and joined.separator == "," and not is_comma_known:
        return (
            f"warning: {labels.place}: labels such as '{joined.labels[0]}' are read as numbers "
            "with a decimal comma. If they are several labels of a row, say kind=multilabel in "
            f"--task {request.name}."
        )
    # Few numbers with fractions may be codes such as 1.1 and 1.2.
    numbers = sorted(set(labels.numbers))
    num_numbers = len(numbers)
    if not has_fractions and not comes_often and are_ids_of_classes(numbers):
        # Without two rows of a class, kind=classes would be refused.
        if len(labels) < 2 * num_numbers:
            return ""
        return (
            f"warning: {labels.place}: these whole numbers begin at {numbers[0]:g} and leave "
            f"hardly one out, as classes do, but they are taken for scores. If they are classes, "
            f"{flag}."
        )
    if comes_often and (num_numbers <= MAX_CODES or not has_fractions):
        return (
            f"warning: {labels.place}: each of these numbers comes many times, but they are taken "
            f"for scores. If they are classes, {flag}."
        )
    return ""


def check_repeated(labels: Labels, request: TaskRequest) -> None:
    """Raise ValueError where most labels are of one row only: this is no column of classes."""
    num_labels = len(labels.counts)
    if len(labels) < 2 * num_labels:
        example = labels.texts[0][:40]
        advice = f"Name another column with label= in --task {request.name}"
        pairs = zip(labels.texts, labels.numbers, strict=True)
        others = [text for text, number in pairs if not math.isfinite(number)]
        if not others:
            advice += ", or say kind=score"
        # One word between numbers makes classes of all of them.
        elif len(others) < len(labels) / 2 and others[0].casefold() in MISSING_LABELS:
            advice += f", or drop such rows with drop_labels={others[0]}, if it holds scores"
        elif len(others) < len(labels) / 2:
            advice += f", or fix '{others[0][:40]}', which is not a number, if it holds scores"
        joined = joined_labels(labels.counts)
        if joined is not None:
            example = joined.labels[0][:40]
            advice = (
                f"It seems to be several labels, with {joined.shown_separator} between them: then "
                f"say kind=multilabel. {advice}"
            )
        raise ValueError(
            f"{labels.place}: it holds {num_labels:,} different labels in {len(labels):,} rows, "
            f"such as '{example}'; a class needs several rows. {advice}."
        )


def check_numbers(labels: Labels, request: TaskRequest) -> None:
    """Raise ValueError that names the first label that is no number."""
    for row, text, number in zip(labels.rows, labels.texts, labels.numbers, strict=True):
        if not math.isfinite(number):
            advice = "Fix the row, or pass kind=classes."
            if text.casefold() in MISSING_LABELS:
                advice = f"Fix the row, or drop such rows with drop_labels={text}."
            raise ValueError(
                f"{labels.table.place(row)}: label '{text}' is not a number, and --task "
                f"{request.name} is a score. {advice}"
            )


# --- the classes ----------------------------------------------------------------------------------


def order_classes(labels: Labels, request: TaskRequest) -> tuple[tuple[str, ...], str]:
    """The names of the classes in their order, and the order in words."""
    if request.labels:
        names = tuple(label_text(name) for name in request.labels)
        check_names(labels, names, request)
        return names, "in the order of labels="
    if labels.are_numbers:
        values = dict(zip(labels.texts, labels.numbers, strict=True))
        order = "by number; kind=score reads them as scores" if len(values) > 2 else "by number"
        return tuple(sorted(values, key=lambda text: (values[text], text))), order
    return tuple(sorted(labels.counts)), "in alphabetical order"


def check_names(labels: Labels, names: Sequence[str], request: TaskRequest) -> None:
    """Raise ValueError where labels= and the labels of the file are not the same."""
    for row, text in zip(labels.rows, labels.texts, strict=True):
        if text not in names:
            raise ValueError(
                f"{labels.table.place(row)}: label '{text}' is none of labels= in --task "
                f"{request.name}: {list_names(names)}. Fix the row, or add the name."
            )
    unused = [name for name in names if name not in labels.counts]
    if unused:
        raise ValueError(
            f"{labels.place}: no training row has the label '{unused[0]}', which labels= in --task "
            f"{request.name} names. A class without rows cannot be trained. Drop the name."
        )


# --- several labels in a row ----------------------------------------------------------------------


def choose_separator(labels: Labels, request: TaskRequest) -> str:
    """The sign between the labels of a row: that of --task, or the one that the fields show.

    Raises ValueError where no field holds it: then each row has one label.
    """
    joined = joined_labels(labels.counts)
    separator = request.separator or (joined.separator if joined is not None else "")
    lists = [text for text in labels.counts if is_list(text)]
    if lists and not request.separator:
        # Predictions are written with a sign that no label holds.
        items = "".join("".join(items_of(text)) for text in lists)
        separator = next((sign for sign in (",", *SEPARATORS) if sign not in items), ",")
    if not separator:
        raise ValueError(
            f"{labels.place}: --task {request.name} says kind=multilabel, and no sign between "
            "several labels was found. Name it with separator=, such as separator=|. If each row "
            "has one label, say kind=classes."
        )
    if not lists and not any(separator in text for text in labels.counts):
        raise ValueError(
            f"{labels.place}: no label holds '{separator}', the separator= of --task "
            f"{request.name}, such as '{labels.texts[0][:40]}'. Name another sign. If each row has "
            "one label, say kind=classes."
        )
    return separator


def split_labels(labels: Labels, separator: str) -> Labels:
    """The labels of all rows, one by one: a row comes once for each of its labels."""
    rows = []
    texts = []
    for row, text in zip(labels.rows, labels.texts, strict=True):
        for part in labels_in(text, separator):
            rows.append(row)
            texts.append(part)
    return Labels(labels.place, labels.table, tuple(rows), tuple(texts))


def check_several(labels: Labels, request: TaskRequest) -> None:
    """Raise ValueError for labels that cannot be learned: one alone, or too many for the rows.

    labels: one by one, as split_labels gives them.
    """
    num_labels = len(labels.counts)
    if num_labels < 2:
        raise ValueError(
            f"{labels.place}: its rows hold {num_labels} label; a task with several labels needs "
            f"two at least. Name another column with label= in --task {request.name}."
        )
    if len(labels) < 2 * num_labels:
        rarest = min(labels.counts, key=lambda text: (labels.counts[text], text))
        raise ValueError(
            f"{labels.place}: it holds {num_labels:,} different labels, and most of them in one "
            f"row only, such as '{rarest[:40]}'. A label needs several rows. Check label= and "
            f"separator= in --task {request.name}."
        )
