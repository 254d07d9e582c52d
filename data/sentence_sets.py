"""STS sets and labelled sentences of any source -> examples, for measuring sentence vectors.

The commands in contrastive/quality read these files. There are two kinds, and the name of the label
column tells them apart:

- `score` and `label` stand in files of any origin, such as STS12 to STS16 and SICK. tables/ finds
  how they are written. In a table with tabs, a quotation mark may be a character like any other:
  STS12 has sentences that begin with one.
- `similarity` and `sentiment` stand in the course's files, which readers.py reads.

A row without a score or label is left out and counted, as SentEval does with STS12 to STS16.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from data.examples import SST, STS, Example, evenly_spaced
from data.readers import read_examples
from data.tables.columns import ColumnNames, Role, find_column, find_columns
from data.tables.label_notes import joined_labels, listed, missing_labels
from data.tables.numbers import parse_number
from data.tables.reader import read_table
from data.tables.rows import RawTable, Row
from data.tables.thousands import thousands_fault

SUBSET = Role("", ("subset",))

# The second names are those of SICK, as it was published.
SCORE = Role("--label", ("score", "relatedness_score"))
FIRST = Role("--text", ("sentence1", "sentence_A"))
SECOND = Role("--text-pair", ("sentence2", "sentence_B"))

LABEL = Role("--label", ("label",))
SENTENCE = Role("--text", ("sentence", "text"))


@dataclass(frozen=True)
class SentenceSet:
    """The content of a file, in file order: pairs with a number as label, or sentences in classes.

    subsets: for each row the name of its part of the set; None where the file has no such column.
    classes: the names of the classes; () for pairs. The label of an example is the position of its
        class among them.
    summary: the line for the user.
    """

    path: str
    examples: tuple[Example, ...]
    subsets: tuple[str, ...] | None
    classes: tuple[str, ...]
    summary: str


class ClassRow(NamedTuple):
    """A row of a classification file."""

    id: str
    sentence: str
    class_name: str


class FilledRows(NamedTuple):
    """The rows of a table that have a label.

    columns: the positions of the columns of each role.
    num_left_out: how many rows have no label.
    """

    columns: list[int]
    rows: list[Row]
    num_left_out: int


def read_pairs(path: str | Path, names: ColumnNames | None = None) -> SentenceSet:
    """Read an STS file.

    Its columns are score or similarity, sentence1, sentence2 and, where there are parts, subset.
    SICK may have its own column names. names: the columns that the user passed.

    Raises ValueError with file, line, what was found, what is expected and what to do. It is also
    raised where all labels are equal, because they have no correlation with anything.
    """
    names = names or ColumnNames()
    table = read_table(path, names=names)
    if is_of_course(table, SCORE, STS.label_column, names):
        course = read_examples(path, STS)
        pairs = SentenceSet(str(path), course.examples, None, (), course.summary)
    else:
        pairs = parse_pairs(table, names)

    check_labels(path, pairs.examples)
    return pairs


def evenly_cut(pairs: SentenceSet, limit: int) -> SentenceSet:
    """At most `limit` rows of a set, evenly spaced, so that each of its parts keeps its share.

    limit: 0 for all rows. Raises ValueError where the labels of the rows that stay are all equal.
    """
    if not limit or limit >= len(pairs.examples):
        return pairs
    examples = tuple(evenly_spaced(pairs.examples, limit))
    check_labels(pairs.path, examples)
    subsets = pairs.subsets
    if subsets is not None:
        subsets = tuple(evenly_spaced(subsets, limit))
    summary = f"{pairs.summary}; {limit} of these are measured"
    return replace(pairs, examples=examples, subsets=subsets, summary=summary)


def check_labels(path: str | Path, examples: Sequence[Example]) -> None:
    """Raise ValueError where all labels are equal: they have no correlation with anything."""
    if len({example.label for example in examples}) < 2:
        raise ValueError(
            f"{path}: all labels are {examples[0].label:g}; expected are different ones, or "
            "there is no correlation. Add rows, or leave the file out."
        )


def is_of_course(table: RawTable, role: Role, column: str, names: ColumnNames) -> bool:
    """Whether a table is one of the course's: by the name of its label, where none was passed."""
    if names.are_given or find_column(table, role, None) is not None:
        return False
    return find_column(table, Role(role.flag, (column,)), None) is not None


def parse_pairs(table: RawTable, names: ColumnNames) -> SentenceSet:
    """Return the pairs in a table that is none of the course's."""
    roles = [SCORE, FIRST, SECOND]
    passed = [names.label, names.text, names.text_pair]
    filled = find_filled_rows(table, roles, passed, "similarity for score")
    fault = thousands_fault(table, filled.columns[0])
    if fault:
        raise ValueError(fault)
    subset = find_column(table, SUBSET, None)

    examples = []
    subsets = []
    for row in filled.rows:
        score, first, second = [row.fields[column].strip() for column in filled.columns]
        label = parse_score(table, row, score)
        examples.append(Example(f"line {row.line}", first, second, label))
        # STS16, for instance, has five parts, such as headlines and questions.
        if subset is not None:
            name = row.fields[subset].strip()
            check_filled(table, row, {SUBSET.names[0]: name})
            subsets.append(name)
    parts = None if subset is None else tuple(subsets)
    summary = summarise(table, filled, "score")
    return SentenceSet(table.name, tuple(examples), parts, (), summary)


def read_labelled(
    path: str | Path, rows_of_class: int, names: ColumnNames | None = None
) -> SentenceSet:
    """Read a classification file.

    Its columns are sentence, and sentiment (the course's files) or label (any text names a class).

    rows_of_class: different sentences that each class must have at least.
    names: the columns that the user passed.

    Raises ValueError with file, line, what was found, what is expected and what to do. It is also
    raised for fewer than two classes and for a class with too few different sentences.
    """
    names = names or ColumnNames()
    table = read_table(path, names=names)
    rows = []
    if is_of_course(table, LABEL, SST.label_column, names):
        course = read_examples(path, SST)
        summary = course.summary
        for example in course.examples:
            rows.append(ClassRow(example.id, example.sentence_1, f"{example.label:g}"))
    else:
        passed = [names.label, names.text]
        filled = find_filled_rows(table, [LABEL, SENTENCE], passed, "sentiment for label")
        summary = summarise(table, filled, "label")
        for row in filled.rows:
            class_name, sentence = [row.fields[column].strip() for column in filled.columns]
            rows.append(ClassRow(f"line {row.line}", sentence, class_name))
        summary += warning_of_labels(Counter(row.class_name for row in rows))

    classes = list_classes(path, rows, rows_of_class)
    examples = []
    for class_row in rows:
        label = float(classes.index(class_row.class_name))
        examples.append(Example(class_row.id, class_row.sentence, None, label))
    return SentenceSet(str(path), tuple(examples), None, classes, summary)


def warning_of_labels(counts: Counter[str]) -> str:
    """What to add to the summary where classes may be missing labels or several ones, or ""."""
    warning = ""
    missing = missing_labels(counts)
    if missing:
        warning += (
            f"; warning: {listed(missing, counts)} may stand for a missing label, and is a class "
            "here. Remove such rows if it does"
        )
    joined = joined_labels(counts)
    if joined is not None:
        warning += (
            f"; warning: {listed(joined.labels[:3], counts)} seem to be several labels, and each "
            "combination is a class here"
        )
    return warning


def list_classes(path: str | Path, rows: list[ClassRow], rows_of_class: int) -> tuple[str, ...]:
    """Return the names of the classes, sorted.

    Raises ValueError for fewer than two classes, and for a class with fewer than `rows_of_class`
    different sentences.
    """
    # Two rows with the same sentence and class count once.
    different = dict.fromkeys((row.class_name, row.sentence) for row in rows)
    counts = Counter(class_name for class_name, _ in different)
    rarest = min(counts, key=lambda name: counts[name])
    if len(counts) < 2 or counts[rarest] < rows_of_class:
        if len(counts) < 2:
            classes_found = f"the one class '{rarest}'"
        else:
            classes_found = f"{counts[rarest]} sentences of class '{rarest}'"
        raise ValueError(
            f"{path}: found is {classes_found}; expected are two classes at least, each with "
            f"{rows_of_class} different ones, one for each fold. Add rows, or leave the file out."
        )
    return tuple(sorted(counts))


def find_filled_rows(
    table: RawTable, roles: list[Role], passed: list[str | None], alternative: str
) -> FilledRows:
    """Find the columns of a table, and its rows that have a label.

    roles: that of the label first, then those of the texts.
    passed: the names that the user passed. alternative: what the course's files have instead.

    Raises ValueError where the header lacks a column, where a row is damaged, where a text is
    empty, and where no row is left.
    """
    expected = ", ".join(role.names[0] for role in roles)
    flags = " and ".join(role.flag for role in roles)
    advice = (
        f"Expected are {expected} (or {alternative}, in the course's files). Fix the header, pass "
        f"another file, or name the columns with {flags}."
    )
    columns = find_columns(table, roles, passed, advice)

    rows = []
    for row in table.rows:
        table.check_row(row, columns)
        if not row.fields[columns[0]].strip():
            continue
        texts = {table.columns[column]: row.fields[column].strip() for column in columns[1:]}
        check_filled(table, row, texts)
        rows.append(row)
    if not rows:
        state = "no row with a label" if table.rows else "a header and no rows"
        raise ValueError(
            f"{table.name}: the file has {state}; expected are a header and a row with a label at "
            "least. Restore the file."
        )
    return FilledRows(columns, rows, len(table.rows) - len(rows))


def check_filled(table: RawTable, row: Row, values: dict[str, str]) -> None:
    """Raise ValueError where a value of a row is empty. values: by the names of their columns."""
    empty = [name for name, value in values.items() if not value]
    if empty:
        raise ValueError(
            f"{table.place(row)}: {' and '.join(empty)} is empty; each row needs a value there. "
            "Fix or remove the row."
        )


def summarise(table: RawTable, filled: FilledRows, label: str) -> str:
    """The line for the user. label: what a row that is left out lacks."""
    summary = f"{table.name}: {len(table.rows)} rows read"
    if filled.num_left_out:
        summary += f", {filled.num_left_out} without a {label} left out"
    return "; ".join([summary, *table.notes])


def parse_score(table: RawTable, row: Row, text: str) -> float:
    """Return the score of a row. Raises ValueError where it is not a finite number."""
    score = parse_number(text, table.has_decimal_comma)
    if not math.isfinite(score):
        raise ValueError(
            f"{table.place(row)}: score '{text}' is not a number; expected is how similar the "
            "sentences are, such as 0 to 5. Fix or remove the row."
        )
    return score
