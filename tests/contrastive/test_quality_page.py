"""contrastive/quality/page.py: the sections of made-up records, by hand."""

import pytest

from contrastive.quality import page


def scores(spearman: float) -> dict:
    correlations = {"spearman": spearman, "pearson": 0.1}
    return {"all": correlations, "standard_errors": {"spearman": 0.1}}


def test_the_overview_by_hand():
    sets = {
        "A": {
            "vectors": {"mean": scores(0.5), "WK": scores(0.25)},
            "left_out": {"mean, whitened": "too few"},
            "groups": 3,
        },
        "B": {"vectors": {"mean": scores(0.25)}, "left_out": {}, "groups": 10**6},
    }
    record = {"sets": sets, "pooling": "mean", "precision": "fp32", "max_length": 64}
    section = page.overview_section(record)
    assert section.body.header == ("sentence vector", "A", "B", "average")
    assert section.body.rows == (("mean", "0.5000", "0.2500", "0.3750"), ("WK", "0.2500", "–", "–"))
    assert "A: no mean, whitened (too few)." in section.prose
    # The t of two degrees of freedom is 4.303, and that of very many 1.96.
    assert "by ± 0.430 (A), ± 0.196 (B)." in section.prose


def test_correlations_under_each_convention_by_hand():
    of_mean = scores(0.5) | {"weighted mean": {"spearman": 0.25, "pearson": 0.125}}
    sets = {
        "A": {"rows": 1200, "vectors": {"mean": of_mean}},
        "B": {"rows": 7, "vectors": {"mean": scores(0.75)}},
    }
    chapter, spearman, pearson = page.correlation_sections(sets)
    assert chapter.level == 2 and chapter.body is None
    assert spearman.body.header == ("set", "sentence vector", "rows", "all", "weighted mean")
    assert spearman.body.rows == (
        ("A", "mean", "1,200", "0.5000", "0.2500"),
        ("B", "mean", "7", "0.7500", "–"),
    )
    assert pearson.body.rows[0][3:] == ("0.1000", "0.1250")


def test_subsets_by_hand():
    subsets = {"news": {"rows": 11, "spearman": 0.5, "pearson": 0.25}, "rest": None}
    sets = {
        "A": {"vectors": {"mean": {"subsets": subsets}}},
        "B": {"vectors": {"mean": {"subsets": {}}}},
    }
    (section,) = page.subset_sections(sets)
    assert section.title == "A by subset"
    assert section.body.rows == (("news", "11", "0.5000", "0.2500"), ("rest", "–", "–", "–"))
    assert section.prose.startswith("Sentence vector: mean. 1 with fewer than three rows")


def test_the_heat_map_by_hand():
    """0.2 to 0.4 fill the scale. The 0 of [CLS] in the embeddings does not stretch it."""
    layers = {"cls": [0.0, 0.25], "mean": [0.2, 0.4], "max": [0.3, 0.2]}
    section = page.layer_section("A", layers)
    assert section.body.rows == (
        ("0 (embeddings)", "0.0000", "0.2000", "0.3000"),
        ("1", "0.2500", "0.4000", "0.2000"),
    )
    assert section.body.shades == (pytest.approx((0, 0, 0, 0.5)), pytest.approx((0, 0.25, 1, 0)))
    assert "Highest: state 1, mean, 0.4000." in section.prose
    assert page.layer_section("A", {"mean": [0.5]}).body.shades == ((0.0, 0.0),)


def test_buckets_become_boxes_and_histograms():
    filled = {
        "low": 1.0,
        "high": 3.0,
        "rows": 2,
        "mean": 0.5,
        "deviation": 0.1,
        "quantiles": [-0.25, 0.4, 0.5, 0.6, 0.7],
    }
    empty = {"low": 3.0, "high": 5.0, "rows": 0, "mean": None, "deviation": None}
    histogram = {
        "edges": [-0.25, 0.5, 1.0],
        "bands": [1.0, 3.0, 5.0],
        "rows": [2, 0],
        "shares": [[0.25, 0.75], [0, 0]],
    }
    of_set = {
        "buckets": [filled, empty | {"quantiles": None}],
        "range": [1.0, 5.0],
        "vectors": {"mean": {}},
        "histogram": histogram,
    }
    section = page.bucket_section("A", of_set)
    numbers = ("0.500", "0.100", "-0.250", "0.400", "0.500", "0.600", "0.700")
    assert section.table.rows == (("1 to 3", "2", *numbers), ("3 to 5", "0", *["–"] * 7))

    boxes, histograms = section.body.plots
    assert boxes.edges == [1, 3, 5] and boxes.x_limits == (1, 5)
    assert boxes.y_limits == (-0.4, 1.0) == histograms.x_limits
    note = "label 1 to 3: 2 pairs, median cosine 0.500, middle half 0.400 to 0.600"
    assert boxes.notes == [note, ""]
    note = "label 1 to 3: 2 pairs, most often a cosine of 0.50 to 1.00"
    assert histograms.notes == [note, ""] and histograms.bands == [1.0, 3.0, 5.0]


# --- the map of pairs ---------------------------------------------------------------------------

PAIRS = [
    {"label": 5.0, "sentence_1": "a", "sentence_2": "b", "is_positive": True},
    {"label": 0.5, "sentence_1": "c", "sentence_2": "d", "is_positive": False},
]
MAP = {
    "points": [[[0, 0], [1, 1]], [[2, 2], [3, 3]]],
    "cosine": [0.98765, -0.5],
    "beside": [2, 0],
}


def test_one_map_by_hand():
    section = page.map_section({"set": "dev", "pairs": PAIRS, "maps": {"": MAP}}, None)
    assert section.table.header == ("pairs", "number", "labels", "mean cosine", "nearest")
    assert section.table.rows == (
        ("positive", "1", "5", "0.988", "2 of 2"),
        ("negative", "1", "0.5", "-0.500", "0 of 2"),
    )
    assert "--before MODEL adds" in section.prose
    assert "Only neighbourhood has a meaning" in section.prose
    (plot,) = section.body.plots
    assert plot.notes == ["label 5: a / b", "label 0.5: c / d"]
    assert plot.points == MAP["points"] and plot.is_positive == [True, False]


def test_two_maps_by_hand():
    maps = {"before": MAP, "after": MAP}
    section = page.map_section({"set": "dev", "pairs": PAIRS, "maps": maps}, "start")
    assert [plot.title for plot in section.body.plots] == ["before", "after"]
    assert section.prose.endswith("Before is start.")
    assert section.table.header[3:] == (
        "mean cosine, before",
        "mean cosine, after",
        "nearest, before",
        "nearest, after",
    )


def test_transfer_by_hand():
    record = {"rows": 1200, "classes": ["a", "b"], "folds": 10}
    record |= {"majority": 0.5, "accuracy": 0.75, "deviation": 0.0625}
    section = page.transfer_section({"films": record})
    assert section.body.rows == (("films", "1,200", "2", "0.500", "0.750 ± 0.062", "10"),)
