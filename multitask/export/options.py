"""The options of `python -m multitask.export`, and what is refused before any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minbert.commands.optional import check_onnx_packages
from minbert.commands.options import AUTO, CommandOptions, argument, positional
from minbert.commands.outputs import check_new_folder
from minbert.commands.paths import is_free
from minbert.commands.plugins import plugin_argument

FORMATS = (AUTO, "transformers", "sentence-transformers", "onnx")


@dataclass(frozen=True)
class ExportOptions(CommandOptions):
    """The command line of multitask.export."""

    run: Path = positional("RUN", "folder that run_multitask.py wrote, as runs/NAME")
    task: str | None = argument(
        None,
        "a task of the run, such as sst; it may be left out where there is only one",
        "NAME",
    )
    out: Path = argument(None, "a new folder for the model", "FOLDER", is_required=True)
    plugin: tuple[str, ...] = plugin_argument()
    format: str = argument(
        FORMATS[0],
        "transformers: a folder for AutoModelForSequenceClassification. sentence-transformers: one "
        "for SentenceTransformer, whose vectors are the logits. auto: the first of both that can "
        "hold the model. onnx: model.onnx for onnxruntime, after `bash setup.sh --onnx`",
        choices=FORMATS,
    )


def check_request(options: ExportOptions) -> None:
    """Raise ValueError for everything else that can be refused before any work."""
    check_new_folder("--out", options.out)
    if not is_free(options.out):
        raise ValueError(f"{options.out} exists; nothing is overwritten. Choose another --out.")
    if options.format == "onnx":
        check_onnx_packages()
