"""minbert/reporting/intervals.py: against scipy, against repeated rows, by hand, and its level."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, f1_score

from minbert.reporting.differences import (
    Estimate,
    describe_difference,
    estimate_over_seeds,
    holm,
)
from minbert.reporting.intervals import (
    WEIGHTED_SCORES,
    draw_weights,
    estimate_difference,
    groups_of,
    resample,
    score_interval,
    wilson,
)
from multitask.tasks import METRICS

LABELS = np.array([0, 1, 2, 1, 0, 2, 1, 1, 0, 2], dtype=np.float32)
PREDICTIONS = np.array([0, 1, 1, 1, 2, 2, 0, 1, 0, 2], dtype=np.float32)


@pytest.mark.parametrize("name", METRICS)
def test_weights_count_as_repeated_rows(name):
    """Any weights, a row that is left out, and one class alone."""
    weights = np.array([[1, 2, 0, 3, 1, 1, 0, 0, 2, 1], [0, 1, 0, 1, 0, 0, 0, 2, 0, 0]])
    scores = WEIGHTED_SCORES[name](PREDICTIONS, LABELS, weights.astype(np.float64))
    for row, score in zip(weights, scores, strict=True):
        expected = METRICS[name].score(np.repeat(PREDICTIONS, row), np.repeat(LABELS, row))
        assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("name", "score"), [("f1", f1_score), ("average_precision", None)])
def test_weighted_scores_of_pairs_are_those_of_scikit_learn(name, score):
    """Predictions with ties, and a resample without a row of class 1."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 40)
    predictions = generator.integers(0, 2, 40) if score else generator.normal(size=40).round(1)
    weights = np.stack([generator.integers(0, 3, 40), labels == 0]).astype(np.float64)
    first, without = WEIGHTED_SCORES[name](predictions, labels, weights)
    function = score or average_precision_score
    assert first == pytest.approx(function(labels, predictions, sample_weight=weights[0]))
    assert without == 0


def test_rows_that_share_a_text_are_one_group():
    """A first and a second question count alike, and rows may be linked by a third one."""
    texts = [("a", "b"), ("c", "d"), ("b", "e"), ("f", "g"), ("e", "h")]
    others = [(str(number),) for number in range(25)]
    groups = groups_of(texts + others)
    assert groups[0] == groups[2] == groups[4]
    assert len({groups[0], groups[1], groups[3]}) == 3
    assert sorted(set(groups)) == list(range(28))


def test_one_group_of_nearly_all_rows_is_no_group():
    """All rows have the same first sentence: one group could not be drawn from."""
    assert groups_of([("a", str(number)) for number in range(12)]).tolist() == list(range(12))


def test_rows_of_a_group_are_drawn_together():
    groups = np.array([0, 1, 0, 2])
    weights = np.concatenate(list(draw_weights(groups, 50, seed=0)))
    assert weights.shape == (50, 4)
    assert (weights[:, 0] == weights[:, 2]).all()
    # Three groups are drawn each time.
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()


def test_standard_error_of_an_accuracy_is_that_of_a_share():
    """70 of 100 rows: sqrt(.7 * .3 / 100)."""
    labels = np.zeros(100)
    predictions = np.repeat([0.0, 1.0], [70, 30])
    resampled = resample("accuracy", predictions[None], labels, np.arange(100), num_resamples=4000)
    assert resampled.std() == pytest.approx(math.sqrt(0.7 * 0.3 / 100), rel=0.04)


def test_each_row_twice_makes_no_interval_narrower():
    """Copies of rows are no new rows. Without groups the standard error would be 0.7 of this."""
    labels = np.zeros(200)
    predictions = np.repeat([0.0, 1.0], [140, 60])
    groups = np.arange(200) // 2
    resampled = resample("accuracy", predictions[None], labels, groups, num_resamples=4000)
    assert resampled.std() == pytest.approx(math.sqrt(0.7 * 0.3 / 100), rel=0.04)


def test_one_run_each_is_a_paired_t_test_of_rows():
    generator = np.random.default_rng(0)
    labels = np.zeros(400)
    first = (generator.random(400) < 0.4).astype(float)
    second = np.where(generator.random(400) < 0.8, first, 1 - first)
    resampled = resample(
        "accuracy", np.stack([first, second]), labels, np.arange(400), num_resamples=4000
    )
    scores = np.array([np.mean(first == 0)]), np.array([np.mean(second == 0)])
    estimate = estimate_difference(scores, (resampled[:, :1], resampled[:, 1:]), 400)
    test = stats.ttest_1samp(first - second, 0.0)
    assert estimate.p_value == pytest.approx(test.pvalue, abs=0.02)
    assert estimate.interval == pytest.approx(test.confidence_interval(), abs=0.002)


def test_seeds_alone_are_the_t_tests_of_scipy():
    """Paired over seeds; and of two groups of runs where the rows have no effect."""
    differences = [0.03, 0.01, 0.02, -0.01]
    test = stats.ttest_1samp(differences, 0.0)
    estimate = estimate_over_seeds(differences)
    assert estimate.p_value == pytest.approx(test.pvalue)
    assert estimate.interval == pytest.approx(test.confidence_interval())

    first, second = np.array([0.5, 0.52, 0.51]), np.array([0.55, 0.53, 0.56, 0.54])
    nothing = np.zeros((10, 3)), np.zeros((10, 4))
    estimate = estimate_difference((first, second), nothing, 100)
    assert estimate.p_value == pytest.approx(stats.ttest_ind(first, second).pvalue)


def test_one_run_against_several_is_refused():
    scores = np.array([0.5]), np.array([0.5, 0.6])
    with pytest.raises(ValueError, match="one run and the other side several"):
        estimate_difference(scores, (np.zeros((9, 1)), np.zeros((9, 2))), 50)


def test_all_rows_right_leaves_room_below():
    """Wilson's interval: 20 of 20 rows say little about the next row."""
    low, high = score_interval("accuracy", 1.0, np.ones(10), num_groups=20, num_rows=20)
    assert low == pytest.approx(0.839, abs=1e-3)
    assert high == pytest.approx(1.0)
    # Twice the rows in the same groups say no more.
    assert score_interval("accuracy", 1.0, np.ones(10), num_groups=20, num_rows=40) == (low, high)


def test_interval_of_wilson_is_that_of_scipy():
    expected = stats.binomtest(37, 120).proportion_ci(method="wilson")
    assert wilson(37 / 120, 120) == pytest.approx((expected.low, expected.high))


def test_correction_of_holm_by_hand():
    """The smallest counts three times, the next one twice; none may fall below an earlier one."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (Estimate(0.03, 0.01**2, 400), "B is better by 0.030 [0.010, 0.050]"),
        (Estimate(-0.03, 0.01**2, 400), "A is better by 0.030 [0.010, 0.050]"),
        (Estimate(0.001, 0.003**2, 400), "the same within 0.01"),
        (Estimate(0.0, 0.0, 400), "the same within 0.01"),
        # Half the standard error would do, so four times the rows.
        (
            Estimate(0.02, 0.02**2, 400),
            "cannot tell (+0.020 [-0.019, +0.059]): about 1,200 more rows are needed",
        ),
        (
            Estimate(0.02, 0.001**2, 400, 0.02**2, 4),
            "cannot tell (+0.020 [-0.036, +0.076]): about 10 more seeds are needed",
        ),
        (
            Estimate(0.05, 0.001**2, 400, 0.02**2, 4),
            "cannot tell (+0.050 [-0.006, +0.106]): about 1 more seed is needed",
        ),
        (
            Estimate(0.02, 0.02**2, 400, 0.02**2, 4),
            "cannot tell (+0.020 [-0.044, +0.084]): more rows and more seeds are needed",
        ),
    ],
)
def test_what_a_difference_says(estimate, words):
    assert describe_difference(estimate, ("A", "B")) == words


def test_a_corrected_p_value_takes_a_claim_back():
    estimate = Estimate(0.03, 0.014**2, 400)
    assert "better" in describe_difference(estimate, ("A", "B"))
    assert "cannot tell" in describe_difference(estimate, ("A", "B"), p_value=0.2)


# --- the level ------------------------------------------------------------------------------------


def share_of_alarms(estimates):
    return np.mean([estimate.p_value <= 0.05 for estimate in estimates])


def equal_systems(num_pairs, num_runs=2):
    """Estimates of two equal systems with seed effects as large as those of 300 rows."""
    generator = np.random.default_rng(0)
    labels = np.zeros(300)
    estimates = []
    for _ in range(num_pairs):
        of_row = generator.normal(size=(2, 1, 300)) * 0.7
        of_run = generator.normal(size=(2, num_runs, 300)) * 0.7
        skills = 0.6 + 0.08 * generator.normal(size=(2, num_runs, 1))
        wrong = (of_row + of_run > skills).astype(float)
        stacked = wrong.reshape(2 * num_runs, 300)
        resampled = resample("accuracy", stacked, labels, np.arange(300), num_resamples=200)
        scores = 1 - wrong.mean(axis=2)
        sides = resampled[:, :num_runs], resampled[:, num_runs:]
        estimates.append(estimate_difference((scores[0], scores[1]), sides, 300))
    return estimates


@pytest.fixture(scope="module")
def estimates():
    return equal_systems(300)


def test_equal_systems_are_rarely_called_different(estimates):
    """Of 300 pairs, 15 are expected, give or take 8. tools/calibration.py takes more."""
    assert 0.02 < share_of_alarms(estimates) < 0.085


def test_each_source_by_itself_would_be_called_different_too_often(estimates):
    """Wrong versions: rows alone, seeds alone with normal quantiles."""
    rows = [estimate._replace(seed_variance=0.0, degrees_of_seeds=0) for estimate in estimates]
    assert share_of_alarms(rows) > 0.15
    seeds = [estimate._replace(row_variance=0.0, degrees_of_seeds=10**6) for estimate in estimates]
    assert share_of_alarms(seeds) > 0.15
