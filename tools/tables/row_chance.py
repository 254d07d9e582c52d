"""How far chance in the dev rows alone moves the scores of a table.

A record has scores and no answers, so nothing can be drawn anew. The share of right answers of N
rows has the standard error sqrt(p (1 - p) / N). A correlation has about (1 - r^2) / sqrt(N - 3), by
Fisher's transformation. The 95 % interval reaches 1.96 standard errors to both sides. The overall
score is the mean of three tasks, whose rows are drawn independently of each other.

Where there is no formula, as for macro-F1, a measurement draws the rows itself, and its record has
the standard error in "row_errors". Older records of macro-F1 have none. Theirs is estimated by the
largest of the records that have one, for the same number of rows.

A table has this as a note, or as a column where its scores are rows.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from data.options import numbers_by_task
from experiments.known_data import known_data
from experiments.paper_scores import Score
from experiments.records import RECORDS, Record, read_records
from experiments.results import join
from experiments.tables import COLUMNS, OVERALL
from minbert.commands.options import NONE
from tools.tables.cut import REPORT_CUT
from tools.tables.rows import Content, Entry, Row, value_of

STANDARD_ERRORS = 1.96
TASKS = ("sst", "para", "sts")
CORRELATIONS = ("sts", "STS, Pearson", "pearson")
TITLES = {column.score: column.title for column in COLUMNS}
# The scores of tools/benchmarks/real_sentences.py, and how many rows of the course's dev files each
# has. A recall has the rows of its class, and the polarity those that are not neutral.
ACCURACY_OF_SST = "SST, five classes, accuracy"
COURSE_ROWS = {
    ACCURACY_OF_SST: 1101,
    "SST, recall of class 0": 139,
    "SST, recall of class 1": 289,
    "SST, recall of class 2": 229,
    "SST, recall of class 3": 279,
    "SST, recall of class 4": 165,
    "SST, polarity": 872,
    "PARA, accuracy": 20212,
    "STS, Pearson": 863,
}
RECALL = "SST, recall of class"
MACRO_F1 = "SST, macro-F1"
# The runs whose rows were drawn, on the 1,101 rows of SST.
DRAWN = ("real-sentences.jsonl", "sample-parts.jsonl")
NUM_CLASSES = 5
OF_INTERVALS = (
    "Each interval accounts for chance in the rows and, with several seeds, in the seeds."
)
SAME_ROWS = "Both sides of a difference have the same rows. Other rows may give another difference."
OF_SEEDS = "The intervals are over the seeds."
OF_DIFFERENCES = f"{OF_SEEDS} {SAME_ROWS}"
ESTIMATED = (
    "These records hold no predictions. The largest chance of later runs, whose rows were drawn "
    "anew, is an estimate for"
)
NO_PREDICTIONS = "The records hold no predictions, so they have no interval of"
# Such as "20 sentences, with a negation, polarity".
NUMBER_IN_NAME = re.compile(r"([\d,]+) (other )?sentences\b.*, polarity")
COLUMN = "± by rows"
UNKNOWN = "–"


class Chance(NamedTuple):
    """How far the 95 % interval of a score reaches to one side, and how many rows were scored.

    num_rows: 0 for the overall score, which has the rows of several tasks. is_estimate: whether it
    is that of other runs.
    """

    half_width: float
    num_rows: int
    is_estimate: bool = False


def half_width(name: str, num_rows: int, mean: float) -> float:
    """Return how far the 95 % interval of a score reaches to one side.

    name: of a task, of a score in COURSE_ROWS, or of a metric. mean: of the score over the runs.
    Where all answers are right, or none, the formula would give 0: this is Wilson's interval then.
    """
    if name in CORRELATIONS:
        return STANDARD_ERRORS * (1 - mean**2) / math.sqrt(num_rows - 3)
    if mean in (0.0, 1.0):
        return STANDARD_ERRORS**2 / (num_rows + STANDARD_ERRORS**2)
    return STANDARD_ERRORS * math.sqrt(mean * (1 - mean) / num_rows)


# --- one score of one row -------------------------------------------------------------------------


def chance_of(row: Row, path: str) -> Chance | None:
    """Return the chance in a score of a row of a table; None where its dev rows are not known.

    path: the field of the score, such as "scores.sst".
    """
    folder, _, name = path.rpartition(".")
    if name == OVERALL:
        return chance_of_overall(row, folder)
    present = measured(row, path)
    errors = [record["row_errors"].get(name) for record in row.records if "row_errors" in record]
    if row.records and len(errors) == len(row.records) and None not in errors:
        num_rows = num_rows_of(row.records[0], folder, ACCURACY_OF_SST)
        return Chance(STANDARD_ERRORS * statistics.fmean(errors), num_rows or 0)
    sizes = {num_rows_of(record, folder, name) for record in row.records}
    # Rows of another number have another interval.
    num_rows = sizes.pop() if len(sizes) == 1 else None
    if num_rows is None or not present:
        return None
    if name == MACRO_F1:
        error = largest_error_of_macro_f1() * math.sqrt(COURSE_ROWS[ACCURACY_OF_SST] / num_rows)
        return Chance(STANDARD_ERRORS * error, num_rows, True)
    kind = row.records[0].get("metric", name)
    return Chance(half_width(kind, num_rows, statistics.fmean(present)), num_rows)


@functools.cache
def largest_error_of_macro_f1() -> float:
    """Return the largest standard error over the 1,101 rows of SST."""
    errors = []
    for name in DRAWN:
        for record in read_records(RECORDS / name):
            if "row_errors" in record:
                errors.append(record["row_errors"][MACRO_F1])
    return float(max(errors))


def measured(row: Row, path: str) -> list[float]:
    """Return the values of a score, of the records that have it."""
    values = [value_of(record, path) for record in row.records]
    return [value for value in values if value is not None]


def chance_of_overall(row: Row, folder: str) -> Chance | None:
    """Return the chance in the mean of the three tasks. folder: the field that holds the scores."""
    squares = 0.0
    for task in TASKS:
        chance = chance_of(row, f"{folder}.{task}" if folder else task)
        if chance is None:
            return None
        squares += chance.half_width**2
    return Chance(math.sqrt(squares) / len(TASKS), 0)


def num_rows_of(record: Mapping[str, Any], folder: str, name: str) -> int | None:
    """Return how many rows a score of a record was computed on; None where it is not known.

    folder: the field that holds the scores. A record that was made from several runs has "dev",
    which is the number of dev rows by task. One of a user's own table has "num_rows" by folder.
    """
    if "num_rows" in record:
        return int(record["num_rows"][folder])
    if folder == "train_scores":
        return int(REPORT_CUT.values["score_train"])
    if name in COURSE_ROWS or name == MACRO_F1:
        # The runs with other shares of film sentences were measured on product sentences.
        if "products" in record:
            return rows_of_products(name, record["products"])
        return COURSE_ROWS[ACCURACY_OF_SST if name == MACRO_F1 else name]
    number = NUMBER_IN_NAME.fullmatch(name)
    if number:
        return int(number[1].replace(",", ""))
    return dev_rows([record]).get(name)


def rows_of_products(name: str, num_products: int) -> int | None:
    """Return how many product sentences a score has. Each class has the same number of them."""
    if name in (ACCURACY_OF_SST, MACRO_F1):
        return num_products
    return num_products // NUM_CLASSES if name.startswith(RECALL) else None


def dev_rows_of(record: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of dev rows of a run by task; {} for unknown data.

    A run with --dev_rows has read fewer of them than its files hold.
    """
    known = known_data().get(str(record.get("data")))
    sizes = dict(known.dev) if known else {}
    limits = numbers_by_task(record.get("options", {}).get("dev_rows", NONE))
    for task in limits.keys() & sizes.keys():
        sizes[task] = min(sizes[task], int(limits[task]))
    return sizes


def dev_rows(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of dev rows by task, of runs that may have trained a task each."""
    sizes: dict[str, int] = {}
    for record in records:
        sizes |= dev_rows_of(record) or record.get("dev", {})
    return sizes


def score_of(record: Mapping[str, Any], path: str) -> Score | None:
    """Return a score of a record with its error over the rows, where it has one; None without it.

    path: of the score. "errors" and "groups" of a record have the error and the number of groups by
    this path. A record of a run has the interval of each task in "intervals".
    """
    value = value_of(record, path)
    if value is None:
        return None
    folder, _, name = path.rpartition(".")
    if folder == "scores" and name in record.get("intervals", {}):
        low, high = record["intervals"][name]
        return Score(value, (high - low) / 2 / STANDARD_ERRORS, dev_rows([record]).get(name, 0))
    return Score(value, record.get("errors", {}).get(path), record.get("groups", {}).get(path, 0))


# --- below and in a table -------------------------------------------------------------------------


def chance_in_rows(content: Content) -> str:
    """Return the note, and of which scores no chance is known."""
    if content.entry.get("turned", False):
        return note_of_column(content)
    parts = []
    unknown = []
    estimated = []
    for path, title in shown_scores(content.entry):
        chances = [chance_of(row, path) for row in content.rows]
        known = [chance for chance in chances if chance is not None]
        if known:
            parts.append(describe(title, known))
            if any(chance.is_estimate for chance in known):
                estimated.append(title)
        elif any(measured(row, path) for row in content.rows):
            unknown.append(title)
    sentences = [note_of(parts)] if parts else []
    if estimated:
        sentences.append(f"{ESTIMATED} {join(estimated)}.")
    if unknown:
        sentences.append(f"{NO_PREDICTIONS} {join(unknown)}.")
    return " ".join(sentences)


def note_of(parts: Sequence[str]) -> str:
    """Return the note on scores that are described like this."""
    return (
        f"Chance in the rows alone moves these scores as well: {join(parts)}. That is half of the "
        "95 % interval of one score."
    )


def note_of_column(content: Content) -> str:
    """Return what the column of `chance_column` says, or "" where there is no such column."""
    majority = content.rows[0].records[0]["majority"]
    cells = chance_column(content.rows, content.entry.get("scores", list(majority)))
    if not cells:
        return ""
    note = (
        f'The column "{COLUMN}" says how far chance in the rows alone moves a score. It is half of '
        "the 95 % interval of one score."
    )
    if len(content.rows) > 1:
        note += " It is the widest one among the models."
    if any(is_estimated(row) for row in content.rows) and MACRO_F1 in cells:
        note += f" {ESTIMATED} {MACRO_F1}."
    without = [name for name, cell in cells.items() if cell == UNKNOWN]
    if without:
        note += f" {NO_PREDICTIONS} {join(without)}."
    return note


def is_estimated(row: Row) -> bool:
    """Whether the chance in macro-F1 is that of other runs."""
    chance = chance_of(row, f"scores.{MACRO_F1}")
    return chance is not None and chance.is_estimate


def describe(title: str, chances: Sequence[Chance]) -> str:
    """Return the least and the greatest chance in a score of several rows of a table, in words."""
    widths = [chance.half_width for chance in chances]
    least, most = f"{min(widths):.3f}", f"{max(widths):.3f}"
    amount = f"± {least}" if least == most else f"± {least} to {most}"
    sizes = [f"{chance.num_rows:,}" for chance in chances if chance.num_rows]
    return f"{amount} for {title} ({join(sizes)} rows)" if sizes else f"{amount} for {title}"


def shown_scores(entry: Entry) -> list[tuple[str, str]]:
    """Return the field and the title of each score that is a column of a table."""
    shown = []
    for column in entry.get("columns", []):
        if isinstance(column, dict) and column.get("format") == "scores":
            shown.append((column["value"], column["title"]))
    folder = entry.get("scores_in", "scores.")
    names = entry.get("scores", [])
    for name in TITLES if names == "dev" else names:
        shown.append((folder + name, TITLES.get(name, name)))
    return shown


def chance_column(groups: Sequence[Row], names: Sequence[str]) -> dict[str, str]:
    """Return the cells of the column in a table whose rows are scores, by score.

    It has the group with the widest interval. {} where no interval is known.
    """
    cells = {}
    for name in names:
        chances = [chance_of(group, f"scores.{name}") for group in groups]
        widths = [chance.half_width for chance in chances if chance is not None]
        cells[name] = f"{max(widths):.3f}" if widths else UNKNOWN
    return cells if set(cells.values()) != {UNKNOWN} else {}


def of_several_runs(scores: Mapping[str, float], runs: Sequence[Record]) -> dict[str, Any]:
    """Return a record of scores that several runs have together, with the rows they are of."""
    return {"scores": dict(scores), "dev": dev_rows(runs)}
