"""The files of a task -> its specification, and its tables of training, dev and test rows.

Of a user's task, `resolve_task` finds the columns, the kind of answer and the label names in the
training file. Every choice is said, with its reason. `read_splits` reads the files of any task. If
there is no dev file, it draws the dev rows from the training file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from data.dev_rows import draw_dev
from data.examples import Format, Table, label_text, list_names
from data.options import DataOptions
from data.readers import labels_in, open_table, parse_examples, read_examples
from data.tables.columns import Role, find_columns, positions_of
from data.tables.label_notes import HIDDEN_LABELS, notes_on_labels
from data.tables.numbers import parse_number
from data.tables.rows import RawTable
from data.task_flags import TaskRequest
from data.task_kinds import (
    KindChoice,
    Labels,
    check_several,
    check_thousands,
    choose_kind,
    choose_separator,
    order_classes,
    read_labels,
    split_labels,
)
from data.task_specs import BUILT_IN, CORRELATIONS, KINDS, TaskSpec

SPLITS = ("train", "dev", "test")
TEXT_NAMES = ("sentence", "text")  # usual names of the column with the texts
LABEL_NAMES = ("label",)


class Resolved(NamedTuple):
    """A specification, and a line for the user that says how it was found.

    Further lines warn of labels that may be mistakes. table: the training file, so that it is read
    once.
    """

    spec: TaskSpec
    line: str
    table: RawTable


# --- a user's task --------------------------------------------------------------------------------


def resolve_task(request: TaskRequest) -> Resolved:
    """The specification of a user's task, from --task and the labels of the training file.

    Raises ValueError with the place, what was found, what is expected and what to do.
    """
    passed = (request.text, request.text_pair, request.label, request.id)
    table = open_table(request.train, is_course=False, names=passed)
    columns = find_named_columns(table, request)
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
        if choice.kind == "multilabel":
            format = replace(format, separator=choose_separator(labels, request))
            labels = split_labels(labels, format.separator)
            check_several(labels, request)
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
        notes = notes_on_labels(labels.counts, labels.place, choice.kind, format.separator)
        line = "\n".join(filter(None, [line, choice.warning, *notes]))
    return Resolved(spec, line, table)


def find_named_columns(table: RawTable, request: TaskRequest) -> list[int]:
    """The positions of the texts and, last, of the label."""
    place = f"in --task {request.name}"
    roles = [Role(f"text= {place}", TEXT_NAMES)]
    passed = [request.text]
    if request.text_pair is not None:
        roles.append(Role(f"text_pair= {place}", ()))
        passed.append(request.text_pair)
    roles.append(Role(f"label= {place}", LABEL_NAMES))
    passed.append(request.label)
    advice = (
        f"Name the columns with text= and label= {place}. If the file has no header, a number "
        f"names a column: 1 to {len(table.columns)}."
    )
    return find_columns(table, roles, passed, advice)


def with_limits(format: Format, labels: Labels, request: TaskRequest) -> Format:
    """The format with the lowest and the highest score: those of --task, or of the training rows.

    Dev rows may leave the range of the training rows, but not one that the user gave.
    """
    if request.low is not None and request.high is not None:
        return replace(format, low=request.low, high=request.high)
    numbers = labels.numbers
    return replace(format, low=min(numbers), high=max(numbers), has_limits=False)


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


def read_splits(
    spec: TaskSpec, options: DataOptions, training_table: RawTable | None = None
) -> dict[str, Table]:
    """The tables of a task by split. A user's task may have no test file.

    training_table: of a user's task, if resolve_task has read it already.

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
        check_dev_scores(tables["dev"], spec)
        return tables

    # A user's task: its dev rows have a file of their own, or are drawn.
    request = options.requests[spec.name]
    training_table = training_table or open_own_table(request.train, spec.format)
    train = parse_examples(training_table, spec.format, drop_bad_rows=options.drop_bad_rows)
    if request.dev is None:
        tables = draw_dev(train, spec, request)
    else:
        dev_table = open_own_table(request.dev, spec.format)
        check_dev_labels(dev_table, spec)
        dev = parse_examples(dev_table, spec.format, drop_bad_rows=options.drop_bad_rows)
        check_dev_scores(dev, spec)
        tables = {"train": train, "dev": with_note_on_one_label(dev, spec)}
    if request.test is not None:
        tables["test"] = read_test(request.test, spec, options.drop_bad_rows)
    return tables


def open_own_table(path: str, format: Format) -> RawTable:
    """The table in a file of a user's task."""
    return open_table(path, is_course=False, names=format.columns)


def read_test(path: str, spec: TaskSpec, drop_bad_rows: bool) -> Table:
    """The table of a user's test file. Its labels may be missing or hidden."""
    raw = open_own_table(path, spec.format)
    marks = marks_for_labels(raw, spec.format)
    is_labelled = marks is None
    table = parse_examples(raw, spec.format, labelled=is_labelled, drop_bad_rows=drop_bad_rows)
    if marks is not None:
        reason = f"all its labels are {marks}, which hides them" if marks else "it has no labels"
    elif is_one_label(table) and spec.metric_name in CORRELATIONS:
        reason = f"all its labels are {shown_label(table, spec)}"
        table = parse_examples(raw, spec.format, labelled=False)
    else:
        return with_note_on_one_label(table, spec)
    return replace(table, notes=(*table.notes, f"{reason}, so {spec.name} gets no test score"))


def with_note_on_one_label(table: Table, spec: TaskSpec) -> Table:
    """The table with a note where all rows have one class: a constant answer scores best."""
    if not is_one_label(table) or spec.kind in ("score", "multilabel"):
        return table
    note = (
        f"warning: all its labels are {shown_label(table, spec)}, so {spec.metric_name} only says "
        "how often the model gives that answer"
    )
    return replace(table, notes=(*table.notes, note))


def is_one_label(table: Table) -> bool:
    """Whether all labels of a table are the same."""
    return len({example.answer for example in table.examples}) == 1


def shown_label(table: Table, spec: TaskSpec) -> str:
    """The label of the first row for a message: a number, or the name of a class in quotes."""
    label = table.examples[0].label or 0.0
    return f"'{spec.label_names[int(label)]}'" if spec.label_names else f"{label:g}"


def check_dev_scores(dev: Table, spec: TaskSpec) -> None:
    """Raise ValueError where all dev rows have one label, and the metric is a correlation."""
    if not is_one_label(dev) or spec.metric_name not in CORRELATIONS:
        return
    advice = f"--{spec.name}_dev."
    if not spec.is_built_in:
        advice = (
            f"dev= in --task {spec.name}, or drop dev=: then dev rows are drawn from the training "
            "file."
        )
    raise ValueError(
        f"{dev.path}: all its labels are {shown_label(dev, spec)}; {spec.metric_name} needs "
        f"two different ones at least. Name another file with {advice}"
    )


def check_dev_labels(table: RawTable, spec: TaskSpec) -> None:
    """Raise ValueError where the labels of a dev file are hidden."""
    marks = marks_for_labels(table, spec.format)
    if marks:
        raise ValueError(
            f"{table.name}: all its labels are {marks}, which stands for a hidden label; dev rows "
            f"need labels. Name another file with dev= in --task {spec.name}, or drop dev=: then "
            "dev rows are drawn from the training file."
        )


def marks_for_labels(table: RawTable, format: Format) -> str | None:
    """The texts in place of all labels of a file, such as "'-1'" in the test files of GLUE.

    "": the column is empty, or there is none. None: the file has labels.

    Raises ValueError where all rows have one text that is neither a label nor such a mark.
    """
    columns = positions_of(table, format.label_column)
    if not columns:
        return ""
    texts = set()
    for row in table.rows:
        texts.add(label_text(row.fields[columns[0]]) if len(row.fields) > columns[0] else "")
    texts.discard("")
    if any(is_label(text, format) for text in texts):
        return None
    if all(text.casefold() in HIDDEN_LABELS or not has_letters(text) for text in texts):
        return " or ".join(f"'{text}'" for text in sorted(texts))
    # To drop each row that has no label would leave none.
    if len(texts) == 1 and len(table.rows) > 1 and format.classes:
        (text,) = texts
        raise ValueError(
            f"{table.name}: all its labels are '{text[:40]}', and {format.label_rule}. If this "
            "hides the labels, empty the column or remove it."
        )
    return None


def has_letters(text: str) -> bool:
    """Whether a text holds a letter or a digit: "*" and "__" hold none."""
    return any(character.isalnum() for character in text)


def is_label(text: str, format: Format) -> bool:
    """Whether a text is a class of the task, or a number between its lowest and highest score."""
    if format.classes:
        texts = labels_in(text, format.separator) if format.separator else [text]
        return set(texts) <= {label_text(name) for name in format.classes}
    return format.low <= parse_number(text) <= format.high
