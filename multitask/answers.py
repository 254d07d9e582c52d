"""What finished runs say of a user's rows, printed or as a file for a spreadsheet.

predict.py is the command.

Legend: N rows, C classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.examples import Example
from data.known_words import load_words, rows_of_unknown_words
from data.tables.rows import Style
from data.tables.spreadsheets import new_column, write_spreadsheet
from data.task_specs import TaskSpec
from data.user_texts import UserTexts, one_line
from minbert.commands.options import AUTO
from minbert.reporting import terminal
from minbert.training import processes
from multitask.command_options import PredictOptions
from multitask.predictor import Predictor
from multitask.probabilities import confidences, decode, votes_by_class
from multitask.saved_run import Record, all_tasks, check_trained, read_record
from multitask.tasks import Task
from multitask.user_rows import to_examples

NUM_WORDS_SHOWN = 5  # of a row of unknown words, in a warning


class Answer(NamedTuple):
    """What the runs say of N rows together."""

    task: Task  # as the runs know it
    predictions: np.ndarray  # (N,) labels, or numbers of a regression
    votes: np.ndarray  # (N, C) or (N,) probabilities, or numbers of a regression
    threshold: float = 0.5

    @property
    def confidence(self) -> np.ndarray:
        """The probability of each prediction, (N,). Not of a score."""
        return confidences(self.votes, self.task.is_multilabel, self.threshold)


def share_texts(texts: UserTexts | None) -> UserTexts:
    """Meet the other processes of torchrun. All get the rows that the first one has read."""
    processes.join_helpers(AUTO)
    shared = processes.from_first(lambda: texts)
    assert shared is not None
    return shared


def predict_rows(options: PredictOptions, spec: TaskSpec, texts: UserTexts) -> Answer:
    """What the runs say of the rows together.

    Several processes share the batches. The first one goes on with the answer, the others end here.
    """
    log = terminal.say
    terminal.doing("opening the model")
    runs = [read_record(folder) for folder in options.runs]
    task = all_tasks(runs)[spec.name]
    check_trained(runs, task)
    log(*texts.notes)
    rows = to_examples(texts)
    warn_of_unknown_words(runs, task, rows, texts, log)
    total = votes_of(options.runs[0], options, task, rows)
    for folder in options.runs[1:]:
        total = total + votes_of(folder, options, task, rows)
    processes.leave()  # of several processes the first one goes on alone
    votes = total / len(runs)
    return Answer(task, decode(task, votes, options.threshold), votes, options.threshold)


def votes_of(
    folder: Path, options: PredictOptions, task: Task, rows: Sequence[Example]
) -> np.ndarray:
    """The probabilities or numbers of one run, (N, C) or (N,). Its model is closed afterwards."""
    predictor = Predictor(
        folder, task.name, precision=options.precision, temperature=options.temperature
    )
    if processes.count() == 1:
        return predictor.votes(task, rows, terminal.say)
    processes.check_agreement({**predictor.record.files, "precision": predictor.precision})
    return predictor.votes(task, rows, terminal.say, shares_batches=True)


def print_rows(texts: UserTexts, cells: Sequence[Sequence[str]]) -> None:
    """Print each row behind its cells, with tabs between. A terminal gets aligned columns.

    A row of a table that has no text has a line of empty cells, so that lines and rows agree.
    """
    if not texts.rows:
        return  # of several processes the first one prints
    separator = "\t"
    if terminal.is_terminal(sys.stdout):
        separator = "  "
        cells = pad_columns(cells)
    lines = []
    for row, front in zip(texts.rows, cells, strict=True):
        lines.append(separator.join([*front, *map(one_line, row.texts)]))
    empty = "\t" * lines[0].count("\t")
    for line in texts.spread(lines):
        terminal.answer(line or empty)


def pad_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells of rows, those of a column filled up with blanks to one width."""
    padded_columns = []
    for column in zip(*rows, strict=True):
        width = max(map(len, column))
        padded_columns.append([cell.ljust(width) for cell in column])
    return list(map(list, zip(*padded_columns, strict=True)))


def printed_cells(answer: Answer, has_probabilities: bool) -> list[list[str]]:
    """What stands before the texts of each row: a number, or a class with its confidence."""
    task = answer.task
    if has_probabilities:
        votes = answer.votes if task.is_built_in else votes_by_class(answer.votes)
        cells = []
        for vote in votes:
            numbers = [f"{number:.4g}" for number in vote.ravel()]
            cells.append([" ".join(numbers)])
        return cells
    if task.is_regression:
        return [[f"{prediction:.4g}"] for prediction in answer.predictions]
    cells = []
    for prediction, share in zip(answer.predictions, answer.confidence, strict=True):
        # A task of the course is known by the numbers of its classes.
        number = [f"{prediction:.0f}"] if task.is_built_in else []
        cells.append([*number, task.label_text(prediction), f"{share:.2f}"])
    return cells


def describe_probabilities(answer: Answer) -> str:
    """Which classes the printed probabilities belong to, in their order."""
    names = answer.task.label_names
    # PARA has one number, which can be a training label.
    if answer.task.is_built_in and answer.votes.ndim == 1:
        names = names[1:]
    return f"probabilities of each row, in this order: {', '.join(names)}"


def warn_of_unknown_words(
    runs: Sequence[Record],
    task: TaskSpec,
    rows: Sequence[Example],
    texts: UserTexts,
    log: Callable[[str], None],
) -> None:
    """Say how many rows hold mostly words that no training row of any run held."""
    known: set[str] = set()
    for run in runs:
        words = load_words(run.folder / "model", task.name)
        if words is None:
            # A run of an older version does not tell its words.
            return
        known |= words
    unusual = rows_of_unknown_words(rows, known)
    if not unusual:
        return
    first = unusual[0]
    place = texts.rows[int(first.row) - 1].id
    shown = ", ".join(first.unknown[:NUM_WORDS_SHOWN])
    log(
        f"warning: {len(unusual):,} of {len(rows):,} rows hold mostly words that the training rows "
        f"do not have, so their predictions mean little. The first: line {place} ({shown})."
    )


# --- the file for a spreadsheet -------------------------------------------------------------------


class AnswerColumn(NamedTuple):
    """A column to add to the input: of each row one text."""

    name: str
    values: list[str]
    is_number: bool


def write_answers(path: Path, texts: UserTexts, answer: Answer, has_probabilities: bool) -> None:
    """Write all columns of the input, then the prediction and, of classes, its confidence.

    The file has the delimiter and the decimal sign of a table with semicolons, and else commas.
    """
    table = texts.table
    style = Style() if table is None else table.style
    columns = list(answer.task.format.text_columns) if table is None else table.columns
    rows = [list(row.texts) for row in texts.rows]
    if table is not None:
        rows = [list(row.fields) for row in table.rows]

    for column in answer_columns(answer, has_probabilities):
        columns = [*columns, new_column(column.name, columns)]
        # A row without a text has no prediction.
        for row, value in zip(rows, texts.spread(column.values), strict=True):
            row.append(style.number(value) if column.is_number else value)
    write_spreadsheet(path, columns, rows, style.delimiter)


def describe_file(path: Path, texts: UserTexts) -> str:
    """The line about a file that is written. Its rows without a text have no prediction."""
    num_rows = len(texts.rows) if texts.table is None else len(texts.table.rows)
    line = f"predictions: {path}, {num_rows:,} rows"
    num_empty = num_rows - len(texts.rows)
    return f"{line}, {num_empty:,} of them without a prediction" if num_empty else line


def answer_columns(answer: Answer, has_probabilities: bool) -> list[AnswerColumn]:
    """The columns to add: the prediction, and of classes the confidence and probabilities."""
    task = answer.task
    if task.is_regression:
        values = [f"{value:.4g}" for value in answer.predictions]
        return [AnswerColumn("prediction", values, is_number=True)]
    by_class = votes_by_class(answer.votes)  # (N, C)
    names = [task.label_text(label) for label in answer.predictions]
    columns = [
        AnswerColumn("prediction", names, is_number=False),
        probability_column("confidence", answer.confidence),
    ]
    if has_probabilities:
        for label, name in enumerate(task.label_names):
            columns.append(probability_column(f"probability of {name}", by_class[:, label]))
    return columns


def probability_column(name: str, values: np.ndarray) -> AnswerColumn:
    """A column of probabilities (N,)."""
    return AnswerColumn(name, [f"{value:.4f}" for value in values], is_number=True)
