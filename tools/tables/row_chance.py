"""How far chance in the dev rows alone moves the scores of a table: a note below it.

A record has scores and no answers, so nothing can be drawn anew. The share of right answers of N
rows has the standard error sqrt(p (1 - p) / N). A correlation has about (1 - r^2) / sqrt(N - 3), by
Fisher's transformation. The 95 % interval reaches 1.96 standard errors to both sides.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.known_data import known_data
from experiments.results import join
from tools.tables.rows import Content, value_of

STANDARD_ERRORS = 1.96
CORRELATION = "sts"
TITLES = {"sst": "SST", "para": "PARA", "sts": "STS"}
# The scores of tools/benchmarks/real_sentences.py, and the course's dev file that each is of.
OF_THE_COURSE = {
    "sst": "SST, five classes, accuracy",
    "para": "PARA, accuracy",
    "sts": "STS, Pearson",
}
COURSE_ROWS = {"sst": 1101, "para": 20212, "sts": 863}


class Scores(NamedTuple):
    """The scores of a task in a table, and the number of the rows that all of them share."""

    task: str
    num_rows: int
    values: Sequence[float]


def half_width(scores: Scores) -> float:
    """Return how far the 95 % interval of the mean score reaches to one side."""
    mean = statistics.fmean(scores.values)
    if scores.task == CORRELATION:
        return STANDARD_ERRORS * (1 - mean**2) / math.sqrt(scores.num_rows - 3)
    return STANDARD_ERRORS * math.sqrt(mean * (1 - mean) / scores.num_rows)


def chance_in_rows(content: Content) -> str:
    """Return the note, or "" where the records do not say which rows were scored."""
    records = list(itertools.chain.from_iterable(row.records for row in content.rows))
    parts = []
    for task in TITLES:
        scores = scores_of(task, records)
        if scores is not None:
            width = half_width(scores)
            parts.append(f"± {width:.3f} for {TITLES[task]} ({scores.num_rows:,} rows)")
    if not parts:
        return ""
    return (
        f"Chance in the rows alone moves these scores as well: {join(parts)}. That is half of the "
        "95 % interval of one score."
    )


def scores_of(task: str, records: Sequence[Mapping[str, Any]]) -> Scores | None:
    """Return the scores of a task, or None where there are none or their rows are not known."""
    values = [value_of(record, f"scores.{OF_THE_COURSE[task]}") for record in records]
    if any(value is not None for value in values):
        num_rows = COURSE_ROWS[task]
    else:
        values = [value_of(record, f"scores.{task}") for record in records]
        sizes = {size_of(task, record) for record in records}
        # Rows of another number have another interval.
        if len(sizes) != 1 or None in sizes:
            return None
        num_rows = sizes.pop() or 0
    present = [value for value in values if value is not None]
    return Scores(task, num_rows, present) if present else None


def size_of(task: str, record: Mapping[str, Any]) -> int | None:
    """Return how many dev rows of a task the data of a record have."""
    data = known_data().get(str(record.get("data")))
    return None if data is None else data.dev.get(task)
