"""multitask/errors/breakdown.py: each number by hand, by a slow loop, or by another library."""

import math

import numpy as np
import pytest
import torch

from data.examples import Example
from multitask.errors import breakdown
from multitask.errors.mistakes import DevOutputs, prediction_probability, worst_rows
from multitask.tasks import TASKS

RANDOM = np.random.default_rng(0)


def pair(first: str, second: str | None = None, label: float = 0.0) -> Example:
    return Example("a1", first, second, label)


def as_lists(buckets) -> list[tuple[str, list[int]]]:
    return [(bucket.name, bucket.rows.tolist()) for bucket in buckets]


# --- probabilities and mistakes -----------------------------------------------------------------


def test_probability_by_hand_and_by_torch():
    logits = np.array([[0, 0], [math.log(3), 0], [1000, -1000]], np.float32)
    assert prediction_probability(logits) == pytest.approx([0.5, 0.75, 1.0])
    logits = np.array([0, math.log(3), -math.log(3), -1000], np.float32)
    assert prediction_probability(logits) == pytest.approx([0.5, 0.75, 0.75, 1.0])

    logits = RANDOM.normal(size=(50, 5)).astype(np.float32)
    expected = torch.from_numpy(logits).double().softmax(1).max(1).values.numpy()
    assert prediction_probability(logits) == pytest.approx(expected, abs=1e-15)
    second = torch.from_numpy(logits[:, 0]).double().sigmoid().numpy()
    expected = np.maximum(second, 1 - second)
    assert prediction_probability(logits[:, 0]) == pytest.approx(expected, abs=1e-15)


def test_severity_of_classes_is_the_probability_of_the_wrong_answer():
    examples = (pair("a", "b", 1), pair("a", "b", 0), pair("a", "b", 1))
    dev = DevOutputs(TASKS["para"], examples, np.array([2, 2, -3], np.float32))
    assert dev.severity == pytest.approx([0, 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-3))])


def test_severity_of_numbers_is_the_distance_on_the_scale():
    examples = tuple(pair("a", "b", label) for label in (5, 0, 2.75, 3))
    dev = DevOutputs(TASKS["sts"], examples, np.array([5.5, -1, 2, 7], np.float32))
    assert dev.clipped.tolist() == [5, 0, 2, 5]
    assert dev.predictions.tolist() == [5.5, -1, 2, 7]
    assert dev.severity.tolist() == [0, 0, 0.75, 2]


def test_worst_rows_come_first_and_right_ones_never():
    assert worst_rows(np.array([0.5, 0, 0.9, 0.5, 0]), 10).tolist() == [2, 0, 3]
    assert worst_rows(np.array([0.5, 0, 0.9, 0.5, 0]), 2).tolist() == [2, 0]
    assert worst_rows(np.zeros(3), 2).tolist() == []
    severity = RANDOM.choice([0, 0.25, 0.5, 0.75], 100)
    wrong = [row for row in range(100) if severity[row] > 0]
    slow = sorted(wrong, key=lambda row: (-severity[row], row))
    assert worst_rows(severity, 100).tolist() == slow


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("A cat sat", "a CAT sat", 1),
        ("a b c", "c d", 0.25),
        ("a", "b", 0),
        ("the the cat", "the cat", 1),
        ("Is it so?", "it is so", 1),
        ("?!", "...", 0),
        ("?!", "a", 0),
        ("a b c d e", "a b c f", 0.5),
    ],
)
def test_overlap_by_hand(first, second, overlap):
    assert breakdown.word_overlap(first, second) == overlap
    assert breakdown.word_overlap(second, first) == overlap


def test_words_are_counted_in_both_sentences():
    examples = [pair("It 's good ."), pair("a b", "c"), pair("...", "?")]
    assert breakdown.count_words(examples).tolist() == [3, 3, 0]


# --- buckets ------------------------------------------------------------------------------------


def test_quartiles_by_hand():
    assert as_lists(breakdown.quartiles(np.array([8, 1, 2, 3, 4, 5, 6, 7]))) == [
        ("1 to 2", [1, 2]),
        ("3 to 4", [3, 4]),
        ("5 to 6", [5, 6]),
        ("7 to 8", [0, 7]),
    ]
    buckets = breakdown.quartiles(np.array([3, 3, 3, 3, 3, 9]))
    assert [bucket.name for bucket in buckets] == ["3", "9"]
    assert as_lists(breakdown.quartiles(np.array([4]))) == [("4", [0])]


def test_quartiles_are_a_slow_loop_s():
    """An edge is the least value that at least a quarter (half, ...) of the rows do not exceed."""
    values = RANDOM.integers(1, 30, 101)
    edges = []
    for share in (0.25, 0.5, 0.75):
        edges.append(min(value for value in values if sum(values <= value) >= share * 101))
    slow = [[], [], [], []]
    for row, value in enumerate(values):
        slow[sum(value > edge for edge in edges)].append(row)
    assert [bucket.rows.tolist() for bucket in breakdown.quartiles(values)] == slow


def test_a_bucket_of_overlaps_holds_its_lower_edge():
    overlaps = np.array([0, 0.19, 1 / 5, 2 / 5, 3 / 5, 4 / 5, 0.99, 1])
    assert as_lists(breakdown.overlap_buckets(overlaps)) == [
        ("below 0.2", [0, 1]),
        ("0.2 to 0.4", [2]),
        ("0.4 to 0.6", [3]),
        ("0.6 to 0.8", [4]),
        ("0.8 to 1", [5, 6]),
        ("1", [7]),
    ]


def test_a_bucket_for_each_unit_and_five_in_the_last():
    labels = np.array([0, 0.99, 1, 2.75, 4, 5], np.float32)
    assert as_lists(breakdown.edge_buckets(labels, breakdown.scale_edges(0, 5))) == [
        ("0 to 1", [0, 1]),
        ("1 to 2", [2]),
        ("2 to 3", [3]),
        ("3 to 4", []),
        ("4 to 5", [4, 5]),
    ]


def test_edges_of_other_scales():
    assert breakdown.scale_edges(1, 4) == [1, 2, 3, 4]
    assert breakdown.scale_edges(-2.0, 2.0) == [-2, -1, 0, 1, 2]
    assert breakdown.scale_edges(0, 100) == [0, 20, 40, 60, 80, 100]
    assert breakdown.scale_edges(0.5, 1.5) == pytest.approx([0.5, 0.7, 0.9, 1.1, 1.3, 1.5])
    names = [bucket.name for bucket in breakdown.edge_buckets(np.array([0.1]), [0, 0.2, 0.4])]
    assert names == ["0 to 0.2", "0.2 to 0.4"]


@pytest.mark.parametrize("num_rows", [1, 2, 5, 400])
def test_every_row_is_in_one_bucket_whatever_the_numbers(num_rows):
    for buckets in (
        breakdown.quartiles(RANDOM.integers(0, 7, num_rows)),
        breakdown.overlap_buckets(RANDOM.integers(0, 11, num_rows) / 10),
        breakdown.edge_buckets(RANDOM.uniform(-1, 6, num_rows), breakdown.scale_edges(0, 5)),
    ):
        rows = np.concatenate([bucket.rows for bucket in buckets])
        assert sorted(rows) == list(range(num_rows))
