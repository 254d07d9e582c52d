"""Export a task of a run: `python -m multitask.export RUN --task sst --out FOLDER`.

--format transformers writes a folder that AutoModelForSequenceClassification opens, with the names
of the classes. It is refused where transformers has no class with the same formula. --format onnx
writes a graph for onnxruntime, whatever the head.

The command compares the result with the run's model on a few texts, and prints the largest
difference.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.optional import check_onnx_packages
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import in_shell, is_free, temporary_name

if TYPE_CHECKING:
    from data.batching import Batch
    from minbert import BertTokenizer
    from multitask.model import MultitaskBert
    from multitask.task_models import TaskModels
    from multitask.tasks import Task

FORMATS = ("transformers", "onnx")


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        prog="python -m multitask.export",
        allow_abbrev=False,
        description="Write a task of a finished run as a model of other libraries.",
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder that run_multitask.py wrote, as runs/NAME"
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="a task of the run, such as sst; it may be left out where there is only one",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="a new folder for the model"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="transformers: a folder for AutoModelForSequenceClassification. onnx: model.onnx for "
        "onnxruntime, after `bash setup.sh --onnx` (default: %(default)s)",
    )
    return parser


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise ValueError for everything that can be refused before any work."""
    check_new_folder("--out", arguments.out)
    if not is_free(arguments.out):
        raise ValueError(f"{arguments.out} exists; nothing is overwritten. Choose another --out.")
    if arguments.format == "onnx":
        check_onnx_packages()


def export(arguments: argparse.Namespace) -> list[str]:
    """Write the folder with all its files, or nothing. Returns lines for the user."""
    from multitask.predict import check_trained, choose_only_task
    from multitask.saved_run import open_model, read_record
    from multitask.task_models import TaskModels

    # Everything that can be refused comes before the first file.
    record = read_record(arguments.run)
    if arguments.task is None:
        arguments.task = choose_only_task(arguments.run)
    model, tokenizer = open_model(record)
    task = find_task(model, arguments.task)
    if isinstance(model, TaskModels):
        model = model.of(task.name)
    check_trained([record], task)
    max_length = record.options.data.max_length
    batches = batches_to_check(model.cpu(), task, tokenizer, max_length)

    # The folder is made beside its place and renamed when it is complete.
    beside = arguments.out.with_name(temporary_name(arguments.out))
    shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed
    try:
        beside.mkdir(parents=True)
        write_tokenizer_of(tokenizer, max_length, beside)
        lines = write_model(model, task, arguments, beside, batches)
        lines += note_on_precision(record.options.training.precision)
        if arguments.out.exists():
            arguments.out.rmdir()
        os.replace(beside, arguments.out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return lines


def note_on_precision(precision: str) -> list[str]:
    """A line for the user where the run predicts in another precision than the comparison."""
    if precision == "fp32":
        return []
    return [
        f"both compute in fp32. The run predicts in {precision}, which rounds more. "
        "multitask.predict --precision fp32 agrees with the exported model."
    ]


def find_task(model: MultitaskBert | TaskModels, name: str) -> Task:
    """The task of a name; ValueError, with the names that there are, where none has it."""
    if name not in model.tasks:
        raise ValueError(f"--task is {name}; the tasks are {', '.join(model.tasks)}.")
    return model.tasks[name]


def write_tokenizer_of(tokenizer: BertTokenizer, max_length: int, folder: Path) -> None:
    """Write the tokenizer with the run's maximum length."""
    from multitask.export.classifier import write_tokenizer

    write_tokenizer(tokenizer, max_length, folder)


def batches_to_check(
    model: MultitaskBert, task: Task, tokenizer: BertTokenizer, max_length: int
) -> list[Batch]:
    """Batches of different sizes and lengths."""
    from data.batching import EncodedExamples
    from data.examples import Example
    from minbert.onnx_files import CHECKED_TEXTS

    examples = []
    for number, text in enumerate(CHECKED_TEXTS):
        second = CHECKED_TEXTS[-1 - number] if task.is_pair else None
        examples.append(Example(str(number), text, second, None))
    # All rows, one row, and two in another order: padding and places differ.
    rows = EncodedExamples(examples, tokenizer, max_length, model.pair_encoding)
    everything = range(len(examples))
    return [rows.batch(list(everything)), rows.batch([1]), rows.batch([3, 0])]


def write_model(
    model: MultitaskBert,
    task: Task,
    arguments: argparse.Namespace,
    folder: Path,
    batches: Sequence[Batch],
) -> list[str]:
    """Write the model in the format that was asked for. Returns lines for the user."""
    out = in_shell(arguments.out)
    checked = f"{sum(len(batch.ids) for batch in batches)} texts"
    if arguments.format == "onnx":
        from multitask.export.graph import FILE_NAME, write_graph

        difference = write_graph(model, task, folder, batches)
        how = f'onnxruntime.InferenceSession("{out}/{FILE_NAME}"), see {out}/onnx.json'
    else:
        from multitask.export.classifier import largest_difference, write_classifier

        name = write_classifier(model, task, folder)
        difference = largest_difference(model, task, folder, batches)
        how = f'AutoModelForSequenceClassification.from_pretrained("{out}"), a {name}'
    return [
        f"largest difference from the run's model on {checked}: {difference:.1e}",
        f"written to {out}. Open it with {how}",
    ]


@exit_code("python -m multitask.export")
def main(argv: Sequence[str] | None = None) -> None:
    """Export, and say how the result is opened."""
    arguments = build_parser().parse_args(argv)
    check_arguments(arguments)
    for line in export(arguments):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
