"""CSV row -> Example: the first station on the way from disk to prediction.

The course's files are tab-separated with csv quoting, a header, an unnamed index column and an id of 25 hexadecimal
digits. Columns are found by NAME, since the SST test file has one index column more than the others. Every row that
does not become an example is either an error or counted and named. Read next: data/batching.py.
"""

import csv
import hashlib
import io
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

ID_COLUMN = "id"
UTF_16, COMPRESSED = (
    "UTF-16; convert it with iconv -f utf-16 -t utf-8 first",
    "compressed; unpack it with gunzip first",
)
NUM_DROPPED_SHOWN = 5

COURSE_FILES = {
    "sst": {
        "train": "ids-sst-train.csv",
        "dev": "ids-sst-dev.csv",
        "test": "ids-sst-test-student.csv",
    },
    "para": {"train": "quora-train.csv", "dev": "quora-dev.csv", "test": "quora-test-student.csv"},
    "sts": {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test-student.csv"},
}


@dataclass(frozen=True)
class Example:
    """One row of a task: a sentence or a pair, and its label (None in a test file)."""

    id: str
    sentence_1: str
    sentence_2: str | None
    label: float | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, or both of a pair."""
        return (self.sentence_1,) if self.sentence_2 is None else (self.sentence_1, self.sentence_2)


@dataclass(frozen=True)
class Format:
    """The columns of a task's files and the labels that they may hold, from `low` to `high` inclusive."""

    name: str
    text_columns: tuple[str, ...]
    label_column: str
    low: float
    high: float
    is_integer: bool

    @property
    def is_pair(self) -> bool:
        """Whether a row is two sentences."""
        return len(self.text_columns) == 2

    @property
    def label_rule(self) -> str:
        return f"{self.name.upper()} labels are {'whole numbers ' * self.is_integer}{self.low:g} to {self.high:g}"


SST = Format("sst", ("sentence",), "sentiment", 0, 4, is_integer=True)
PARA = Format("para", ("sentence1", "sentence2"), "is_duplicate", 0, 1, is_integer=True)
STS = Format("sts", ("sentence1", "sentence2"), "similarity", 0, 5, is_integer=False)
FORMATS = {format.name: format for format in (SST, PARA, STS)}
# Of training pairs a label may be the probability that they are paraphrases, as an ensemble says it of unlabelled text.
TRAINING_FORMATS = FORMATS | {"para": replace(PARA, is_integer=False)}


@dataclass(frozen=True)
class Table:
    """What a file held: its examples in file order, and for each dropped row its line, id and reason."""

    path: str
    examples: tuple[Example, ...]
    dropped: tuple[str, ...]
    num_left_out: int = 0  # by `cut`

    def cut(self, num_rows: int) -> "Table":
        """The table with at most so many examples, at even distances: a file sorted by label stays balanced."""
        if num_rows >= len(self.examples):
            return self
        kept = tuple(
            self.examples[index * len(self.examples) // num_rows] for index in range(num_rows)
        )
        return Table(self.path, kept, self.dropped, len(self.examples) - num_rows)

    @property
    def summary(self) -> str:
        """The line for the user, such as "data/sts-dev.csv: 863 rows read, 0 dropped"."""
        num_rows = len(self.examples) + len(self.dropped) + self.num_left_out
        named = list(self.dropped[:NUM_DROPPED_SHOWN])
        if len(self.dropped) > NUM_DROPPED_SHOWN:
            named.append(f"and {len(self.dropped) - NUM_DROPPED_SHOWN} more")
        names = f" ({'; '.join(named)})" if named else ""
        left_out = f", {self.num_left_out} left out as asked" if self.num_left_out else ""
        return f"{self.path}: {num_rows} rows read, {len(self.dropped)} dropped{names}{left_out}"


def numbers_by_task(text: str) -> dict[str, float]:
    """ "para=2,sts=0.5" -> {"para": 2.0, "sts": 0.5}; "none" -> {}. ValueError where a number cannot be read."""
    items = [] if text == "none" else [item.partition("=") for item in text.split(",")]
    return {task: float(number) for task, _, number in items}


def read_examples(
    path: str | Path, format: Format, labelled: bool = True, drop_bad_rows: bool = False
) -> Table:
    """Read one file of a task.

    path: tab-separated UTF-8 with a header; a byte-order mark is allowed, blank lines are not rows.
    labelled: whether the label column is needed. A labelled row with an empty label or sentence is dropped and named
        (the course's Quora dev file has two). An unlabelled file loses no row, because a leaderboard wants each id.
    drop_bad_rows: drop and name the malformed rows of a labelled file too, instead of raising.
    Raises ValueError with file, line, what was found, what is needed and what to do.
    """
    text, is_damaged = _read_text(path)
    csv.field_size_limit(
        2**31 - 1
    )  # no limit; a quote that is never closed, which swallows rows, is caught below
    # Quoted fields may hold line breaks, so the csv module must see them untouched: newline="".
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
    examples, dropped, line_of_id, header, end = [], [], {}, None, 0
    try:
        for row in reader:
            begin, end = end + 1, reader.line_num
            if any(
                "\t" in field and {"\n", "\r"} & set(field) for field in row
            ):  # or rows inside it would vanish
                raise csv.Error(
                    f"the row that begins on line {begin} has a field with tabs and line breaks"
                )
            if not row:  # a blank line, which pandas and csv.DictReader skip as well
                continue
            if header is None:
                header = row
                columns = _find_columns(path, reader.line_num, row, format, labelled)
                continue
            example, fault, is_empty = _parse_row(
                row, reader.line_num, len(header), columns, format, line_of_id, is_damaged
            )
            if fault is None:
                examples.append(example)
            elif labelled and (is_empty or drop_bad_rows):
                row_id = row[columns[0]].strip() if columns[0] < len(row) else ""
                dropped.append(
                    f"line {reader.line_num}, id {row_id if row_id.isprintable() else 'unusable'}: {fault}"
                )
            else:
                advice = (
                    "Fix the row, or pass --drop-bad-rows to skip and count such rows."
                    if labelled
                    else "Fix the row: each row of a file without labels needs a prediction, so none is skipped."
                )
                raise ValueError(f"{path}, line {reader.line_num}: {fault}. {advice}")
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: not readable as tab-separated text ({error}); a quote that "
            "is never closed, or stands where none belongs, does this. Fix it."
        ) from error
    if not examples:
        found = f"has a header and no usable rows ({', the first: '.join([f'{len(dropped)} dropped', *dropped[:1]])})"
        raise ValueError(
            f"{path}: the file {found if header else 'is empty'}; needed are a header and at least one "
            "row. Restore the file, or fetch the course's with `python -m data.download --out DIR`."
        )
    return Table(str(path), tuple(examples), tuple(dropped))


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _read_text(path: str | Path) -> tuple[str, bool]:
    """The file's text, and whether it holds bytes that are not UTF-8 text (kept as lone surrogates)."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path}: there is no such file. Check the path or --data-dir, or resume where the run "
            "began; `python -m data.download --out DIR` fetches the course's files."
        ) from None
    except OSError as error:
        raise ValueError(
            f"{path}: the file cannot be read ({error.strerror}). Needed is a readable file; check the "
            "path and its permissions."
        ) from None
    content = content.removeprefix(b"\xef\xbb\xbf").replace(
        b"\0", b"\xff"
    )  # NUL as bad UTF-8: csv may refuse it
    if problem := {b"\xff\xfe": UTF_16, b"\xfe\xff": UTF_16, b"\x1f\x8b": COMPRESSED}.get(
        content[:2]
    ):
        raise ValueError(f"{path}: the file is {problem}. Needed is tab-separated text in UTF-8.")
    try:
        return content.decode("utf-8"), False
    except UnicodeDecodeError:
        return content.decode("utf-8", errors="surrogateescape"), True


def _find_columns(
    path, line_number: int, header: list[str], format: Format, labelled: bool
) -> list[int]:
    """Positions of id, sentences and (if labelled) label in a row."""
    names = [ID_COLUMN, *format.text_columns] + ([format.label_column] if labelled else [])
    missing = [name for name in names if name not in header]
    if missing:
        found = ", ".join(
            name.encode("utf-8", "backslashreplace").decode() for name in header if name
        )
        raise ValueError(
            f"{path}, line {line_number}: the header has no column {', '.join(missing)}; found are: "
            f"{found or 'none with a name'}. {format.name.upper()} files need {', '.join(names)}, "
            "separated by tabs. Fix the header, or pass the file that belongs to this task."
        )
    return [header.index(name) for name in names]


def _parse_row(
    row,
    line_number: int,
    num_fields: int,
    columns: list[int],
    format: Format,
    line_of_id: dict,
    is_damaged: bool,
) -> tuple[Example | None, str | None, bool]:
    """The example, or what is wrong with the row, and whether that is only an empty label or sentence."""
    if len(row) != num_fields:
        return None, f"the row has {len(row)} fields; the header names {num_fields}", False
    if is_damaged and any(
        "\udc80" <= character <= "\udcff" for field in row for character in field
    ):
        return None, "the row holds bytes that are not UTF-8; the files are UTF-8 text", False
    row_id, *values = (row[column].strip() for column in columns)
    if not row_id:
        return None, "the id is empty; each row needs an id of its own", False
    if len(re.split(r"[\s,]", row_id)) > 1:
        return (
            None,
            f"the id '{row_id}' holds a blank or a comma; in a leaderboard's file, these end the id",
            False,
        )
    if row_id in line_of_id:
        return (
            None,
            f"the id {row_id} stands on line {line_of_id[row_id]} already; each row needs its own",
            False,
        )
    line_of_id[row_id] = line_number
    sentences, labels = values[: len(format.text_columns)], values[len(format.text_columns) :]
    sentence_1, sentence_2 = sentences if len(sentences) == 2 else (sentences[0], None)
    if not labels:
        return Example(row_id, sentence_1, sentence_2, None), None, False
    names = (*format.text_columns, "label")
    empty = [name for name, value in zip(names, values, strict=True) if not value]
    if empty:
        return None, f"empty {' and '.join(empty)}", True
    try:
        label = float(labels[0])
    except ValueError:
        label = float("nan")
    if math.isnan(label):
        return None, f"label '{labels[0]}' is not a number; {format.label_rule}", False
    if not format.low <= label <= format.high or format.is_integer and not label.is_integer():
        return None, f"label '{labels[0]}' is not allowed; {format.label_rule}", False
    return Example(row_id, sentence_1, sentence_2, label), None, False
