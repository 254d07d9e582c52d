"""benchmarks/round_trips.py: the table of docs/models.md, its record, and what a cell notices."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks import round_trips
from benchmarks.round_trips import MODELS, PAGE, RECORD, WAYS, difference, measure, table_of

pytest.importorskip("transformers", reason="run setup.sh --dev")
pytest.importorskip("sentence_transformers", reason="run setup.sh --dev")


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_table_of_the_page_is_that_of_the_record(record):
    assert table_of(record) in PAGE.read_text(encoding="utf-8"), (
        "run python -m benchmarks.round_trips, which measures and writes both"
    )


def test_every_model_was_measured_on_every_way(record):
    assert list(record["differences"]) == list(MODELS)
    for differences in record["differences"].values():
        assert list(differences) == list(WAYS)
        assert all(0 <= value < 1e-5 for value in differences.values())


@pytest.mark.parametrize("name", [name for name, family in MODELS.items() if family])
def test_random_models_come_back_equal(name, no_fsync):
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


def test_the_page_changes_between_its_markers_only(record, tmp_path, monkeypatch):
    page = tmp_path / "models.md"
    page.write_text(f"before\n{round_trips.BEGIN}\nold\n{round_trips.END}\nafter\n")
    monkeypatch.setattr(round_trips, "PAGE", page)
    round_trips.write_page(record)
    assert page.read_text() == f"before\n{table_of(record)}\nafter\n"
