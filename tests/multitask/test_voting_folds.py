"""multitask/ensemble/voting.py: no row is predicted with its own label, and luck earns nothing."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from multitask.ensemble import voting
from multitask.ensemble.voting import METHODS, make_folds, out_of_fold
from multitask.tasks import TASKS, pearson
from tests.toy_votes import (
    EVERY_METHOD_AND_TASK,
    NUM_ROWS,
    NUM_RUNS,
    apply_to,
    make_outputs,
    make_votes,
)


@pytest.mark.parametrize(("num_rows", "num_folds"), [(10, 5), (11, 5), (4, 4), (103, 2)])
def test_folds_are_even_and_drawn_from_the_seed(num_rows, num_folds):
    folds = make_folds(num_rows, num_folds, seed=1)
    sizes = np.bincount(folds, minlength=num_folds)
    assert len(folds) == num_rows and len(sizes) == num_folds and np.ptp(sizes) <= 1
    assert (folds == make_folds(num_rows, num_folds, seed=1)).all()


def test_another_seed_draws_other_folds():
    assert (make_folds(50, 5, seed=1) != make_folds(50, 5, seed=2)).any()


@pytest.mark.parametrize(("num_rows", "num_folds"), [(10, 1), (10, 0), (4, 5)])
def test_folds_that_cannot_be(num_rows, num_folds):
    with pytest.raises(
        ValueError, match=f"{num_folds} folds of {num_rows} dev rows; needed are 2 at least"
    ):
        make_folds(num_rows, num_folds, seed=1)


@pytest.mark.parametrize(("method", "task"), EVERY_METHOD_AND_TASK)
def test_out_of_fold_is_a_slow_loop(method, task):
    weigh = partial(METHODS[method].weigh, TASKS[task])
    votes, labels = make_votes(task)
    folds = make_folds(NUM_ROWS, 4, seed=1)
    mixed, weights = out_of_fold(votes, labels, folds, weigh)
    assert weights.shape == (4, NUM_RUNS)
    for row in range(NUM_ROWS):
        others = [other for other in range(NUM_ROWS) if folds[other] != folds[row]]
        of_row = weigh(votes[:, others], labels[others])
        np.testing.assert_allclose(
            mixed[row], sum(of_row[run] * votes[run, row] for run in range(NUM_RUNS))
        )
        np.testing.assert_allclose(weights[folds[row]], of_row)


@pytest.mark.parametrize(("method", "task"), EVERY_METHOD_AND_TASK)
def test_no_row_is_predicted_with_its_own_label_nor_with_those_of_its_fold(method, task):
    weigh = partial(METHODS[method].weigh, TASKS[task])
    votes, labels = make_votes(task)
    folds = make_folds(NUM_ROWS, 3, seed=1)
    changed = np.where(folds == 0, TASKS[task].format.high - labels, labels)
    before, _ = out_of_fold(votes, labels, folds, weigh)
    after, _ = out_of_fold(votes, changed, folds, weigh)
    assert (after[folds == 0] == before[folds == 0]).all()


@pytest.mark.parametrize("task", TASKS)
def test_where_nothing_is_fitted_out_of_fold_is_all_of_dev(task):
    labels, outputs = make_outputs(task)
    outcome = apply_to("average", task, labels, outputs)
    assert outcome.out_of_fold == TASKS[task].score(outcome.test, labels)
    np.testing.assert_array_equal(outcome.dev, outcome.test)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].is_fitted])
def test_fitted_dev_predictions_are_not_those_of_the_final_weights(method):
    """The score of dev is of `dev`, the weights of test are of all rows; runs of one quality make folds disagree."""
    disagreements = []
    for seed in range(5):
        labels, outputs = make_outputs("sts", num_runs=6, signal=0.0, seed=seed)
        outcome = apply_to(method, "sts", labels, outputs)
        assert outcome.out_of_fold == pearson(outcome.dev, labels)
        disagreements.append(np.abs(outcome.fold_weights - outcome.weights).max())
    assert max(disagreements) > 0.1


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].is_fitted])
def test_negative_control_of_guesses(method, task, monkeypatch):
    """Twenty runs that guess: fitted and scored on the same rows they shine, out of fold they are worth nothing.

    Without the prior, which takes most of the shine from fitted weights (below).
    """
    monkeypatch.setattr(voting, "PRIOR_ROWS", 0)
    chance, deviation = {"sst": (0.2, 0.4), "para": (0.5, 0.5), "sts": (0.0, 1.0)}[
        task
    ]  # of one row's score
    flattered, honest = [], []
    for seed in range(20):
        labels, _ = make_outputs(task, num_rows=200, seed=seed)
        noise = np.random.default_rng([seed, 1]).normal(
            size=(20, 200, 5) if task == "sst" else (20, 200)
        )
        outcome = apply_to(method, task, labels, list(noise), seed=seed)
        flattered.append(
            TASKS[task].score(outcome.test, labels)
        )  # of the rows that the weights were fitted on
        honest.append(outcome.out_of_fold)
    error = deviation / math.sqrt(20 * 200)  # 20 draws of 200 rows
    assert np.mean(flattered) > chance + 4 * error
    assert np.mean(honest) < chance + 3 * error


@pytest.mark.parametrize(("task", "chance", "deviation"), [("sst", 0.2, 0.4), ("para", 0.5, 0.5)])
def test_a_prior_flatters_less(task, chance, deviation, monkeypatch):
    """Weights fitted to guesses: less shine on the rows that they were fitted on, and none out of fold as before."""
    shine = []
    for prior_rows in (0, voting.PRIOR_ROWS):
        monkeypatch.setattr(voting, "PRIOR_ROWS", prior_rows)
        flattered, honest = [], []
        for seed in range(20):
            labels, _ = make_outputs(task, num_rows=200, seed=seed)
            noise = np.random.default_rng([seed, 1]).normal(
                size=(20, 200, 5) if task == "sst" else (20, 200)
            )
            outcome = apply_to("weighted", task, labels, list(noise), seed=seed)
            flattered.append(TASKS[task].score(outcome.test, labels))
            honest.append(outcome.out_of_fold)
        shine.append(np.mean(flattered) - chance)
        assert np.mean(honest) < chance + 3 * deviation / math.sqrt(20 * 200)
    assert shine[1] < shine[0] / 2  # measured for PARA: .579 and .508
