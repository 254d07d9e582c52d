"""From raw outputs to probabilities, and from probabilities to predictions.

The commands `ensemble`, `predict` and `errors` share it.
Legend: N rows, C classes.
"""

from __future__ import annotations

import numpy as np

from multitask.tasks import Task


def probabilities(logits: np.ndarray, is_multilabel: bool = False) -> np.ndarray:
    """Turn logits into probabilities.

    logits (N, C), several classes: the softmax over the classes, (N, C).
    logits (N, C), is_multilabel: the sigmoid, which is the probability of each label, (N, C).
    logits (N,), two classes: the sigmoid, which is the probability of the second class, (N,).
    The result is float64, 0 to 1. Compare with torch.softmax and torch.sigmoid.
    """
    # Imported late: scipy takes half a second, and `--help` must answer at once.
    from scipy.special import expit, softmax

    logits = logits.astype(np.float64)
    return softmax(logits, axis=1) if logits.ndim == 2 and not is_multilabel else expit(logits)


def decode(task: Task, values: np.ndarray, threshold: float = 0.5) -> np.ndarray:
    """Turn the probabilities of several models together into predictions (N,).

    values (N, C), several classes: the most probable class. values (N,), two classes: whether the
    probability of the second class is over the threshold. values (N, C), several labels: the same
    of each label, (N, C). values (N,) of a regression: unchanged.
    The result is as in the leaderboard's files. Raises ValueError if a value is not finite.
    """
    if task.kind in ("classes", "score"):
        return task.decode(values)
    # A logit is over 0 where its sigmoid is over 0.5.
    return task.decode(values - threshold)


def confidences(
    values: np.ndarray, is_multilabel: bool = False, threshold: float = 0.5
) -> np.ndarray:
    """The probability of the predicted class, (N,).

    values: probabilities (N, C), or (N,) of the second of two classes. is_multilabel: each label
    is a decision of its own. The result is then the probability of the least sure one. threshold:
    from which the second class, or a label, is predicted.
    """
    if values.ndim == 2 and not is_multilabel:
        return values.max(axis=1)
    of_decisions = np.where(values > threshold, values, 1 - values)  # (N,) or (N, C)
    return of_decisions.min(axis=1) if is_multilabel else of_decisions


def votes_by_class(votes: np.ndarray) -> np.ndarray:
    """Probabilities (N, C) of C classes. votes: those, or (N,) of the second of two classes."""
    return votes if votes.ndim == 2 else np.stack([1 - votes, votes], axis=1)
