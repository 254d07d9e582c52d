"""The transfer tasks of SentEval, from the files that its toolkit downloads.

Conneau and Kiela 2018. The folder `downstream` holds a folder for each task. Files are read as the
toolkit reads them: words stand between blanks, and each task has its own encoding. The rows are
sorted as there, by their numbers of words and then by label, because that decides the folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LATIN = "latin-1"
MRPC_FIELDS = 5  # label, two numbers, two sentences


LabelledTexts = list[tuple[tuple[str, ...], int]]


class Rows(NamedTuple):
    """Some rows of a task.

    texts: one sentence each, or two. labels: classes, from 0.
    """

    texts: list[tuple[str, ...]]
    labels: list[int]


@dataclass(frozen=True)
class TransferTask:
    """A task of the toolkit.

    parts: its rows by "train", "dev" and "test". A task with only "train" has no split of its own.
    """

    name: str
    parts: dict[str, Rows]
    classes: int

    @property
    def is_pair(self) -> bool:
        """Whether a row has two sentences."""
        return len(self.parts["train"].texts[0]) == 2


def read_lines(path: Path, encoding: str) -> list[str]:
    """The lines of a file. ValueError where it is not there, or not in this encoding."""
    try:
        text = path.read_text(encoding=encoding)
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror}. Pass the folder of SentEval's data, whose folder "
            "downstream holds it."
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not {encoding} ({error.reason}). Download it again.") from error
    # str.splitlines would split at characters inside sentences, too.
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip()]


def sort_rows(rows: LabelledTexts) -> Rows:
    """The rows in the toolkit's order: by the words of each sentence, then by label."""

    def key(row: tuple[tuple[str, ...], int]) -> tuple[int, ...]:
        texts, label = row
        return (*(len(text.split()) for text in texts), label)

    ordered = sorted(rows, key=key)
    return Rows([texts for texts, _ in ordered], [label for _, label in ordered])


def read_two_files(folder: Path, positive: str, negative: str) -> dict[str, Rows]:
    """A task of two files, one for each class."""
    rows: LabelledTexts = []
    for name, label in ((positive, 1), (negative, 0)):
        for line in read_lines(folder / name, LATIN):
            rows.append(((" ".join(line.split()),), label))
    return {"train": sort_rows(rows)}


def read_sst(folder: Path) -> dict[str, Rows]:
    """SST with two classes: a sentence, a tab and its label."""
    parts = {}
    for part in ("train", "dev", "test"):
        path = folder / "binary" / f"sentiment-{part}"
        rows: LabelledTexts = []
        for number, line in enumerate(read_lines(path, "utf-8"), start=1):
            sentence, _, label = line.rpartition("\t")
            if label not in ("0", "1"):
                raise ValueError(f"{path}, line {number}: its label is {label!r}, not 0 or 1.")
            rows.append(((" ".join(sentence.split()),), int(label)))
        parts[part] = sort_rows(rows)
    return parts


def read_trec(folder: Path) -> dict[str, Rows]:
    """TREC: six classes of questions. The label stands before the question, as in DESC:manner."""
    parts = {}
    names: list[str] = []
    for part, name in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        rows: LabelledTexts = []
        for line in read_lines(folder / name, LATIN):
            label, question = line.split(maxsplit=1)
            coarse = label.partition(":")[0]
            if coarse not in names:
                names.append(coarse)
            rows.append(((" ".join(question.split()),), names.index(coarse)))
        parts[part] = sort_rows(rows)
    return parts


def read_mrpc(folder: Path) -> dict[str, Rows]:
    """MRPC: pairs of sentences, with a header. Quotation marks are characters like any other."""
    parts = {}
    for part in ("train", "test"):
        path = folder / f"msr_paraphrase_{part}.txt"
        rows: LabelledTexts = []
        for number, line in enumerate(read_lines(path, "utf-8-sig")[1:], start=2):
            fields = line.split("\t")
            if len(fields) != MRPC_FIELDS or fields[0] not in ("0", "1"):
                raise ValueError(
                    f"{path}, line {number}: {len(fields)} fields that begin with {fields[0]!r}; "
                    f"expected are {MRPC_FIELDS}, the first of them 0 or 1."
                )
            texts = tuple(" ".join(field.split()) for field in fields[3:])
            rows.append((texts, int(fields[0])))
        parts[part] = sort_rows(rows)
    return parts


# Each task of the toolkit that [SG] and [CT] report.
READERS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "MR": lambda folder: read_two_files(folder, "rt-polarity.pos", "rt-polarity.neg"),
    "CR": lambda folder: read_two_files(folder, "custrev.pos", "custrev.neg"),
    "SUBJ": lambda folder: read_two_files(folder, "subj.objective", "subj.subjective"),
    "MPQA": lambda folder: read_two_files(folder, "mpqa.pos", "mpqa.neg"),
    "SST": read_sst,
    "TREC": read_trec,
    "MRPC": read_mrpc,
}


def folder_of(folder: Path, name: str) -> Path:
    """The folder of a task. folder: the one that holds `downstream`, or `downstream` itself."""
    inner = folder / "downstream"
    return (inner if inner.is_dir() else folder) / name


def task_files(folder: Path) -> list[Path]:
    """The files of all tasks, in a fixed order. folder: as in folder_of."""
    paths: list[Path] = []
    for name in READERS:
        paths += sorted(path for path in folder_of(folder, name).rglob("*") if path.is_file())
    return paths


def read_task(folder: Path, name: str) -> TransferTask:
    """A task of the toolkit. folder: as in folder_of.

    ValueError where a file is missing or damaged.
    """
    parts = READERS[name](folder_of(folder, name))
    labels: set[int] = set()
    for rows in parts.values():
        labels.update(rows.labels)
    return TransferTask(name, parts, len(labels))
