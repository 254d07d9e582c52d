"""The step log of a run: log.csv, one row per update of every stage.

Each row goes to the file as soon as its step is done, so the file can be watched or plotted while
the run goes on. A resumed run removes the rows that it is about to train again. The finished log is
then that of a run without a stop, except for the seconds.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minbert.commands.files import write_atomically

LOG_FILE = "log.csv"
LOSS_PREFIX = "loss_"  # before a task's name: the column of its loss


class StepRecord(NamedTuple):
    """What the loop says of one update.

    losses: the mean loss of each task in the update, without weights. gradient_norm: before
    clipping. seconds: since the stage began, over all parts of a resumed run. tokens: of the
    update, padding included.
    """

    stage: str
    epoch: int  # counted from 1
    step: int  # counted from 1, over all epochs of the stage
    loss: float
    losses: Mapping[str, float]
    learning_rate: float  # of the group with the highest one
    gradient_norm: float
    seconds: float
    tokens: int


# The columns that are the same in every run. Those of the tasks' losses follow.
COLUMNS = tuple(name for name in StepRecord._fields if name != "losses")


class StepLog:
    """The file log.csv in the folder of a run.

    A task gets its column when its first batch is trained. Until then the file does not know it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_FILE
        self.tasks: list[str] = []  # those that have a column, in its order
        self.is_begun = False

    def write(self, record: StepRecord) -> None:
        """Append one row.

        Before the first one, rows of an interrupted part of the run that come again are removed.
        Raises ValueError where the file cannot be written.
        """
        if not self.is_begun:
            self.begin(record)
        elif self.new_tasks(record):
            self.rewrite(rows_of(self.path), self.new_tasks(record))
        try:
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                file.write(self.row_of(record))
        except OSError as error:
            raise ValueError(
                f"{self.path}: cannot be written ({error.strerror}). Free some space or check the "
                "folder, then resume the run."
            ) from error

    def begin(self, record: StepRecord) -> None:
        """Write the header, and of an earlier part of the run the rows that stay."""
        self.tasks = logged_tasks(self.path)
        rows = rows_before(self.path, record.stage, record.step)
        self.rewrite(rows, self.new_tasks(record))
        self.is_begun = True

    def new_tasks(self, record: StepRecord) -> list[str]:
        """The tasks of a record that have no column yet."""
        return [task for task in record.losses if task not in self.tasks]

    def rewrite(self, rows: Iterable[str], new_tasks: Sequence[str]) -> None:
        """Write the file anew with these rows. New tasks have empty columns in them."""
        self.tasks += new_tasks
        header = csv_line([*COLUMNS, *(LOSS_PREFIX + task for task in self.tasks)])
        empty_columns = "," * len(new_tasks)
        lines = [header]
        for row in rows:
            lines.append(f"{row[:-1]}{empty_columns}\n")
        content = "".join(lines)
        write_atomically(self.path, lambda beside: beside.write_text(content, "utf-8", newline=""))

    def row_of(self, record: StepRecord) -> str:
        """One line. A task that the update does not hold has an empty field."""
        fields: list[Any] = []
        for name in COLUMNS:
            value = getattr(record, name)
            fields.append(f"{value:.3f}" if name == "seconds" else value)
        for task in self.tasks:
            fields.append(record.losses.get(task, ""))
        return csv_line(fields)


def csv_line(fields: Sequence[Any]) -> str:
    """A line of a CSV file. A float is written so that it can be read back exactly."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def logged_tasks(path: Path) -> list[str]:
    """The tasks that have a column in a log; none where there is no log yet."""
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        columns = next(csv.reader(file), [])
    return [name.removeprefix(LOSS_PREFIX) for name in columns[len(COLUMNS) :]]


def read_log(path: Path) -> list[StepRecord]:
    """The rows of a log; none where there is no log. ValueError where a row cannot be read."""
    tasks = logged_tasks(path)
    header = [*COLUMNS, *tasks]
    records = []
    for number, fields in enumerate(csv.reader(rows_of(path)), start=2):
        try:
            row = dict(zip(header, fields, strict=True))
            losses = {task: float(row[task]) for task in tasks if row[task]}
            records.append(
                StepRecord(
                    stage=row["stage"],
                    epoch=int(row["epoch"]),
                    step=int(row["step"]),
                    loss=float(row["loss"]),
                    losses=losses,
                    learning_rate=float(row["learning_rate"]),
                    gradient_norm=float(row["gradient_norm"]),
                    seconds=float(row["seconds"]),
                    tokens=int(row["tokens"]),
                )
            )
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: no row of a step log ({error})") from error
    return records


def rows_of(path: Path) -> Iterator[str]:
    """The complete rows of a log, without its header. A kill may have cut the last one short."""
    if not path.is_file():
        return
    with open(path, encoding="utf-8", newline="") as file:
        next(file, None)
        for line in file:
            if line.endswith("\n"):
                yield line


def rows_before(path: Path, stage: str, step: int) -> list[str]:
    """The rows of a log that stand before a step of a stage.

    The row of that step goes, and all that follow it, those of later stages, too.
    """
    rows = []
    for line in rows_of(path):
        fields = line.split(",")
        is_same_stage = fields[COLUMNS.index("stage")] == stage
        if is_same_stage and int(fields[COLUMNS.index("step")]) >= step:
            break
        rows.append(line)
    return rows
