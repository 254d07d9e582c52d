"""Text of any source -> what a contrastive stage trains on: sentences, pairs or triplets.

A file is plain text, a sentence a line, or a table that tables/ reads. The names of its columns
tell what the table holds:

- `sentence` or `text`: sentences
- `sentence1` and `sentence2`, with or without a score or a label: pairs
- `premise`, `hypothesis` and a label that says entailment, neutral or contradiction (SNLI, MNLI):
  triplets
- `premise`, `entailment`, `contradiction`, or the names of other libraries: triplets

Tab-separated lines without a header are pairs of two wordings, or triplets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from data.corpus import check_files, read_beginning, read_lines
from data.examples import evenly_spaced
from data.ranking_sets import ANSWER_ROLES
from data.sentence_sets import parse_score
from data.tables.columns import Role, find_column, find_columns, refuse_rows_as_header
from data.tables.delimited import column_checks
from data.tables.reader import looks_like_table, read_table
from data.tables.rows import RawTable, Row

Kind = Literal["sentences", "pairs", "triplets"]

TRIPLET_ROLES = (
    # The second names are those of the file of SimCSE's authors, and the third ones those of
    # sentence-transformers.
    Role("", ("premise", "sent0", "anchor")),
    Role("", ("entailment", "sent1", "positive")),
    Role("", ("contradiction", "hard_neg", "negative")),
)
TRIPLET_ADVICE = (
    "A file of triplets has the columns premise, entailment and contradiction, or sent0, sent1 and "
    "hard_neg, or anchor, positive and negative. Each row holds all three texts. Labelled pairs "
    "have the columns premise, hypothesis and label. Fix the file."
)
# The last names are those of MRPC.
PAIR_ROLES = (
    Role("", ("sentence1", "sentence_A", "question1", "text1", "anchor", "sent0", "#1 String")),
    Role("", ("sentence2", "sentence_B", "question2", "text2", "positive", "sent1", "#2 String")),
)
PREMISE_ROLES = (Role("", ("premise",)), Role("", ("hypothesis",)))
# The second names are those of SNLI and MNLI.
RELATED_ROLES = (Role("", ("premise", "sentence1")), Role("", ("hypothesis", "sentence2")))
RELATION = Role("", ("gold_label", "label"))
SCORE = Role("", ("score", "similarity", "relatedness_score"))  # of STS
SCORE_OR_LABEL = Role("", (*SCORE.names, "is_duplicate", "label", "Quality"))
SENTENCE_ROLES = (Role("", ("sentence", "text")),)

RELATIONS = ("entailment", "neutral", "contradiction")
NO_RELATION = "-"  # the annotators of SNLI did not agree
HIGHEST_SCORE = 5  # of STS
# One word that may be the name of a column, such as question1.
NAME = re.compile(r"[A-Za-z_]+[0-9]*(_[A-Za-z0-9]+)?")
KIND_OF_WIDTH: dict[int, Kind] = {2: "pairs", 3: "triplets"}


class TrainingText(NamedTuple):
    """The content of a file, in file order.

    rows: 1, 2 or 3 texts each. labels: of pairs from 0 to 1; None for other rows, and for pairs
    without labels, which all belong together. summary: the line for the user.
    """

    kind: Kind
    rows: list[tuple[str, ...]]
    labels: list[float] | None
    summary: str


def read_training_text(
    path: str | Path, limit: int = 0, is_for_sentences: bool = False
) -> TrainingText:
    """Read a file. limit: rows at most, evenly spaced; 0 for all.

    Of plain text only the lines that are kept come into memory. is_for_sentences: whether only
    sentences are read of the rows. Then premises and hypotheses stay pairs, whatever their label.

    Raises ValueError with file, line, what was found, what is expected and what to do.
    """
    path = Path(path)
    if path.is_file() and not looks_like_table(str(path), read_beginning(path)):
        return read_plain_text(path, limit)
    text = parse_training_table(read_table(path), is_for_sentences)
    if not limit or limit >= len(text.rows):
        return text
    kept = evenly_spaced(range(len(text.rows)), limit)
    rows = [text.rows[number] for number in kept]
    labels = None if text.labels is None else [text.labels[number] for number in kept]
    return TrainingText(text.kind, rows, labels, f"{text.summary}; {limit:,} of them are used")


def read_triplets(path: str | Path) -> TrainingText:
    """Read a table of triplets, or of labelled pairs in which there are triplets.

    Raises ValueError with file and line for any other file.
    """
    table = read_table(path)
    columns = relation_columns(table)
    if columns:
        return parse_relations(table, columns)
    passed = (None, None, None)
    return parse_columns(
        table, "triplets", find_columns(table, TRIPLET_ROLES, passed, TRIPLET_ADVICE)
    )


def read_plain_text(path: Path, limit: int) -> TrainingText:
    """The lines of a file of plain text, as sentences."""
    check_files([path])
    num_lines = sum(1 for _ in read_lines([path]))
    if not num_lines:
        raise ValueError(f"{path}: there is no text in it; expected is a sentence a line.")
    summary = f"{path}: {num_lines:,} lines of plain text"
    if not limit or limit >= num_lines:
        every = [(line,) for line in read_lines([path])]
        return TrainingText("sentences", [*every], None, summary)

    # Line by line, so that a large file does not have to fit into memory.
    kept = [place * num_lines // limit for place in range(limit)]
    lines = read_lines([path])
    rows: list[tuple[str, ...]] = []
    position = 0
    for number in kept:
        line = next(islice(lines, number - position, None))
        rows.append((line,))
        position = number + 1
    return TrainingText("sentences", rows, None, f"{summary}; {limit:,} of them are used")


def parse_training_table(table: RawTable, is_for_sentences: bool) -> TrainingText:
    """The rows of a table. Its columns decide the kind."""
    if is_for_sentences and positions(table, PREMISE_ROLES):
        return parse_premises(table, positions(table, PREMISE_ROLES))
    of_relations = relation_columns(table)
    if of_relations and is_for_sentences:
        return parse_premises(table, of_relations[:2])
    if of_relations:
        return parse_relations(table, of_relations)
    kinds: tuple[tuple[Kind, Sequence[Role]], ...] = (
        ("triplets", TRIPLET_ROLES),
        ("pairs", PAIR_ROLES),
        ("pairs", ANSWER_ROLES),
        ("sentences", SENTENCE_ROLES),
    )
    for kind, roles in kinds:
        columns = positions(table, roles)
        if columns:
            return parse_columns(table, kind, columns)
    return parse_without_header(table)


def positions(table: RawTable, roles: Sequence[Role]) -> list[int]:
    """The columns of all roles, or none where one is missing."""
    columns = []
    for role in roles:
        # The first of its names that is there.
        named = [find_column(table, Role("", (name,)), None) for name in role.names]
        present = [column for column in named if column is not None]
        if not present:
            return []
        columns.append(present[0])
    return columns


def parse_columns(table: RawTable, kind: Kind, columns: Sequence[int]) -> TrainingText:
    """The texts of some columns, and of pairs the score."""
    score = find_column(table, SCORE_OR_LABEL, None) if kind == "pairs" else None
    rows = []
    scores = []
    num_left_out = 0
    for row in table.rows:
        table.check_row(row, columns)
        # A pair whose score is missing says nothing.
        if score is not None and not row.fields[score].strip():
            num_left_out += 1
            continue
        rows.append(texts_of(table, row, columns))
        if score is not None:
            scores.append(parse_score(table, row, row.fields[score].strip()))
    check_rows(table, rows)
    summary = f"{table.name}: {len(rows):,} {kind}"
    if num_left_out:
        summary += f", {num_left_out:,} without a score left out"
    if score is None:
        return TrainingText(kind, rows, None, summary)

    # A paraphrase is 1 and any other pair 0. Scores of STS go to 5. Numbers of classes are neither.
    is_score = score == find_column(table, SCORE, None)
    if min(scores) < 0 or max(scores) > (HIGHEST_SCORE if is_score else 1):
        expected = (
            f"labels of 0 to 1, or scores of 0 to {HIGHEST_SCORE}."
            if is_score
            else "labels of 0 to 1. Name the column score if they are scores of 0 to "
            f"{HIGHEST_SCORE}."
        )
        raise ValueError(
            f"{table.name}: the column {table.columns[score]} holds {min(scores):g} to "
            f"{max(scores):g}; expected are {expected}"
        )
    divisor = HIGHEST_SCORE if max(scores) > 1 else 1
    labels = [number / divisor for number in scores]
    of_scores = f"{table.columns[score]} / {divisor}" if divisor > 1 else table.columns[score]
    return TrainingText(kind, rows, labels, f"{summary}, labels are {of_scores}")


def texts_of(table: RawTable, row: Row, columns: Sequence[int]) -> tuple[str, ...]:
    """The texts of a row. ValueError where one of them is empty."""
    texts = tuple(row.fields[column].strip() for column in columns)
    if not all(texts):
        names = ", ".join(table.columns[column] for column in columns)
        raise ValueError(f"{table.place(row)}: {names} are not all there. Fix or remove the row.")
    return texts


def check_rows(table: RawTable, rows: Sequence[object]) -> None:
    """ValueError where a table has no rows."""
    if not rows:
        raise ValueError(
            f"{table.name}: a header and no rows; expected is at least one. Fix the file."
        )


# --- entailment, neutral, contradiction -----------------------------------------------------------


def relation_columns(table: RawTable) -> list[int]:
    """The columns of premise, hypothesis and label; none where no label says what follows.

    ValueError where the label of a premise and a hypothesis is none of the three words.
    """
    columns = positions(table, (*RELATED_ROLES, RELATION))
    if not columns:
        return []
    values = set()
    for row in table.rows:
        if len(row.fields) > columns[2]:
            values.add(row.fields[columns[2]].strip().lower())
    unknown = sorted(values - {*RELATIONS, NO_RELATION, ""})
    if values & set(RELATIONS) and not unknown:
        return columns
    # The label of sentence1 and sentence2 may be a score.
    if unknown and positions(table, PREMISE_ROLES):
        raise ValueError(
            f"{table.name}: the column {table.columns[columns[2]]} holds "
            f"{', '.join(unknown[:3])}; expected are the words entailment, neutral and "
            "contradiction. Write them in place of it."
        )
    return []


def parse_premises(table: RawTable, columns: Sequence[int]) -> TrainingText:
    """All premises and hypotheses, as pairs without labels. columns: of both."""
    rows = []
    for row in table.rows:
        table.check_row(row, columns)
        rows.append(texts_of(table, row, columns))
    check_rows(table, rows)
    return TrainingText("pairs", rows, None, f"{table.name}: {len(rows):,} pairs")


def parse_relations(table: RawTable, columns: Sequence[int]) -> TrainingText:
    """The triplets in labelled pairs: a premise, what it entails, and what contradicts it.

    The first entailment of a premise goes with its first contradiction, the second one with the
    second, and so on (Gao et al. 2021, section 4, take one of each). Neutral pairs are left out.

    columns: of premise, hypothesis and label.
    """
    hypotheses: dict[str, dict[str, list[str]]] = {}
    for row in table.rows:
        table.check_row(row, columns)
        relation = row.fields[columns[2]].strip().lower()
        if relation not in ("entailment", "contradiction"):
            continue
        premise, hypothesis = texts_of(table, row, columns[:2])
        of_premise = hypotheses.setdefault(premise, {"entailment": [], "contradiction": []})
        of_premise[relation].append(hypothesis)

    rows: list[tuple[str, ...]] = []
    for premise, of_premise in hypotheses.items():
        for pair in zip(of_premise["entailment"], of_premise["contradiction"], strict=False):
            rows.append((premise, *pair))
    if not rows:
        raise ValueError(
            f"{table.name}: no premise has both an entailment and a contradiction, so there is no "
            "triplet in it. Add such rows."
        )
    summary = f"{table.name}: {len(rows):,} triplets in {len(table.rows):,} labelled pairs"
    return TrainingText("triplets", rows, None, summary)


def triplets_in_pairs(text: TrainingText) -> list[tuple[str, ...]]:
    """The triplets in pairs labelled 1 and 0: a text, a positive and a negative of it.

    So labelled negatives become hard negatives. Pairs have no order, so both sides count. The first
    positive of a text goes with its first negative, and so on.
    """
    partners: dict[str, dict[bool, list[str]]] = {}
    for row, label in zip(text.rows, text.labels or [], strict=True):
        for text_of_pair, partner in (row, row[::-1]):
            of_text = partners.setdefault(text_of_pair, {True: [], False: []})
            of_text[label == 1].append(partner)
    triplets: list[tuple[str, ...]] = []
    for anchor, of_text in partners.items():
        for positive, negative in zip(of_text[True], of_text[False], strict=False):
            triplets.append((anchor, positive, negative))
    return triplets


# --- tab-separated lines --------------------------------------------------------------------------


def parse_without_header(table: RawTable) -> TrainingText:
    """Lines of two or three texts with tabs between. The first line is one of them.

    ValueError for any other table, where the first line may be names of columns, and where a column
    holds numbers or labels.
    """
    width = len(table.header.fields)
    kind = KIND_OF_WIDTH.get(width)
    first = [field.strip() for field in table.header.fields]
    is_named = all(NAME.fullmatch(field) for field in first)
    if kind is None or table.layout.delimiter != "\t" or is_named:
        refuse_rows_as_header(table, ())
        raise ValueError(
            f"{table.name}: its columns are {table.shown_columns}, and none of them says what the "
            "file holds. Expected is a column sentence; sentence1 and sentence2, with or without "
            "score; premise, hypothesis and label; or premise, entailment and contradiction. "
            "Rename the columns, or write tab-separated lines of two or three texts without a "
            "header."
        )
    for column, words in column_checks(table).items():
        # A text may come many times, too, but it has blanks.
        if words is None or not any(" " in word for word in words):
            kind_of_values = "numbers" if words is None else "labels"
            raise ValueError(
                f"{table.name}: it has no header, and its column {column + 1} seems to hold "
                f"{kind_of_values}, such as '{first[column][:20]}'. Write a line with the names of "
                "the columns above it, such as sentence1, sentence2 and score, or label and text."
            )
    rows = []
    for row in (table.header, *table.rows):
        if len(row.fields) != width:
            raise ValueError(
                f"{table.place(row)}: {len(row.fields)} texts, and the first line has {width}. Fix "
                "or remove the row."
            )
        rows.append(texts_of(table, row, range(width)))
    summary = f"{table.name}: {len(rows):,} {kind}, a line each"
    return TrainingText(kind, rows, None, summary)
