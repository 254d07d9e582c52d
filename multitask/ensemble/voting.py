"""What several runs say about the same rows -> one prediction a row, and how good it is on dev: all of it arithmetic.

A method gives every run a weight, for each task apart. A prediction is the weighted mean of what the runs say: of
probabilities (SST, PARA) or of standardised scores (STS). Where weights are chosen or fitted, dev labels are what they
are fitted on; so dev is split into folds, and each row is predicted with weights that never saw its label. No files
and no models here; next: ensemble.py, the command.

Legend: R runs, N rows, C classes, F folds. Votes are what the runs say of N rows, on one scale: float64 (R, N, 5) for
SST, (R, N) for PARA and STS. Weights are float64 (R,), at least 0, and sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from multitask.probabilities import probabilities
from multitask.tasks import Task

SMALLEST = (
    1e-12  # in place of a probability of 0, whose logarithm would forbid every weight but one
)
PRIOR_ROWS = (
    10  # for each run so many rows more on which it alone is right; a small dev keeps weights even
)
Weigh = Callable[[Task, np.ndarray, np.ndarray], np.ndarray]  # (task, votes, labels) -> weights

# --- what the runs say, on one scale ----------------------------------------------------------------------------------


def scale_of(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation (over N, not N - 1) of values (N,); the deviation of equal values is exactly 0."""
    values = values.astype(np.float64)
    return float(values.mean()), float(values.std()) if np.ptp(values) else 0.0


def standardise(values: np.ndarray, centre: float, spread: float) -> np.ndarray:
    """Values (N,) -> (values - centre) / spread, float64 (N,): the z-score. Zeros where the spread is 0.

    Models disagree on the width of the scale (mean squared error pulls an unsure one to the middle), and in a plain
    mean the widest would count most; Pearson correlation asks for no width.
    """
    return (values.astype(np.float64) - centre) / spread if spread else np.zeros(len(values))


def mix(weights: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Weights (R,), votes (R, N, 5) or (R, N) -> their weighted mean (N, 5) or (N,), float64."""
    return np.tensordot(weights, votes, axes=1)


def decode(task: Task, mixed: np.ndarray, centre: float = 0.0, spread: float = 1.0) -> np.ndarray:
    """Mixed votes (N, 5) or (N,) -> predictions (N,) as in the leaderboard's files; ValueError if one is not finite.

    SST: the most probable class. PARA: whether the probability is over one half. STS: mixed * spread + centre, since
    a file whose values lie around 0 would look wrong, though Pearson correlation would be the same.
    """
    if task.is_regression:
        return task.decode(mixed * spread + centre)
    return task.decode(
        mixed if mixed.ndim == 2 else mixed - 0.5
    )  # a logit is over 0 where its sigmoid is over 0.5


# --- the methods: votes and labels -> weights -------------------------------------------------------------------------


def choose_best(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 for the run with the best score on these rows (the first of tied ones), 0 for the others. [GEN]'s ensemble."""
    return np.eye(len(votes))[
        np.argmax([task.score(decode(task, of_run), labels) for of_run in votes])
    ]


def share_evenly(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 / R for every run, whatever the labels: soft voting (Hansen and Salamon 1990, neural network ensembles)."""
    return np.full(len(votes), 1 / len(votes))


def fit_weights(task: Task, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights under which the labels are likeliest (SST, PARA), or correlate most with the mixture (STS).

    votes: (R, N, 5) or (R, N). labels: (N,), the task's own. Known as stacking with convex weights (Breiman 1996,
    stacked regressions; van der Laan et al. 2007, super learner). Accuracy itself is a staircase that nothing can
    climb, so the two classifications take the likelihood, which is concave in the weights: one hill. The likelihood
    trusts runs that are seldom sure of a wrong label, and of many runs it keeps few; `PRIOR_ROWS` hold against it.
    """
    if task.is_regression:
        return most_correlated(votes, labels)
    if votes.ndim == 3:
        return most_likely(votes[:, np.arange(len(labels)), labels.astype(int)], PRIOR_ROWS)
    return most_likely(np.where(labels == 1, votes, 1 - votes), PRIOR_ROWS)


def most_likely(of_label: np.ndarray, prior_rows: int = 0) -> np.ndarray:
    """The weights (R,) that maximise the sum over rows of log(weights @ of_label), plus prior_rows x sum log(weights).

    of_label: (R, N), the probability that each run gives to each row's label. The prior is Dirichlet's, with 1 +
    prior_rows for each run. Compare with expectation-maximisation for the shares of a mixture, which climbs the same
    hill in small steps.
    """
    from scipy.optimize import minimize

    num_runs = len(of_label)
    of_label = np.maximum(np.hstack([of_label, *[np.eye(num_runs)] * prior_rows]), SMALLEST)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = weights @ of_label  # (N,)
        return -float(np.log(mixed).mean()), -(of_label / mixed).mean(
            axis=1
        )  # the loss and its gradient (R,)

    found = minimize(
        loss,
        np.full(num_runs, 1 / num_runs),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * num_runs,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-12},
    )
    weights = np.clip(found.x, 0, None)  # the optimiser keeps to the bounds but for rounding
    return weights / weights.sum()


def most_correlated(votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights (R,) whose mixture of votes (R, N) has the largest Pearson correlation with the labels (N,).

    Non-negative least squares on centred values: the mixture nearest to the labels is also the one at the smallest
    angle to them, and the cosine of that angle is the correlation. Even weights where no run correlates with them.
    """
    from scipy.optimize import nnls

    centred = votes - votes.mean(axis=1, keepdims=True)  # (R, N)
    weights, _ = nnls(centred.T, labels.astype(np.float64) - labels.mean(dtype=np.float64))
    return weights / weights.sum() if weights.any() else np.full(len(votes), 1 / len(votes))


@dataclass(frozen=True)
class Method:
    """A way to weigh the runs, the sentence that says what is fitted, and whether anything is."""

    weigh: Weigh
    sentence: str
    is_fitted: bool


METHODS = {
    "best": Method(
        choose_best, "for each task the one run with the best dev score is chosen.", True
    ),
    "average": Method(
        share_evenly, "every run that votes counts the same, nothing is fitted.", False
    ),
    "weighted": Method(
        fit_weights,
        "for each task a weight for every run is fitted to dev labels (SST, PARA: largest "
        "likelihood, with a prior towards equal ones; STS: largest correlation).",
        True,
    ),
}

# --- an honest score --------------------------------------------------------------------------------------------------


def make_folds(num_rows: int, num_folds: int, seed: int) -> np.ndarray:
    """The fold of each row, int64 (N,), 0 to F - 1, drawn at random; sizes differ by one at most.

    Raises ValueError for fewer than two folds, or more than rows.
    """
    if not 2 <= num_folds <= num_rows:
        raise ValueError(
            f"{num_folds} folds of {num_rows} dev rows; needed are 2 at least and a row for each. Pass "
            "another number as --folds."
        )
    return np.random.default_rng(seed).permutation(np.arange(num_rows) % num_folds)


def out_of_fold(
    votes: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    weigh: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Mix the votes on each fold with the weights that `weigh(votes, labels)` finds on the other folds.

    votes: (R, N, 5) or (R, N). labels, folds: (N,). Returns the mixture (N, 5) or (N,), in which no row has met its
    own label, and the weights of each fold (F, R). Compare with fitting on all rows and scoring them: flattering.
    """
    mixed, weights = np.empty(votes.shape[1:]), []
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold  # (N,)
        weights.append(weigh(votes[:, ~is_held_out], labels[~is_held_out]))
        mixed[is_held_out] = mix(weights[-1], votes[:, is_held_out])
    return mixed, np.stack(weights)


@dataclass(frozen=True)
class Votes:
    """What the runs say of one task's dev and test rows; `centre` and `spread` bring STS back to its scale."""

    dev: np.ndarray
    test: np.ndarray
    centre: float = 0.0
    spread: float = 1.0


def gather_votes(task: Task, dev: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> Votes:
    """Raw outputs of each run, (N, 5) or (N,), on one scale. STS test rows are standardised by the run's dev rows.

    The dev rows' mean and deviation come from outputs and not from labels, so no fold learns another's labels by them.
    """
    if not task.is_regression:
        return Votes(
            *(np.stack([probabilities(outputs) for outputs in split]) for split in (dev, test))
        )
    scales = [scale_of(outputs) for outputs in dev]
    votes = (
        np.stack(
            [standardise(outputs, *scale) for outputs, scale in zip(split, scales, strict=True)]
        )
        for split in (dev, test)
    )
    return Votes(*votes, *map(float, np.mean(scales, axis=0)))


@dataclass(frozen=True)
class Outcome:
    """A method applied to one task. `weights` come from all of dev; `fold_weights` (F, R) each from the other folds.

    Predictions (N,): `dev` out of fold, whose score is `out_of_fold`, and `test` with `weights`.
    """

    weights: np.ndarray
    fold_weights: np.ndarray
    out_of_fold: float
    dev: np.ndarray
    test: np.ndarray


def apply_method(
    weigh: Weigh, task: Task, votes: Votes, labels: np.ndarray, folds: np.ndarray
) -> Outcome:
    """Weights from all of dev and from each fold's others; predictions and their score. labels, folds: (N,) of dev."""
    weights = weigh(task, votes.dev, labels)
    dev, fold_weights = out_of_fold(votes.dev, labels, folds, partial(weigh, task))
    dev, test = (
        decode(task, mixed, votes.centre, votes.spread) for mixed in (dev, mix(weights, votes.test))
    )
    return Outcome(weights, fold_weights, task.score(dev, labels), dev, test)
