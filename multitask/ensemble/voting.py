"""Votes of several runs on the same rows: one prediction per row, and its honest dev score.

A method gives every run a weight, for each task apart. A prediction is the weighted mean of the
runs' probabilities (SST, PARA) or of their standardised scores (STS). Some methods choose or fit
the weights on dev labels. So dev is split into folds, and each row is predicted with weights that
never saw its label. There are no files and no models here: __main__.py has them.

Legend: R runs, N rows, C classes, F folds. Votes are the runs' answers on one scale: float64 (R,
N, C) for SST, (R, N) for PARA and STS. Weights are float64 (R,), at least 0, and sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from multitask.probabilities import confidences, probabilities
from multitask.probabilities import decode as decode_probabilities
from multitask.tasks import Task

# In place of a probability of 0: its logarithm would forbid every weight but one.
SMALLEST = 1e-12
# The prior of fitted weights: so many rows for each run on which it alone is right. On a small dev
# set they keep the weights even.
PRIOR_ROWS = 10
Weigh = Callable[[Task, np.ndarray, np.ndarray], np.ndarray]  # (task, votes, labels) -> weights


# --- votes on one scale ---------------------------------------------------------------------------


class Scale(NamedTuple):
    """The scale of a run's numbers."""

    centre: float
    spread: float


UNCHANGED = Scale(0.0, 1.0)


@dataclass(frozen=True)
class Votes:
    """The votes of the runs on one task's dev and test rows."""

    dev: np.ndarray
    test: np.ndarray
    scale: Scale = UNCHANGED  # brings STS back to points of similarity


def scale_of(values: np.ndarray) -> Scale:
    """Mean and standard deviation (over N, not N - 1) of values (N,).

    The deviation of equal values is exactly 0.
    """
    values = values.astype(np.float64)
    spread = float(values.std()) if np.ptp(values) else 0.0
    return Scale(float(values.mean()), spread)


def standardise(values: np.ndarray, scale: Scale) -> np.ndarray:
    """The z-score (values - centre) / spread, float64 (N,). Zeros where the spread is 0.

    Models differ in the width of their scale: mean squared error pulls an unsure one to the middle.
    In a plain mean the widest would count most. Pearson correlation does not depend on the width.
    """
    if not scale.spread:
        return np.zeros(len(values))
    return (values.astype(np.float64) - scale.centre) / scale.spread


def gather_votes(task: Task, dev: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> Votes:
    """The raw outputs of each run, (N, C) or (N,), on one scale.

    Probabilities are on one scale already. STS is standardised, test rows by the run's dev rows.
    The mean and deviation of the dev rows come from outputs and not from labels. So no fold
    learns another's labels through them.
    """
    if not task.is_regression:
        is_multilabel = task.is_multilabel
        return Votes(
            stack_probabilities(dev, is_multilabel), stack_probabilities(test, is_multilabel)
        )
    scales = [scale_of(outputs) for outputs in dev]
    centre, spread = np.mean(scales, axis=0)
    return Votes(
        stack_standardised(dev, scales),
        stack_standardised(test, scales),
        Scale(float(centre), float(spread)),
    )


def stack_probabilities(outputs: Sequence[np.ndarray], is_multilabel: bool) -> np.ndarray:
    """Logits of each run -> (R, N, C) or (R, N)."""
    return np.stack([probabilities(of_run, is_multilabel) for of_run in outputs])


def stack_standardised(outputs: Sequence[np.ndarray], scales: Sequence[Scale]) -> np.ndarray:
    """Numbers of each run -> (R, N), each by its scale."""
    runs = zip(outputs, scales, strict=True)
    return np.stack([standardise(of_run, scale) for of_run, scale in runs])


def mix(weights: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """The weighted mean of votes (R, N, C) or (R, N): (N, C) or (N,), float64."""
    return np.tensordot(weights, votes, axes=1)


def decode(task: Task, mixed: np.ndarray, scale: Scale = UNCHANGED) -> np.ndarray:
    """Mixed votes (N, C) or (N,) -> predictions (N,) as in the leaderboard's files.

    SST: the most probable class. PARA: whether the probability is over one half. STS: back on its
    scale. Pearson correlation would be the same without that, but a file whose values lie around 0
    would look wrong. Raises ValueError if a value is not finite.
    """
    if task.is_regression:
        mixed = mixed * scale.spread + scale.centre
    return decode_probabilities(task, mixed)


# --- methods: votes and labels -> weights ---------------------------------------------------------


def choose_best(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 for the run with the best score on these rows, 0 for the others ([GEN]'s ensemble).

    The first of tied runs wins.
    """
    # argmax takes the first of equal scores.
    scores = [task.score(decode(task, of_run), labels) for of_run in votes]
    return np.eye(len(votes))[np.argmax(scores)]


def share_evenly(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 / R for every run, whatever the labels.

    This is soft voting (Hansen and Salamon 1990, neural network ensembles).
    """
    return np.full(len(votes), 1 / len(votes))


def fit_weights(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights of the likeliest mixture (SST, PARA), or of the most correlated one (STS).

    This is known as stacking with convex weights (Breiman 1996, stacked regressions; van der Laan
    et al. 2007, super learner). Accuracy itself is a staircase without a slope. So the
    classifications take the likelihood of the labels, which is concave in the weights: it has one
    hill. The likelihood trusts runs that are seldom sure of a wrong label, and it keeps few of
    many runs. `PRIOR_ROWS` hold against that.

    votes: (R, N, C) or (R, N). labels: (N,), the task's own.
    """
    if task.is_regression:
        return most_correlated(votes, labels)
    if task.is_multilabel:
        # Each label of each row is a row of two classes.
        of_label = np.where(labels == 1, votes, 1 - votes).reshape(len(votes), -1)  # (R, N * C)
    elif votes.ndim == 3:
        rows = np.arange(len(labels))
        of_label = votes[:, rows, labels.astype(int)]  # (R, N)
    else:
        of_label = np.where(labels == 1, votes, 1 - votes)  # (R, N)
    return most_likely(of_label, PRIOR_ROWS)


def most_likely(of_label: np.ndarray, prior_rows: int = 0) -> np.ndarray:
    """The weights (R,) that maximise a log-likelihood.

    It is the sum over rows of log(weights @ of_label), plus prior_rows x the sum of log(weights).
    The prior is Dirichlet's, with 1 + prior_rows for each run.

    of_label: (R, N), the probability that each run gives to each row's label. Compare with
    expectation-maximisation for the shares of a mixture, which climbs the same hill in small steps.
    """
    from scipy.optimize import minimize

    num_runs = len(of_label)
    # A prior row is one on which a single run is right.
    prior = np.tile(np.eye(num_runs), prior_rows)  # (R, R * prior_rows)
    of_label = np.maximum(np.hstack([of_label, prior]), SMALLEST)

    def loss_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = weights @ of_label  # (N,)
        loss = -float(np.log(mixed).mean())
        gradient = -(of_label / mixed).mean(axis=1)  # (R,)
        return loss, gradient

    result = minimize(
        loss_and_gradient,
        np.full(num_runs, 1 / num_runs),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * num_runs,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-12},
    )
    weights = np.clip(result.x, 0, None)  # rounding may leave the bounds
    return weights / weights.sum()


def most_correlated(votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights (R,) whose mixture of votes has the largest Pearson correlation with the labels.

    They come from non-negative least squares on centred values. The mixture nearest to the labels
    is also the one at the smallest angle to them, and the cosine of that angle is the
    correlation.

    votes: (R, N). labels: (N,). Returns even weights if no run correlates with the labels.
    """
    from scipy.optimize import nnls

    centred_votes = votes - votes.mean(axis=1, keepdims=True)  # (R, N)
    centred_labels = labels.astype(np.float64) - labels.mean(dtype=np.float64)  # (N,)
    weights, _ = nnls(centred_votes.T, centred_labels)
    if not weights.any():
        return np.full(len(votes), 1 / len(votes))
    return weights / weights.sum()


@dataclass(frozen=True)
class Method:
    """A way to weigh the runs."""

    weigh: Weigh
    sentence: str  # for the user: says what is fitted
    is_fitted: bool  # whether labels decide the weights


METHODS = {
    "best": Method(
        choose_best, "for each task the one run with the best dev score is chosen.", True
    ),
    "average": Method(
        share_evenly, "every run that votes counts the same, nothing is fitted.", False
    ),
    "weighted": Method(
        fit_weights,
        "for each task a weight for every run is fitted to dev labels (classes: largest "
        "likelihood, with a prior towards equal ones; scores: largest correlation).",
        True,
    ),
}


# --- an honest score ------------------------------------------------------------------------------


def make_folds(num_rows: int, num_folds: int, seed: int) -> np.ndarray:
    """Draw the fold of each row, int64 (N,), 0 to F - 1. Sizes differ by one at most.

    Raises ValueError for fewer than two folds, or more than rows, and for fewer than two rows.
    """
    if num_rows < 2:
        raise ValueError(
            f"the dev file has {num_rows} row, and a score out of fold needs at least 2. Use more "
            "dev rows."
        )
    if not 2 <= num_folds <= num_rows:
        raise ValueError(
            f"--folds is {num_folds}; it must be from 2 to {num_rows}, the number of dev rows."
        )
    numbers = np.arange(num_rows) % num_folds
    return np.random.default_rng(seed).permutation(numbers)


class OutOfFold(NamedTuple):
    """Dev rows, each mixed without its own label."""

    mixed: np.ndarray  # (N, C) or (N,)
    weights: np.ndarray  # of each fold (F, R)


def out_of_fold(
    votes: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    weigh: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> OutOfFold:
    """Mix the votes on each fold with the weights that `weigh(votes, labels)` finds on the others.

    votes: (R, N, C) or (R, N). labels, folds: (N,). Compare with fitting on all rows and scoring
    the same rows, which flatters.
    """
    # No row meets its own label: its weights come from the other folds.
    mixed = np.empty(votes.shape[1:])
    weights = []
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold  # (N,)
        weights_of_fold = weigh(votes[:, ~is_held_out], labels[~is_held_out])  # (R,)
        mixed[is_held_out] = mix(weights_of_fold, votes[:, is_held_out])
        weights.append(weights_of_fold)
    return OutOfFold(mixed, np.stack(weights))


@dataclass(frozen=True)
class Outcome:
    """A method applied to one task."""

    weights: np.ndarray  # (R,), from all of dev
    fold_weights: np.ndarray  # (F, R), each from the other folds
    out_of_fold: float  # the score of `dev`
    in_sample: float  # dev with `weights`: flatters where the labels of dev have decided them
    dev: np.ndarray  # predictions (N,), out of fold
    test: np.ndarray  # predictions (N,), with `weights`
    dev_confidence: np.ndarray | None = None  # of each prediction its probability; None of a score
    test_confidence: np.ndarray | None = None


def apply_method(
    weigh: Weigh, task: Task, votes: Votes, labels: np.ndarray, folds: np.ndarray
) -> Outcome:
    """Find the weights on all of dev and on each fold's others, then predict and score.

    labels, folds: (N,) of dev.
    """
    weights = weigh(task, votes.dev, labels)
    held_out = out_of_fold(votes.dev, labels, folds, partial(weigh, task))
    mixed_test = mix(weights, votes.test)
    dev = decode(task, held_out.mixed, votes.scale)
    test = decode(task, mixed_test, votes.scale)
    in_sample = decode(task, mix(weights, votes.dev), votes.scale)
    outcome = Outcome(
        weights=weights,
        fold_weights=held_out.weights,
        out_of_fold=task.score(dev, labels),
        in_sample=task.score(in_sample, labels),
        dev=dev,
        test=test,
    )
    if task.is_regression:
        return outcome
    return replace(
        outcome,
        dev_confidence=confidences(held_out.mixed, task.is_multilabel),
        test_confidence=confidences(mixed_test, task.is_multilabel),
    )
