"""The transfer tasks and STS sets of SentEval, from the files that its toolkit downloads.

Conneau and Kiela 2018. The folder `downstream` holds a folder for each task. Files are read as the
toolkit reads them: words stand between blanks, and each task has its own encoding. The rows are
sorted as there, by their numbers of words and then by label, because that decides the folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.examples import Example
from data.sentence_sets import SentenceSet, check_labels

LATIN = "latin-1"
MRPC_FIELDS = 5  # label, two numbers, two sentences
PARTS = ("train", "dev", "test")
SST_CLASSES = {"binary": "01", "fine": "01234"}  # the labels of SST, by the folder
ENTAILMENT = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")  # the toolkit's order
SICK_FILES = dict(zip(PARTS, ("train", "trial", "test_annotated"), strict=True))
SICK_FIELDS = 5  # number, two sentences, score, entailment
STS_BENCHMARK_FIELDS = 7  # genre, file, year, number, score, two sentences; some files have more

# A label is a class from 0 on, or a score.
LabelledTexts = list[tuple[tuple[str, ...], float]]


class Rows(NamedTuple):
    """Some rows of a task.

    texts: one sentence each, or two. labels: classes, from 0, or scores up to 5.
    """

    texts: list[tuple[str, ...]]
    labels: list[float]


@dataclass(frozen=True)
class TransferTask:
    """A task of the toolkit.

    parts: its rows by "train", "dev" and "test". A task with only "train" has no split of its own.
    classes: their number; 0 where the labels are scores.
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

    def key(row: tuple[tuple[str, ...], float]) -> tuple[float, ...]:
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


def read_sst(folder: Path, kind: str) -> dict[str, Rows]:
    """SST with two classes (a sentence, a tab, a label) or five (a label, a space, a sentence).

    kind: "binary" or "fine", the name of the inner folder.
    """
    classes = SST_CLASSES[kind]
    parts = {}
    for part in PARTS:
        path = folder / kind / f"sentiment-{part}"
        rows: LabelledTexts = []
        for number, line in enumerate(read_lines(path, "utf-8"), start=1):
            if kind == "binary":
                sentence, _, label = line.rpartition("\t")
            else:
                label, _, sentence = line.strip().partition(" ")
            if len(label) != 1 or label not in classes:
                raise ValueError(
                    f"{path}, line {number}: its label is {label!r}, not one of "
                    f"{', '.join(classes)}."
                )
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


def read_sick(folder: Path, has_scores: bool) -> dict[str, Rows]:
    """SICK: pairs with how related they are (1 to 5), and one of three classes of entailment."""
    parts = {}
    for part, ending in SICK_FILES.items():
        path = folder / f"SICK_{ending}.txt"
        rows: LabelledTexts = []
        for number, line in enumerate(read_lines(path, "utf-8")[1:], start=2):
            fields = [" ".join(field.split()) for field in line.split("\t")]
            if len(fields) != SICK_FIELDS or fields[4] not in ENTAILMENT:
                raise ValueError(
                    f"{path}, line {number}: {len(fields)} fields that end with {fields[-1]!r}; "
                    f"expected are {SICK_FIELDS}, the last of them one of {', '.join(ENTAILMENT)}."
                )
            score = parse_score(path, number, fields[3])
            label = score if has_scores else ENTAILMENT.index(fields[4])
            rows.append(((fields[1], fields[2]), label))
        parts[part] = sort_rows(rows)
    return parts


def read_sts_benchmark(folder: Path) -> dict[str, Rows]:
    """STS-B: pairs with a score from 0 to 5, without a header."""
    parts = {}
    for part in PARTS:
        path = folder / f"sts-{part}.csv"
        rows: LabelledTexts = []
        for number, line in enumerate(read_lines(path, "utf-8"), start=1):
            fields = [" ".join(field.split()) for field in line.split("\t")]
            if len(fields) < STS_BENCHMARK_FIELDS:
                raise ValueError(
                    f"{path}, line {number}: {len(fields)} fields; expected are "
                    f"{STS_BENCHMARK_FIELDS}, with the score and the two sentences as the last."
                )
            score = parse_score(path, number, fields[4])
            rows.append(((fields[5], fields[6]), score))
        parts[part] = sort_rows(rows)
    return parts


def parse_score(path: Path, number: int, text: str) -> float:
    """A score from 0 to 5. ValueError for anything else. number: of the line."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 5:
        raise ValueError(f"{path}, line {number}: its score is {text!r}, not a number from 0 to 5.")
    return score


# Each task of the toolkit that [SG] and [CT] report.
TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")
# These and others. SNLI is not here: its 550,000 pairs would need gigabytes of vectors at once.
READERS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "MR": lambda folder: read_two_files(folder, "rt-polarity.pos", "rt-polarity.neg"),
    "CR": lambda folder: read_two_files(folder, "custrev.pos", "custrev.neg"),
    "SUBJ": lambda folder: read_two_files(folder, "subj.objective", "subj.subjective"),
    "MPQA": lambda folder: read_two_files(folder, "mpqa.pos", "mpqa.neg"),
    "SST": lambda folder: read_sst(folder, "binary"),
    "TREC": read_trec,
    "MRPC": read_mrpc,
    "SST5": lambda folder: read_sst(folder, "fine"),
    "SICKEntailment": lambda folder: read_sick(folder, has_scores=False),
    "SICKRelatedness": lambda folder: read_sick(folder, has_scores=True),
    "STSBenchmark": read_sts_benchmark,
}
# Tasks whose labels are scores from 0 to 5.
OF_SCORES = ("SICKRelatedness", "STSBenchmark")
# The folders of tasks whose folder has another name.
FOLDERS = {
    "SST5": "SST",
    "SICKEntailment": "SICK",
    "SICKRelatedness": "SICK",
    "STSBenchmark": "STS/STSBenchmark",
}


def folder_of(folder: Path, name: str) -> Path:
    """The folder of a task. folder: the one that holds `downstream`, or `downstream` itself."""
    inner = folder / "downstream"
    return (inner if inner.is_dir() else folder) / FOLDERS.get(name, name)


def task_files(folder: Path) -> list[Path]:
    """The files of TASKS, in a fixed order. folder: as in folder_of."""
    paths: list[Path] = []
    for name in TASKS:
        paths += sorted(path for path in folder_of(folder, name).rglob("*") if path.is_file())
    return paths


def read_task(folder: Path, name: str) -> TransferTask:
    """A task of the toolkit. folder: as in folder_of.

    ValueError where a file is missing or damaged.
    """
    parts = READERS[name](folder_of(folder, name))
    labels: set[float] = set()
    for rows in parts.values():
        labels.update(rows.labels)
    return TransferTask(name, parts, 0 if name in OF_SCORES else len(labels))


# --- STS12 to STS16 -------------------------------------------------------------------------------


def sts_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The files of pairs and of scores in a folder such as STS12-en-test, by the subset's name.

    STS.input.ALL.txt is left out: it repeats the others. ValueError where there are none.
    """
    files = {}
    for path in sorted(folder.glob("STS*.input.*.txt")):
        start, _, name = path.stem.partition(".input.")
        if name != "ALL":
            files[name] = path, path.with_name(f"{start}.gs.{name}.txt")
    if not files:
        raise ValueError(
            f"{folder}: a folder without files such as STS.input.headlines.txt; expected is one "
            "as SentEval and SemEval have them, or a file. Pass such a path."
        )
    return files


def read_sts_folder(folder: Path) -> SentenceSet:
    """STS of one year: a file of pairs and a file of scores for each subset.

    Line i of both belongs to pair i. A pair without a score is left out and counted, as the toolkit
    does. ValueError for files that do not fit together.
    """
    examples: list[Example] = []
    subsets: list[str] = []
    num_left_out = 0
    for name, (pairs_file, scores_file) in sts_files(folder).items():
        pairs = all_lines(pairs_file)
        scores = all_lines(scores_file)
        if len(pairs) != len(scores):
            raise ValueError(
                f"{scores_file}: {len(scores)} lines, and {pairs_file.name} has {len(pairs)}; "
                "expected is a score, or an empty line, for each pair. Download both again."
            )
        for number, (pair, text) in enumerate(zip(pairs, scores, strict=True), start=1):
            if not text.strip():
                num_left_out += 1
                continue
            sentences = [" ".join(field.split()) for field in pair.split("\t")]
            if len(sentences) < 2 or not sentences[0] or not sentences[1]:
                raise ValueError(
                    f"{pairs_file}, line {number}: expected are two sentences with a tab between. "
                    "Download it again."
                )
            score = parse_score(scores_file, number, text)
            examples.append(Example(f"{name} {number}", sentences[0], sentences[1], score))
            subsets.append(name)
    summary = f"{folder}: {len(examples) + num_left_out} rows read"
    if num_left_out:
        summary += f", {num_left_out} without a score left out"
    check_labels(folder, examples)
    return SentenceSet(str(folder), tuple(examples), tuple(subsets), (), summary)


def all_lines(path: Path) -> list[str]:
    """The lines of a file in UTF-8, empty ones too. ValueError where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 ({error.reason})"
        raise ValueError(f"{path}: cannot be read: {reason}. Download it again.") from error
    return text.removesuffix("\n").split("\n")
