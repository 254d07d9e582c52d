"""Leaderboard files: write, read back, verify, score. The last station on the way from a CSV row to a prediction.

The format is the course's own, byte for byte: a header line ("id \\t Predicted_Sentiment \\n"), then a row per id
("{id} , {value} \\n"), UTF-8, "\\n" on every system. Files that others wrote are read as strictly as ours; check.py is
for those.
"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from data.readers import Table
from minbert.commands.files import write_atomically
from multitask.tasks import TASKS, Task

ROW = re.compile(r"([^\s,]+) , (\S+) \n")
NUM_IDS_NAMED = 3
# Task name -> (what a value looks like, the same in words, how numpy trims it: "-" prints 3, "0" prints 3.0).
# STS: a regression may leave the labels' 0 to 5 and is not clipped, since Pearson correlation is what counts; the
# exponent is for values under 1e-4 in files that others wrote.
VALUES = {
    "sst": (re.compile(r"[0-4]"), "a class: 0, 1, 2, 3 or 4", "-"),
    "para": (re.compile(r"[01]\.0"), "0.0 or 1.0", "0"),
    "sts": (
        re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII),
        "a finite number such as 2.75",
        "0",
    ),
}


def write_predictions(
    path: str | Path, task: Task, ids: Sequence[str], values: Sequence[float] | np.ndarray
) -> None:
    """Write a task's leaderboard file, whole or not at all: beside its place first, then renamed.

    ids: N ids, each once, without blanks or commas. values: N predictions, any number dtype; SST 0 to 4, PARA 0 or 1,
    STS any finite number, printed in the fewest digits that give back the same float32, never with an exponent.
    Raises ValueError, before anything is written, for an id or value that read_predictions would refuse, for no rows or
    unequal numbers of them; and where the folder cannot be written or the disk is full.
    """
    if len(ids) != len(values) or not len(ids):
        raise ValueError(
            f"{path}: {len(ids)} ids and {len(values)} predictions; each id needs one, and one at least."
        )
    _, _, trim = VALUES[task.name]
    rows = [
        f"{row_id} , {np.format_float_positional(np.float32(value), trim=trim)} \n"
        for row_id, value in zip(ids, values, strict=True)
    ]
    content = "".join([task.header, *rows]).encode("utf-8")
    _parse(path, task, content)
    write_atomically(Path(path), lambda beside: beside.write_bytes(content))


def read_predictions(path: str | Path, task: Task) -> dict[str, float]:
    """Read a leaderboard file: id -> prediction, in file order; an STS value is the float32 nearest to what is printed.

    Raises ValueError with file, line, what was found and what is needed for: a file that cannot be read or is not
    UTF-8, another header, a row of another form, a value that the task does not have, an id that came before.
    """
    return _parse(path, task, _read_bytes(path))


def verify_predictions(
    path: str | Path, task: Task, expected_ids: Iterable[str]
) -> dict[str, float]:
    """Read a leaderboard file and check that it holds every expected id once and no other, in any order.

    Returns what read_predictions returns. Raises ValueError as it does, and with the first few ids that are missing or
    unknown.
    """
    predictions = read_predictions(path, task)
    expected = dict.fromkeys(expected_ids)  # a set that keeps the file's order, for the message
    missing = [row_id for row_id in expected if row_id not in predictions]
    unknown = [row_id for row_id in predictions if row_id not in expected]
    faults = [
        f"{len(ids)} {what} ({', '.join(ids[:NUM_IDS_NAMED])}{', ...' if len(ids) > NUM_IDS_NAMED else ''})"
        for what, ids in (("missing", missing), ("unknown", unknown))
        if ids
    ]
    if faults:
        raise ValueError(
            f"{path}: of {len(expected)} expected {task.title} ids, {' and '.join(faults)}. Needed is one "
            "row for each id of the input, no other; predict from the same file, without --dev-rows."
        )
    return predictions


def score_predictions(path: str | Path, task: Task, table: Table) -> float:
    """The task's score (accuracy 0 to 1, or Pearson -1 to 1) of a leaderboard file, against a labelled table.

    Raises ValueError as verify_predictions does, and for a table without labels.
    """
    predictions = verify_predictions(path, task, [example.id for example in table.examples])
    if any(example.label is None for example in table.examples):
        raise ValueError(
            f"{table.path}: the rows have no labels; a score needs a labelled file, such as the dev file."
        )
    values = np.array([predictions[example.id] for example in table.examples], dtype=np.float32)
    return task.score(
        values, np.array([example.label for example in table.examples], dtype=np.float32)
    )


def find_task(path: str | Path) -> Task:
    """The task whose header the file has. Raises ValueError if there is none, with what was found and needed."""
    header = _decode(path, 1, _read_bytes(path).partition(b"\n")[0] + b"\n")
    for task in TASKS.values():
        if header == task.header:
            return task
    needed = ", ".join(repr(task.header) for task in TASKS.values())
    raise ValueError(
        f"{path}, line 1: the header is {header!r}; needed is one of {needed}, byte for byte."
    )


def _read_bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions."
        ) from error


def _decode(path: str | Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: {line!r} is not UTF-8. Write the file again as UTF-8."
        ) from error


def _parse(path: str | Path, task: Task, content: bytes) -> dict[str, float]:
    pattern, words, _ = VALUES[task.name]
    lines = [
        _decode(path, number, line)
        for number, line in enumerate(content.splitlines(keepends=True), start=1)
    ]
    if not lines or lines[0] != task.header:
        found = repr(lines[0]) if lines else "missing (the file is empty)"
        raise ValueError(
            f"{path}, line 1: the header is {found}; {task.title} needs {task.header!r}, byte for byte."
        )
    predictions, line_of_id = {}, {}
    for number, line in enumerate(lines[1:], start=2):
        where = f"{path}, line {number}"
        row = ROW.fullmatch(line)
        if not row:
            raise ValueError(
                f"{where}: the row is {line!r}; needed is '{{id}} , {{value}} \\n', byte for byte, with "
                "no blank or comma in the id. Write the file again."
            )
        row_id, text = row.groups()
        with np.errstate(
            over="ignore"
        ):  # 1e39 is more than float32 holds: it becomes inf, and is refused as such
            value = float(np.float32(text)) if pattern.fullmatch(text) else math.nan
        if not math.isfinite(value):
            raise ValueError(
                f"{where}: the value is {text!r}; {task.title} needs {words}. Predict again."
            )
        if row_id in predictions:
            raise ValueError(
                f"{where}: id {row_id} stands on line {line_of_id[row_id]} already; needed is one row for "
                "each id. Remove one of the two."
            )
        predictions[row_id], line_of_id[row_id] = value, number
    return predictions
