"""The tables of methods and soups: runs beside controls, and records that do not fit."""

from __future__ import annotations

import pytest

from data.options import SAMPLE_FOLDER
from experiments.controls import CONTROLS, check_flags, check_sample
from experiments.known_data import digest_of_data, known_data
from experiments.recipes import COMPARISONS, values_of
from experiments.records import add_records
from experiments.series import Series
from tools.tables.generic import make_table, read_entries
from tools.tables.preparations import ALONE, SOUPS

COURSE = read_entries()["course-minilm"]
COURSE_ROWS = {row["title"]: COURSE["options"] | row["options"] for row in COURSE["rows"]}

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
def add(record_files):
    """Adds records to an empty file of methods."""
    return lambda *records: add_records(record_files / "methods.jsonl", records)


def test_a_method_stands_below_its_control(add):
    assert make_table("methods").startswith("Not measured yet.")
    rows = [run("defaults", 0, 0.5), run("defaults", 1, 0.6), run("r-drop", 1, 0.7)]
    add(*rows, run("r-drop", 2, 0.9), run("surgery-sum", 0, 0.1))
    text = make_table("methods")
    assert "| `defaults` | 2 | 0.450 ± 0.071 | 0.700 ± 0.000 | 0.500 ± 0.000 | 0.550" in text
    assert "| 0.800 ± 0.141 |" in text
    assert text.index("`defaults`") < text.index("`r-drop`") < text.index("`surgery-sum`")
    assert "Seeds: 0, 1 and 2. Measured on 2026-11-26 with commit `0123456789`" in text


def test_differences_are_those_of_equal_seeds(add):
    assert make_table("method-differences").startswith("Not measured yet.")
    # A seed that the control does not have is in no difference.
    add(run("defaults", 0, 0.5), run("defaults", 1, 0.6), run("r-drop", 1, 0.7))
    # A method without a run of its control has no row.
    add(run("r-drop", 2, 0.9), run("surgery-pcgrad", 0, 0.1))
    lines = make_table("method-differences").split("\n")
    assert lines[0].startswith("| recipe | control | n | SST |")
    assert lines[2:4] == ["| `r-drop` | `defaults` | 1 | 0.000 | 0.000 | 0.000 | 0.100 |", ""]


def test_a_seed_that_is_measured_again_counts_once(add):
    add(run("defaults", 0, 0.5), run("defaults", 0, 0.7))
    assert "| `defaults` | 1 | 0.400 | 0.700 | 0.500 | 0.700 |" in make_table("methods")


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
    make_table("methods")
    add(run("defaults", 1, 0.9, **changed))
    for table in ("methods", "method-differences"):
        with pytest.raises(ValueError, match="methods.jsonl: ") as caught:
            make_table(table)
        assert message in str(caught.value)


def test_a_row_may_come_from_several_machines(add):
    options = {**AUTOMATIC, "device": "cuda", "precision": "fp32", "attention": "fused"}
    add(run("defaults", 0, 0.5), run("defaults", 1, 0.7, options))
    assert "| `defaults` | 2 |" in make_table("methods")


def test_a_method_and_its_control_differ_in_the_method_alone(add):
    """Each row is one experiment. But the control was run with another learning rate."""
    add(run("r-drop", 0, 0.5), run("defaults", 0, 0.5, {**AUTOMATIC, "lr": 1e-3}))
    assert "| `r-drop` | 1 |" in make_table("methods")
    message = "r-drop cannot be compared with defaults for seed 0: --lr is 0.0005 and 0.001"
    with pytest.raises(ValueError, match=message):
        make_table("method-differences")


def test_other_code_of_the_control_is_stated(add):
    add(run("r-drop", 0, 0.5), run("defaults", 0, 0.5))
    assert "same code" not in make_table("method-differences")
    other = {"git": "fedcba9876543210", "sha256": "1"}
    add(run("defaults", 0, 0.5, code=other))
    text = make_table("method-differences")
    assert "| `r-drop` | `defaults` | 1 |" in text
    assert "commit `0123456789` here, commit `fedcba9876` in the control." in text
    # A file that was edited in the same commit is other code.
    add(run("defaults", 0, 0.5, code={**RUN["code"], "sha256": "2"}))
    assert "commit `0123456789` here, commit `0123456789` in the control." in make_table(
        "method-differences"
    )


def test_runs_on_another_sample_are_refused_before_they_are_trained():
    """A table must not mix two samples. Records of today's sample, or none, are fine."""
    today = run("defaults", 0, 0.5)
    check_sample([{**today, "data": digest_of_data(SAMPLE_FOLDER, today)}])
    check_sample([])
    first = next(digest for digest, data in known_data().items() if "first" in data.name)
    with pytest.raises(ValueError, match="are of the first bundled sample. The bundled sample has"):
        check_sample([{**today, "data": first}])


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
    for title, control in read_entries()["course-differences"]["pairs"]:
        assert {title, control} < COURSE_ROWS.keys()


# --- on the course's data -------------------------------------------------------------------------


@pytest.fixture
def add_course(record_files):
    """Adds a record for each row of the course's table, and then other records."""
    path = record_files / "course-minilm.jsonl"
    assert make_table("course-minilm").startswith("Not measured yet.")
    for number, options in enumerate(COURSE_ROWS.values()):
        add_records(path, [run("none", 0, number / 10, options)])
    return lambda *records: add_records(path, records)


def test_runs_on_the_course_data_are_told_apart_by_their_options(add_course):
    # Runs of one task have no overall score, and belong to no row.
    title, options = next(iter(COURSE_ROWS.items()))
    single = run("none", 0, 0.0, options)
    del single["scores"]["overall_2023"]
    # An option that no row has makes another experiment.
    other = run("none", 0, 0.9, {**options, "lr": 1e-3})
    add_course(single, other, run("none", 0, 0.9, {**options, "accumulation": 2}))
    lines = make_table("course-minilm").split("\n")[2:]
    for number, title in enumerate(COURSE_ROWS):
        cells = f"| {title} | 1 | 0.400 | 0.700 | 0.500 | {number / 10:.3f} | 1.5 |"
        assert lines[number] == cells
    line = "| dropout 0.1 and R-Drop | dropout 0.1, the model's own | 1 | 0.000 | 0.000 | 0.000 |"
    assert f"{line} 0.100 |" in make_table("course-differences")


def test_a_row_on_the_course_data_holds_one_data_set(add_course):
    title, options = next(iter(COURSE_ROWS.items()))
    # A method that has read other data is not compared with its control.
    add_course(run("none", 0, 0.9, options, data="e" * 64))
    assert f"| {title} | 1 |" in make_table("course-minilm")
    with pytest.raises(ValueError, match="seed 0 have read other data than their controls"):
        make_table("course-differences")

    add_course(run("none", 1, 0.9, options))
    with pytest.raises(ValueError, match="two experiments: the data are not the same"):
        make_table("course-minilm")


# --- soups ----------------------------------------------------------------------------------------


@pytest.fixture
def add_soup(record_files):
    """Adds the record of a soup of one task, with the scores of its ingredients."""

    def add(task: str, seed: int, soup: float, *ingredients: float, **parts) -> None:
        entry = {"ingredients": [{"scores": {task: score}} for score in ingredients]}
        record = run("none", seed, 0.0, ALONE | SOUPS[task])
        record |= {"scores": {task: soup}, "soup": entry, "minutes": 10.0, **parts}
        add_records(record_files / "course-minilm.jsonl", [record])

    return add


def test_a_soup_stands_beside_its_ingredients(add_soup):
    add_soup("sst", 0, 0.5, 0.3, 0.5)
    add_soup("para", 0, 0.8, 0.8, 0.8)
    assert make_table("course-soups").startswith("Not measured yet."), "one task is missing"
    add_soup("sts", 0, 0.9, 0.7, 0.8)
    # A run with other options is no ingredient.
    add_soup("sst", 0, 0.1, 0.1, options={**ALONE, **SOUPS["sst"], "lr": 2e-4})
    lines = make_table("course-soups").split("\n")
    assert lines[2:6] == [
        "| one training (ingredient 1) | 1 | 0.300 | 0.800 | 0.700 | 0.600 |",
        "| mean over the ingredients | 1 | 0.400 | 0.800 | 0.750 | 0.650 |",
        "| best ingredient, chosen on dev | 1 | 0.500 | 0.800 | 0.800 | 0.700 |",
        "| the soup | 1 | 0.500 | 0.800 | 0.900 | 0.733 |",
    ]
    assert lines[-1].endswith("The three runs of a seed took 30 minutes together.")
    lines = make_table("course-soup-differences").split("\n")
    assert lines[2] == "| one training (ingredient 1) | 1 | 0.200 | 0.000 | 0.200 | 0.133 |"


def test_soups_on_other_data_are_refused(add_soup):
    for seed in (0, 1):
        for task in SOUPS:
            add_soup(task, seed, 0.5, 0.5)
    add_soup("sst", 2, 0.5, 0.5, data="e" * 64)
    with pytest.raises(ValueError, match="the data are not the same"):
        make_table("course-soups")
