"""How well do finished runs do on real sentences that they were not tuned on?

`python -m tools.benchmarks.real_sentences RUN... --course DIR` predicts the dev files in DIR and
the sentences of tests/hundred_sentences.tsv with each run. It prints one table: the mean over the
runs and their standard deviation, and beside it what always naming the most frequent label scores.
Without `--course` it measures the hundred sentences alone. `--binary` adds sentences that are
positive or negative, such as SentEval's test file of SST. `--record` adds the scores to the records
from which the documents are written.

Polarity leaves out the sentences with label 2. A prediction of 0 or 1 counts as negative, 3 or 4 as
positive, and a prediction of 2 counts as half right.

Legend: N rows.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.batching import EncodedExamples
from data.examples import COURSE_FILES, FORMATS, Example
from data.readers import read_examples
from experiments.records import RECORDS, Record, add_records, record_of
from experiments.run_files import read_json
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.options import EncoderOptions
from minbert.reporting.intervals import groups_of, standard_errors
from multitask.evaluation import predict
from multitask.saved_run import open_model, read_record
from multitask.tasks import TASKS, accuracy, macro_f1

REAL_SENTENCES = RECORDS / "real-sentences.jsonl"
SENTENCES = Path(__file__).resolve().parents[2] / "tests" / "hundred_sentences.tsv"
NEUTRAL = 2
DEFAULT_MODEL = EncoderOptions().model
NUM_CLASSES = 5
MACRO_F1 = "SST, macro-F1"

Scores = dict[str, float]


# --- the metrics ----------------------------------------------------------------------------------


def polarity_accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of right polarities among the rows whose label is not neutral.

    predictions, labels: (N,) classes 0 to 4. A neutral prediction counts as half right.
    """
    is_opinion = labels != NEUTRAL
    signs = np.sign(labels[is_opinion] - NEUTRAL)
    predicted_signs = np.sign(predictions[is_opinion] - NEUTRAL)
    points = np.where(predicted_signs == 0, 0.5, predicted_signs == signs)
    return float(points.mean())


def class_scores(predictions: np.ndarray, labels: np.ndarray) -> Scores:
    """Return all scores of SST for (N,) predicted and true classes 0 to 4."""
    from sklearn.metrics import recall_score

    classes = range(NUM_CLASSES)
    recalls = recall_score(labels, predictions, labels=classes, average=None, zero_division=0)
    scores = {
        "SST, five classes, accuracy": accuracy(predictions, labels),
        MACRO_F1: macro_f1(predictions, labels),
    }
    for label in classes:
        scores[f"SST, recall of class {label}"] = float(recalls[label])
    scores["SST, polarity"] = polarity_accuracy(predictions, labels)
    return scores


def errors_by_drawing(predictions: np.ndarray, examples: Sequence[Example]) -> Scores:
    """Return the standard error over the sentences of the score for which there is no formula.

    predictions: (N,) classes 0 to 4.
    """
    groups = groups_of([example.texts for example in examples])
    (error,) = standard_errors("macro_f1", [predictions], labels_of(examples), groups)
    return {MACRO_F1: error}


def course_scores(predictions: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> Scores:
    """Return the scores on the three dev files, by their names in the table."""
    scores = class_scores(predictions["sst"], labels["sst"])
    scores["PARA, accuracy"] = TASKS["para"].score(predictions["para"], labels["para"])
    scores["STS, Pearson"] = TASKS["sts"].score(predictions["sts"], labels["sts"])
    return scores


def hundred_scores(predictions: np.ndarray, labels: np.ndarray, has_negation: np.ndarray) -> Scores:
    """Return the polarity accuracy on the sentences written for this, and by kind.

    predictions, labels: (N,) classes 0 to 4. has_negation: (N,) bool.
    """
    negative = labels < NEUTRAL
    groups = {
        "sentences": np.ones(len(labels), dtype=bool),
        "sentences, negative": negative,
        "sentences, positive": ~negative,
        "sentences, with a negation": has_negation,
    }
    scores = {}
    for name, members in groups.items():
        title = f"{members.sum()} {name}, polarity"
        scores[title] = polarity_accuracy(predictions[members], labels[members])
    return scores


# --- the rows -------------------------------------------------------------------------------------


def read_sentences(path: Path) -> tuple[list[Example], np.ndarray]:
    """Read the sentences with label 1 or 3, and which of them hold a negation, (N,) bool."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    examples = []
    for number, row in enumerate(rows, start=1):
        label = 3.0 if row["polarity"] == "positive" else 1.0
        examples.append(Example(str(number), row["sentence"], None, label))
    has_negation = np.array([row["negation"] == "yes" for row in rows])
    return examples, has_negation


def read_course(folder: Path) -> dict[str, list[Example]]:
    """Read the labelled rows of the three dev files."""
    rows = {}
    for task, names in COURSE_FILES.items():
        table = read_examples(folder / names["dev"], FORMATS[task])
        rows[task] = list(table.examples)
    return rows


def read_binary(path: Path) -> list[Example]:
    """Read lines of a sentence, a tab, and 1 (positive) or 0. The labels become 3 and 1.

    Raises ValueError for another line.
    """
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        sentence, _, polarity = line.rpartition("\t")
        if not sentence.strip() or polarity not in ("0", "1"):
            raise ValueError(f"{path}, line {number}: expected are a sentence, a tab, and 0 or 1.")
        examples.append(Example(str(number), sentence, None, 3.0 if polarity == "1" else 1.0))
    return examples


def labels_of(examples: Sequence[Example]) -> np.ndarray:
    """The labels (N,)."""
    return np.array([example.label for example in examples], dtype=np.float32)


# --- the runs -------------------------------------------------------------------------------------


def open_answers(folder: Path) -> Callable[[str, list[Example]], np.ndarray]:
    """Open a run. Return a function that answers the examples of a task, decoded, (N,)."""
    run = read_record(folder)
    model, tokenizer = open_model(run)

    def answer(task: str, examples: list[Example]) -> np.ndarray:
        rows = EncodedExamples(
            examples, tokenizer, run.options.data.max_length, model.pair_encoding
        )
        return TASKS[task].decode(predict(model, task, rows, run.options.training.precision))

    return answer


class Sentences(NamedTuple):
    """All rows that are predicted.

    hundred: with which of them hold a negation, (N,) bool. course: by task, {} without --course.
    binary: of --binary.
    """

    hundred: tuple[list[Example], np.ndarray]
    course: dict[str, list[Example]]
    binary: list[Example]


def binary_score(predictions: np.ndarray, examples: Sequence[Example]) -> Scores:
    """Return the polarity accuracy on the rows of --binary. predictions: (N,) classes 0 to 4."""
    title = f"{len(examples):,} other sentences, polarity"
    return {title: polarity_accuracy(predictions, labels_of(examples))}


class Measured(NamedTuple):
    """The scores of a run, and the errors over the rows of `errors_by_drawing`."""

    scores: Scores
    errors: Scores


def measure(folder: Path, sentences: Sentences) -> Measured:
    """Return all scores of one run."""
    answer = open_answers(folder)
    course = sentences.course
    scores: Scores = {}
    errors: Scores = {}
    if course:
        predictions = {}
        for task, examples in course.items():
            predictions[task] = answer(task, examples)
        labels = {task: labels_of(examples) for task, examples in course.items()}
        scores |= course_scores(predictions, labels)
        errors = errors_by_drawing(predictions["sst"], course["sst"])
    if sentences.binary:
        scores |= binary_score(answer("sst", sentences.binary), sentences.binary)
    examples, has_negation = sentences.hundred
    scores |= hundred_scores(answer("sst", examples), labels_of(examples), has_negation)
    return Measured(scores, errors)


def majority(sentences: Sentences) -> Scores:
    """Return the scores of always naming the most frequent label of the rows."""
    scores: Scores = {}
    course = sentences.course
    if course:
        labels = {task: labels_of(examples) for task, examples in course.items()}
        constant = {}
        for task, values in labels.items():
            common, counts = np.unique(values, return_counts=True)
            constant[task] = np.full_like(values, common[counts.argmax()])
        scores |= class_scores(constant["sst"], labels["sst"])
        scores["PARA, accuracy"] = TASKS["para"].score(constant["para"], labels["para"])
        # A constant has no correlation with anything.
        scores["STS, Pearson"] = 0.0
    if sentences.binary:
        of_binary = labels_of(sentences.binary)
        most_frequent = 3.0 if np.median(of_binary) > NEUTRAL else 1.0
        scores |= binary_score(np.full_like(of_binary, most_frequent), sentences.binary)
    examples, has_negation = sentences.hundred
    labels_of_sentences = labels_of(examples)
    positive = np.full_like(labels_of_sentences, 3.0)
    return scores | hundred_scores(positive, labels_of_sentences, has_negation)


def format_table(runs: Sequence[Scores], baseline: Scores) -> str:
    """Return a Markdown table: the mean and standard deviation over the runs, and the majority."""
    title = "1 run" if len(runs) == 1 else f"{len(runs)} runs, mean ± standard deviation"
    lines = [f"| | {title} | majority |", "|---|---|---|"]
    for name, constant in baseline.items():
        values = np.array([scores[name] for scores in runs])
        value = f"{values.mean():.3f}"
        if len(runs) > 1:
            value += f" ± {values.std(ddof=1):.3f}"
        lines.append(f"| {name} | {value} | {constant:.3f} |")
    return "\n".join(lines)


def make_record(folder: Path, measured: Measured, baseline: Scores, label: str = "") -> Record:
    """Return the record of one run: what it was, and its scores on real sentences.

    label: of --label, which tells the runs of a comparison apart.
    """
    run = record_of(read_json(folder / "run.json", "options", "scores"), date.today())
    # The model is named by its last part: its folder differs from machine to machine.
    model = Path(str(run["options"].get("model", DEFAULT_MODEL))).name
    record = {
        "model": model,
        "run": run,
        "scores": measured.scores,
        "row_errors": measured.errors,
        "majority": baseline,
    }
    return record | {"label": label} if label else record


# --- the command ----------------------------------------------------------------------------------


@exit_code("python -m tools.benchmarks.real_sentences")
def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the runs and print the table."""
    parser = Parser(
        prog="python -m tools.benchmarks.real_sentences",
        allow_abbrev=False,
        description="Scores of finished runs on real sentences.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help="folder with the course's dev files (python -m data.download brings them)",
    )
    parser.add_argument(
        "--binary",
        type=Path,
        metavar="FILE",
        help="sentences with a tab and 0 or 1, such as SentEval's SST/binary/sentiment-test",
    )
    parser.add_argument(
        "--label",
        default="",
        metavar="TEXT",
        help="what tells these runs from others in a record of their own: --record NAME",
    )
    parser.add_argument(
        "--record",
        nargs="?",
        const=REAL_SENTENCES.stem,
        metavar="NAME",
        help="add the scores to experiments/records/NAME.jsonl (%(const)s); needs --course",
    )
    options = parser.parse_args(arguments)
    if options.record and options.course is None:
        parser.error("--record has no effect without --course, whose scores belong to a record.")
    if options.label and options.record in (None, REAL_SENTENCES.stem):
        parser.error("--label has no effect without a record of its own. Add --record NAME.")

    sentences = Sentences(
        hundred=read_sentences(SENTENCES),
        course=read_course(options.course) if options.course else {},
        binary=read_binary(options.binary) if options.binary else [],
    )
    log = partial(print, file=sys.stderr)
    runs = []
    for folder in options.runs:
        log(f"{folder}")
        runs.append(measure(folder, sentences))
    baseline = majority(sentences)
    print(format_table([run.scores for run in runs], baseline))
    if options.record:
        records = [
            make_record(folder, run, baseline, options.label)
            for folder, run in zip(options.runs, runs, strict=True)
        ]
        path = REAL_SENTENCES.with_stem(options.record)
        log(f"{add_records(path, records)} new records in {path}")


if __name__ == "__main__":
    sys.exit(main())
