"""Questions with candidate answers -> examples, for measuring a ranking.

A file has a row for each candidate: the question, the answer, and whether it is right (1 or 0).
The rows of a question need not stand together.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from data.tables.columns import Role, find_columns
from data.tables.reader import read_table

ANSWER_ROLES = (
    Role("", ("question", "qtext", "query")),
    Role("", ("answer", "atext", "passage")),
)
ROLES = (*ANSWER_ROLES, Role("", ("label",)))
ADVICE = (
    "Expected are question, answer and label (or qtext, atext, label), a row for each candidate. "
    "Fix the header, or pass another file."
)


class Question(NamedTuple):
    """A question, its candidates, and for each of them whether it is right."""

    text: str
    candidates: list[str]
    is_right: list[bool]

    @property
    def can_be_ranked(self) -> bool:
        """Whether a ranking can be good or bad: some candidates are right, and some are wrong."""
        return any(self.is_right) and not all(self.is_right)


class RankingSet(NamedTuple):
    """The questions of a file in their order. summary: the line for the user."""

    path: str
    questions: list[Question]
    summary: str


def read_ranking(path: str | Path) -> RankingSet:
    """Read a file of candidates.

    Raises ValueError with file, line, what was found and what is expected. It is also raised where
    no question has both a right and a wrong candidate.
    """
    table = read_table(path)
    columns = find_columns(table, ROLES, (None, None, None), ADVICE)
    questions: dict[str, Question] = {}
    for row in table.rows:
        table.check_row(row, columns)
        text, candidate, label = [row.fields[column].strip() for column in columns]
        if not text or not candidate or label not in ("0", "1"):
            raise ValueError(
                f"{table.place(row)}: the label is '{label}'; each row needs a question, an answer "
                "and a label of 0 or 1. Fix or remove the row."
            )
        question = questions.setdefault(text, Question(text, [], []))
        question.candidates.append(candidate)
        question.is_right.append(label == "1")

    if not any(question.can_be_ranked for question in questions.values()):
        raise ValueError(
            f"{path}: no question has both a right and a wrong answer, so there is nothing to "
            "rank. Add such rows, or leave the file out."
        )
    num_rows = len(table.rows)
    summary = f"{path}: {num_rows:,} rows read, {len(questions):,} questions"
    return RankingSet(str(path), list(questions.values()), "; ".join([summary, *table.notes]))
