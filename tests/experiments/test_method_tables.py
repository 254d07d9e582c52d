"""experiments/method_tables.py: methods beside their controls."""

from __future__ import annotations

from experiments import method_tables
from experiments.method_tables import (
    CONTROLS,
    COURSE_ROWS,
    course,
    method_differences,
    methods,
)
from experiments.recipes import COMPARISONS
from experiments.records import add_records

RUN = {
    "machine": {"system": "Linux-6", "threads": 1, "device": "cpu"},
    "versions": {"torch": "2.13.0"},
    "code": {"git": "0123456789abcdef", "sha256": "0"},
    "date": "2026-11-26",
}


def run(recipe: str, seed: int, overall: float, **options) -> dict:
    scores = {"sst": 0.4 + seed / 10, "para": 0.7, "sts": 0.5, "overall_2023": overall}
    values = {"recipe": recipe, "seed": seed, "scores": scores}
    return {**RUN, **values, "options": options}


def test_a_method_stands_below_its_control(tmp_path, monkeypatch):
    monkeypatch.setattr(method_tables, "METHODS", tmp_path / "methods.jsonl")
    assert methods().startswith("Not measured yet.")
    rows = [run("defaults", 0, 0.5), run("defaults", 1, 0.6), run("r-drop", 1, 0.7)]
    add_records(method_tables.METHODS, [*rows, run("r-drop", 2, 0.9), run("surgery-sum", 0, 0.1)])
    text = methods()
    assert "| `defaults` | 2 | 0.450 ± 0.071 | 0.700 ± 0.000 | 0.500 ± 0.000 | 0.550" in text
    assert "| 0.800 ± 0.141 |" in text
    assert text.index("`defaults`") < text.index("`r-drop`") < text.index("`surgery-sum`")
    assert "Measured on 2026-11-26 with commit `0123456789`" in text


def test_differences_are_those_of_equal_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(method_tables, "METHODS", tmp_path / "methods.jsonl")
    assert method_differences().startswith("Not measured yet.")
    controls = [run("defaults", 0, 0.5), run("defaults", 1, 0.6)]
    # A seed that the control does not have is in no difference.
    runs = [run("r-drop", 1, 0.7), run("r-drop", 2, 0.9)]
    # A method without a run of its control has no row.
    add_records(method_tables.METHODS, [*controls, *runs, run("surgery-pcgrad", 0, 0.1)])
    lines = method_differences().split("\n")[2:]
    assert lines == ["| `r-drop` | `defaults` | 0.000 | 0.000 | 0.000 | 0.100 |"]


def test_every_method_and_control_is_a_comparison():
    assert {*CONTROLS, *CONTROLS.values()} <= COMPARISONS.keys()


def test_runs_on_the_course_data_are_told_apart_by_their_options(tmp_path, monkeypatch):
    monkeypatch.setattr(method_tables, "COURSE", tmp_path / "course.jsonl")
    assert course().startswith("Not measured yet.")
    for number, options in enumerate(COURSE_ROWS.values()):
        add_records(method_tables.COURSE, [run("none", 0, number / 10, lr=7e-5, **options)])
    # Runs of one task have no overall score, and belong to no row.
    single = run("none", 0, 0.0)
    del single["scores"]["overall_2023"]
    add_records(method_tables.COURSE, [single])
    lines = course().split("\n")[2:]
    for number, title in enumerate(COURSE_ROWS):
        cells = f"| {title} | 1 | 0.400 | 0.700 | 0.500 | {number / 10:.3f} |"
        assert lines[number] == cells
