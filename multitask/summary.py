"""What a run says after its closing table: some predictions, what still rose, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.batching import EncodedExamples
from data.examples import Example, Table
from minbert import BertTokenizer
from minbert.commands.ending import this_python
from minbert.commands.paths import in_shell
from minbert.commands.plugins import flags_of_named
from multitask.evaluation import predict
from multitask.model import MultitaskBert
from multitask.probabilities import confidences, probabilities
from multitask.task_models import TaskModels
from multitask.tasks import Task, Tasks, labels_of

NUM_SHOWN = 3  # rows of the dev files
MAX_LETTERS = 80  # of their texts


# --- some predictions -----------------------------------------------------------------------------


class ShownRow(NamedTuple):
    """A row of a dev file that is shown with its prediction."""

    task: str
    example: Example


def choose_rows(dev: Mapping[str, Sequence[Example]], count: int = NUM_SHOWN) -> list[ShownRow]:
    """Rows of the dev files: the tasks take turns, and the rows of one are evenly spaced.

    dev: the examples of each task.
    """
    tasks = list(dev)
    turns = [tasks[number % len(tasks)] for number in range(count)]
    rows = []
    for task in dict.fromkeys(turns):
        examples = dev[task]
        num_rows = min(turns.count(task), len(examples))
        for number in range(num_rows):
            # The middle of each of num_rows equal parts.
            position = (2 * number + 1) * len(examples) // (2 * num_rows)
            rows.append(ShownRow(task, examples[position]))
    return rows


def describe_predictions(
    model: MultitaskBert | TaskModels,
    tokenizer: BertTokenizer,
    tables: Mapping[str, Mapping[str, Table]],
    tasks: Sequence[str],
    max_length: int,
    precision: str,
) -> str:
    """Some rows of the dev files with what the model says of them, a line each.

    tables: by [task][split]. tasks: those that the model was trained on.
    """
    rows = choose_rows({task: tables[task]["dev"].examples for task in tasks})
    lines = [f"{len(rows)} rows of the dev files:"]
    width = max(len(model.tasks[row.task].title) for row in rows)
    for row in rows:
        task = model.tasks[row.task]
        encoded = EncodedExamples([row.example], tokenizer, max_length, model.pair_encoding)
        outputs = predict(model, row.task, encoded, precision)
        answer = describe_answer(task, outputs, row.example)
        lines.append(f"  {task.title:<{width}}  {answer}: {shortened(row.example)}")
    return "\n".join(lines)


def describe_answer(task: Task, outputs: np.ndarray, example: Example) -> str:
    """The prediction of one row in words, and its label. outputs: (1, C) or (1,)."""
    prediction = task.decode(outputs)[0]
    label = labels_of([example])[0]
    if task.is_regression:
        return f"{prediction:.2f} (labelled {label:g})"
    shares = probabilities(outputs, task.is_multilabel)
    confidence = confidences(shares, task.is_multilabel)[0]
    answer = f"{task.label_text(prediction)}, {confidence:.0%}"
    if np.all(prediction == label):
        return f"{answer} (right)"
    return f"{answer} (labelled {task.label_text(label)})"


def shortened(example: Example) -> str:
    """The texts of a row, cut to the width of a terminal."""
    text = " | ".join(" ".join(text.split()) for text in example.texts)
    return text if len(text) <= MAX_LETTERS else text[: MAX_LETTERS - 3].rstrip() + "..."


# --- what still rose ------------------------------------------------------------------------------


def rising_tasks(history: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> list[str]:
    """The tasks whose score after the last epoch is above that after each earlier one.

    history: the scores after each epoch, the last one at the end. Empty for a single epoch.
    """
    if len(history) < 2:
        return []
    *earlier, last = history
    rising = []
    for task in tasks:
        best_before = max(scores[task] for scores in earlier)
        if last[task] > best_before:
            rising.append(task)
    return rising


def describe_progress(
    history: Sequence[Mapping[str, Any]], tasks: Tasks, may_stop_early: bool = False
) -> str:
    """Which scores still rose in the last epoch, or fell from their best. "" for a single epoch.

    history: of rising_tasks. may_stop_early: whether --patience 3 would have ended it before.
    """
    if len(history) < 2:
        return ""
    rising = [tasks[name].title for name in rising_tasks(history, list(tasks))]
    if not rising:
        falls = describe_falls(history, tasks)
        if falls and may_stop_early:
            falls = f"{falls} Try --patience 3: it ends the training three epochs after its best."
        return f"No score rose in the last epoch. {falls}".rstrip()
    *others, last = rising
    names = f"{', '.join(others)} and {last}" if others else last
    return f"{names} still rose in the last epoch: more --epochs may give a better model."


def describe_falls(history: Sequence[Mapping[str, Any]], tasks: Tasks) -> str:
    """How far each score is below that of its best epoch in the end. "" where none is."""
    falls = []
    for name, task in tasks.items():
        scores = [entry[name] for entry in history]
        fall = max(scores) - scores[-1]
        if fall > 0:
            best = scores.index(max(scores)) + 1
            falls.append(f"{task.title} fell by {fall:.4f} since epoch {best}")
    return f"{', '.join(falls)}." if falls else ""


def describe_stop(
    history: Sequence[Mapping[str, Any]], best_step: int, epochs: int, patience: int
) -> str:
    """That the training ended early, and which epoch was kept, in a sentence. "" where it did not.

    history: of describe_progress. best_step: of the model that was kept. epochs, patience: of the
    options.
    """
    if not patience or len(history) >= epochs:
        return ""
    best = next(number for number, entry in enumerate(history, 1) if entry["step"] == best_step)
    return (
        f"Stopped early, after epoch {len(history)} of {epochs}, as --patience {patience} says: no "
        f"score was better than that of epoch {best}. The model of that epoch is kept."
    )


# --- the sentence vectors of contrastive stages ---------------------------------------------------


def describe_stages(stages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line with the scores of each contrastive stage of a run.

    stages: as run.json has them.
    """
    lines = []
    for name, quality in stages.items():
        before, after = quality["before"], quality["after"]
        if "spearman" not in before:
            continue  # it trains no sentence vector, or no pairs measure it
        line = f"{name}: Spearman on STS dev {before['spearman']:.4f} before, "
        line += f"{after['spearman']:.4f} after, without a head"
        lines.append(line if quality["is_kept"] else f"{line}; its start was handed on")
    return lines


# --- what to do next ------------------------------------------------------------------------------


def next_commands(run: Path, task: Task, dev_file: str, encoder: str | Path) -> str:
    """The commands that look into a finished run, as a shell takes them.

    task: one that was trained. dev_file: its dev file, whose sentences are compared. encoder: a
    model whose vectors compare them.
    """
    folder = in_shell(run)
    named = flags_of_named()
    column = shlex.quote(task.format.text_columns[0])
    commands = {
        f"multitask.errors {folder}{named}": "where it is wrong",
        f"multitask.predict {folder} --task {task.name}{named}": "rows of your own",
        f"contrastive.embed {in_shell(Path(encoder))} --input {in_shell(Path(dev_file))} "
        f"--text {column} "
        "--nearest 3": "similar sentences",
    }
    lines = []
    for command, purpose in commands.items():
        lines.append(f"# {purpose}")
        lines.append(f"{this_python()} -m {command}")
    return "\n".join(lines)
