"""contrastive/quality/metrics.py: correlations by subset, cosines by label, transfer."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from contrastive.quality.metrics import (
    QUANTILES,
    aggregate,
    cosine_buckets,
    cosine_histogram,
    label_range,
    positive_threshold,
    subset_correlations,
    transfer_accuracies,
)
from contrastive.zero_shot import correlations


def made_up(num_rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 21, num_rows) / 4
    cosines = (labels / 5 + generator.normal(0, 0.4, num_rows)).astype(np.float32)
    return cosines, labels, [("a", "b", "c")[number % 5 % 3] for number in range(num_rows)]


# --- correlations -------------------------------------------------------------------------------


def test_correlations_by_hand_and_by_scipy():
    """Ranks 1, 2, 4, 3 against 1 to 4: 1 - 6 (0 + 0 + 1 + 1) / (4 x 15) = .8."""
    cosines, labels = np.array([0.1, 0.2, 0.9, 0.8]), np.array([0.0, 1, 2, 5])
    scores = correlations(cosines, labels)
    assert list(scores) == ["spearman", "pearson"] and scores["spearman"] == pytest.approx(0.8)
    assert scores["pearson"] == pytest.approx(np.corrcoef(cosines, labels)[0, 1])
    # These have ties.
    cosines, labels, _ = made_up()
    assert correlations(cosines, labels) == {
        "spearman": spearmanr(cosines, labels).statistic,
        "pearson": pearsonr(cosines, labels).statistic,
    }
    assert correlations(np.ones(3), np.arange(3)) == {"spearman": 0.0, "pearson": 0.0}
    with pytest.raises(ValueError, match="all 3 labels are 2"):
        correlations(np.arange(3), np.full(3, 2.0))


def test_subsets_by_hand():
    labels = np.array([0.0, 1, 2, 5, 3, 1, 4, 4, 4, 0, 5])
    cosines = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2])
    subsets = ["up"] * 3 + ["down"] * 3 + ["one label"] * 3 + ["two rows"] * 2
    scores = subset_correlations(cosines, labels, subsets)
    assert list(scores) == ["up", "down", "one label", "two rows"]
    assert scores["up"] == {"rows": 3, "spearman": pytest.approx(1), "pearson": pytest.approx(1)}
    assert scores["down"]["spearman"] == pytest.approx(-1)
    assert scores["one label"] is None and scores["two rows"] is None


def test_conventions_by_hand():
    """Within each subset the order is right. Between them it is not, which only "all" sees."""
    labels = np.array([0.0, 1, 2, 3, 4, 5, 5.5])
    cosines = np.array([0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4])
    subsets = ["low"] * 3 + ["high"] * 4
    scores = aggregate(cosines, labels, subset_correlations(cosines, labels, subsets))
    assert list(scores) == ["all", "mean of subsets", "weighted mean"]
    assert scores["all"]["spearman"] < 0
    assert scores["mean of subsets"]["spearman"] == pytest.approx(1)
    assert scores["weighted mean"]["spearman"] == pytest.approx(1)


def test_means_of_subsets_by_hand():
    """(0.8 + 0.4) / 2 = 0.6, and weighted (30 x 0.8 + 10 x 0.4) / 40 = 0.7."""
    cosines, labels, _ = made_up()
    of_subsets = {
        "a": {"rows": 30, "spearman": 0.8, "pearson": 0.5},
        "b": None,
        "c": {"rows": 10, "spearman": 0.4, "pearson": 0.1},
    }
    scores = aggregate(cosines, labels, of_subsets)
    assert scores["mean of subsets"] == pytest.approx({"spearman": 0.6, "pearson": 0.3})
    assert scores["weighted mean"] == pytest.approx({"spearman": 0.7, "pearson": 0.4})


def test_conventions_are_a_slow_loop():
    cosines, labels, subsets = made_up()
    result = aggregate(cosines, labels, subset_correlations(cosines, labels, subsets))
    assert result["all"]["pearson"] == pytest.approx(pearsonr(cosines, labels).statistic)
    values, weights = [], []
    for name in ("a", "b", "c"):
        rows = [row for row, subset in enumerate(subsets) if subset == name]
        values.append(spearmanr(cosines[rows], labels[rows]).statistic)
        weights.append(len(rows))
    assert len(set(weights)) > 1
    assert result["mean of subsets"]["spearman"] == pytest.approx(sum(values) / 3)
    total = sum(value * weight for value, weight in zip(values, weights, strict=True))
    assert result["weighted mean"]["spearman"] == pytest.approx(total / 60)


def test_the_order_of_rows_does_not_matter():
    cosines, labels, subsets = made_up()
    results = []
    for rows in (np.arange(60), np.random.default_rng(1).permutation(60)):
        names = [subsets[row] for row in rows]
        of_subsets = subset_correlations(cosines[rows], labels[rows], names)
        results.append(aggregate(cosines[rows], labels[rows], of_subsets))
    for convention, scores in results[0].items():
        assert results[1][convention] == pytest.approx(scores)


def test_a_set_without_subsets_has_one_convention():
    cosines, labels, _ = made_up()
    assert list(aggregate(cosines, labels, {})) == ["all"]


# --- cosines by label ---------------------------------------------------------------------------


def test_the_scale_of_labels():
    assert label_range(np.array([0.2, 4.75])) == (0, 5)
    assert label_range(np.array([1.0, 5.0])) == (1, 5)
    assert positive_threshold(0, 5) == 4 and positive_threshold(0, 1) == 0.8
    assert positive_threshold(1, 5) == pytest.approx(4.2)


def test_buckets_by_hand():
    result = cosine_buckets(np.array([0.1, 0.3, 0.5, 0.9]), np.array([0.0, 0.25, 0.26, 5.0]), 0, 5)
    assert len(result) == 20 and sum(bucket["rows"] for bucket in result) == 4
    assert result[0] == {
        "low": 0,
        "high": 0.25,
        "rows": 2,
        "mean": pytest.approx(0.2),
        "deviation": pytest.approx(0.1),
        "quantiles": pytest.approx([0.11, 0.15, 0.2, 0.25, 0.29]),
    }
    # The bucket before holds its upper edge.
    assert result[1]["rows"] == 1 and result[1]["quantiles"] == [0.5] * 5
    assert result[2] == {
        "low": 0.5,
        "high": 0.75,
        "rows": 0,
        "mean": None,
        "deviation": None,
        "quantiles": None,
    }
    # The last bucket holds the highest label.
    assert result[19]["rows"] == 1 and result[19]["high"] == 5


def test_labels_on_an_edge_stay_below_it():
    """(2.2 - 1) / 0.2 is above 6 in binary. Each bucket must hold its upper edge all the same."""
    assert (2.2 - 1) / 0.2 > 6
    labels = np.array([round(1.2 + 0.2 * number, 1) for number in range(20)])
    assert [bucket["rows"] for bucket in cosine_buckets(np.zeros(20), labels, 1, 5)] == [1] * 20


def test_buckets_are_a_slow_loop():
    cosines, labels, _ = made_up(200)
    for bucket in cosine_buckets(cosines, labels, 0, 5, 8):
        inside = []
        for cosine, label in zip(cosines, labels, strict=True):
            if bucket["low"] < label <= bucket["high"] or bucket["low"] == label == 0:
                inside.append(float(cosine))
        assert bucket["rows"] == len(inside)
        assert bucket["mean"] == pytest.approx(sum(inside) / len(inside))
        assert bucket["deviation"] == pytest.approx(np.std(inside))
        quantiles = [np.quantile(inside, share) for share in QUANTILES]
        assert bucket["quantiles"] == pytest.approx(quantiles)


def test_a_histogram_by_hand():
    cosines, labels = np.array([-0.12, 0.31, 0.33, 0.99, 1.0]), np.array([0.0, 0.5, 0.9, 5.0, 1.0])
    result = cosine_histogram(cosines, labels, 0, 5)
    # An edge belongs to the band below it.
    assert result["bands"] == [0, 1, 2, 3, 4, 5] and result["rows"] == [4, 0, 0, 0, 1]
    assert result["edges"] == pytest.approx(np.arange(-3, 21) * 0.05) and len(result["edges"]) == 24
    filled = []
    for row in result["shares"]:
        shares = zip(result["edges"], row, strict=False)
        filled.append({round(edge, 2): share for edge, share in shares if share})
    assert filled == [{-0.15: 0.25, 0.3: 0.5, 0.95: 0.25}, {}, {}, {}, {0.95: 1}]


def test_a_histogram_counts_every_pair_once():
    cosines, labels, _ = made_up(200)
    cosines = np.clip(cosines, -1, 1)
    result = cosine_histogram(cosines, labels, 0, 5)
    assert sum(result["rows"]) == 200
    assert [sum(row) for row in result["shares"]] == pytest.approx([1] * 5)
    counts = np.histogram(cosines, result["edges"])[0]
    assert (np.array(result["rows"]) @ result["shares"]).tolist() == pytest.approx(counts.tolist())


# --- transfer -----------------------------------------------------------------------------------


def clusters(num_rows: int, distance: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.arange(num_rows) % 2
    vectors = generator.normal(size=(num_rows, 4))
    vectors[:, 0] += distance * labels
    return vectors.astype(np.float32), labels


def names(num_rows: int) -> list[str]:
    return [f"sentence {number}" for number in range(num_rows)]


def test_classes_far_apart_are_told_apart_and_equal_ones_are_not():
    vectors, labels = clusters(100, 20)
    assert transfer_accuracies(vectors, labels, names(100), 10, 0).tolist() == [1.0] * 10
    vectors, labels = clusters(400, 0)
    accuracy = transfer_accuracies(vectors, labels, names(400), 10, 0).mean()
    assert abs(accuracy - 0.5) < 0.1, "4 standard errors"


def test_transfer_is_scikit_learn_s_cross_validation():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    vectors, labels = clusters(90, 1)
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=3)
    classifier = Pipeline([("scale", StandardScaler()), ("fit", LogisticRegression(max_iter=1000))])
    groups = np.unique(names(90), return_inverse=True)[1]
    expected = cross_val_score(classifier, vectors, labels, groups=groups, cv=folds)
    result = transfer_accuracies(vectors, labels, names(90), 5, 3)
    np.testing.assert_allclose(result, expected)
    assert 0.5 < result.mean() < 1 and result.std() > 0
    other_seed = transfer_accuracies(vectors, labels, names(90), 5, 4)
    assert not np.array_equal(other_seed, result), "the seed must draw the folds"


def test_the_scale_of_a_coordinate_does_not_matter():
    vectors, labels = clusters(90, 1)
    result = transfer_accuracies(vectors, labels, names(90), 5, 0)
    scaled = (vectors * np.array([1000, 1, 0.001, 7], dtype=np.float32) + 5).astype(np.float64)
    # One row of the 18 in a fold may differ.
    np.testing.assert_allclose(
        transfer_accuracies(scaled, labels, names(90), 5, 0), result, atol=0.06
    )


def test_equal_sentences_share_a_fold():
    """Each sentence occurs twice, with a random label.

    A classifier that has seen the twin knows the answer. Any other one must guess.
    """
    generator = np.random.default_rng(0)
    # There are more units than sentences, so all of them can be learnt.
    vectors = np.repeat(generator.normal(size=(60, 80)), 2, axis=0)
    labels = np.repeat(generator.permutation(np.arange(60) % 2), 2)
    twins = np.repeat(names(60), 2).tolist()
    assert transfer_accuracies(vectors, labels, twins, 5, 0).mean() < 0.75
    other = transfer_accuracies(vectors, labels, names(120), 5, 0).mean()
    assert other > 0.8, "negative control: without groups, twins are in different folds"
