"""Writes a task of a run as a model of another library, and compares the two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from data.batching import Batch, EncodedExamples
from data.examples import Example
from minbert import BertTokenizer
from minbert.commands.new_folders import new_folder
from minbert.commands.options import AUTO
from minbert.commands.paths import in_shell
from minbert.onnx_files import CHECKED_TEXTS
from minbert.options import FP32_ONEDNN
from multitask.export.classifier import (
    largest_difference,
    reason_against,
    write_classifier,
    write_tokenizer,
)
from multitask.export.graph import FILE_NAME, write_graph
from multitask.export.options import ExportOptions
from multitask.export.sentence_classifier import (
    largest_difference_of_layers,
    write_sentence_classifier,
)
from multitask.model import MultitaskBert
from multitask.saved_run import check_trained, open_model, read_record
from multitask.task_models import TaskModels
from multitask.tasks import Task
from multitask.user_rows import choose_only_task


def export(options: ExportOptions) -> list[str]:
    """Write the folder with all its files, or nothing. Returns lines for the user."""
    # Everything that can be refused comes before the first file.
    record = read_record(options.run)
    name = options.task or choose_only_task(options.run)
    model, tokenizer = open_model(record)
    task = find_task(model, name)
    if isinstance(model, TaskModels):
        model = model.of(task.name)
    check_trained([record], task)
    max_length = record.options.data.max_length
    batches = batches_to_check(model.cpu(), task, tokenizer, max_length)

    with new_folder(options.out) as beside:
        write_tokenizer(tokenizer, max_length, beside)
        lines = write_model(model, task, tokenizer, options, max_length, beside, batches)
        lines += note_on_precision(record.options.training.precision)
    return lines


def note_on_precision(precision: str) -> list[str]:
    """A line for the user where the run predicts in another precision than the comparison."""
    if precision in ("fp32", FP32_ONEDNN):
        return []
    return [
        f"both compute in fp32. The run predicts in {precision}, which rounds more. "
        "multitask.predict --precision fp32 agrees with the exported model."
    ]


def choose_format(name: str, model: MultitaskBert, task: Task) -> str:
    """The format for "auto": that of transformers if it has the formula of the task."""
    if name != AUTO:
        return name
    return "transformers" if reason_against(model, task) is None else "sentence-transformers"


def find_task(model: MultitaskBert | TaskModels, name: str) -> Task:
    """The task of a name; ValueError, with the names that there are, where none has it."""
    if name not in model.tasks:
        raise ValueError(f"--task is {name}; the tasks are {', '.join(model.tasks)}.")
    return model.tasks[name]


def batches_to_check(
    model: MultitaskBert, task: Task, tokenizer: BertTokenizer, max_length: int
) -> list[Batch]:
    """Batches of different sizes and lengths."""
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
    tokenizer: BertTokenizer,
    options: ExportOptions,
    max_length: int,
    folder: Path,
    batches: Sequence[Batch],
) -> list[str]:
    """Write the model in the format that was asked for. Returns lines for the user."""
    out = in_shell(options.out)
    checked = f"{sum(len(batch.ids) for batch in batches)} texts"
    if options.format == "onnx":
        difference = write_graph(model, task, tokenizer, max_length, folder, batches)
        how = (
            f'onnxruntime.InferenceSession("{out}/{FILE_NAME}"), see {out}/onnx.json. Or predict '
            f"with onnxruntime, tokenizers and numpy alone: python {out}/predict.py < rows.txt"
        )
    elif choose_format(options.format, model, task) == "sentence-transformers":
        write_sentence_classifier(model, task, max_length, folder)
        difference = largest_difference_of_layers(model, task, folder, batches)
        how = f'SentenceTransformer("{out}"), whose encode gives the logits'
    else:
        name = write_classifier(model, task, folder)
        difference = largest_difference(model, task, folder, batches)
        how = f'AutoModelForSequenceClassification.from_pretrained("{out}"), a {name}'
    return [
        f"largest difference from the run's model on {checked}: {difference:.1e}",
        f"written to {out}. Open it with {how}",
    ]
