"""tools/tables/soup_tables.py: soups beside ingredients, and runs that do not belong there."""

from __future__ import annotations

import pytest

from experiments.records import add_records
from tools.tables import soup_tables
from tools.tables.__main__ import TABLES
from tools.tables.soup_tables import ALONE, RUNS, soup_differences, soups

RUN = {
    "recipe": "none",
    "machine": {"system": "Linux-6", "threads": 1, "device": "cpu"},
    "versions": {"torch": "2.13.0"},
    "code": {"git": "0123456789abcdef", "sha256": "0"},
    "date": "2026-11-26",
    "data": "d" * 64,
    "minutes": 10.0,
}


def run(task: str, seed: int, soup: float, *ingredients: float, **parts) -> dict:
    """The record of a soup of one task."""
    entry = {
        "scores": {task: soup},
        "ingredients": [{"scores": {task: score}} for score in ingredients],
    }
    of_run = {"seed": seed, "scores": {task: soup}, "soup": entry, "options": ALONE | RUNS[task]}
    return {**RUN, **of_run, **parts}


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Adds records to an empty file."""
    monkeypatch.setattr(soup_tables, "COURSE", tmp_path / "course.jsonl")
    return lambda *records: add_records(soup_tables.COURSE, records)


def test_a_soup_stands_beside_its_ingredients(add):
    assert soups().startswith("Not measured yet.")
    assert soup_differences().startswith("Not measured yet.")
    add(run("sst", 0, 0.5, 0.3, 0.5), run("para", 0, 0.8, 0.8, 0.8), run("sts", 0, 0.9, 0.7, 0.8))
    lines = soups().split("\n")
    assert lines[2:6] == [
        "| one training (ingredient 1) | 1 | 0.300 | 0.800 | 0.700 | 0.600 |",
        "| mean over the ingredients | 1 | 0.400 | 0.800 | 0.750 | 0.650 |",
        "| best ingredient, chosen on dev | 1 | 0.500 | 0.800 | 0.800 | 0.700 |",
        "| the soup | 1 | 0.500 | 0.800 | 0.900 | 0.733 |",
    ]
    assert lines[-1].startswith("Seeds: 0. Ingredients: 3 for SST, 2 for PARA and 2 for STS. Meas")
    assert lines[-1].endswith("The three runs of a seed took 30 minutes together.")
    assert soup_differences().split("\n")[2:] == [
        "| one training (ingredient 1) | 1 | 0.200 | 0.000 | 0.200 | 0.133 |",
        "| mean over the ingredients | 1 | 0.100 | 0.000 | 0.150 | 0.083 |",
        "| best ingredient, chosen on dev | 1 | 0.000 | 0.000 | 0.100 | 0.033 |",
    ]


def test_differences_are_taken_seed_by_seed(add):
    for seed, soup in ((0, 0.5), (1, 0.9)):
        for task in RUNS:
            add(run(task, seed, soup, soup - 0.1, soup - 0.1))
    text = soup_differences()
    assert "| 2 | 0.100 ± 0.000 | 0.100 ± 0.000 | 0.100 ± 0.000 | 0.100 ± 0.000 |" in text
    assert "0.700 ± 0.283" in soups(), "the scores themselves differ from seed to seed"


def test_a_seed_without_one_of_the_tasks_is_left_out(add):
    add(run("sst", 0, 0.5, 0.5), run("para", 0, 0.8, 0.8))
    assert soups().startswith("Not measured yet.")


def test_runs_with_other_options_are_left_out(add):
    add(run("sst", 0, 0.5, 0.5), run("para", 0, 0.8, 0.8), run("sts", 0, 0.9, 0.9))
    other = {**ALONE, **RUNS["sst"], "lr": 2e-4}
    add(run("sst", 0, 0.1, 0.1, options=other))
    assert "| the soup | 1 | 0.500 |" in soups()


def test_runs_on_other_data_are_refused(add):
    for seed in (0, 1):
        add(*(run(task, seed, 0.5, 0.5) for task in RUNS))
    add(run("sst", 2, 0.5, 0.5, data="e" * 64))
    with pytest.raises(ValueError, match="the data are not the same"):
        soups()


def test_the_pages_can_hold_the_tables():
    assert {"course-soups", "course-soup-differences"} <= TABLES.keys()
