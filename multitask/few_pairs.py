"""Few pairs with scores: which head a run takes for them, and a note where another one was chosen.

So few rows hardly teach a head to compare two vectors. A cosine needs no teaching, if the encoder
already gives similar vectors to pairs with a high score. This is measured before it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from data.examples import evenly_spaced
from multitask.baselines import vector_features
from multitask.head_registry import HEADS
from multitask.options import FEW_PAIRS, MultitaskOptions
from multitask.rows import Tables
from multitask.tasks import Task, Tasks, labels_of, pearson

MEASURED_PAIRS = 200  # of the training rows, for the correlation of their cosines and scores
# Of 200 rows without any relation, 2 of 1000 tables reach it by chance.
LEAST_CORRELATION = 0.2
# What a run takes for few pairs.
FEW_PAIRS_OPTIONS = {"head": "cosine", "pair_encoding": "bi"}


def is_scored_pair(task: Task) -> bool:
    """Whether a task of the user gives a score to pairs."""
    return not task.is_built_in and task.is_pair and task.is_regression


def has_cosine(task: Task, options: MultitaskOptions) -> bool:
    """Whether the head of a score is the cosine of two vectors."""
    return HEADS[options.heads.head_of(task.name)].answers_by_cosine


def flags_of_cosine(task: Task, options: MultitaskOptions) -> str:
    """The flags that make it so."""
    # Beside other tasks, the cosine may leave one of them nothing to train.
    alone = f"--tasks {task.name} " if len(options.tasks.order) > 1 else ""
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in FEW_PAIRS_OPTIONS.items()]
    return f"{alone}{' '.join(flags)}"


def are_few_pairs(tables: Tables, tasks: Tasks, most: int) -> bool:
    """Whether all tasks have scored pairs, and at most this number of them for training."""
    if not most:
        return False
    for name, task in tasks.items():
        if not is_scored_pair(task) or len(tables[name]["train"].examples) > most:
            return False
    return True


def least_correlation(
    tables: Tables, tasks: Tasks, encode: Callable[[Sequence[str]], np.ndarray]
) -> float:
    """Pearson's r of cosines and scores on training rows: that of the task with the lowest one.

    encode: texts to vectors (N, H) of the encoder before training.
    """
    correlations = []
    for name, task in tasks.items():
        rows = evenly_spaced(tables[name]["train"].examples, MEASURED_PAIRS)
        cosines = vector_features(task, rows, encode)[:, 0]
        correlations.append(pearson(cosines, labels_of(rows)))
    return min(correlations)


def notes_on_few_pairs(tables: Tables, tasks: Tasks, options: MultitaskOptions) -> list[str]:
    """A line for each trained task of the user that has few pairs with scores, before it trains.

    tables: by [task][split].
    """
    lines = []
    for name in options.tasks.order:
        task = tasks[name]
        num_pairs = len(tables[name]["train"].examples)
        is_few = is_scored_pair(task) and num_pairs <= FEW_PAIRS
        if is_few and not has_cosine(task, options):
            lines.append(
                f"note: {task.title} has {num_pairs:,} training pairs with scores. So few ones "
                "hardly teach a head to compare two vectors. A cosine of them is likely better: "
                f"{flags_of_cosine(task, options)}"
            )
    return lines
