"""Prediction files: those of a leaderboard are written, read back, verified and scored.

This is the last station on the way from a row to its prediction. The format is the course's, byte
for byte, in UTF-8. A header line ("id \\t Predicted_Sentiment \\n") is followed by a row per id
("{id} , {value} \\n"), with "\\n" on every system. Files that others wrote are read as strictly as
ours. The command multitask.check is for those.

A user's own task has no leaderboard. Its predictions are a table that a spreadsheet opens.

Legend: N rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from data.examples import Table
from data.tables.spreadsheets import write_spreadsheet
from minbert.commands.files import digest_of_file, write_atomically
from minbert.commands.paths import in_shell
from multitask.tasks import BUILT_IN_TASKS, Task, labels_of

# An id may hold blanks, as in an early release of the course's Quora files, but no comma.
ROW = re.compile(r"([^\s,]|[^\s,][^,\t\r\n]*[^\s,]) , (\S+) \n")
NUM_IDS_NAMED = 3  # of missing or unknown ids, in a message


class ValueRule(NamedTuple):
    """How the predictions of a task look in its file."""

    pattern: re.Pattern[str]
    words: str  # the pattern, for a message
    trim: Literal["-", "0"]  # for numpy: "-" prints 3, "0" prints 3.0


BINARY_RULE = ValueRule(re.compile(r"[01]\.0"), "0.0 or 1.0", trim="0")
# A regression may leave the scale of the labels. It is not clipped, because Pearson correlation
# is the score. The exponent is for values under 1e-4 in files that others wrote.
NUMBER_RULE = ValueRule(
    re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII),
    "a finite number such as 2.75",
    trim="0",
)


def value_rule(task: Task) -> ValueRule:
    """How the predictions of a task look in its file."""
    if task.kind == "binary":
        return BINARY_RULE
    if task.kind == "score":
        return NUMBER_RULE
    *names, last = [str(number) for number in range(task.num_outputs)]
    pattern = re.compile("|".join([*names, last]))
    return ValueRule(pattern, f"a class: {', '.join(names)} or {last}", trim="-")


# --- writing --------------------------------------------------------------------------------------


def write_predictions(
    path: str | Path, task: Task, ids: Sequence[str], values: Sequence[float] | np.ndarray
) -> None:
    """Write a task's leaderboard file, whole or not at all.

    ids: N ids, each once, without commas. values: N predictions, any number dtype. SST
    has 0 to 4, PARA 0 or 1, STS any finite number. A number is printed in the fewest digits that
    give back the same float32, never with an exponent.

    Raises ValueError before anything is written: for an id or value that read_predictions would
    refuse, for no rows, or for unequal numbers of ids and values. Also raises it if the folder
    cannot be written or the disk is full.
    """
    if len(ids) != len(values) or not len(ids):
        raise ValueError(
            f"{path}: {len(ids)} ids and {len(values)} predictions; each id needs one, and one at "
            "least."
        )
    trim = value_rule(task).trim
    lines = [task.header]
    for row_id, value in zip(ids, values, strict=True):
        text = np.format_float_positional(np.float32(value), trim=trim)
        lines.append(f"{row_id} , {text} \n")
    content = "".join(lines).encode("utf-8")

    parse(path, task, content)  # refuses what could not be read back

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    write_atomically(Path(path), write)


def write_table(
    path: str | Path,
    task: Task,
    ids: Sequence[str],
    values: np.ndarray,
    confidence: np.ndarray | None,
) -> None:
    """Write the predictions of a user's task as a table: id, prediction, and of classes confidence.

    A class has its name. ids: N. values: predictions (N,), or (N, C) of several labels. confidence:
    of each prediction its probability (N,), or None for a score. Raises ValueError if the file
    cannot be written.
    """
    header = ["id", "prediction"]
    columns = [list(ids), [task.label_text(value) for value in values]]
    if confidence is not None:
        header.append("confidence")
        columns.append([f"{share:.4f}" for share in confidence])
    write_spreadsheet(Path(path), header, list(zip(*columns, strict=True)))


# --- reading --------------------------------------------------------------------------------------


def read_predictions(path: str | Path, task: Task) -> dict[str, float]:
    """Read a leaderboard file: id -> prediction, in file order.

    An STS value is the float32 nearest to the printed one. Raises ValueError with file, line,
    what was found and what is expected: for a file that cannot be read or is not UTF-8, another
    header, a row of another form, a value that the task does not have, or an id that came before.
    """
    return parse(path, task, read_bytes(path))


def verify_predictions(
    path: str | Path, task: Task, expected_ids: Iterable[str], is_dev: bool = False
) -> dict[str, float]:
    """Read a leaderboard file and check that it holds every expected id once and no other.

    The order does not matter. is_dev: whether the ids are those of a dev file, of which --dev-rows
    predicts a part.
    Returns the result of read_predictions. Raises ValueError as it does, and with the first few ids
    that are missing or unknown.
    """
    predictions = read_predictions(path, task)
    expected = dict.fromkeys(expected_ids)  # a set that keeps the file's order, for the message
    missing = [row_id for row_id in expected if row_id not in predictions]
    unknown = [row_id for row_id in predictions if row_id not in expected]

    faults = []
    if missing:
        faults.append(f"{len(missing)} missing ({first_ids(missing)})")
    if unknown:
        faults.append(f"{len(unknown)} unknown ({first_ids(unknown)})")
    if faults:
        advice = "Write the file again from the rows with these ids."
        if is_dev and len(missing) > NUM_IDS_NAMED and not unknown:
            advice = (
                "A run with --dev-rows predicts only a part of them. `python -m course.predict` "
                "predicts all of them with the same model."
            )
        raise ValueError(
            f"{path}: of {len(expected)} expected {task.title} ids, {' and '.join(faults)}. There "
            f"must be one row for each id of the input, and no other. {advice}"
        )
    return predictions


def first_ids(ids: Sequence[str]) -> str:
    """The first few ids, for a message."""
    names = list(ids[:NUM_IDS_NAMED])
    if len(ids) > NUM_IDS_NAMED:
        names.append("...")
    return ", ".join(names)


def score_predictions(path: str | Path, task: Task, table: Table) -> float:
    """The task's score of a leaderboard file against a labelled table.

    Accuracy is 0 to 1, Pearson correlation -1 to 1. Raises ValueError as verify_predictions does,
    and for a table without labels.
    """
    ids = [example.id for example in table.examples]
    predictions = verify_predictions(path, task, ids, is_dev=True)
    try:
        labels = labels_of(table.examples)
    except ValueError as error:
        raise ValueError(f"{table.path}: {error}") from error
    values = np.array([predictions[row_id] for row_id in ids], dtype=np.float32)
    return task.score(values, labels)


def find_tasks(path: str | Path) -> list[Task]:
    """The tasks whose header the file has: one, or both that predict a sentiment.

    Raises ValueError if there is none.
    """
    first_line = read_bytes(path).partition(b"\n")[0] + b"\n"
    header = decode_line(path, 1, first_line)
    tasks = [task for task in BUILT_IN_TASKS.values() if header == task.header]
    if tasks:
        return tasks
    columns = re.split("[,;\t]", header.removeprefix("\ufeff").strip())
    if columns[-1] == "confidence" or "prediction" in columns:
        raise ValueError(
            f"{path} is a table of predictions, as of a task of your own or of predict --out. Only "
            "the files of a leaderboard are read here. The run printed the scores of an own task, "
            "`multitask.errors RUN` shows them with the wrong rows, and `multitask.compare RUN RUN`"
            " compares two runs."
        )
    headers = dict.fromkeys(task.header for task in BUILT_IN_TASKS.values())
    expected = ", ".join(map(repr, headers))
    raise ValueError(
        f"{path}, line 1: the header is {header!r}; it must be one of {expected}, byte for byte. "
        "Write the file again."
    )


# --- the files of a run ---------------------------------------------------------------------------


def digests_of(paths: Mapping[str, Mapping[str, Path]]) -> dict[str, str]:
    """The SHA-256 of the files of a run, for run.json, such as "sst_dev". paths: [task][split]."""
    digests = {}
    for task, splits in paths.items():
        for split, path in splits.items():
            digests[f"{task}_{split}"] = digest_of_file(path)
    return digests


def is_as_written(path: Path, record: Mapping[str, Any]) -> bool:
    """Whether a file is one that a run wrote. record: its run.json; older ones have no digests.

    OSError if the file cannot be read.
    """
    digests = record.get("predictions", {})
    return not digests or digest_of_file(path) in digests.values()


def check_as_written(
    path: Path,
    record: Mapping[str, Any],
    again: str = "Bring it back, or predict again with `python -m course.predict`.",
) -> None:
    """Raise ValueError if a file exists and is not one that the run wrote.

    record: its run.json. again: how the user gets the file back.
    """
    if path.is_file() and not is_as_written(path, record):
        data_dir = dict(record.get("options", {})).get("data_dir", "DIR")
        check = f"python -m multitask.check {in_shell(path)} --data-dir {in_shell(Path(data_dir))}"
        raise ValueError(
            f"{path}: the run did not write this file. It was edited, is damaged, or belongs to "
            f"another run. `{check}` tells more. {again} To hand in a file of your own, give a "
            "folder without a run.json."
        )


# --- parsing --------------------------------------------------------------------------------------


def parse(path: str | Path, task: Task, content: bytes) -> dict[str, float]:
    """The predictions in the content of a file: id -> value. path: for messages."""
    lines = []
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        lines.append(decode_line(path, number, line))
    check_header(path, task, lines)

    rule = value_rule(task)
    predictions: dict[str, float] = {}
    line_of_id: dict[str, int] = {}
    for number, text in enumerate(lines[1:], start=2):
        place = f"{path}, line {number}"
        row = ROW.fullmatch(text)
        if not row:
            raise ValueError(
                f"{place}: the row is {text!r}; it must be '{{id}} , {{value}} \\n', byte for "
                "byte, with no comma in the id. Write the file again."
            )
        row_id = row[1]
        value = parse_value(place, task, rule, row[2])
        if row_id in line_of_id:
            raise ValueError(
                f"{place}: id {row_id} stands on line {line_of_id[row_id]} already. Each id must "
                "have one row. Remove one of the two."
            )
        predictions[row_id] = value
        line_of_id[row_id] = number
    return predictions


def check_header(path: str | Path, task: Task, lines: Sequence[str]) -> None:
    """ValueError if the first line is not the task's header."""
    if lines and lines[0] == task.header:
        return
    header = repr(lines[0]) if lines else "missing (the file is empty)"
    raise ValueError(
        f"{path}, line 1: the header is {header}; {task.title} needs {task.header!r}, byte "
        "for byte."
    )


def parse_value(place: str, task: Task, rule: ValueRule, text: str) -> float:
    """The float32 nearest to a printed value. place: of the row, for the message."""
    value = math.nan
    if rule.pattern.fullmatch(text):
        # 1e39 is more than float32 holds: it becomes inf, and is refused.
        with np.errstate(over="ignore"):
            value = float(np.float32(text))
    if not math.isfinite(value):
        raise ValueError(
            f"{place}: the value is {text!r}; {task.title} needs {rule.words}. Predict again."
        )
    return value


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; ValueError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions."
        ) from error


def decode_line(path: str | Path, number: int, line: bytes) -> str:
    """A line as text; ValueError if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: {line!r} is not UTF-8. Write the file again as UTF-8."
        ) from error
