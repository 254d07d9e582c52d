"""tools/benchmarks/round_trips.py: the table, its record, and what a cell notices."""

from __future__ import annotations

from datetime import date

import pytest
import torch

from experiments.records import read_records
from tools.benchmarks.round_trips import (
    LIBRARIES,
    MODELS,
    ROUND_TRIPS,
    WAYS,
    difference,
    make_record,
    measure,
)

pytest.importorskip("transformers", reason="run setup.sh --dev")
pytest.importorskip("sentence_transformers", reason="run setup.sh --dev")


@pytest.fixture(scope="module")
def record():
    return read_records(ROUND_TRIPS)[-1]


def test_every_model_was_measured_on_every_way(record):
    assert list(record["differences"]) == list(MODELS)
    for differences in record["differences"].values():
        assert list(differences) == list(WAYS)
        assert all(0 <= value < 1e-5 for value in differences.values())


@pytest.mark.parametrize("name", [name for name, family in MODELS.items() if family])
def test_random_models_come_back_equal(name):
    assert max(measure(name).values()) < 1e-5


@pytest.mark.parametrize("change", ["one token", "one number", "one row less"])
def test_a_difference_is_noticed(change):
    rows = [torch.zeros(3, 5), torch.zeros(4, 5)]
    other = [row.clone() for row in rows]
    assert difference(rows, other) == 0
    if change == "one row less":
        other[1] = other[1][:3]
    else:
        other[1][2, 4 if change == "one token" else 0] = 1e-4
    assert difference(rows, other) > 1e-5


def test_a_record_says_which_weights_are_real():
    made = make_record({name: {} for name in MODELS}, date(2026, 11, 25))
    real = [name for name, weights in made["weights"].items() if weights == "real"]
    assert real == ["minbert-mini", "MiniLM"]
    assert set(made["versions"]) == set(LIBRARIES)
