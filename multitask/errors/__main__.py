"""`python -m multitask.errors RUN`: where a finished run is wrong, as RUN/errors.md and RUN/errors.html.

Of each task's dev set: a confusion table or a scatter plot, the worst mistakes with their texts, and the score by
length and by how many words the sentences of a pair share. The numbers are those of breakdown.py, the pages are made
by minbert/reporting/pages.py. The test files have no labels, so there is nothing of them to show.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.files import write_atomically
from minbert.commands.paths import check_writable
from minbert.reporting.figures import Scatter
from minbert.reporting.pages import Section, render_html, render_markdown
from minbert.reporting.tables import Grid
from multitask.errors.breakdown import (
    Answers,
    Buckets,
    confusion_table,
    count_words,
    overlap_buckets,
    point_buckets,
    quartiles,
    word_overlap,
    worst_rows,
)
from multitask.saved_run import FinishedRun, knows, open_run
from multitask.tasks import TASKS

CLASS_NAMES = {
    "sst": ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    "para": ("not a paraphrase", "paraphrase"),
}
MIN_ROWS_FOR_PEARSON = 3  # two points always lie on a line
NOTHING = "–"


def confusion_section(answers: Answers) -> Section:
    """The confusion table of a task with classes, coloured by the share of its row."""
    names = CLASS_NAMES[answers.task.name]
    counts = confusion_table(answers.labels, answers.predictions, len(names))
    num_rows = counts.sum(axis=1)
    shares = counts / np.maximum(1, num_rows)[:, None]
    signs = 2 * np.eye(len(names)) - 1  # the diagonal is right, everything else is wrong
    shades = [(0.0, *row, 0.0) for row in (signs * shares).tolist()]
    rows = [
        (name, *(f"{count:,}" for count in row), f"{total:,}")
        for name, row, total in zip(names, counts, num_rows, strict=True)
    ]
    grid = Grid(
        ("gold \\ predicted", *names, "rows"),
        tuple(rows),
        "h" + "n" * len(names) + "n",
        tuple(shades),
    )
    total, right = int(counts.sum()), int(np.trace(counts))
    prose = f"{right:,} of {total:,} rows are right, an accuracy of {right / total:.3f}. "
    if len(names) == 2:
        hits = counts[1, 1]
        prose += (
            f"Of those predicted as {names[1]}, {_share(hits, counts[:, 1].sum())} are one (precision); of those "
            f"that are, {_share(hits, counts[1].sum())} were found (recall)."
        )
    else:
        distance = answers.predictions - answers.labels
        prose += (
            f"{np.mean(np.abs(distance) <= 1):.3f} are within one class of the gold one. Of the "
            f"{total - right:,} mistakes, {np.sum(distance > 0):,} lie above the gold class and "
            f"{np.sum(distance < 0):,} below it."
        )
    return Section("Gold class against prediction", prose, grid)


def scatter_section(answers: Answers) -> Section:
    """Gold against prediction of a task with numbers: every row as a point, and each point of the scale as a line of a
    table, with how many of its rows were predicted where."""
    low, high = int(answers.task.format.low), int(answers.task.format.high)
    labels, predictions = answers.labels, answers.on_scale
    rows, columns = [], point_buckets(predictions, low, high)
    for name, inside in point_buckets(labels, low, high):
        values = predictions[inside].astype(np.float64)
        numbers = (
            (f"{values.mean():.2f}", f"{values.std():.2f}") if len(inside) else (NOTHING, NOTHING)
        )
        counts = [f"{np.isin(inside, column).sum():,}" for _, column in columns]
        rows.append((name, f"{len(inside):,}", *numbers, *counts))
    header = (
        "gold",
        "rows",
        "mean prediction",
        "standard deviation",
        *(f"predicted {name}" for name, _ in columns),
    )
    summary = Grid(header, tuple(rows), "hnnn" + "n" * len(columns))
    notes = tuple(
        f"gold {gold:.2f}, predicted {prediction:.2f}: {example.sentence_1} / {example.sentence_2}"
        for gold, prediction, example in zip(labels, predictions, answers.examples, strict=True)
    )
    num_moved = int(np.sum(answers.predictions != predictions))
    prose = (
        f"{answers.task.metric} correlation {answers.task.score(answers.predictions, labels):.3f}, mean absolute "
        f"error {answers.severity.mean():.3f}. On the diagonal gold and prediction agree. {num_moved:,} of "
        f"{len(labels):,} predictions leave the scale of {low} to {high}; here and below they count as its nearer "
        "end, but for the correlation, which takes them as they are, as the leaderboard does."
    )
    return Section(
        "Gold against prediction",
        prose,
        Scatter(labels, predictions, "gold", "prediction", low, high, notes, summary),
    )


def worst_section(answers: Answers, limit: int) -> Section:
    """The worst mistakes with their texts, gold, prediction and how sure the model was or how far off."""
    task, severity, labels, predictions = (
        answers.task,
        answers.severity,
        answers.labels,
        answers.on_scale,
    )
    names = CLASS_NAMES.get(task.name)
    rows = []
    for row in worst_rows(severity, limit):
        example, gold, prediction = answers.examples[row], labels[row], predictions[row]
        if names:
            cells = names[int(gold)], names[int(prediction)], f"{severity[row]:.4f}"
        else:
            cells = f"{gold:.2f}", f"{prediction:.2f}", f"{prediction - gold:+.2f}"
        rows.append((*example.texts, *cells, example.id))
    if names:
        measure, kinds, by = (
            "confidence",
            "wwni",
            "by the probability that the model gave to its wrong answer",
        )
    else:
        measure, kinds, by = "off by", "nnni", "by the distance between gold and prediction"
    sentences = ("sentence 1", "sentence 2") if task.is_pair else ("sentence",)
    header = (*sentences, "gold", "prediction", measure, "id")
    if not rows:
        return Section("Worst mistakes", "No row is wrong.")
    prose = f"{len(rows):,} of {int(np.sum(severity > 0)):,} mistakes, the worst first: {by}."
    return Section("Worst mistakes", prose, Grid(header, tuple(rows), "t" * len(sentences) + kinds))


def bucket_section(
    answers: Answers, title: str, prose: str, column: str, buckets: Buckets
) -> Section:
    """The score in each bucket, beside the mean of gold and of prediction there. column: what the buckets are of."""
    task, labels, predictions = answers.task, answers.labels, answers.predictions
    rows = []
    for name, inside in buckets:
        is_scored = len(inside) >= (MIN_ROWS_FOR_PEARSON if task.is_regression else 1)
        scores = [
            f"{task.score(predictions[inside], labels[inside]):.3f}" if is_scored else NOTHING
        ]
        means = [answers.severity[inside]] if task.is_regression else []
        means += [labels[inside].astype(np.float64), answers.on_scale[inside].astype(np.float64)]
        rows.append(
            (
                name,
                f"{len(inside):,}",
                *scores,
                *(f"{values.mean():.2f}" if len(inside) else NOTHING for values in means),
            )
        )
    errors = ("mean absolute error",) if task.is_regression else ()
    header = (column, "rows", task.metric, *errors, "mean gold", "mean prediction")
    return Section(title, prose, Grid(header, tuple(rows), "h" + "n" * (len(header) - 1)))


def task_sections(answers: Answers, num_worst: int) -> list[Section]:
    """The chapter of one task. num_worst: how many mistakes to show, 1 or more."""
    task, examples = answers.task, answers.examples
    noise = (
        "A correlation within few rows is mostly noise, and counts as 0 where all labels are the same"
        if task.is_regression
        else "In 100 rows an accuracy has a standard error of up to 5 points"
    )
    sections = [
        Section(f"{task.title} dev", level=2),
        scatter_section(answers) if task.is_regression else confusion_section(answers),
        worst_section(answers, num_worst),
        bucket_section(
            answers,
            "Score by length",
            f"Quartiles of the number of words{', both sentences together' if task.is_pair else ''}. "
            f"{noise}.",
            "words",
            quartiles(count_words(examples)),
        ),
    ]
    if task.is_pair:
        overlaps = np.array(
            [word_overlap(example.sentence_1, example.sentence_2) for example in examples]
        )
        sections.append(
            bucket_section(
                answers,
                "Score by word overlap",
                "Words that both sentences hold, as a share of the words that either holds (Jaccard index of lower-cased "
                "words). A model that goes by shared words has a mean prediction that rises faster than the mean gold. "
                f"{noise}.",
                "overlap",
                overlap_buckets(overlaps),
            )
        )
    return sections


def run_sections(run: FinishedRun, num_worst: int) -> list[Section]:
    """All chapters: an overview, then one for each task. Predicts the dev sets anew."""
    options, chapters, rows = run.options, [], []
    for name, task in TASKS.items():
        answers = Answers(task, run.rows[name]["dev"].examples, run.outputs(name, "dev"))
        chapters += task_sections(answers, num_worst)
        untrained = (
            "no, a cosine has no weights" if knows(run, name) else "no, its head is still random"
        )
        rows.append(
            (
                task.title,
                f"{len(answers.examples):,}",
                task.metric,
                f"{task.score(answers.predictions, answers.labels):.4f}",
                f"{run.scores[name]:.4f}",
                "yes" if name in options.tasks.order else untrained,
            )
        )
    overview = Section(
        "Overview",
        f"Model {options.encoder.model}, pairs encoded {options.heads.pair_encoding}, seed {options.training.seed}, dev files of "
        f"{options.data.data_dir}, predicted anew in {options.training.precision}: on another machine or with another version a row "
        "may be rounded to the other side, so that a score differs a little from that in run.json.",
        Grid(("task", "rows", "metric", "score", "in run.json", "trained"), tuple(rows), "hnwnnw"),
        level=2,
    )
    return [overview, *chapters]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else f"{NOTHING} (of no rows)"


@exit_code("python -m multitask.errors")
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m multitask.errors",
        allow_abbrev=False,
        description="Where a finished run is wrong.",
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="folder that run_multitask.py wrote, such as runs/NAME",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for errors.md and errors.html; default: RUN"
    )
    parser.add_argument(
        "--worst", type=int, default=10, metavar="N", help="mistakes shown per task (%(default)s)"
    )
    options = parser.parse_args(arguments)
    folder = options.run if options.out is None else options.out
    check_at_least(options, {"worst": 1})
    if options.out or folder.is_dir():
        check_writable(folder)  # said now, not after predicting
    title, sections = (
        f"Errors of {options.run.resolve().name}",
        run_sections(open_run(options.run), options.worst),
    )
    for name, render in (("errors.md", render_markdown), ("errors.html", render_html)):
        content = render(title, sections).encode("utf-8")
        write_atomically(folder / name, lambda beside, content=content: beside.write_bytes(content))
        print(folder / name)


if __name__ == "__main__":
    sys.exit(main())
