"""The files of a task -> its specification, and its tables of training, dev and test rows.

Of a user's task, `resolve_task` finds the columns, the kind of answer and the label names in the
training file. Every choice is said, with its reason. `read_splits` reads the files of any task. If
there is no dev file, it draws the dev rows from the training file.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from data.examples import Example, Format, Table, join_some, label_text, list_names, quoted
from data.options import DataOptions
from data.readers import open_table, read_examples
from data.tables.columns import Role, find_columns, positions_of
from data.tables.label_notes import HIDDEN_LABELS, MISSING_LABELS, joined_labels, notes_on_labels
from data.tables.numbers import parse_number
from data.tables.rows import RawTable, Row
from data.tables.thousands import NUMBER_SHAPE, thousands_fault
from data.task_flags import TaskRequest
from data.task_specs import BUILT_IN, KINDS, Kind, TaskSpec

SPLITS = ("train", "dev", "test")
TEXT_NAMES = ("sentence", "text")  # usual names of the column with the texts
LABEL_NAMES = ("label",)
MAX_CLASSES = 200  # more are allowed where the user says kind=classes
MAX_NUMBERS = 20  # so many whole numbers are classes. Of more, it depends
MAX_CODES = 50  # so many numbers with fractions may be codes
ROWS_OF_A_CLASS = 4  # on average, so that a number comes many times
MIN_SHARE_OF_SERIES = 0.9  # of the whole numbers from the lowest to the highest
NUM_STRATA = 10  # of the scores, when dev rows are drawn


class Resolved(NamedTuple):
    """A specification, and a line for the user that says how it was found.

    Further lines warn of labels that may be mistakes.
    """

    spec: TaskSpec
    line: str


# --- a user's task --------------------------------------------------------------------------------


def resolve_task(request: TaskRequest) -> Resolved:
    """The specification of a user's task, from --task and the labels of the training file.

    Raises ValueError with the place, what was found, what is expected and what to do.
    """
    passed = (request.text, request.text_pair, request.label, request.id)
    table = open_table(request.train, is_course=False, names=passed)
    columns = find_task_columns(table, request)
    labels = read_labels(table, columns, request)
    check_thousands(labels, columns[-1], request)
    choice = choose_kind(labels, request)

    # The other files must have the columns of the training file.
    names = tuple(table.columns[column] for column in columns)
    format = Format(
        name=request.name,
        text_columns=names[:-1],
        label_column=names[-1],
        low=0,
        high=1,
        is_integer=choice.kind != "score",
        id_column=request.id or "",
        is_course=False,
        dropped_labels=tuple(label_text(name) for name in request.drop_labels),
    )
    # The range of a score, or the names of the classes.
    if choice.kind == "score":
        format = with_limits(format, labels, request)
        answers = f"{format.low:g} to {format.high:g}"
        label_names: tuple[str, ...] = ()
    else:
        label_names, order = order_classes(labels, request)
        format = replace(format, classes=label_names, high=len(label_names) - 1)
        answers = f"{list_names(label_names)} ({order})"
    # Only now it is known which losses and metrics fit.
    check_measure(request, "loss", request.loss, KINDS[choice.kind].losses, choice)
    check_measure(request, "metric", request.metric, KINDS[choice.kind].metrics, choice)
    spec = TaskSpec(
        request.name,
        request.name,
        format,
        choice.kind,
        label_names,
        loss_name=request.loss,
        metric_name=request.metric,
    )
    line = (
        f"task {request.name}: {choice.kind} ({choice.reason}), {answers}; loss {spec.loss_name}, "
        f"metric {spec.metric_name}"
    )
    # Names that the user lists are meant.
    if not request.labels:
        notes = notes_on_labels(labels.counts, labels.place, choice.kind)
        line = "\n".join(filter(None, [line, choice.warning, *notes]))
    return Resolved(spec, line)


def find_task_columns(table: RawTable, request: TaskRequest) -> list[int]:
    """The positions of the texts and, last, of the label."""
    place = f"in --task {request.name}"
    roles = [Role(f"text= {place}", TEXT_NAMES)]
    passed = [request.text]
    if request.text_pair is not None:
        roles.append(Role(f"text_pair= {place}", ()))
        passed.append(request.text_pair)
    roles.append(Role(f"label= {place}", LABEL_NAMES))
    passed.append(request.label)
    advice = f"Name the columns with text= and label= {place}."
    return find_columns(table, roles, passed, advice)


@dataclass(frozen=True)
class Labels:
    """The labels of a training file, as texts.

    place: the file and the column, for messages.
    rows: the rows that have a label and texts. texts: of each row its label.
    """

    place: str
    table: RawTable
    rows: tuple[Row, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def numbers(self) -> list[float]:
        """The labels as numbers; nan for a text that is none."""
        return [parse_number(text, self.table.has_decimal_comma) for text in self.texts]

    @property
    def counts(self) -> Counter[str]:
        """How many rows each label has."""
        return Counter(self.texts)

    @property
    def are_numbers(self) -> bool:
        """Whether each label is a finite number."""
        return all(math.isfinite(number) for number in self.numbers)


def read_labels(table: RawTable, columns: Sequence[int], request: TaskRequest) -> Labels:
    """The labels of the rows that can be used. Other rows are named when the examples are read."""
    rows = []
    texts = []
    first_fault = ""
    dropped = {label_text(name) for name in request.drop_labels}
    for row in table.rows:
        fault = table.fault_of(row, columns)
        if fault:
            first_fault = first_fault or f"{table.place(row)}: {fault}. Fix the row."
            continue
        values = [row.fields[column].strip() for column in columns]
        text = label_text(values[-1])
        if all(values) and text not in dropped:
            rows.append(row)
            texts.append(text)
    check_dropped(table, columns[-1], request)
    place = f"{table.name}, column '{table.columns[columns[-1]]}'"
    labels = Labels(place, table, tuple(rows), tuple(texts))
    if not texts and first_fault:
        raise ValueError(first_fault)
    if not texts:
        raise ValueError(
            f"{place}: no row has a text and a label; expected is one at least. Check the columns "
            f"of --task {request.name}."
        )
    if len(labels.counts) == 1:
        raise ValueError(
            f"{place}: all {len(texts):,} labels are '{texts[0]}'; a task needs two different ones "
            f"at least. Name another column with label= in --task {request.name}."
        )
    return labels


def check_dropped(table: RawTable, column: int, request: TaskRequest) -> None:
    """Raise ValueError for a label of drop_labels= that no row has: it may be misspelt."""
    texts = {label_text(row.fields[column]) for row in table.rows if len(row.fields) > column}
    for name in request.drop_labels:
        if label_text(name) not in texts:
            raise ValueError(
                f"{table.name}, column '{table.columns[column]}': no row has the label '{name}', "
                f"which drop_labels= in --task {request.name} names. Fix or drop the name."
            )


def check_thousands(labels: Labels, column: int, request: TaskRequest) -> None:
    """Raise ValueError where the labels have signs between thousands, and may be numbers."""
    if request.labels or request.kind in ("classes", "binary"):
        return
    are_numbers = all(NUMBER_SHAPE.fullmatch(text) for text in labels.texts)
    fault = thousands_fault(labels.table, column)
    if fault is None or not (are_numbers or request.kind == "score"):
        return
    advice = f" If they are classes, say kind=classes in --task {request.name}."
    raise ValueError(fault if request.kind == "score" else fault + advice)


class KindChoice(NamedTuple):
    """A kind of answer, why, and a warning where another one is possible, or ""."""

    kind: Kind
    reason: str
    warning: str = ""


def choose_kind(labels: Labels, request: TaskRequest) -> KindChoice:
    """The kind that --task names, or the one that the labels suggest."""
    num_labels = len(labels.counts)
    found = f"{num_labels:,} different labels"
    # What the user says, wins. It must fit the labels.
    if request.kind == "score":
        check_numbers(labels, request)
        return KindChoice("score", "as --task says")
    if request.kind == "binary" and num_labels != 2:
        raise ValueError(
            f"{labels.place}: it holds {found}, and --task {request.name} says kind=binary, which "
            "has two. Pass kind=classes, or another column as label=."
        )
    if request.kind is not None:
        kind: Kind = "binary" if request.kind == "binary" else "classes"
        check_repeated(labels, request)
        return KindChoice(kind, "as --task says")
    if request.labels:
        kind = "binary" if len(request.labels) == 2 else "classes"
        return KindChoice(kind, f"labels= names {len(request.labels)}")
    # Otherwise the labels decide.
    if num_labels == 2:
        return KindChoice("binary", found)
    if labels.are_numbers:
        choice = choose_kind_of_numbers(labels, request)
        if choice is not None:
            return choice
    check_repeated(labels, request)
    if num_labels > MAX_CLASSES:
        raise ValueError(
            f"{labels.place}: it holds {found} in {len(labels):,} rows. If they are classes, say "
            f"kind=classes in --task {request.name}. Otherwise name another column with label=."
        )
    return KindChoice("classes", found)


def choose_kind_of_numbers(labels: Labels, request: TaskRequest) -> KindChoice | None:
    """The kind that numbers suggest, with a warning where both are possible.

    None: there are few whole numbers, which are classes.
    """
    numbers = sorted(set(labels.numbers))
    num_numbers = len(numbers)
    has_fractions = any(not number.is_integer() for number in numbers)
    if num_numbers <= MAX_NUMBERS and not has_fractions:
        return None

    # The ids of classes leave no number out, and each of them comes many times.
    width = numbers[-1] - numbers[0] + 1
    is_series = numbers[0] in (0, 1) and num_numbers >= MIN_SHARE_OF_SERIES * width
    comes_often = len(labels) >= ROWS_OF_A_CLASS * num_numbers
    is_score = request.loss in KINDS["score"].losses or request.metric in KINDS["score"].metrics
    warning = f"warning: {labels.place}: its {num_numbers:,} different numbers come many times each"
    if is_series and comes_often and not (has_fractions or is_score or num_numbers > MAX_CLASSES):
        reason = f"its labels are the whole numbers {numbers[0]:g} to {numbers[-1]:g}"
        advice = f"If they are scores, say kind=score in --task {request.name}."
        return KindChoice("classes", reason, f"{warning}, so they are classes. {advice}")

    reason = f"its labels are {num_numbers:,} different numbers"
    if has_fractions:
        reason = "its labels are numbers with fractions"
    # 2,5 may be a number, or the labels 2 and 5.
    joined = joined_labels(labels.counts)
    is_comma_known = is_score or labels.table.has_decimal_comma
    if has_fractions and joined is not None and joined.separator == "," and not is_comma_known:
        warning = (
            f"warning: {labels.place}: labels such as '{joined.labels[0]}' are read as numbers "
            "with a decimal comma. If they are several labels, say kind=classes in --task "
            f"{request.name}."
        )
        return KindChoice("score", reason, warning)
    # Few numbers with fractions may be codes such as 1.1 and 1.2.
    may_be_classes = comes_often and (num_numbers <= MAX_CODES or not has_fractions)
    if is_score or not may_be_classes:
        return KindChoice("score", reason)
    advice = f"If they are classes, say kind=classes in --task {request.name}."
    return KindChoice("score", reason, f"{warning}, and are scores. {advice}")


def check_repeated(labels: Labels, request: TaskRequest) -> None:
    """Raise ValueError where most labels are of one row only: this is no column of classes."""
    num_labels = len(labels.counts)
    if len(labels) < 2 * num_labels:
        example = labels.texts[0][:40]
        advice = f"Name another column with label= in --task {request.name}"
        pairs = zip(labels.texts, labels.numbers, strict=True)
        others = [text for text, number in pairs if not math.isfinite(number)]
        if not others:
            advice += ", or say kind=score"
        # One word between numbers makes classes of all of them.
        elif len(others) < len(labels) / 2:
            advice += f", or fix '{others[0][:40]}', which is not a number, if it holds scores"
        joined = joined_labels(labels.counts)
        if joined is not None:
            example = joined.labels[0][:40]
            advice = (
                f"It seems to be several labels, with '{joined.separator}' between them. {advice}"
            )
        raise ValueError(
            f"{labels.place}: it holds {num_labels:,} different labels in {len(labels):,} rows, "
            f"such as '{example}'; a class needs several rows. {advice}."
        )


def check_numbers(labels: Labels, request: TaskRequest) -> None:
    """Raise ValueError that names the first label that is no number."""
    for row, text, number in zip(labels.rows, labels.texts, labels.numbers, strict=True):
        if not math.isfinite(number):
            advice = "Fix the row, or pass kind=classes."
            if text.casefold() in MISSING_LABELS:
                advice = f"Fix the row, or drop such rows with drop_labels={text}."
            raise ValueError(
                f"{labels.table.place(row)}: label '{text}' is not a number, and --task "
                f"{request.name} is a score. {advice}"
            )


def with_limits(format: Format, labels: Labels, request: TaskRequest) -> Format:
    """The format with the lowest and the highest score: those of --task, or of the training rows.

    Dev rows may leave the range of the training rows, but not one that the user gave.
    """
    if request.low is not None and request.high is not None:
        return replace(format, low=request.low, high=request.high)
    numbers = labels.numbers
    return replace(format, low=min(numbers), high=max(numbers), has_limits=False)


def order_classes(labels: Labels, request: TaskRequest) -> tuple[tuple[str, ...], str]:
    """The names of the classes in their order, and the order in words."""
    if request.labels:
        names = tuple(label_text(name) for name in request.labels)
        check_names(labels, names, request)
        return names, "in the order of labels="
    if labels.are_numbers:
        values = dict(zip(labels.texts, labels.numbers, strict=True))
        return tuple(sorted(values, key=lambda text: (values[text], text))), "by number"
    return tuple(sorted(labels.counts)), "in alphabetical order"


def check_names(labels: Labels, names: Sequence[str], request: TaskRequest) -> None:
    """Raise ValueError where labels= and the labels of the file are not the same."""
    for row, text in zip(labels.rows, labels.texts, strict=True):
        if text not in names:
            raise ValueError(
                f"{labels.table.place(row)}: label '{text}' is none of labels= in --task "
                f"{request.name}: {list_names(names)}. Fix the row, or add the name."
            )
    unused = [name for name in names if name not in labels.counts]
    if unused:
        raise ValueError(
            f"{labels.place}: no training row has the label '{unused[0]}', which labels= in --task "
            f"{request.name} names. A class without rows cannot be trained. Drop the name."
        )


def check_measure(
    request: TaskRequest, key: str, value: str, choices: Sequence[str], choice: KindChoice
) -> None:
    """Raise ValueError for a loss or metric that does not fit the kind. "": the usual one."""
    if value and value not in choices:
        raise ValueError(
            f"--task {request.name}: {key}={value} does not fit; its kind is {choice.kind} "
            f"({choice.reason}), which has {', '.join(choices)}."
        )


# --- the tables of a task -------------------------------------------------------------------------


def read_splits(spec: TaskSpec, options: DataOptions) -> dict[str, Table]:
    """The tables of a task by split. A user's task may have no test file.

    Raises ValueError as readers.read_examples does.
    """
    if spec.name in BUILT_IN:
        tables = {}
        for split in SPLITS:
            tables[split] = read_examples(
                options.file_of(spec.name, split),
                spec.training_format if split == "train" else spec.format,
                labelled=split != "test",
                drop_bad_rows=options.drop_bad_rows,
            )
        return tables

    # A user's task: its dev rows have a file of their own, or are drawn.
    request = options.requests[spec.name]
    train = read_examples(request.train, spec.format, drop_bad_rows=options.drop_bad_rows)
    if request.dev is None:
        tables = draw_dev(train, spec, request)
    else:
        check_dev_labels(request.dev, spec)
        dev = read_examples(request.dev, spec.format, drop_bad_rows=options.drop_bad_rows)
        tables = {"train": train, "dev": dev}
    if request.test is not None:
        tables["test"] = read_test(request.test, spec, options.drop_bad_rows)
    return tables


def read_test(path: str, spec: TaskSpec, drop_bad_rows: bool) -> Table:
    """The table of a user's test file. Its labels may be missing or hidden."""
    mark = mark_for_labels(path, spec.format)
    is_labelled = mark is None
    table = read_examples(path, spec.format, labelled=is_labelled, drop_bad_rows=drop_bad_rows)
    if not mark:
        return table
    note = f"all its labels are '{mark}', which hides them, so {spec.name} gets no test score"
    return replace(table, notes=(*table.notes, note))


def check_dev_labels(path: str, spec: TaskSpec) -> None:
    """Raise ValueError where the labels of a dev file are hidden."""
    mark = mark_for_labels(path, spec.format)
    if mark:
        raise ValueError(
            f"{path}: all its labels are '{mark}', which stands for a hidden label; dev rows need "
            f"labels. Name another file with dev= in --task {spec.name}, or drop dev=: then dev "
            "rows are drawn from the training file."
        )


def mark_for_labels(path: str, format: Format) -> str | None:
    """The text in place of all labels of a file, such as "-1" in the test files of GLUE.

    "": the column is empty, or there is none. None: the file has labels.
    """
    table = open_table(path, is_course=False, names=format.columns)
    columns = positions_of(table, format.label_column)
    if not columns:
        return ""
    marks = set()
    for row in table.rows:
        text = label_text(row.fields[columns[0]]) if len(row.fields) > columns[0] else ""
        if not text:
            continue
        if text.casefold() not in HIDDEN_LABELS or is_label(text, format):
            return None
        marks.add(text)
    return min(marks, default="")


def is_label(text: str, format: Format) -> bool:
    """Whether a text is a class of the task, or a number between its lowest and highest score."""
    if format.classes:
        return text in {label_text(name) for name in format.classes}
    return format.low <= parse_number(text) <= format.high


# --- dev rows from the training file --------------------------------------------------------------


def draw_dev(table: Table, spec: TaskSpec, request: TaskRequest) -> dict[str, Table]:
    """Split a training table into training and dev rows, with a seed and stratified by label.

    Rows with the same texts stay together. Both parts keep the order of the file. The draw depends
    on the texts and the seed, and not on the order of the rows.
    """
    # Equal texts in training and dev would flatter the score.
    groups = group_by_texts(table.examples)
    dev_texts: set[tuple[str, ...]] = set()
    for stratum in strata_of(groups, spec):
        drawn = sorted(stratum, key=lambda texts: draw_key(texts, request.split_seed))
        dev_texts.update(drawn[: num_dev(len(drawn), request.dev_share)])

    # False: training rows. True: dev rows.
    parts: dict[bool, list[Example]] = {False: [], True: []}
    for example in table.examples:
        parts[example.texts in dev_texts].append(example)
    if not parts[True] or not parts[False]:
        raise ValueError(
            f"{table.path}: its {len(table.examples):,} rows are too few to draw dev rows from. "
            f"Name a file with dev= in --task {spec.name}."
        )
    # The sentences for the user stand in place of the counts of a whole file.
    num_rows = len(table.examples)
    stratified = ", stratified by label" + describe_labels(parts[True], spec)
    dev_origin = (
        f"{table.path}: {len(parts[True]):,} of {num_rows:,} rows are dev rows of {spec.name}, "
        f"drawn with seed {request.split_seed}{stratified}"
    )
    train_origin = f"{table.summary}; {len(parts[False]):,} of them are for training"
    return {
        "train": replace(table, examples=tuple(parts[False]), origin=train_origin),
        "dev": Table(table.path, tuple(parts[True]), (), origin=dev_origin),
    }


def group_by_texts(examples: Sequence[Example]) -> dict[tuple[str, ...], float]:
    """The different texts, each with the label of its first row."""
    groups: dict[tuple[str, ...], float] = {}
    for example in examples:
        groups.setdefault(example.texts, example.label or 0.0)
    return groups


def strata_of(groups: dict[tuple[str, ...], float], spec: TaskSpec) -> list[list[tuple[str, ...]]]:
    """The texts in parts with alike labels: one for each class, or tenths of the scores."""
    if not spec.is_regression:
        by_label: dict[float, list[tuple[str, ...]]] = {}
        for texts, label in groups.items():
            by_label.setdefault(label, []).append(texts)
        return list(by_label.values())
    # Scores have no classes. Neighbours in their order are alike.
    ordered = sorted(groups, key=lambda texts: (groups[texts], texts))
    num_strata = max(1, min(NUM_STRATA, len(ordered) // NUM_STRATA))
    ends = [len(ordered) * number // num_strata for number in range(num_strata + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]


def num_dev(num_texts: int, share: float) -> int:
    """How many texts of a stratum are dev: at least one of two, and never all."""
    return min(max(1, round(num_texts * share)), num_texts - 1)


def draw_key(texts: tuple[str, ...], seed: int) -> bytes:
    """A number that is random, but always the same for a text and a seed."""
    return hashlib.sha256("\t".join([str(seed), *texts]).encode()).digest()


def describe_labels(examples: Sequence[Example], spec: TaskSpec) -> str:
    """How many dev rows each class has, such as ": 5 no, 7 yes"."""
    if spec.is_regression:
        return ""
    counts = Counter(int(example.label or 0) for example in examples)
    listed = []
    for number, name in enumerate(spec.label_names):
        listed.append(f"{counts[number]:,} {quoted(name)}")
    return f": {join_some(listed)}"
