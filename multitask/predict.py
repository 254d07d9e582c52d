"""Predict rows of your own: `python -m multitask.predict RUN --task sst < rows.txt`.

The command reads one row per line from standard input. A row of PARA and STS is two texts with a
tab between them. Each row is printed behind its prediction: a class 0 to 4, 1 or 0, or a
similarity. With `--probabilities` the probabilities stand in place of a class. Several runs give
one prediction together: that of the mean of their probabilities or similarities.

torch is imported late, so `--help` and bad input answer at once.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from data.readers import FORMATS, Example
from minbert.commands.ending import exit_code

if TYPE_CHECKING:
    import numpy as np

    from multitask.saved_run import Record
    from multitask.tasks import Task

# Bytes that are not UTF-8 come as these characters ("surrogateescape").
FIRST_ESCAPE = "\udc80"
LAST_ESCAPE = "\udcff"


def read_rows(lines: Iterable[str], is_pair: bool) -> list[Example]:
    """An example for each line.

    Raises ValueError for a line that is not one sentence or one pair, and for no line at all.
    """
    needed = "one sentence in UTF-8, without a tab"
    if is_pair:
        needed = "two texts in UTF-8 with a tab between"
    num_texts = 2 if is_pair else 1

    examples = []
    for number, line in enumerate(lines, start=1):
        texts = [text.strip() for text in line.rstrip("\r\n").split("\t")]
        is_complete = len(texts) == num_texts and all(texts)
        if not is_complete or has_bad_bytes(line):
            raise ValueError(
                f"line {number} is {line.strip()!r}; needed is {needed}. Fix or remove the line."
            )
        second = texts[1] if is_pair else None
        examples.append(Example(str(number), texts[0], second, None))
    if not examples:
        raise ValueError(
            f"standard input holds no row; needed is {needed}, a row a line, such as: ... < "
            "rows.txt"
        )
    return examples


def has_bad_bytes(line: str) -> bool:
    """Whether a line held bytes that are not UTF-8."""
    return any(FIRST_ESCAPE <= character <= LAST_ESCAPE for character in line)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m multitask.predict",
        allow_abbrev=False,
        description="Predict rows of standard input with finished runs.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder that run_multitask.py wrote, such as runs/NAME; of several the mean of what "
        "they say",
    )
    parser.add_argument(
        "--task",
        choices=tuple(FORMATS),
        required=True,
        help="sst: a sentence a line; para, sts: two texts a line, with a tab between",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="print probabilities instead of classes: sst, the five classes' with blanks between; "
        "para, that of a paraphrase, which can be a training label",
    )
    return parser


@exit_code("python -m multitask.predict")
def main(arguments: Sequence[str] | None = None) -> None:
    """Read rows from standard input and print them behind their predictions."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.probabilities and options.task == "sts":
        parser.error("--probabilities: sts has no classes; pass --task sst or para, or drop it.")
    if sys.stdin.isatty():
        print("Type one row a line and end with Ctrl-D.", file=sys.stderr)
    lines = io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", "surrogateescape")
    rows = read_rows(lines, FORMATS[options.task].is_pair)

    from multitask.probabilities import decode
    from multitask.saved_run import read_record
    from multitask.tasks import TASKS

    task = TASKS[options.task]
    runs = [read_record(folder) for folder in options.runs]
    check_trained(runs, task)
    log = partial(print, file=sys.stderr)
    total = answers(runs[0], task, rows, log)
    for run in runs[1:]:
        total = total + answers(run, task, rows, log)
    values = total / len(runs)
    if not options.probabilities:
        values = decode(task, values)
    for row, value in zip(rows, values, strict=True):
        numbers = " ".join(f"{number:.4g}" for number in value.ravel())
        print(numbers, *row.texts, sep="\t")


def check_trained(runs: Sequence[Record], task: Task) -> None:
    """ValueError if a run cannot answer the task."""
    from multitask.saved_run import knows

    for run in runs:
        if not knows(run, task.name):
            raise ValueError(
                f"{run.folder} was trained on {run.options.tasks.tasks}; its head for {task.title} "
                "never learned. Pass another --task, or another run."
            )


def answers(
    run: Record, task: Task, rows: Sequence[Example], log: Callable[[str], None]
) -> np.ndarray:
    """The run's probabilities, or its similarities, in row order.

    log: is told about rows that are cut.
    """
    from data.batching import EncodedExamples
    from multitask.evaluation import predict
    from multitask.probabilities import probabilities
    from multitask.saved_run import open_model
    from multitask.stage import describe_cuts

    model, tokenizer = open_model(run)
    max_length = run.options.data.max_length
    encoded = EncodedExamples(rows, tokenizer, max_length, model.pair_encoding)
    if encoded.num_truncated:
        log(describe_cuts({task.name: {"input": encoded}}, max_length))
    outputs = predict(model, task.name, encoded, run.options.training.precision)
    return outputs if task.is_regression else probabilities(outputs)


if __name__ == "__main__":
    sys.exit(main())
