"""What finished runs say of rows of your own: `python -m multitask.predict RUN --task sst < sentences.txt`.

Reads a row a line from standard input, of PARA and STS two texts with a tab between, and prints each behind its
prediction: a class 0 to 4, 1 or 0, or a similarity; with `--probabilities` in place of a class how sure it is. Several
runs give one prediction together, that of the mean of their probabilities or similarities. Before: finished.py,
voting.py. torch is imported late, so that `--help` and bad input answer at once.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from data.readers import FORMATS, Example
from minbert.commands.ending import exit_code


def read_rows(lines: Iterable[str], is_pair: bool) -> list[Example]:
    """An example for each line; ValueError for a line that is not one sentence or one pair, or no line at all."""
    needed = (
        "two texts in UTF-8 with a tab between"
        if is_pair
        else "one sentence in UTF-8, without a tab"
    )
    examples = []
    for number, line in enumerate(lines, start=1):
        texts = [text.strip() for text in line.rstrip("\r\n").split("\t")]
        if (
            len(texts) != 1 + is_pair
            or not all(texts)
            or any("\udc80" <= letter <= "\udcff" for letter in line)
        ):
            raise ValueError(
                f"line {number} is {line.strip()!r}; needed is {needed}. Fix or remove the line."
            )
        examples.append(Example(str(number), texts[0], texts[1] if is_pair else None, None))
    if not examples:
        raise ValueError(
            f"standard input holds no row; needed is {needed}, a row a line, such as: ... < rows.txt"
        )
    return examples


@exit_code("python -m multitask.predict")
def main(arguments: Sequence[str] | None = None) -> None:
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
        help="folder that run_multitask.py wrote, such as "
        "runs/NAME; of several the mean of what they say",
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
        help="print probabilities instead of classes: sst, the "
        "five classes' with blanks between; para, that of a paraphrase, which can be a training label",
    )
    given = parser.parse_args(arguments)
    if given.probabilities and given.task == "sts":
        parser.error("--probabilities: sts has no classes; pass --task sst or para, or drop it.")
    if sys.stdin.isatty():
        print("Type one row a line and end with Ctrl-D.", file=sys.stderr)
    rows = read_rows(
        io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", "surrogateescape"),
        FORMATS[given.task].is_pair,
    )

    from data.batching import EncodedExamples
    from multitask.ensemble.voting import decode
    from multitask.evaluation import predict
    from multitask.probabilities import probabilities
    from multitask.saved_run import knows, open_model, read_record
    from multitask.stage import cuts
    from multitask.tasks import TASKS

    runs, task, total = [read_record(folder) for folder in given.runs], TASKS[given.task], 0
    for run in runs:
        if not knows(run, task.name):
            raise ValueError(
                f"{run.folder} was trained on {run.options.tasks.tasks}; its head for {task.title} never "
                "learned. Pass another --task, or another run."
            )
    for run in runs:
        model, tokenizer = open_model(run)
        encoded = EncodedExamples(rows, tokenizer, run.options.data.max_length, model.pair_encoding)
        if encoded.num_truncated:
            print(
                cuts({task.name: {"input": encoded}}, run.options.data.max_length), file=sys.stderr
            )
        outputs = predict(model, task.name, encoded, run.options.training.precision)
        total += outputs if task.is_regression else probabilities(outputs)
    values = total / len(runs) if given.probabilities else decode(task, total / len(runs))
    for row, value in zip(rows, values, strict=True):
        print(" ".join(f"{number:.4g}" for number in value.ravel()), *row.texts, sep="\t")


if __name__ == "__main__":
    sys.exit(main())
