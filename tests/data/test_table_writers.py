"""Tables that many programs write, drawn at random: the same rows are read, or the user is told.

A file may be refused, or read with a note where two readings are possible. It is never read as
other rows without a word. tests/data/table_writers.py draws the files.
"""

from collections import Counter
from typing import NamedTuple

import pytest

from data.tables.reader import parse_table
from tests.data.table_writers import draw_file

NUM_FILES = 4000


def read_rows(drawn):
    """The rows of a file in the order of its columns, and the notes. Raises ValueError."""
    table = parse_table(f"rows{drawn.suffix}", drawn.content)
    columns = []
    for name in drawn.header:
        if table.columns.count(name) != 1:
            raise ValueError(f"no column {name}")
        columns.append(table.columns.index(name))
    rows = []
    for row in table.rows:
        fault = table.fault_of(row)
        if fault:
            raise ValueError(fault)
        rows.append([row.fields[column].strip() for column in columns])
    return rows, [note for note in table.notes if "Windows-1252" not in note]


class Outcomes(NamedTuple):
    """What became of all files.

    counts: for each writer how many files were read right, noted, or refused.
    wrong: the seeds of those that were silently read as other rows.
    """

    counts: dict[str, Counter]
    wrong: list[int]


@pytest.fixture(scope="module")
def outcomes():
    counts = {}
    wrong = []
    for seed in range(NUM_FILES):
        drawn = draw_file(seed)
        try:
            rows, notes = read_rows(drawn)
        except ValueError:
            outcome = "refused"
        else:
            is_right = rows == drawn.rows
            outcome = "right" if is_right else "noted"
            if not is_right and not notes:
                wrong.append(seed)
        counts.setdefault(drawn.writer, Counter())[outcome] += 1
    return Outcomes(counts, wrong)


def test_no_file_is_silently_read_as_other_rows(outcomes):
    assert outcomes.wrong == [], "draw_file(SEED) draws these files again"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("writer", "share"),
    [
        ("Python, QUOTE_MINIMAL", 0.85),
        ("PowerShell", 0.85),
        ("Excel", 0.8),
        ("R", 0.8),
        ("PostgreSQL", 0.8),
        ("JSON lines", 1),
    ],
)
def test_most_files_of_a_usual_writer_are_read_right(outcomes, writer, delimiter, share):
    """A reader that refuses all of them would pass the test above."""
    counts = outcomes.counts[f"{writer} {delimiter!r}"]
    assert counts["right"] >= share * sum(counts.values()), counts
