"""Rows whose label a model contradicts: a list for a spreadsheet, the most suspicious first.

The model must not have been trained on these rows, or it would repeat their labels. Dev rows are
such rows. A cross-validation (experiments/labels.py) makes all rows of a table such rows.

Legend: N rows, C classes, L labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.examples import Example
from data.tables.rows import Style
from data.tables.spreadsheets import write_spreadsheet
from multitask.probabilities import votes_by_class
from multitask.tasks import Task, labels_of

MIN_DEVIATIONS = 2.0  # of the distances, for a score


class Suspicion(NamedTuple):
    """A row whose label may be wrong.

    row: its number. label, suggested: as texts; the model's answer is suggested. doubt: how much
    the model contradicts, 0 to 1 of classes, and |label - suggested| of scores. share: the
    probability of the suggested label, or None.
    """

    row: int
    label: str
    suggested: str
    doubt: float
    share: float | None


def find_suspicious(task: Task, votes: np.ndarray, labels: np.ndarray) -> list[Suspicion]:
    """The rows whose labels may be wrong, the most suspicious first.

    votes: probabilities (N, C), (N,) of two classes, (N, L) of several labels, or numbers (N,).
    labels: (N,) or (N, L), the task's own. Raises ValueError as labels_of does.
    """
    if task.is_regression:
        suspicions = distant_scores(task, votes, labels)
    elif task.is_multilabel:
        suspicions = []
        for number, name in enumerate(task.label_names):
            column = votes_by_class(votes[:, number])  # (N, 2)
            names = (f"not {name}", name)
            suspicions += contradicted_classes(names, column, labels[:, number])
    else:
        suspicions = contradicted_classes(task.label_names, votes_by_class(votes), labels)
    return sorted(suspicions, key=lambda suspicion: (-suspicion.doubt, suspicion.row))


def contradicted_classes(
    names: Sequence[str], shares: np.ndarray, labels: np.ndarray
) -> list[Suspicion]:
    """The rows with a label that is most likely wrong (confident learning, Northcutt et al. 2021).

        t_j  =  mean of p_j over the rows that are labelled j                        (equation 2)
        a row labelled i is suspicious if, of the classes with p_j >= t_j, the most probable one
        is not i                                                                     (equation 1)

    The thresholds take away that a model is surer of some classes than of others. A class that it
    is rarely sure of can be the only one over its threshold, although the model answers with i.
    Such a row is left out, because the model agrees with its label. cleanlab does so as well:
    cleanlab.filter.find_label_issues(filter_by="confident_learning").

    shares: probabilities (N, C). labels: (N,), 0 to C - 1.
    """
    classes = labels.astype(np.int64)
    thresholds = np.ones(len(names))
    for number in range(len(names)):
        of_class = shares[classes == number, number]
        if len(of_class):
            thresholds[number] = of_class.mean()
    confident = np.where(shares >= thresholds - 1e-6, shares, 0.0)  # (N, C)
    is_contradicted = confident.any(axis=1) & (confident.argmax(axis=1) != classes)
    suggested = shares.argmax(axis=1)
    is_suspicious = is_contradicted & (suggested != classes)

    suspicions = []
    for row in np.flatnonzero(is_suspicious).tolist():
        share = float(shares[row, suggested[row]])
        doubt = 1 - float(shares[row, classes[row]])
        suspicions.append(Suspicion(row, names[classes[row]], names[suggested[row]], doubt, share))
    return suspicions


def distant_scores(task: Task, numbers: np.ndarray, labels: np.ndarray) -> list[Suspicion]:
    """The rows whose number is far from the label, for the usual distance of this model.

    The mean of (number - label) is taken away before numbers are compared, so a model whose numbers
    are all too high by one does not make all rows suspicious. The doubt is the plain distance.
    """
    suggested = np.clip(numbers.astype(np.float64), task.format.low, task.format.high)
    errors = suggested - labels
    deviations = abs(errors - errors.mean())
    limit = MIN_DEVIATIONS * errors.std()
    suspicions = []
    for row in np.flatnonzero(deviations > limit).tolist():
        texts = f"{labels[row]:g}", f"{suggested[row]:.4g}"
        suspicions.append(Suspicion(row, *texts, float(abs(errors[row])), None))
    return suspicions


def write_suspicious(
    path: Path,
    task: Task,
    examples: Sequence[Example],
    votes: np.ndarray,
    other: np.ndarray,
    style: Style,
) -> int:
    """Write the suspicious rows as a table, and return how many there are.

    votes: as of find_suspicious. other: what TF-IDF predicts for the rows, for a column of its own.
    style: that of the table of the rows.
    """
    suspicions = find_suspicious(task, votes, labels_of(examples))
    header = ["id", *task.format.text_columns, "label", "suggested"]
    header.append("distance" if task.is_regression else "probability of the label")
    if not task.is_regression:
        header.append("probability of the suggested one")
    header.append("TF-IDF says")
    rows = []
    for suspicion in suspicions:
        example = examples[suspicion.row]
        answers = [suspicion.label, suspicion.suggested]
        tfidf = task.label_text(other[suspicion.row])
        if suspicion.share is None:
            numbers = [*answers, f"{suspicion.doubt:.4g}", tfidf]
            answers = [style.number(number) for number in numbers]
        else:
            shares = f"{1 - suspicion.doubt:.4f}", f"{suspicion.share:.4f}"
            answers += [*map(style.number, shares), tfidf]
        rows.append((example.id, *example.texts, *answers))
    write_spreadsheet(path, header, rows, style.delimiter)
    return len(rows)
