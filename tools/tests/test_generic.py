"""tools/tables/generic.py: from an entry and records to a table, on numbers worked by hand."""

from __future__ import annotations

import re

import pytest

from experiments.known_data import known_data
from experiments.records import RECORDS, add_records, read_records
from experiments.results import join
from minbert.options import EncoderOptions
from tools.tables.answers import all_tables, main_results
from tools.tables.conditions import measured_on, not_measured
from tools.tables.generic import build_table, make_table, read_entries, select, show_table

MACHINE = {"system": "Linux-6.1-x86_64", "threads": 2, "device": "cpu"}
CONDITIONS = {
    "machine": MACHINE,
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "code": {"git": "0123456789abcdef", "sha256": "f" * 64},
    "date": "2026-11-25",
}


def table_of(entry, records, *notes) -> list[str]:
    """The lines of a table without its head."""
    return build_table(entry, select(entry, records), notes).split("\n")[2:]


# --- which records, and which rows ----------------------------------------------------------------


def test_a_group_has_its_mean_and_its_deviation():
    entry = {
        "group": ["part"],
        "columns": [
            {"title": "part", "value": "part", "names": {"all": "nothing"}},
            {"title": "n", "format": "count"},
            "scores",
            {"title": "minutes", "value": "seconds", "per": 60, "format": ".1f"},
        ],
        "scores": ["sst"],
    }
    records = [
        {"part": "all", "scores": {"sst": 0.4}, "seconds": 30},
        {"part": "films", "scores": {"sst": 0.1}, "seconds": 6},
        {"part": "all", "scores": {"sst": 0.6}, "seconds": 90},
    ]
    # The squares around the mean 0.5 are 0.01 and 0.01, and their sum is divided by 1.
    assert table_of(entry, records) == [
        "| nothing | 2 | 0.500 ± 0.141 | 1.0 |",
        "| films | 1 | 0.100 | 0.1 |",
    ]


def test_what_is_measured_again_counts_once():
    entry = {"newest": ["name"], "columns": [{"title": "a", "value": "x", "format": ".1f"}]}
    records = [{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "a", "x": 3}]
    assert table_of(entry, records) == ["| 3.0 |", "| 2.0 |"]
    assert table_of({**entry, "newest": "all"}, records) == ["| 3.0 |"]
    assert table_of({**entry, "where": {"name": "b"}}, records) == ["| 2.0 |"]


def test_items_of_a_list_are_rows_with_the_fields_of_their_record():
    entry = {
        "each": "runs",
        "columns": [
            {"title": "model", "text": "`{model}`, {rows:,}"},
            {"title": "last", "value": "sizes.-1", "format": ","},
        ],
    }
    record = {"model": "mini", "runs": [{"rows": 1000, "sizes": [1, 2]}, {"rows": 1, "sizes": [9]}]}
    assert table_of(entry, [record]) == ["| `mini`, 1,000 | 2 |", "| `mini`, 1 | 9 |"]
    entry = {"each": ["first", "second"], "columns": [{"title": "", "value": "x"}]}
    assert table_of(entry, [{"first": {"x": 1}, "second": {"x": 2}}]) == ["| 1 |", "| 2 |"]


def test_rows_are_told_apart_by_their_options():
    entry = {
        "options": {"model": "minilm"},
        "rows": [
            {"title": "plain", "options": {}},
            {"title": "with EMA", "options": {"averaging": "ema"}},
            {"title": "never run", "options": {"averaging": "swa"}},
        ],
        "columns": [{"title": "row", "text": "{title}"}, {"title": "n", "format": "count"}],
    }
    options = {"model": "minilm", "device": "cuda"}  # where it was computed is no experiment
    records = [
        {"seed": 0, "options": options},
        {"seed": 0, "options": options},
        {"seed": 1, "options": {**options, "averaging": "ema"}},
        {"seed": 2, "options": {**options, "lr": 0.1}},
    ]
    assert table_of(entry, records) == ["| plain | 1 |", "| with EMA | 1 |"]


def test_scores_as_rows_have_the_majority_beside_them():
    entry = {"group": ["model"], "turned": True}
    majority = {"SST, polarity": 0.5, "STS": 0.0}
    records = []
    for model, score in (("a", 0.7), ("b", 0.6), ("b", 0.8)):
        scores = {"SST, polarity": score, "STS": score / 2}
        records.append({"model": model, "scores": scores, "majority": majority})
    text = build_table(entry, records, [])
    assert text.split("\n") == [
        "|  | a, 1 seed | b, 2 seeds | ± by rows | majority |",
        "|---|---|---|---|---|",
        "| SST, polarity | 0.700 | 0.700 ± 0.141 | 0.030 | 0.500 |",
        "| STS | 0.350 | 0.350 ± 0.071 | – | 0.000 |",
    ]
    assert len(table_of({**entry, "scores": ["STS"]}, records)) == 1


def test_a_field_that_a_record_lacks_is_named():
    """A wrong field in an entry would leave out records without a word."""
    entry = {"group": ["part"], "scores": ["sst"]}
    records = [{"part": "a", "scores": {"sst": 0.4}}, {"part": "a", "scores": {"sts": 0.4}}]
    with pytest.raises(ValueError, match="row 'a' has no field scores.sst"):
        table_of(entry, records)


# --- notes ----------------------------------------------------------------------------------------


def test_notes_have_fields_of_the_newest_record():
    entry = {"columns": [{"title": "x", "value": "x"}]}
    records = [{**CONDITIONS, "x": 1, "ends": [0.1, 0.25]}]
    lines = table_of(entry, records, "From {ends[0]:.1%} to {ends[1]:.1%}.", "{measured}")
    assert lines[1:3] == ["", "From 10.0% to 25.0%."]
    assert lines[-1].startswith("Measured on 2026-11-25 with commit `0123456789`: Linux")


@pytest.mark.parametrize("name", sorted(all_tables()))
def test_a_table_without_records_names_its_command(record_files, name):
    text = all_tables()[name]()
    assert re.fullmatch(r"Not measured yet\. This command does: `\.venv/bin/python -m .*`", text)


def test_records_that_were_just_measured_have_no_note_on_where(record_files):
    record = {**CONDITIONS, "stages": "simcse", "n": 5, "killed": 5, "identical": 4}
    assert show_table("kill-resume", [record]).endswith("| `simcse` | 5 | 5 | 4 |")


def test_records_of_several_machines_are_all_named():
    machine = {"system": "Linux-6.1", "threads": 2, "device": "cpu", "processor": "A", "cores": 4}
    first = {
        "machine": machine,
        "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
        "code": {"git": "0123456789abcdef-dirty", "sha256": "f" * 64},
        "date": "2026-11-25",
    }
    other = {**first, "date": "2026-11-26", "machine": {**machine, "gpu": "H100"}}
    text = measured_on([first, first, other], ["torch", "transformers"])
    assert text == (
        "Measured on 2026-11-25 and 2026-11-26 with commit `0123456789-dirty`: "
        "Linux, A with 4 cores, 2 threads, cpu and "
        "Linux, A with 4 cores, 2 threads, H100, torch 2.13.0, transformers 5.23.0."
    )
    assert join("aabca") == "a, b and c"
    assert not_measured("reliability", "--parts soak").endswith("--record --parts soak`")


# --- records that cannot stand in one table -------------------------------------------------------


def real_run(record, model: str, seed: int, **parts):
    """The record of a run on real sentences, with another model and seed."""
    return {**record, "model": model, "run": {**record["run"], "seed": seed, **parts}}


@pytest.fixture
def add_real(record_files):
    """Adds records of runs on real sentences. Returns the first one that the project has."""
    path = record_files / "real-sentences.jsonl"
    first = read_records(RECORDS / "real-sentences.jsonl")[0]
    return first, lambda *records: add_records(path, records)


def test_the_readme_shows_the_default_model_once_it_is_measured(add_real):
    old, add = add_real
    add({**old, "model": "another"})
    assert "The model is another. Measured on" in all_tables()["default-job"]()
    assert "| another, 1 seed |" in make_table("first-results")

    model = EncoderOptions().model
    add({**old, "model": model}, real_run(old, model, 2))
    assert f"The model is {model}. Measured on" in all_tables()["default-job"]()
    assert make_table("first-results").startswith(
        f"|  | {model}, 2 seeds | ± by rows | majority |\n"
    )
    assert f"How good is {model}, trained by the default job?" in main_results()
    assert "STS, Pearson 0.618 ± 0.000, by rows ± 0.041" in main_results()


def test_models_that_stand_side_by_side_have_the_same_data(add_real):
    old, add = add_real
    add(real_run(old, "first", 1), real_run(old, "second", 1))
    assert "| first, 1 seed | second, 1 seed | ± by rows | majority |" in make_table(
        "real-sentences"
    )
    # The data changes: a model without a run on them says so.
    add(real_run(old, "second", 1, data="0" * 64))
    older = f"first on {known_data()[old['run']['data']].name}"
    assert f"| {older}, 1 seed | second, 1 seed | ± by rows | majority |" in make_table(
        "real-sentences"
    )
    # The order is that of the first measurements.
    add(real_run(old, "first", 1, data="0" * 64))
    assert "| first, 1 seed | second, 1 seed | ± by rows | majority |" in make_table(
        "real-sentences"
    )
    # A run that is no default job has no place among the seeds.
    options = {**old["run"]["options"], "epochs": 1}
    add(real_run(old, "first", 2, data="0" * 64, options=options))
    with pytest.raises(ValueError, match="two experiments: --epochs is 3 and 1"):
        make_table("real-sentences")


def test_fast_and_readable_fine_tunes_have_the_same_settings(record_files):
    record = {**CONDITIONS, "path": "fast", "precision": "bf16", "seed": 1}
    other = {**record, "path": "readable", "epochs": 1}
    add_records(record_files / "readable.jsonl", [{**record, "epochs": 3}, other])
    with pytest.raises(ValueError, match=r"several values of epochs: \[3, 1\]"):
        make_table("readable")


def test_benchmarks_with_a_precision_are_the_newest_of_each_processor():
    def measured(number: int, processor: str, *flags: str) -> dict:
        machine = {"processor": processor}
        values = {"machine": machine, "changed_flags": list(flags), "number": number}
        return {"name": "train_step", **values}

    records = [
        measured(1, "fast", "--precision", "fp32"),
        measured(2, "slow", "--precision", "fp32"),
        measured(3, "fast", "--precision", "fp32-onednn", "--n", "3"),
        measured(4, "fast"),
        measured(5, "fast", "--precision", "bf16"),
        measured(6, "fast", "--precision", "fp32", "--n", "3"),
        measured(7, "fast", "--precision", "int8"),
    ]
    chosen = select({"prepare": "benchmarks by precision"}, records)
    assert [record["number"] for record in chosen] == [6, 2, 3, 7]


def test_every_entry_has_a_source_and_only_known_keys():
    keys = {"source", "where", "newest", "prepare", "each", "run", "group", "rows", "options"}
    keys |= {"like", "pairs", "check", "columns", "scores", "scores_in", "compared", "turned"}
    keys |= {"note", "flags", "libraries", "never_worse", "report", "recipes", "compared_rows"}
    keys |= {"sets", "copies", "model", "with", "poolings", "less"}
    keys |= {"with_pearson", "without_encoder", "goals"}
    for name, entry in read_entries().items():
        assert "source" in entry and set(entry) <= keys, name
