"""multitask/ensemble/voting.py: votes by hand and by slow loops, weights against other optimisers, scores that flatter not."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch

from multitask.ensemble.voting import (
    METHODS,
    PRIOR_ROWS,
    choose_best,
    decode,
    fit_weights,
    gather_votes,
    mix,
    most_correlated,
    most_likely,
    scale_of,
    share_evenly,
    standardise,
)
from multitask.probabilities import probabilities
from multitask.tasks import TASKS, pearson
from tests.toy_votes import EVERY_METHOD_AND_TASK, NUM_RUNS, apply_to, make_outputs, make_votes

# --- votes ------------------------------------------------------------------------------------------------------------


def test_probabilities_by_hand():
    three = math.log(3)
    np.testing.assert_allclose(
        probabilities(np.float32([[0, three], [5, 5]])), [[1 / 4, 3 / 4], [1 / 2, 1 / 2]], 1e-6
    )
    np.testing.assert_allclose(
        probabilities(np.float32([three, 0, -three])), [3 / 4, 1 / 2, 1 / 4], 1e-6
    )


def test_probabilities_are_those_of_a_slow_loop_and_of_torch():
    logits = np.random.default_rng(0).normal(scale=4, size=(7, 5)).astype(np.float32)
    slow = [
        [math.exp(value) / sum(math.exp(other) for other in row) for value in row]
        for row in logits.tolist()
    ]
    np.testing.assert_allclose(probabilities(logits), slow, rtol=1e-12)
    np.testing.assert_allclose(
        probabilities(logits), torch.tensor(logits).double().softmax(dim=1), rtol=1e-12
    )
    np.testing.assert_allclose(
        probabilities(logits[0]), [1 / (1 + math.exp(-value)) for value in logits[0].tolist()]
    )


def test_probabilities_of_logits_far_out():
    assert probabilities(np.float32([-1e4, 1e4])).tolist() == [0, 1]
    assert probabilities(np.float32([[1e4, -1e4]])).tolist() == [[1, 0]]


def test_a_scale_by_hand():
    assert scale_of(np.float32([1, 3])) == (2.0, 1.0)
    assert standardise(np.float32([1, 3, 4]), 2.0, 1.0).tolist() == [-1, 1, 2]


def test_equal_values_have_no_spread_and_standardise_to_zeros():
    values = np.full(7, 0.1, dtype=np.float32)  # whose mean in floating point need not be 0.1
    assert scale_of(values)[1] == 0.0
    assert standardise(values, *scale_of(values)).tolist() == [0.0] * 7


def test_standardised_values_have_mean_0_and_deviation_1_whatever_their_scale():
    values = np.random.default_rng(0).normal(size=50)
    standard = standardise(values, *scale_of(values))
    assert standard.mean() == pytest.approx(0, abs=1e-12) and standard.std() == pytest.approx(1)
    np.testing.assert_allclose(
        standardise(3 * values + 2, *scale_of(3 * values + 2)), standard, atol=1e-12
    )


def test_test_rows_are_standardised_by_the_dev_rows_and_the_scale_comes_back():
    sts = TASKS["sts"]
    votes = gather_votes(
        sts, [np.float32([1, 3]), np.float32([0, 8])], [np.float32([2, 5]), np.float32([4, 12])]
    )
    assert votes.dev.tolist() == [[-1, 1], [-1, 1]]
    assert votes.test.tolist() == [
        [0, 3],
        [0, 2],
    ]  # (2 - 2) / 1, (5 - 2) / 1; (4 - 4) / 4, (12 - 4) / 4
    assert (votes.centre, votes.spread) == (3.0, 2.5)  # means of 2 and 4, of 1 and 4
    even = mix(np.array([0.5, 0.5]), votes.test)
    assert decode(sts, even, votes.centre, votes.spread).tolist() == [3.0, 9.25]  # 2.5 x 2.5 + 3


def test_mixing_is_a_slow_loop():
    generator = np.random.default_rng(0)
    weights = np.array([0.2, 0.3, 0.5])
    for votes in (generator.random((3, 4)), generator.random((3, 4, 5))):
        slow = np.zeros(votes.shape[1:])
        for weight, of_run in zip(weights, votes, strict=True):
            for place in np.ndindex(*slow.shape):
                slow[place] += weight * of_run[place]
        np.testing.assert_allclose(mix(weights, votes), slow, rtol=1e-12)


def test_decoding_by_hand():
    assert decode(
        TASKS["sst"], np.array([[0.1, 0.2, 0.4, 0.2, 0.1], [0.3, 0.3, 0.2, 0.1, 0.1]])
    ).tolist() == [2, 0]
    assert decode(TASKS["para"], np.array([0.5, 0.51, 0.49])).tolist() == [0.0, 1.0, 0.0]
    assert decode(TASKS["sts"], np.array([-1.0, 0.5]), 2.5, 1.5).tolist() == [1.0, 3.25]
    with pytest.raises(ValueError, match="row 1 holds nan"):
        decode(TASKS["para"], np.array([0.5, np.nan]))


def test_averaged_probabilities_are_not_averaged_logits():
    """One sure run against two that doubt: by logits it wins (10 - 1 - 1 > 0), by probabilities it does not."""
    dev = [np.float32([10]), np.float32([-1]), np.float32([-1])]
    votes = gather_votes(TASKS["para"], dev, dev).dev
    even = share_evenly(TASKS["para"], votes, np.ones(1))
    assert mix(even, votes)[0] == pytest.approx(
        (1 + 2 / (1 + math.e)) / 3, abs=1e-4
    )  # 0.513: still a paraphrase
    dev[2] = np.float32([-2])
    assert decode(TASKS["para"], mix(even, gather_votes(TASKS["para"], dev, dev).dev)).tolist() == [
        0.0
    ]
    assert sum(of_run[0] for of_run in dev) > 0  # negative control


# --- weights ----------------------------------------------------------------------------------------------------------


def expectation_maximisation(
    of_label: np.ndarray, prior_rows: int, num_steps: int = 5000
) -> np.ndarray:
    """The textbook's way to the shares of a mixture: each row is shared out by who explains it, again and again.

    A Dirichlet prior adds to each run's sum of shares the rows that it stands for.
    """
    weights = np.full(len(of_label), 1 / len(of_label))
    for _ in range(num_steps):
        explained = weights[:, None] * of_label
        shares = (explained / explained.sum(axis=0)).sum(axis=1) + prior_rows
        weights = shares / shares.sum()
    return weights


def grid(num_runs: int, num_steps: int = 40):
    """All weights that are multiples of 1 / num_steps."""
    for parts in itertools.product(range(num_steps + 1), repeat=num_runs - 1):
        if sum(parts) <= num_steps:
            yield np.array([*parts, num_steps - sum(parts)]) / num_steps


def test_likeliest_weights_by_hand():
    """2 log(.1 + .8w) + log(.9 - .8w) has its top where 2 (.9 - .8w) = .1 + .8w, at w = 17/24."""
    weights = most_likely(np.array([[0.9, 0.9, 0.1], [0.1, 0.1, 0.9]]))
    np.testing.assert_allclose(weights, [17 / 24, 7 / 24], atol=1e-5)
    np.testing.assert_allclose(
        most_likely(np.array([[0.9, 0.1], [0.1, 0.9]])), [0.5, 0.5], atol=1e-5
    )
    np.testing.assert_allclose(most_likely(np.array([[0.9, 0.8], [0.5, 0.5]])), [1, 0], atol=1e-5)


def test_a_prior_by_hand_and_that_rows_outweigh_it():
    """With a row that excludes the second run: log(w) + k log(w) + k log(1 - w) has its top at (1 + k) / (1 + 2k)."""
    sure = np.array([[1.0], [0.0]])
    for prior_rows in (0, 1, 3):
        expected = [(1 + prior_rows) / (1 + 2 * prior_rows), prior_rows / (1 + 2 * prior_rows)]
        np.testing.assert_allclose(most_likely(sure, prior_rows), expected, atol=1e-5)
    assert most_likely(np.repeat(sure, 1000, axis=1), 3)[0] > 0.99


@pytest.mark.parametrize("task", ["sst", "para"])
def test_likeliest_weights_are_those_of_expectation_maximisation_and_beat_a_grid(task):
    votes, labels = make_votes(task)
    of_label = np.array(
        [
            [
                votes[run, row, int(label)]
                if task == "sst"
                else votes[run, row]
                if label == 1
                else 1 - votes[run, row]
                for row, label in enumerate(labels)
            ]
            for run in range(NUM_RUNS)
        ]
    )
    weights = fit_weights(TASKS[task], votes, labels)
    np.testing.assert_allclose(weights, expectation_maximisation(of_label, PRIOR_ROWS), atol=1e-3)

    def gain(other: np.ndarray) -> float:
        """What is climbed, a row."""
        return np.log(other @ of_label).mean() + PRIOR_ROWS * np.log(
            np.maximum(other, 1e-12)
        ).sum() / len(labels)

    best = max(map(gain, grid(NUM_RUNS)))
    assert best - 1e-9 <= gain(weights) <= best + 1e-3  # 1e-3: between two points of the grid


def test_a_label_that_a_run_excludes_does_not_stop_the_fit():
    weights = most_likely(np.array([[0.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5]]))
    # log(w) + log(1 / 2 ...): with u = 1 - w, log(u / 2) + 3 log(1 - u / 2) has its top at u = 1/2
    np.testing.assert_allclose(weights, [0.5, 0.5], atol=1e-4)


def test_most_correlated_weights_by_hand():
    """Two votes at right angles, labels 3 of one and 1 of the other, on another scale and with another mean."""
    first, second = np.array([1.0, -1, 1, -1]), np.array([1.0, 1, -1, -1])
    votes = np.stack([first + 7, second])
    np.testing.assert_allclose(
        most_correlated(votes, 3 * first + second + 2), [3 / 4, 1 / 4], atol=1e-12
    )
    np.testing.assert_allclose(most_correlated(votes, 3 * first - second), [1, 0], atol=1e-12)
    np.testing.assert_allclose(
        most_correlated(votes, -first - second), [1 / 2, 1 / 2]
    )  # none correlates: even
    np.testing.assert_allclose(
        most_correlated(votes[:, :1], first[:1]), [1 / 2, 1 / 2]
    )  # of one row nothing follows


def test_most_correlated_weights_beat_a_grid():
    votes, labels = make_votes("sts")
    weights = fit_weights(TASKS["sts"], votes, labels)
    best = max(pearson(mix(other, votes), labels) for other in grid(NUM_RUNS))
    assert best - 1e-12 <= pearson(mix(weights, votes), labels) <= best + 1e-3  # as above


def test_the_best_run_by_hand():
    votes = np.array(
        [[0.9, 0.9, 0.9], [0.9, 0.1, 0.9], [0.9, 0.1, 0.8]]
    )  # 2, 3 and 3 of 3 are right: the first of two
    assert choose_best(TASKS["para"], votes, np.array([1, 0, 1])).tolist() == [0, 1, 0]
    votes = np.array([[1.0, 2, 3], [3, 2, 1]])
    assert choose_best(TASKS["sts"], votes, np.array([5, 4, 3])).tolist() == [0, 1]


@pytest.mark.parametrize(("method", "task"), EVERY_METHOD_AND_TASK)
def test_weights_are_a_mixture_and_go_with_their_runs(method, task):
    weigh = partial(METHODS[method].weigh, TASKS[task])
    votes, labels = make_votes(task)
    weights = weigh(votes, labels)
    assert weights.shape == (NUM_RUNS,) and weights.min() >= 0 and weights.sum() == pytest.approx(1)
    for order in itertools.permutations(range(NUM_RUNS)):
        np.testing.assert_allclose(
            weigh(votes[list(order)], labels), weights[list(order)], atol=1e-4
        )


@pytest.mark.parametrize(("method", "task"), EVERY_METHOD_AND_TASK)
def test_identical_runs_are_as_good_as_one(method, task):
    labels, (outputs, *_) = make_outputs(task)
    outcome = apply_to(method, task, labels, [outputs] * 4)
    alone = TASKS[task].score(TASKS[task].decode(outputs), labels)
    assert outcome.out_of_fold == pytest.approx(alone, abs=1e-7)  # float32 predictions
    np.testing.assert_allclose(
        outcome.test, TASKS[task].decode(outputs), rtol=1e-5
    )  # and on its own scale


def test_fitted_weights_prefer_the_better_run():
    for task in TASKS:
        votes, labels = make_votes(task, num_rows=400)
        weights = fit_weights(TASKS[task], votes, labels)
        assert weights[0] > weights[1] > weights[2] - 1e-9, f"{task}: {weights}"


@pytest.mark.parametrize("method", METHODS)
def test_the_scale_of_a_similarity_model_does_not_matter(method):
    labels, outputs = make_outputs("sts")
    before = apply_to(method, "sts", labels, outputs)
    after = apply_to(method, "sts", labels, [outputs[0], 30 * outputs[1] - 5, 0.01 * outputs[2]])
    np.testing.assert_allclose(after.weights, before.weights, atol=1e-5)
    assert after.out_of_fold == pytest.approx(before.out_of_fold, abs=1e-5)
    assert pearson(after.test, before.test) == pytest.approx(1, abs=1e-6)


def test_negative_control_the_scale_does_matter_to_a_plain_mean():
    labels, outputs = make_outputs("sts")
    plain, wide = (
        pearson(np.mean(of_runs, axis=0), labels)
        for of_runs in (outputs, [*outputs[:2], 30 * outputs[2]])
    )
    assert abs(plain - wide) > 0.05
