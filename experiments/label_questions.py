"""The work of `python -m experiments.labels`: calibration, cross-validation and a learning curve.

Legend: N rows, C classes, L labels, K folds or sizes, R resamples.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from command_line.folders import load
from command_line.reproduction import command_of
from data.examples import Example
from data.options import numbers_by_task
from data.tables.rows import Style
from data.task_flags import parse_task, with_fold
from experiments.calibration import (
    Calibration,
    Costs,
    Quality,
    are_all_right,
    calibrate,
    cost_at,
    coverages,
    quality_of,
)
from experiments.flags import differing_option, has_raised_epochs
from experiments.records import split_command
from experiments.run_files import read_json
from experiments.series import command_of as command_to_finish
from experiments.series import run_process
from minbert.commands.options import AUTO, flat
from minbert.commands.paths import in_shell
from minbert.commands.plugins import flags_of_named
from minbert.reporting import terminal
from minbert.reporting.intervals import groups_of, middle_of
from minbert.reporting.tables import aligned, score_table
from multitask.baselines import tfidf_predictions, tfidf_probabilities
from multitask.errors.suspicious import write_suspicious
from multitask.leaderboard import TFIDF
from multitask.options import PredictionFileOptions
from multitask.probabilities import confidences, probabilities
from multitask.saved_run import (
    FinishedRun,
    Record,
    check_files,
    check_trained,
    open_run,
    read_record,
)
from multitask.score_intervals import compare_scores, resample_scores
from multitask.tasks import Task, labels_of
from multitask.user_rows import choose_only_task

MODEL = "minBERT"
SHARES = (8, 4, 2)  # of the training rows: one of so many
MIN_ROWS = 8  # of the smallest part that is trained on
SMALLEST_ERROR = 1e-3  # in a logarithm
# In which a run trained again may differ. The head that --few_pairs chose is compared itself.
FREE_OPTIONS = {"name", "output_dir", "recipe", "few_pairs"}


class Question(NamedTuple):
    """A finished run, and the task that is asked about."""

    record: Record
    task: Task

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.record.folder.resolve().name

    @classmethod
    def of(cls, folder: Path, name: str | None) -> Question:
        """The question about a run. Raises ValueError for a task that it has not learned."""
        record = read_record(folder)
        name = name or choose_only_task(folder)
        if name not in record.tasks:
            raise ValueError(
                f"--task {name}: {folder} has the tasks {', '.join(record.tasks)}. Pass one of "
                "these."
            )
        check_trained([record], record.tasks[name])
        return cls(record, record.tasks[name])


class DevRows(NamedTuple):
    """The dev rows of a run, and what the model and TF-IDF say of them.

    outputs: raw, (N, C), (N,) or (N, L). tfidf: predictions (N,) or (N, L). num_train: rows that
    both were trained on. style: that of their table.
    """

    examples: tuple[Example, ...]
    outputs: np.ndarray
    tfidf: np.ndarray
    num_train: int
    style: Style

    def predictions(self, task: Task) -> np.ndarray:
        """The predictions of the model, (N,) or (N, L)."""
        return task.decode(self.outputs)


def read_dev(run: FinishedRun, task: Task) -> DevRows:
    """The dev rows of a run with both answers."""
    train = run.tables[task.name]["train"].examples
    dev = run.rows[task.name]["dev"].examples
    outputs = run.outputs(task.name, "dev")
    style = run.tables[task.name]["dev"].style
    return DevRows(dev, outputs, tfidf_predictions(task, train, dev), len(train), style)


# --- training again -------------------------------------------------------------------------------


def train_variant(question: Question, name: str, values: Mapping[str, Any], out: Path) -> Path:
    """Train the run again with other values of some options. Returns the folder of the new run.

    A finished run of the same options is used again, and a stopped one goes on. Raises ValueError
    for a run of other options, and where the training ends with an error.
    """
    # All that it writes goes into its own folder.
    usual = flat(PredictionFileOptions()) | {"token_cache": AUTO}
    options = load(question.record.folder).with_values(**usual, **values)
    folder = out / f"{question.name}-{name}"
    check_same_options(folder, options.flat())
    flags = split_command(command_of(options))[2:]
    words = [*flags, "--output-dir", str(out), "--name", folder.name]
    command = command_to_finish(folder, words)
    if command is None:
        return folder
    log = out / f"{folder.name}.log"
    terminal.say(f"{folder}: training, its output in {log}")
    terminal.doing(f"{folder} is training")
    code = run_process(command, log)
    if code:
        raise ValueError(f"{folder}: the training ended with code {code}; {log} says why.")
    return folder


def check_same_options(folder: Path, values: Mapping[str, Any]) -> None:
    """Raise ValueError where a folder holds a run of other options than these."""
    path = folder / "options.json"
    if not path.is_file():
        return
    stored = read_json(path, "options")["options"]
    # "auto" was replaced when the run began. Fewer rows get more epochs than were asked for.
    free = {name for name in values if values[name] == AUTO}
    free |= {name for name in values if has_raised_epochs(stored, name, values[name])}
    name = differing_option(stored, values, free | FREE_OPTIONS)
    if name is not None:
        raise ValueError(
            f"{folder} holds a run with --{name} {stored.get(name)}, and not {values[name]}. Move "
            "it, or give another --out."
        )


# --- cross-validation -----------------------------------------------------------------------------


def cross_validate(question: Question, num_folds: int, out: Path) -> None:
    """Train once for each fold, print the scores, and write the list of suspicious labels.

    Raises ValueError for a task of the course, whose files for training and dev are fixed.
    """
    task = question.task
    if task.is_built_in:
        raise ValueError(
            f"{task.title} has a training file and a dev file that are fixed. Folds are for tables "
            "of --task."
        )
    check_files(question.record)
    flags = load(question.record.folder).data.task
    parts = []
    of_folds = {}
    for fold in range(1, num_folds + 1):
        in_fold = []
        for text in flags:
            is_asked = parse_task(text).name == task.name
            in_fold.append(with_fold(text, fold, num_folds) if is_asked else text)
        name = f"fold{fold}of{num_folds}"
        folder = train_variant(question, name, {"task": tuple(in_fold)}, out)
        terminal.doing(f"reading {folder}")
        run = open_run(folder)
        part = read_dev(run, task)
        parts.append(part)
        baselines = read_json(folder / "run.json")["baselines"]
        scores = {MODEL: run.scores[task.name]}
        for baseline, of_tasks in baselines.items():
            scores[baseline] = of_tasks[task.name]
        of_folds[f"fold {fold}"] = scores

    terminal.table(fold_table(task, of_folds))
    examples = list(itertools.chain.from_iterable(part.examples for part in parts))
    outputs = np.concatenate([part.outputs for part in parts])
    tfidf = np.concatenate([part.tfidf for part in parts])
    predictions = [task.decode(outputs), tfidf]
    terminal.say(*describe_pooled(task, predictions, examples))

    votes = outputs if task.is_regression else probabilities(outputs, task.is_multilabel)
    path = out / f"{question.name}-suspicious.csv"
    num_found = write_suspicious(path, task, examples, votes, tfidf, parts[0].style)
    terminal.say(
        f"{path}: {num_found:,} of {len(examples):,} rows may have a wrong label, the most "
        "suspicious first. Read them: either the label or the model is wrong."
    )


def fold_table(task: Task, of_folds: Mapping[str, Mapping[str, float]]) -> str:
    """The scores of each fold, then their mean and standard deviation."""
    columns = list(next(iter(of_folds.values())))
    rows: dict[str, Mapping[str, float | str]] = {**of_folds}
    means = {}
    deviations = {}
    for column in columns:
        values = [row[column] for row in of_folds.values()]
        means[column] = float(np.mean(values))
        deviations[column] = float(np.std(values, ddof=1))
    rows["mean"] = means
    rows["standard deviation"] = deviations
    heading = f"{task.title} {task.metric}"
    return score_table(heading, {column: column for column in columns}, rows)


def describe_pooled(
    task: Task, predictions: Sequence[np.ndarray], examples: Sequence[Example]
) -> list[str]:
    """The score of all rows together with its interval, and the difference to TF-IDF.

    predictions: of the model and of TF-IDF, each row by the run that was not trained on it.
    """
    score = resample_scores(task, predictions, examples)
    low, high = score.interval(0)
    compared = compare_scores({task.name: score}, first=[1], second=[0])[task.name]
    return [
        f"All {len(examples):,} rows together, each predicted by the run that was not trained on "
        f"it: {task.metric} {score.scores[0]:.4f}, 95 % interval {low:.3f} to {high:.3f}. "
        f"{TFIDF}: {score.scores[1]:.4f}.",
        f"{MODEL} and {TFIDF}: {compared.words((TFIDF, MODEL), 0.01)}",
        "Each run kept its best epoch by its dev rows, so these scores are a little too high.",
    ]


# --- learning curve -------------------------------------------------------------------------------


def draw_curve(question: Question, out: Path) -> None:
    """Train on parts of the training rows, and say what more of them would bring.

    The dev rows are the same for all parts. Raises ValueError for a table with too few rows.
    """
    task = question.task
    check_files(question.record)
    whole = open_run(question.record.folder)
    num_rows = len(whole.tables[task.name]["train"].examples)
    sizes = [num_rows // share for share in SHARES if num_rows // share >= MIN_ROWS]
    if len(sizes) < 2:
        raise ValueError(
            f"{task.title} has {num_rows} training rows; a curve needs {MIN_ROWS * SHARES[1]}."
        )
    limits = numbers_by_task(load(question.record.folder).data.train_rows)
    parts = []
    for size in sizes:
        with_limit = {**limits, task.name: size}
        rows = ",".join(f"{name}={int(limit)}" for name, limit in with_limit.items())
        folder = train_variant(question, f"rows{size}", {"train_rows": rows}, out)
        parts.append(read_dev(open_run(folder), task))
    parts.append(read_dev(whole, task))

    examples = parts[-1].examples
    sizes = [part.num_train for part in parts]
    predictions = [part.predictions(task) for part in parts]
    model = resample_scores(task, predictions, examples)
    tfidf = resample_scores(task, [part.tfidf for part in parts], examples)
    rows_of_table: dict[str, dict[str, float | str]] = {}
    for place, size in enumerate(sizes):
        low, high = model.interval(place)
        rows_of_table[f"{size:,}"] = {
            MODEL: float(model.scores[place]),
            "95 % interval": f"{low:.3f} to {high:.3f}",
            TFIDF: float(tfidf.scores[place]),
        }
    columns = {name: name for name in next(iter(rows_of_table.values()))}
    terminal.table(score_table(f"training rows, {task.metric}", columns, rows_of_table))
    for factor in (2, 4):
        terminal.say(describe_forecast(sizes, model.resampled, model.scores, factor))
    terminal.say(
        "The forecast is a power law through these points. Its interval holds chance in the dev "
        "rows, and not that of the seed: each size was trained once."
    )


def describe_forecast(
    sizes: Sequence[int], resampled: np.ndarray, scores: np.ndarray, factor: int
) -> str:
    """What so many times the labels would likely bring, in a sentence.

    sizes: K. resampled: (R, K). scores: (K,).
    """
    target = factor * sizes[-1]
    low, high = middle_of(forecast(sizes, resampled, target))
    value = float(forecast(sizes, scores[None], target)[0])
    gain = value - float(scores[-1])
    return (
        f"With {factor} times the labels, {target:,} rows: about {value:.3f} ({low:.3f} to "
        f"{high:.3f}), {gain:+.3f} from today."
    )


def forecast(sizes: Sequence[int], scores: np.ndarray, target: int) -> np.ndarray:
    """The score that a power law of the error has for another number of rows, (R,).

        1 - score  =  a n^b     (Hestness et al. 2017), so log(1 - score) is a line in log n

    sizes: K. scores: (R, K), at most 1. Where the error grows with the rows, it is taken as
    constant: more labels are never forecast to do harm.
    """
    errors = np.log(np.maximum(1 - scores, SMALLEST_ERROR))  # (R, K)
    slopes, constants = np.polyfit(np.log(sizes), errors.T, 1)  # (R,) each
    middle = errors.mean(axis=1)
    line = constants + slopes * np.log(target)
    return 1 - np.exp(np.where(slopes < 0, line, middle))


# --- calibration ----------------------------------------------------------------------------------


def describe_calibration(question: Question, costs: Costs) -> None:
    """Print whether the probabilities of a run are right, and which threshold fits the costs.

    Raises ValueError for a task whose answer is a number, which has no probabilities.
    """
    task = question.task
    if task.is_regression:
        raise ValueError(f"{task.title} has numbers and no probabilities. --folds and --curve fit.")
    run = open_run(question.record.folder)
    dev = read_dev(run, task)
    labels = labels_of(dev.examples)
    calibration = calibrate(
        task, dev.outputs, labels, groups_of([example.texts for example in dev.examples])
    )
    # What makes rows worse that it was not fitted on is no temperature for new rows.
    is_better = calibration.after.log_loss < calibration.before.log_loss
    temperature = calibration.temperature if is_better else 1.0
    shares = probabilities(dev.outputs / temperature, task.is_multilabel)
    others = tfidf_probabilities(task, run.tables[task.name]["train"].examples, dev.examples)

    columns = {"log loss": "log loss", "calibration error": "calibration error"}
    rows: dict[str, dict[str, float | str]] = {
        MODEL: as_row(calibration.before),
        f"{MODEL}, calibrated": as_row(calibration.after),
    }
    if others is not None:
        rows[TFIDF] = as_row(quality_of(task, others, labels))
    terminal.table(score_table(f"{task.title}, {len(labels):,} dev rows", columns, rows))
    is_all_right = are_all_right(task, dev.outputs, labels)
    terminal.say(describe_temperature(calibration, is_all_right))
    flags = f" --temperature {temperature:.4g}" if is_better else ""
    if task.kind == "classes":
        terminal.table(coverage_table(shares, others, labels))
    else:
        terminal.table(cost_table(task, shares, others, labels, costs))
        flags += f" --threshold {costs.threshold:.4g}"
    if flags:
        terminal.say(
            f"python -m multitask.predict {in_shell(question.record.folder)} --task {task.name}"
            f"{flags}{flags_of_named()}"
        )


def describe_temperature(calibration: Calibration, is_all_right: bool) -> str:
    """What the temperature says about the model. is_all_right: all its decisions on dev rows."""
    temperature, before, after = calibration
    if is_all_right:
        return (
            "All dev rows are answered right, so they cannot show how sure the model should be. "
            "The temperature stays 1."
        )
    if after.log_loss >= before.log_loss:
        return (
            "A temperature does not help: on rows that it was not fitted on, the log loss is "
            f"{after.log_loss:.4f} with it and {before.log_loss:.4f} without. The temperature "
            "stays 1."
        )
    sure = "too sure" if temperature > 1 else "not sure enough"
    return (
        f"temperature {temperature:.3f}: the model is {sure}. The calibrated numbers are of rows "
        "that their temperature was not fitted on."
    )


def as_row(quality: Quality) -> dict[str, float | str]:
    """The numbers of one row of the table."""
    return {"log loss": quality.log_loss, "calibration error": quality.calibration_error}


def coverage_table(shares: np.ndarray, others: np.ndarray | None, labels: np.ndarray) -> str:
    """How much is answered, and how well, if unsure rows are left to a person."""
    rows = [("answer from confidence", "model", "rows answered", "accuracy")]
    for name, votes in ((MODEL, shares), (TFIDF, others)):
        if votes is not None:
            is_right = votes.argmax(axis=1) == labels
            for part in coverages(confidences(votes), is_right):
                cells = f"{part.confidence:g}", name, f"{part.answered:.1%}", f"{part.accuracy:.4f}"
                rows.append(cells)
    return aligned(rows)


def cost_table(
    task: Task, shares: np.ndarray, others: np.ndarray | None, labels: np.ndarray, costs: Costs
) -> str:
    """What a row costs on average: with the usual threshold, with the right one, and without."""
    best = costs.threshold
    titles = ("label", "cost at 0.5", f"cost at {best:.3f}", f"{TFIDF} at {best:.3f}")
    rows: list[tuple[str, ...]] = [(*titles, "never named", "always named")]
    names = task.label_names if task.is_multilabel else task.label_names[1:]
    for number, name in enumerate(names):
        column = shares[:, number] if task.is_multilabel else shares
        gold = labels[:, number] if task.is_multilabel else labels
        cells = [cost_at(0.5, column, gold, costs), cost_at(best, column, gold, costs)]
        if others is None:
            cells.append(np.nan)
        else:
            other = others[:, number] if task.is_multilabel else others
            cells.append(cost_at(best, other, gold, costs))
        cells += [cost_at(1.0, column, gold, costs), cost_at(-1.0, column, gold, costs)]
        rows.append((name, *(f"{cell:.4f}" for cell in cells)))
    return aligned(rows)
