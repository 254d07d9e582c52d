"""From the numbers of breakdown.py to the sections of a report.

minbert/reporting/pages.py writes the sections as Markdown and HTML.

Legend: N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minbert.commands.ending import this_python
from minbert.commands.paths import in_shell
from minbert.commands.plugins import flags_of_named
from minbert.reporting import terminal
from minbert.reporting.figures import Figure, ScatterPlot
from minbert.reporting.pages import Section, write_html, write_markdown
from minbert.reporting.tables import (
    NO_VALUE,
    Column,
    Table,
    heading_and_numbers,
)
from multitask.baselines import tfidf_predictions
from multitask.errors.breakdown import (
    Bucket,
    count_words,
    edge_buckets,
    overlap_buckets,
    quartiles,
    scale_edges,
    word_overlap,
)
from multitask.errors.mistakes import DevOutputs, worst_section
from multitask.errors.suspicious import write_suspicious
from multitask.leaderboard import INTERVAL_TITLE
from multitask.probabilities import probabilities
from multitask.saved_run import FinishedRun, can_answer, check_trained, open_run
from multitask.score_intervals import resample_scores
from multitask.user_rows import choose_only_task

# Two points always lie on a line, so fewer rows have no correlation.
MIN_ROWS_OF_CORRELATION = 3

NOISE_OF_CORRELATION = (
    "A correlation within few rows is mostly noise. It counts as 0 if all labels are the same."
)
NOISE_OF_ACCURACY = "In 100 rows, an accuracy has a standard error of up to 5 points."
ABOUT_OVERLAP = (
    "The overlap is the share of words that both sentences have, among the words that at least one "
    "has (the Jaccard index of lower-cased words). If a model relies on shared words, its mean "
    "prediction rises faster than the mean gold label."
)


def write_pages(run: Path, folder: Path, title: str, num_worst: int) -> None:
    """Write errors.md and errors.html of a run into a folder, and say where they are."""
    sections = run_sections(open_run(run), num_worst)
    terminal.doing("drawing the figures")
    for name, write in (("errors.md", write_markdown), ("errors.html", write_html)):
        write(folder / name, title, sections)
        terminal.say(str(folder / name))


def write_list(folder: Path, name: str | None, path: Path) -> None:
    """Write the dev rows whose labels may be wrong as a table, and say how many there are.

    name: of the task, or None for the only one. Raises ValueError for a task that the run does not
    have or has not learned.
    """
    name = name or choose_only_task(folder)
    run = open_run(folder)
    if name not in run.tasks:
        raise ValueError(f"--task {name}: {run.folder} has {', '.join(run.tasks)}. Pass one.")
    task = run.tasks[name]
    check_trained([run], task)
    dev = run.rows[name]["dev"].examples
    style = run.tables[name]["dev"].style
    outputs = run.outputs(name, "dev")
    votes = outputs if task.is_regression else probabilities(outputs, task.is_multilabel)
    tfidf = tfidf_predictions(task, run.tables[name]["train"].examples, dev)
    num_found = write_suspicious(path, task, dev, votes, tfidf, style)
    terminal.say(f"{path}: {num_found:,} of {len(dev):,} dev rows may have a wrong label.")
    if not task.is_built_in:
        terminal.say(
            f"`{this_python()} -m experiments.labels {in_shell(folder)} --task {name} --folds 5"
            f"{flags_of_named()}` looks at all rows."
        )


def run_sections(run: FinishedRun, num_worst: int) -> list[Section]:
    """All chapters: an overview, then one for each task. Predicts the dev sets again.

    num_worst: how many mistakes to show per task, at least 1.
    """
    chapters: list[Section] = []
    rows: list[tuple[str, ...]] = []
    for name, task in run.tasks.items():
        dev = DevOutputs(task, run.rows[name]["dev"].examples, run.outputs(name, "dev"))
        chapters += task_sections(dev, num_worst)
        rows.append(_overview_row(run, dev))
    return [overview_section(run, rows), *chapters]


def overview_section(run: FinishedRun, rows: list[tuple[str, ...]]) -> Section:
    """The chapter on the run: its options, and a row with the scores of each task."""
    options = run.options
    task = Column("task", "heading")
    metric = Column("metric", "words")
    trained = Column("trained", "words")
    scores = (Column("score"), Column("in run.json"), Column(INTERVAL_TITLE))
    columns = (task, Column("rows"), metric, *scores, trained)
    has_pairs = any(task.is_pair for task in run.tasks.values())
    encoding = f"pairs encoded {options.heads.pair_encoding}, " if has_pairs else ""
    prose = (
        f"Model {options.encoder.model}, {encoding}seed "
        f"{options.training.seed}, {dev_files(run)}. All rows were predicted "
        f"again, in {options.training.precision}. Another machine or another version may round a "
        "row to the other side, so a score can differ a little from the one in run.json."
    )
    return Section("Overview", prose, Table(columns, tuple(rows)), level=2)


def dev_files(run: FinishedRun) -> str:
    """Where the dev rows are from."""
    if all(task.is_built_in for task in run.tasks.values()):
        return f"dev files of {run.options.data.data_dir}"
    paths = [run.tables[name]["dev"].path for name in run.tasks]
    return f"dev rows of {', '.join(dict.fromkeys(paths))}"


def _overview_row(run: FinishedRun, dev: DevOutputs) -> tuple[str, ...]:
    """The cells of one task: rows, metric, score now and in run.json, interval, if trained."""
    task = dev.task
    score = task.score(dev.predictions, dev.labels)
    low, high = resample_scores(task, [dev.predictions], dev.examples).interval()
    score_of_run = run.scores[task.name]
    return (
        task.title,
        f"{len(dev.examples):,}",
        task.metric,
        f"{score:.4f}",
        f"{score_of_run:.4f}",
        f"{low:.3f} to {high:.3f}",
        _is_trained(run, task.name),
    )


def _is_trained(run: FinishedRun, task: str) -> str:
    if task in run.options.tasks.order:
        return "yes"
    if can_answer(run, task):
        return "no, a cosine has no weights"
    return "no, its head is still random"


def task_sections(dev: DevOutputs, num_worst: int) -> list[Section]:
    """The chapter of one task. num_worst: how many mistakes to show, at least 1."""
    task = dev.task
    noise = NOISE_OF_CORRELATION if task.is_regression else NOISE_OF_ACCURACY
    both = ", both sentences together" if task.is_pair else ""
    prose = f"The rows are in quartiles of the number of words{both}. {noise}"
    lengths = quartiles(count_words(dev.examples))
    sections = [
        Section(f"{task.title} dev", level=2),
        section_of_answers(dev),
        worst_section(dev, num_worst),
        bucket_section(dev, "Score by length", prose, "words", lengths),
    ]

    # A pair may be judged by the words that its sentences share.
    if task.is_pair:
        overlaps = []
        for example in dev.examples:
            overlaps.append(word_overlap(example.sentence_1, example.sentence_2 or ""))
        buckets = overlap_buckets(np.array(overlaps))
        prose = f"{ABOUT_OVERLAP} {noise}"
        sections.append(bucket_section(dev, "Score by word overlap", prose, "overlap", buckets))
    return sections


def section_of_answers(dev: DevOutputs) -> Section:
    """What was predicted for which gold labels, as it suits the kind of the task."""
    if dev.task.is_multilabel:
        return label_section(dev)
    return scatter_section(dev) if dev.task.is_regression else confusion_section(dev)


def label_section(dev: DevOutputs) -> Section:
    """How well each label of a task with several labels was found."""
    # Imported late: scikit-learn takes a second.
    from sklearn.metrics import precision_recall_fscore_support

    # 0 in place of 0 / 0, of a label that no row has, or that was never predicted.
    scores = precision_recall_fscore_support(dev.labels, dev.predictions, zero_division=0)
    num_predicted = dev.predictions.sum(axis=0)  # (C,)
    rows = []
    for number, name in enumerate(dev.task.label_names):
        precision, recall, f1, num_rows = (values[number] for values in scores)
        counts = (f"{int(num_rows):,}", f"{int(num_predicted[number]):,}")
        rows.append((name, *counts, f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}"))
    columns = heading_and_numbers("label", "gold", "predicted", "precision", "recall", "F1")
    num_right = int(np.all(dev.predictions == dev.labels, axis=1).sum())
    prose = (
        f"All labels are right in {num_right:,} of {len(dev.labels):,} rows. Precision is the "
        "share of a label's predictions that are right. Recall is the share of its gold rows that "
        "were predicted."
    )
    return Section("Each label", prose, Table(columns, tuple(rows)))


def confusion_section(dev: DevOutputs) -> Section:
    """The confusion table of a task with classes. A colour shows the share of a row's sum."""
    from sklearn.metrics import confusion_matrix

    names = dev.task.label_names
    labels = dev.labels.astype(np.int64)
    predictions = dev.predictions.astype(np.int64)
    counts = confusion_matrix(labels, predictions, labels=range(len(names)))  # (C, C)
    num_rows = counts.sum(axis=1)  # (C,)

    # The diagonal is right and blue. All other cells are wrong and orange.
    shares = counts / np.maximum(1, num_rows)[:, None]  # (C, C)
    signs = 2 * np.eye(len(names)) - 1

    rows = []
    shades = []
    for name, row, total, shade in zip(names, counts, num_rows, signs * shares, strict=True):
        rows.append((name, *(f"{count:,}" for count in row), f"{total:,}"))
        shades.append((0.0, *shade.tolist(), 0.0))
    columns = heading_and_numbers("gold \\ predicted", *names, "rows")
    table = Table(columns, tuple(rows), tuple(shades))
    return Section("Gold class against prediction", _about_confusions(dev, counts), table)


def _about_confusions(dev: DevOutputs, counts: np.ndarray) -> str:
    """The accuracy, then precision and recall of two classes, or the distances of more classes."""
    num_all = int(counts.sum())
    num_right = int(np.trace(counts))
    prose = (
        f"{num_right:,} of {num_all:,} rows are right, an accuracy of {num_right / num_all:.3f}. "
    )
    if len(counts) == 2:
        name = dev.task.label_names[1]
        precision = _share(counts[1, 1], counts[:, 1].sum())
        recall = _share(counts[1, 1], counts[1].sum())
        return prose + (
            f'The precision of "{name}" is {precision}: the share of its predictions that are '
            f"right. Its recall is {recall}: the share of its gold rows that were predicted."
        )

    if not dev.task.has_order:
        return prose + _about_most_frequent(dev.task.label_names, counts)
    distance = dev.predictions - dev.labels  # (N,)
    num_near = np.mean(np.abs(distance) <= 1)
    return prose + (
        f"A share of {num_near:.3f} is at most one class away from the gold class. Of the "
        f"{num_all - num_right:,} mistakes, {np.sum(distance > 0):,} are above the gold class and "
        f"{np.sum(distance < 0):,} below it."
    )


def _about_most_frequent(names: Sequence[str], counts: np.ndarray) -> str:
    """The most frequent mistake, and the recall of each class. counts: (C, C)."""
    mistakes = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    recalls = []
    for number, name in enumerate(names):
        recalls.append(f'"{name}" {_share(counts[number, number], counts[number].sum())}')
    prose = f"The recall of each class: {', '.join(recalls)}."
    if not mistakes.any():
        return prose
    gold, predicted = np.unravel_index(mistakes.argmax(), mistakes.shape)
    return (
        f'{prose} The most frequent mistake is "{names[predicted]}" in place of "{names[gold]}": '
        f"{mistakes[gold, predicted]:,} rows."
    )


def scatter_section(dev: DevOutputs) -> Section:
    """Gold labels against predictions of a task with numbers: a plot of all rows, and a table."""
    low = dev.task.format.low
    high = dev.task.format.high
    notes = []
    for label, prediction, example in zip(dev.labels, dev.clipped, dev.examples, strict=True):
        numbers = f"gold {label:.2f}, predicted {prediction:.2f}"
        notes.append(f"{numbers}: {' / '.join(example.texts)}")
    plot = ScatterPlot(
        dev.labels.clip(low, high).tolist(),
        dev.clipped.tolist(),
        "gold",
        "prediction",
        low,
        high,
        notes,
        scale_edges(low, high),
    )

    correlation = dev.task.score(dev.predictions, dev.labels)
    num_clipped = int(np.sum(dev.predictions != dev.clipped))
    prose = (
        f"The {dev.task.metric} correlation is {correlation:.3f}, the mean absolute error "
        f"{dev.severity.mean():.3f}. On the diagonal, gold label and prediction agree. "
        f"{num_clipped:,} of {len(dev.labels):,} predictions leave the scale from {low:g} to "
        f"{high:g}. This page moves them to the nearer end. Only the correlation takes them as "
        "they are, as the leaderboard does."
    )
    figure = Figure((plot,), _table_of_units(dev, low, high))
    return Section("Gold against prediction", prose, figure)


def _table_of_units(dev: DevOutputs, low: float, high: float) -> Table:
    """For each unit of the gold scale: how its rows were predicted."""
    edges = scale_edges(low, high)
    predicted = edge_buckets(dev.clipped, edges)
    rows = []
    for name, inside in edge_buckets(dev.labels, edges):
        values = dev.clipped[inside].astype(np.float64)
        deviation = f"{values.std():.2f}" if len(inside) else NO_VALUE
        counts = [f"{np.isin(inside, bucket.rows).sum():,}" for bucket in predicted]
        rows.append((name, f"{len(inside):,}", _mean(values), deviation, *counts))

    titles = [f"predicted {bucket.name}" for bucket in predicted]
    columns = heading_and_numbers("gold", "rows", "mean prediction", "standard deviation", *titles)
    return Table(columns, tuple(rows))


def bucket_section(
    dev: DevOutputs, title: str, prose: str, column: str, buckets: list[Bucket]
) -> Section:
    """The score in each bucket, with the mean gold label and the mean prediction.

    column: the title above the names of the buckets.
    """
    errors = ("mean absolute error",) if dev.task.is_regression else ()
    means = ("mean gold", "mean prediction") if has_means(dev) else ()
    columns = heading_and_numbers(column, "rows", dev.task.metric, *errors, *means)
    rows = [_bucket_row(dev, bucket) for bucket in buckets]
    return Section(title, prose, Table(columns, tuple(rows)))


def has_means(dev: DevOutputs) -> bool:
    """Whether a mean of labels has a meaning: of numbers, of two classes, and of ordered ones."""
    if dev.task.is_multilabel:
        return False
    return len(dev.task.label_names) <= 2 or dev.task.has_order


def _bucket_row(dev: DevOutputs, bucket: Bucket) -> tuple[str, ...]:
    """The cells of one bucket: rows, score, mean error of numbers, mean label, mean prediction."""
    rows = bucket.rows
    least = MIN_ROWS_OF_CORRELATION if dev.task.is_regression else 1
    score = NO_VALUE
    if len(rows) >= least:
        score = f"{dev.task.score(dev.predictions[rows], dev.labels[rows]):.3f}"

    # Sums of float32 would depend on the order of the rows.
    columns = []
    if has_means(dev):
        columns = [dev.labels.astype(np.float64), dev.clipped.astype(np.float64)]
    if dev.task.is_regression:
        columns.insert(0, dev.severity)
    means = [_mean(values[rows]) for values in columns]
    return (bucket.name, f"{len(rows):,}", score, *means)


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.2f}" if len(values) else NO_VALUE


def _share(part: int, total: int) -> str:
    return f"{part / total:.3f}" if total else f"{NO_VALUE} (of no rows)"
