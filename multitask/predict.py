"""Predict rows of your own: `python -m multitask.predict RUN --task sst < rows.txt`.

The command reads one row per line, or a table in any format that data/tables/ reads. A line of a
task of pairs, such as PARA and STS, is two texts with a tab between them. Of a table, --text and
--text-pair name the columns.

Each row is printed behind its prediction: the class of a task of the course (0 to 4 of SST, 1 or 0
of PARA), its name, and the model's confidence in it. A user's own task has names alone. A
similarity has neither name nor confidence. With `--probabilities` the probabilities stand in their
place. Tabs stand between the columns. A terminal gets aligned columns instead. --out writes all
columns of the input to a file for a spreadsheet.

A warning names rows of words that the training rows never held. The model answers them, too, but
the answer means little.

Several runs give one prediction together: that of the mean of their probabilities or similarities.

torch is imported late, so `--help` and bad input answer at once.

Legend: N rows, C classes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from data.examples import COURSE_FILES, Example
from data.known_words import load_words, rows_of_unknown_words
from data.tables.columns import ColumnNames, Role
from data.tables.spreadsheets import check_cells, check_spreadsheet, new_column, write_spreadsheet
from data.task_specs import BUILT_IN, TaskSpec, from_stored
from data.user_texts import TEXT, UserTexts, one_line, read_texts
from minbert.commands.ending import exit_code
from minbert.commands.files import read_json
from minbert.commands.flags import Parser
from minbert.commands.outputs import OVERWRITE, STREAM, Output, check_outputs
from minbert.commands.paths import in_shell
from minbert.reporting import terminal

if TYPE_CHECKING:
    import numpy as np

    from multitask.saved_run import Record
    from multitask.tasks import Task

# A finished run of the main job that comes with minBERT, so that a sentence can be tried at once.
BUNDLED_RUN = Path(__file__).parent / "bundled"
NUM_WORDS_SHOWN = 5  # of a row of unknown words, in a warning

# --- the command line -----------------------------------------------------------------------------


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m multitask.predict",
        allow_abbrev=False,
        description="Predict rows of your own with finished runs.",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="folder that run_multitask.py wrote, such as runs/NAME or runs/latest; of several the "
        "mean of what they say (default: the small model that comes with minBERT)",
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="a task of the run; it may be left out where there is only one. sst: a sentence a "
        "line; para, sts: two texts a line, with a tab between",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="print probabilities instead of classes: sst, the five classes' with blanks between; "
        "para, that of a paraphrase, which can be a training label; your own task, those of all "
        "labels in their order. --out gets a column for each class",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="of matrix products. auto: that of the run. fp32: that of multitask.export "
        "(default: %(default)s)",
    )
    _add_table(parser)
    return parser


def _add_table(parser: argparse.ArgumentParser) -> None:
    """The flags of the input and of the file to write."""
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="the rows: plain lines, or a table (.csv, .tsv, .jsonl, .xlsx) (default: standard "
        "input)",
    )
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of a table with the texts (default: sentence or text; of pairs sentence1)",
    )
    parser.add_argument(
        "--text-pair",
        metavar="COLUMN",
        help="column of a table with the second texts of pairs (default: sentence2)",
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="each line of the input is a row, also where it looks like a table",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.csv",
        help="write all columns of the input, the prediction and its confidence to a file that a "
        "spreadsheet opens: .csv or .xlsx. - is standard output, as .csv",
    )
    parser.add_argument(
        OVERWRITE, action="store_true", help="replace the file of --out if it exists"
    )


def use_bundled_run(options: argparse.Namespace) -> str:
    """Take the bundled run where the user names none. It reads sentences of SST.

    Returns the line that says so.
    """
    options.runs = [BUNDLED_RUN]
    if options.task is None:
        options.task = "sst"
    return (
        f"No RUN is named. The small model in {in_shell(BUNDLED_RUN)} answers, for the task "
        f"{options.task}. run_multitask.py trains a model of your own."
    )


class RunTasks(NamedTuple):
    """The tasks of a run: what they are by name, and which of them were trained."""

    specs: dict[str, TaskSpec]
    trained: list[str]


def read_tasks(run: Path) -> RunTasks:
    """The tasks in a run's run.json, without torch. Raises ValueError where there is none."""
    try:
        record = read_json(run / "run.json")
        trained = record["options"]["tasks"].split(",")
        # Older runs have the three tasks of the course, and no list of them.
        specs = {name: BUILT_IN[name] for name in COURSE_FILES}
        if "tasks" in record:
            specs = from_stored(record["tasks"], TaskSpec)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        from multitask.saved_run import read_record

        read_record(run)  # says what is wrong
        raise
    return RunTasks(specs, list(dict.fromkeys(trained)))


def choose_task(options: argparse.Namespace) -> TaskSpec:
    """The task that --task names, or the only one that the first run was trained on.

    Raises ValueError where the run does not have it.
    """
    run = options.runs[0]
    for folder in options.runs:
        refuse_ensemble(folder)
    specs, trained = read_tasks(run)
    name = options.task or choose_only_task(run)
    if name not in specs:
        raise ValueError(
            f"--task {name}: {run} was trained on {', '.join(trained)}. Pass one of these, or "
            "another run."
        )
    return specs[name]


def choose_only_task(run: Path) -> str:
    """The only task that a run was trained on. Raises ValueError where there are several."""
    trained = read_tasks(run).trained
    if len(trained) > 1:
        raise ValueError(f"{run} was trained on {', '.join(trained)}; pass one as --task.")
    return trained[0]


def refuse_ensemble(folder: Path) -> None:
    """Raise ValueError for the folder of an ensemble, with the runs that can be named instead."""
    path = folder / "ensemble.json"
    if not path.is_file() or (folder / "run.json").is_file():
        return
    advice = "the runs that it joins"
    try:
        runs = read_json(path)["runs"]
        advice += ": " + " ".join(in_shell(Path(run)) for run in runs)
    except (OSError, ValueError, KeyError, TypeError):
        advice += ", which ensemble.json names"
    raise ValueError(f"{folder} holds an ensemble, and no model. Name {advice}")


def check_options(options: argparse.Namespace, task: TaskSpec) -> None:
    """Raise ValueError for everything that can be refused before any work."""
    if options.probabilities and task.is_regression:
        raise ValueError(
            f"--probabilities: {task.name} has no classes; pass --task sst or para, or drop it."
            if task.is_built_in
            else f"--probabilities: {task.name} has no classes. Drop it."
        )
    if options.text_pair is not None and not task.is_pair:
        raise ValueError(
            f"--text-pair has no effect with --task {task.name}, which reads one text. Drop it."
        )
    out = options.out
    if options.overwrite and out in (None, STREAM):
        raise ValueError(f"{OVERWRITE} has no effect without a file of --out. Drop it.")
    if out is None or out == STREAM:
        return
    check_spreadsheet(out)
    inputs = [] if options.input is None else [options.input]
    check_outputs([Output("--out", out)], inputs, options.runs, options.overwrite)


# --- the rows -------------------------------------------------------------------------------------


def read_rows(options: argparse.Namespace, task: TaskSpec) -> UserTexts:
    """The texts of the input. Raises ValueError where they cannot be read."""
    format = task.format
    # A user's own task has its own names of columns.
    roles = [TEXT if task.is_built_in else Role("--text", format.text_columns)]
    if format.is_pair:
        first, second = format.text_columns
        roles = [Role("--text", (first,)), Role("--text-pair", (second,))]
    names = ColumnNames(text=options.text, text_pair=options.text_pair)
    skips_empty = options.out is not None
    texts = read_texts(options.input, roles, names, options.lines, skips_empty)
    if texts.table is None and not format.is_pair:
        refuse_tabs(texts)
    if options.out is not None and texts.table is not None:
        check_cells(options.out, [row.fields for row in texts.table.rows])
    return texts


def refuse_tabs(texts: UserTexts) -> None:
    """Raise ValueError for a line with a tab where each line is one sentence."""
    for row in texts.rows:
        if "\t" in row.texts[0]:
            raise ValueError(
                f"{texts.name}, line {row.id} is {row.texts[0]!r}; expected is one sentence, "
                "without a tab. Fix or remove the line."
            )


def to_examples(texts: UserTexts) -> list[Example]:
    """The rows as the model reads them."""
    examples = []
    for number, row in enumerate(texts.rows, start=1):
        first = row.texts[0]
        second = row.texts[1] if len(row.texts) == 2 else None
        examples.append(Example(str(number), first, second, None))
    return examples


@exit_code("python -m multitask.predict")
def main(arguments: Sequence[str] | None = None) -> None:
    """Read rows, and print or write them with their predictions."""
    options = build_parser().parse_args(arguments)
    with terminal.session("reading the rows", uses_stderr=True):
        if not options.runs:
            terminal.say(use_bundled_run(options))
        spec = choose_task(options)
        check_options(options, spec)
        with terminal.typing("row", options.input):
            texts = read_rows(options, spec)
        terminal.doing("importing PyTorch")
        task, answer = predict_rows(options, spec, texts)
        if options.out is not None:
            write_answers(options.out, texts, task, answer, options.probabilities)
            terminal.say(describe_file(options.out, texts))
            return
    print_rows(texts, printed_cells(task, answer, options))


def predict_rows(
    options: argparse.Namespace, spec: TaskSpec, texts: UserTexts
) -> tuple[Task, Answer]:
    """The task as the runs know it, and what they say of the rows together."""
    from multitask.probabilities import decode
    from multitask.saved_run import all_tasks, read_record

    log = terminal.say
    terminal.doing("opening the model")
    runs = [read_record(folder) for folder in options.runs]
    check_trained(runs, spec)
    task = all_tasks(runs)[spec.name]
    log(*texts.notes)
    rows = to_examples(texts)
    warn_of_unknown_words(runs, task, rows, texts, log)
    total = answers(runs[0], task, rows, log, options.precision)
    for run in runs[1:]:
        total = total + answers(run, task, rows, log, options.precision)
    return task, Answer(decode(task, total / len(runs)), total / len(runs))


def print_rows(texts: UserTexts, cells: Sequence[Sequence[str]]) -> None:
    """Print each row behind its cells, with tabs between. A terminal gets aligned columns."""
    separator = "\t"
    if terminal.is_terminal(sys.stdout):
        separator = "  "
        cells = pad_columns(cells)
    for row, front in zip(texts.rows, cells, strict=True):
        words = [one_line(text) for text in row.texts]
        terminal.answer(separator.join([*front, *words]))


def pad_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells of rows, those of a column filled up with blanks to one width."""
    padded_columns = []
    for column in zip(*rows, strict=True):
        width = max(map(len, column))
        padded_columns.append([cell.ljust(width) for cell in column])
    return list(map(list, zip(*padded_columns, strict=True)))


def printed_cells(task: Task, answer: Answer, options: argparse.Namespace) -> list[list[str]]:
    """What stands before the texts of each row: a number, or a class with its confidence."""
    if options.probabilities:
        votes = answer.votes if task.is_built_in else votes_by_class(answer.votes)
        cells = []
        for vote in votes:
            numbers = [f"{number:.4g}" for number in vote.ravel()]
            cells.append([" ".join(numbers)])
        return cells
    if task.is_regression:
        return [[f"{prediction:.4g}"] for prediction in answer.predictions]
    cells = []
    confidence = votes_by_class(answer.votes).max(axis=1)
    for prediction, share in zip(answer.predictions, confidence, strict=True):
        # A task of the course is known by the numbers of its classes.
        number = [f"{prediction:.0f}"] if task.is_built_in else []
        cells.append([*number, task.label_text(prediction), f"{share:.2f}"])
    return cells


def check_trained(runs: Sequence[Record], task: TaskSpec) -> None:
    """ValueError if a run cannot answer the task."""
    from multitask.saved_run import can_answer

    for run in runs:
        if not can_answer(run, task.name):
            raise ValueError(
                f"{run.folder} was trained on {run.options.tasks.tasks}; its head for {task.title} "
                "never learned. Pass another --task, or another run."
            )


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


def answers(
    run: Record,
    task: Task,
    rows: Sequence[Example],
    log: Callable[[str], None],
    precision: str = "auto",
) -> np.ndarray:
    """The run's probabilities, or its similarities, in row order.

    log: is told about rows that are cut. precision: of matrix products. auto: that of the run.
    """
    from data.batching import EncodedExamples
    from multitask.evaluation import predict
    from multitask.probabilities import probabilities
    from multitask.rows import describe_cuts
    from multitask.saved_run import open_model

    model, tokenizer = open_model(run)
    max_length = run.options.data.max_length
    encoded = EncodedExamples(rows, tokenizer, max_length, model.pair_encoding)
    if encoded.num_truncated:
        log(describe_cuts({task.name: {"input": encoded}}, max_length))
    warning = encoded.warn_of_unknown(f"the rows, for {run.folder}")
    if warning is not None:
        log(warning)
    if precision == "auto":
        precision = run.options.training.precision
    outputs = predict(model, task.name, encoded, precision)
    return outputs if task.is_regression else probabilities(outputs)


# --- the file for a spreadsheet -------------------------------------------------------------------


class Answer(NamedTuple):
    """What the runs say of N rows together."""

    predictions: np.ndarray  # (N,) labels, or numbers of a regression
    votes: np.ndarray  # (N, C) or (N,) probabilities, or numbers of a regression


class AnswerColumn(NamedTuple):
    """A column to add to the input: of each row one text."""

    name: str
    values: list[str]
    is_number: bool


def write_answers(
    path: Path, texts: UserTexts, task: Task, answer: Answer, has_probabilities: bool
) -> None:
    """Write all columns of the input, then the prediction and, of classes, its confidence.

    The file has the delimiter and the decimal sign of a table with semicolons, and else commas.
    """
    table = texts.table
    has_decimal_comma = table is not None and table.decimal_sign == ","
    has_semicolons = table is not None and table.has_decimal_comma
    columns = list(task.format.text_columns) if table is None else table.columns
    rows = [list(row.texts) for row in texts.rows]
    if table is not None:
        rows = [list(row.fields) for row in table.rows]

    for column in answer_columns(task, answer, has_probabilities):
        columns = [*columns, new_column(column.name, columns)]
        has_comma = has_decimal_comma and column.is_number
        # A row without a text has no prediction.
        for row, value in zip(rows, texts.spread(column.values), strict=True):
            row.append(value.replace(".", ",") if has_comma else value)
    write_spreadsheet(path, columns, rows, ";" if has_semicolons else ",")


def describe_file(path: Path, texts: UserTexts) -> str:
    """The line about a file that is written. Its rows without a text have no prediction."""
    num_rows = len(texts.rows) if texts.table is None else len(texts.table.rows)
    line = f"predictions: {path}, {num_rows:,} rows"
    num_empty = num_rows - len(texts.rows)
    return f"{line}, {num_empty:,} of them without a prediction" if num_empty else line


def answer_columns(task: Task, answer: Answer, has_probabilities: bool) -> list[AnswerColumn]:
    """The columns to add: the prediction, and of classes the confidence and probabilities."""
    if task.is_regression:
        values = [f"{value:.4g}" for value in answer.predictions]
        return [AnswerColumn("prediction", values, is_number=True)]
    by_class = votes_by_class(answer.votes)  # (N, C)
    names = [task.label_names[int(label)] for label in answer.predictions]
    columns = [
        AnswerColumn("prediction", names, is_number=False),
        probability_column("confidence", by_class.max(axis=1)),
    ]
    if has_probabilities:
        for label, name in enumerate(task.label_names):
            columns.append(probability_column(f"probability of {name}", by_class[:, label]))
    return columns


def probability_column(name: str, values: np.ndarray) -> AnswerColumn:
    """A column of probabilities (N,)."""
    return AnswerColumn(name, [f"{value:.4f}" for value in values], is_number=True)


def votes_by_class(votes: np.ndarray) -> np.ndarray:
    """Probabilities (N, C) of C classes. votes: those, or (N,) of the second of two classes."""
    import numpy as np

    return votes if votes.ndim == 2 else np.stack([1 - votes, votes], axis=1)


if __name__ == "__main__":
    sys.exit(main())
