"""Export a task of a run: `python -m multitask.export RUN --task sst --out FOLDER`.

--format transformers writes a folder that AutoModelForSequenceClassification opens, with the names
of the classes. --format sentence-transformers writes one for SentenceTransformer, whose vectors are
then the logits. By default it is the first of both that can compute the formula of the task.
--format onnx writes a graph for onnxruntime, whatever the head.

The command compares the result with the run's model on a few texts, and prints the largest
difference.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.memory import check_limit_of_libraries
from minbert.commands.new_folders import reserved
from minbert.commands.plugins import load_named
from multitask.export.options import ExportOptions, check_request

PROGRAM = "python -m multitask.export"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Export, and say how the result is opened."""
    description = "Write a task of a finished run as a model of other libraries."
    options = parse_command(ExportOptions, PROGRAM, description, arguments)
    load_named(options.plugin)
    check_request(options)
    check_limit_of_libraries()
    with reserved(options.out):
        from multitask.export.work import export

        for line in export(options):
            print(line)


if __name__ == "__main__":
    sys.exit(main())
