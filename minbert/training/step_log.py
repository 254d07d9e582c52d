"""The step log of a run: log.csv, one row per update of every stage.

Each row goes to the file as soon as its step is done, so the file can be watched or plotted while
the run goes on. A resumed run removes the rows that it is about to train again. The finished log is
then that of a run without a stop, except for the seconds.

Until the run is finished, a file beside its checkpoints has a checksum of each row. A resumed run
leaves out the rows that are damaged, and says how many there were.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minbert.commands.files import write_text
from minbert.reporting import terminal

LOG_FILE = "log.csv"
CHECKSUMS = "checkpoint/log-checksums.txt"  # in the folder of a run
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
        self.checksums = folder / CHECKSUMS
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
            self.rewrite(lines_of(self.path)[1:], self.new_tasks(record))
        row = self.row_of(record)
        try:
            # The checksum comes first: after a kill, each row has one.
            with open(self.checksums, "a", encoding="utf-8") as file:
                file.write(f"{checksum_of(row)}\n")
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                file.write(row)
        except OSError as error:
            raise ValueError(
                f"{self.path}: cannot be written ({error.strerror}). Free some space or check the "
                "folder, then resume the run."
            ) from error

    def begin(self, record: StepRecord) -> None:
        """Write the header, and of an earlier part of the run the rows that stay."""
        intact = self.intact_rows()
        rows = rows_before(intact, record.stage, record.step)
        self.rewrite(rows, self.new_tasks(record))
        self.is_begun = True

    def intact_rows(self) -> list[str]:
        """The rows of the log that are as they were written. The header decides the tasks.

        Where the header is damaged, nobody knows the columns, so no row is left.
        """
        known = set(lines_of(self.checksums))
        header, *rows = [*lines_of(self.path), *whole_tail(self.path, known)] or [""]
        self.tasks = tasks_in(header)
        intact = [row for row in rows if is_row(row, self.tasks)]
        # Older versions wrote no checksums.
        if known and f"{checksum_of(header)}\n" not in known:
            self.tasks = []
            intact = []
        elif known:
            intact = [row for row in intact if f"{checksum_of(row)}\n" in known]
        if len(intact) < len(rows):
            num_damaged = len(rows) - len(intact)
            terminal.say(
                f"{self.path}: {num_damaged:,} of {len(rows):,} rows are damaged and left out. The "
                "model does not depend on them."
            )
        return intact

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
        # The old checksums stay: a kill between the two files leaves the old log with them.
        checksums = dict.fromkeys(lines_of(self.checksums))
        checksums |= dict.fromkeys(f"{checksum_of(line)}\n" for line in lines)
        write_text(self.checksums, "".join(checksums))
        write_text(self.path, "".join(lines))

    def row_of(self, record: StepRecord) -> str:
        """One line. A task that the update does not hold has an empty field."""
        fields: list[Any] = []
        for name in COLUMNS:
            value = getattr(record, name)
            fields.append(f"{value:.3f}" if name == "seconds" else value)
        for task in self.tasks:
            fields.append(record.losses.get(task, ""))
        return csv_line(fields)


def forget_stage(folder: Path, stage: str) -> None:
    """Take the rows of a stage out of the log of a run, if it has any. folder: of the run."""
    log = StepLog(folder)
    rows = log.intact_rows()
    kept = [row for row in rows if row.split(",")[COLUMNS.index("stage")] != stage]
    if len(kept) < len(rows):
        log.rewrite(kept, [])


def csv_line(fields: Sequence[Any]) -> str:
    """A line of a CSV file. A float is written so that it can be read back exactly."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def checksum_of(line: str) -> str:
    """The CRC-32 of a line, as hexadecimal digits. Empty columns at its end do not count."""
    return f"{zlib.crc32(line.rstrip(',' + chr(10)).encode()):08x}"


def lines_of(path: Path) -> list[str]:
    """The complete lines of a file, none where there is no file.

    A kill may have cut the last line short. It is left out.
    """
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        return [line for line in file if line.endswith("\n")]


def whole_tail(path: Path, known: Collection[str]) -> list[str]:
    """The last line of a file if only the end of the line is damaged. known: all checksums.

    Otherwise a kill has cut the line short, and there is none.
    """
    if not path.is_file():
        return []
    tail = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[2]
    for line in (tail, tail[:-1]):
        if f"{checksum_of(line)}\n" in known:
            return [f"{line}\n"]
    return []


def tasks_in(header: str) -> list[str]:
    """The tasks that have a column in a log, by its first line."""
    columns = next(csv.reader([header]), [])
    return [name.removeprefix(LOSS_PREFIX) for name in columns[len(COLUMNS) :]]


def is_row(line: str, tasks: Sequence[str]) -> bool:
    """Whether a line has the form of a row. tasks: those that have a column."""
    try:
        parse_row(line, tasks)
    except ValueError:
        return False
    return True


def parse_row(line: str, tasks: Sequence[str]) -> StepRecord:
    """The record in a row. tasks: those that have a column. ValueError where it is no row."""
    fields = next(csv.reader([line]), [])
    row = dict(zip([*COLUMNS, *tasks], fields, strict=True))
    return StepRecord(
        stage=row["stage"],
        epoch=int(row["epoch"]),
        step=int(row["step"]),
        loss=float(row["loss"]),
        losses={task: float(row[task]) for task in tasks if row[task]},
        learning_rate=float(row["learning_rate"]),
        gradient_norm=float(row["gradient_norm"]),
        seconds=float(row["seconds"]),
        tokens=int(row["tokens"]),
    )


def read_log(path: Path) -> list[StepRecord]:
    """The rows of a log; none where there is no log. ValueError where a row cannot be read."""
    header, *rows = lines_of(path) or [""]
    tasks = tasks_in(header)
    records = []
    for number, line in enumerate(rows, start=2):
        try:
            records.append(parse_row(line, tasks))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: no row of a step log ({error})") from error
    return records


def rows_before(lines: Iterable[str], stage: str, step: int) -> list[str]:
    """The rows of a log that stand before a step of a stage. lines: all rows.

    The row of that step goes, and all that follow it, those of later stages, too.
    """
    rows = []
    for line in lines:
        fields = line.split(",")
        is_same_stage = fields[COLUMNS.index("stage")] == stage
        if is_same_stage and int(fields[COLUMNS.index("step")]) >= step:
            break
        rows.append(line)
    return rows
