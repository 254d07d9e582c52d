"""tools/tables/method_tables.py: methods beside controls, and records that do not fit."""

from __future__ import annotations

import pytest

from experiments.controls import CONTROLS, check_flags
from experiments.recipes import COMPARISONS, values_of
from experiments.records import add_records
from experiments.series import Series
from tools.tables import method_tables
from tools.tables.method_tables import (
    COURSE_PAIRS,
    COURSE_ROWS,
    course,
    course_differences,
    method_differences,
    methods,
)

RUN = {
    "machine": {"system": "Linux-6", "threads": 1, "device": "cpu"},
    "versions": {"torch": "2.13.0"},
    "code": {"git": "0123456789abcdef", "sha256": "0"},
    "date": "2026-11-26",
    "data": "d" * 64,
    "minutes": 1.5,
}
# Values that a run puts in place of "auto".
AUTOMATIC = {"lr": 5e-4, "score": "overall_2023", "pair_encoding": "cross", "device": "cpu"}


def run(recipe: str, seed: int, overall: float, options=None, **parts) -> dict:
    """A record of a recipe with the options that a run records."""
    scores = {"sst": 0.4 + seed / 10, "para": 0.7, "sts": 0.5, "overall_2023": overall}
    if options is None:
        options = {**AUTOMATIC, **values_of(recipe)}
    values = {"recipe": recipe, "seed": seed, "scores": scores, "options": options}
    return {**RUN, **values, **parts}


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Adds records to an empty file of methods."""
    monkeypatch.setattr(method_tables, "METHODS", tmp_path / "methods.jsonl")
    return lambda *records: add_records(method_tables.METHODS, records)


def test_a_method_stands_below_its_control(add):
    assert methods().startswith("Not measured yet.")
    rows = [run("defaults", 0, 0.5), run("defaults", 1, 0.6), run("r-drop", 1, 0.7)]
    add(*rows, run("r-drop", 2, 0.9), run("surgery-sum", 0, 0.1))
    text = methods()
    assert "| `defaults` | 2 | 0.450 ± 0.071 | 0.700 ± 0.000 | 0.500 ± 0.000 | 0.550" in text
    assert "| 0.800 ± 0.141 |" in text
    assert text.index("`defaults`") < text.index("`r-drop`") < text.index("`surgery-sum`")
    assert "Seeds: 0, 1 and 2. Measured on 2026-11-26 with commit `0123456789`" in text


def test_differences_are_those_of_equal_seeds(add):
    assert method_differences().startswith("Not measured yet.")
    # A seed that the control does not have is in no difference.
    add(run("defaults", 0, 0.5), run("defaults", 1, 0.6), run("r-drop", 1, 0.7))
    # A method without a run of its control has no row.
    add(run("r-drop", 2, 0.9), run("surgery-pcgrad", 0, 0.1))
    lines = method_differences().split("\n")
    assert lines[0].startswith("| recipe | control | n | SST |")
    assert lines[2:] == ["| `r-drop` | `defaults` | 1 | 0.000 | 0.000 | 0.000 | 0.100 |"]


def test_a_seed_that_is_measured_again_counts_once(add):
    add(run("defaults", 0, 0.5), run("defaults", 0, 0.7))
    assert "| `defaults` | 1 | 0.400 | 0.700 | 0.500 | 0.700 |" in methods()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"options": {**AUTOMATIC, "train_rows": "sst=64", "epochs": 1}},
            "defaults with seed 1 has other options than the recipe: --epochs is 3 and 1; "
            "--train_rows is none and sst=64.",
            id="options that the recipe does not set",
        ),
        pytest.param(
            {"options": {**AUTOMATIC, "lr": 1e-3}},
            "defaults with the seeds 0 and 1 are two experiments: --lr is 0.0005 and 0.001.",
            id="a value in place of auto",
        ),
        pytest.param({"data": "e" * 64}, "defaults with seed 1 has read other data", id="data"),
        pytest.param(
            {"plugins": {"mine.py": "f" * 64}},
            "the files of --plugin are not the same",
            id="plugin",
        ),
    ],
)
def test_a_row_holds_one_experiment(add, changed, message):
    """The newest record of a seed would replace a seed of the published row."""
    add(run("defaults", 0, 0.5), run("defaults", 1, 0.5))
    methods()
    add(run("defaults", 1, 0.9, **changed))
    for table in (methods, method_differences):
        with pytest.raises(ValueError, match="methods.jsonl: ") as caught:
            table()
        assert message in str(caught.value)


def test_a_row_may_come_from_several_machines(add):
    options = {**AUTOMATIC, "device": "cuda", "precision": "fp32", "attention": "fused"}
    add(run("defaults", 0, 0.5), run("defaults", 1, 0.7, options))
    assert "| `defaults` | 2 |" in methods()


def test_a_method_and_its_control_differ_in_the_method_alone(add):
    """Each row is one experiment. But the control was run with another learning rate."""
    add(run("r-drop", 0, 0.5), run("defaults", 0, 0.5, {**AUTOMATIC, "lr": 1e-3}))
    assert "| `r-drop` | 1 |" in methods()
    message = "r-drop cannot be compared with defaults for seed 0: --lr is 0.0005 and 0.001"
    with pytest.raises(ValueError, match=message):
        method_differences()


def test_other_code_of_the_control_is_stated(add):
    add(run("r-drop", 0, 0.5), run("defaults", 0, 0.5))
    assert "same code" not in method_differences()
    other = {"git": "fedcba9876543210", "sha256": "1"}
    add(run("defaults", 0, 0.5, code=other))
    text = method_differences()
    assert "| `r-drop` | `defaults` | 1 |" in text
    assert "commit `0123456789` here, commit `fedcba9876` in the control." in text
    # A file that was edited in the same commit is other code.
    add(run("defaults", 0, 0.5, code={**RUN["code"], "sha256": "2"}))
    assert "commit `0123456789` here, commit `0123456789` in the control." in method_differences()


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("surgery-sum", ("--train-rows", "sst=64"), "and --with has --train_rows. Drop it"),
        ("surgery-sum", ("--data-dir", "mine"), "and --with has --data_dir. Drop it"),
        ("head-vm", (), "head-vm has none. Add it to CONTROLS in experiments/controls.py"),
        ("surgery-sum", ("--device", "cpu", "--plugin", "mine.py"), ""),
    ],
)
def test_runs_for_the_tables_have_the_options_of_their_recipes(tmp_path, name, flags, message):
    series = Series((name,), (0,), tmp_path, flags)
    if not message:
        check_flags(series)
        return
    with pytest.raises(ValueError, match="--record methods") as caught:
        check_flags(series)
    assert message in str(caught.value)


def test_every_method_and_control_is_a_comparison():
    assert {*CONTROLS, *CONTROLS.values()} <= COMPARISONS.keys()
    for title, control in COURSE_PAIRS:
        assert {title, control} < COURSE_ROWS.keys()


# --- on the course's data -------------------------------------------------------------------------


@pytest.fixture
def add_course(tmp_path, monkeypatch):
    """Adds a record for each row of the course's table, and then other records."""
    monkeypatch.setattr(method_tables, "COURSE", tmp_path / "course.jsonl")
    assert course().startswith("Not measured yet.")
    assert course_differences().startswith("Not measured yet.")
    for number, options in enumerate(COURSE_ROWS.values()):
        add_records(method_tables.COURSE, [run("none", 0, number / 10, options)])
    return lambda *records: add_records(method_tables.COURSE, records)


def test_runs_on_the_course_data_are_told_apart_by_their_options(add_course):
    # Runs of one task have no overall score, and belong to no row.
    title, options = next(iter(COURSE_ROWS.items()))
    single = run("none", 0, 0.0, options)
    del single["scores"]["overall_2023"]
    # An option that no row has makes another experiment.
    other = run("none", 0, 0.9, {**options, "lr": 1e-3})
    add_course(single, other, run("none", 0, 0.9, {**options, "accumulation": 2}))
    lines = course().split("\n")[2:]
    for number, title in enumerate(COURSE_ROWS):
        cells = f"| {title} | 1 | 0.400 | 0.700 | 0.500 | {number / 10:.3f} | 1.5 |"
        assert lines[number] == cells
    line = "| dropout 0.1 and R-Drop | dropout 0.1, the model's own | 1 | 0.000 | 0.000 | 0.000 |"
    assert f"{line} 0.100 |" in course_differences()


def test_a_row_on_the_course_data_holds_one_data_set(add_course):
    title, options = next(iter(COURSE_ROWS.items()))
    # A method that has read other data is not compared with its control.
    add_course(run("none", 0, 0.9, options, data="e" * 64))
    assert f"| {title} | 1 |" in course()
    with pytest.raises(ValueError, match="seed 0 have read other data than their controls"):
        course_differences()

    add_course(run("none", 1, 0.9, options))
    with pytest.raises(ValueError, match="two experiments: the data are not the same"):
        course()
