"""tools/tables/record_tables.py and the tables it joins: what each says of its records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.conditions import join, measured_on, not_measured
from experiments.records import add_records, read_records
from minbert.options import EncoderOptions
from tools.tables import (
    benchmark_tables,
    cost_tables,
    first_model_tables,
    reliability_tables,
    report_tables,
    sample_tables,
)
from tools.tables.record_tables import TABLES, main_results

MACHINE = {
    "system": "Linux-6.1-x86_64",
    "threads": 2,
    "device": "cpu",
    "processor": "EPYC",
    "cores": 4,
}
CONDITIONS = {
    "machine": MACHINE,
    "versions": {"torch": "2.13.0", "transformers": "5.23.0"},
    "code": {"git": "0123456789abcdef0123456789abcdef01234567-dirty", "sha256": "f" * 64},
    "date": "2026-11-25",
}
COMPARISON = {
    "what": "ours : a plain loop",
    "unit": "sentences/s",
    "ours": 206.7,
    "peer": 39.8,
    "ratio": 5.193,
    "goal": [">=", 5.0],
    "is_met": True,
}
CHECK = {"what": "share of the limit", "value": 0.37191, "relation": ">=", "goal": 0.45}
BENCHMARK = {
    "name": "train_step",
    "model": "minilm",
    "busy_cores": 0.21,
    "comparisons": [COMPARISON, {**COMPARISON, "what": "ours : another", "goal": None}],
    "checks": [{**CHECK, "is_met": False}],
    "changed_flags": [],
    **CONDITIONS,
}
SERIES = {"title": "tokens of a row", "sizes": [16, 512], "seconds": [0.1, 3.2], "exponent": 1.0}
SCALING = {
    "runs": [{"rows": 3250, "seconds": 19.5, "peak_memory": 1.565e9}],
    "exponents": [0.73, 0.99],
    "off_a_line": 0.023,
    "off_the_middle": 0.041,
    **dict.fromkeys(("length", "batch", "parameters", "tasks"), SERIES),
    **CONDITIONS,
}
KILLS = {"stages": "simcse", "n": 5, "killed": 5, "identical": 4, **CONDITIONS}
SCORES = {"sst": 0.4, "para": 0.7, "sts": 0.5, "overall_2023": 0.533, "seconds": 90.0}
READABLE = {"path": "fast", "precision": "bf16", "seed": 1, **SCORES, **CONDITIONS}

MODULES = (
    benchmark_tables,
    cost_tables,
    first_model_tables,
    reliability_tables,
    report_tables,
    sample_tables,
)


def use_records(monkeypatch, constant: str, path: Path) -> None:
    """Let the tables read other records. constant: the name of their path in its module."""
    (module,) = [module for module in MODULES if hasattr(module, constant)]
    monkeypatch.setattr(module, constant, path)


# A table, the constant with the path of its records, records, and rows that it must have.
CASES = [
    (
        "speed",
        "BENCHMARKS",
        # The newest one counts, and none with other flags.
        [{**BENCHMARK, "comparisons": []}, BENCHMARK, {**BENCHMARK, "changed_flags": ["--n", "1"]}],
        [
            "| `train_step` | ours : a plain loop | 207 | 39.8 | sentences/s | 5.19 | >= 5: met |",
            "| `train_step` | ours : another | 207 | 39.8 | sentences/s | 5.19 | none |",
            "Before each start, at most 0.2 processes wanted to run.",
        ],
    ),
    (
        "benchmark-checks",
        "BENCHMARKS",
        [BENCHMARK],
        ["| `train_step` | share of the limit | 0.37191 | >= 0.45: not met |", "minilm"],
    ),
    (
        "scaling-runs",
        "SCALING",
        [SCALING],
        ["| 3,250 | 19.5 | 1,565 |", "is 0.73, and 0.99 without", "than 2.3%", "within 4.1%"],
    ),
    (
        "scaling-steps",
        "SCALING",
        [SCALING],
        ["| tokens of a row | 16 | 512 | 100 | 3,200 | 1.00 |"],
    ),
    ("kill-resume", "KILL_RESUME", [KILLS], ["| `simcse` | 5 | 5 | 4 |"]),
    (
        "readable",
        "READABLE_RUNS",
        # A seed that is measured again counts once.
        [{**READABLE, "sst": 0.9}, READABLE, {**READABLE, "seed": 2, "sst": 0.5, "seconds": 30.0}],
        ["| fast, bf16 | 2 | 0.450 ± 0.071 | 0.700 ± 0.000 |", "| 1.0 |"],
    ),
]


@pytest.mark.parametrize(("name", "constant", "records", "rows"), CASES)
def test_a_table_says_what_its_records_say(tmp_path, monkeypatch, name, constant, records, rows):
    path = tmp_path / "records.jsonl"
    use_records(monkeypatch, constant, path)
    assert TABLES[name]().startswith(
        "Not measured yet. This command does: `.venv/bin/python -m tools.benchmarks"
    )
    add_records(path, records)
    text = TABLES[name]()
    for row in rows:
        assert row in text
    assert "Measured on 2026-11-25 with commit `0123456789-dirty`: Linux, EPYC with 4 cores" in text
    assert text.index("Measured on") > text.rindex("| ")


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_says_when_and_with_what_it_was_measured(name):
    if name != "main-results":
        assert "Measured on 2" in TABLES[name]() or "Not measured yet" in TABLES[name]()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_without_records_names_its_command(tmp_path, monkeypatch, name):
    for module in MODULES:
        for constant, value in vars(module).items():
            if isinstance(value, Path) and value.suffix == ".jsonl":
                monkeypatch.setattr(module, constant, tmp_path / "no records")
    text = TABLES[name]()
    assert re.fullmatch(r"Not measured yet\. This command does: `\.venv/bin/python -m .*`", text)


def real_run(record, model: str, seed: int, **parts):
    """The record of a run on real sentences, with another model and seed."""
    return {**record, "model": model, "run": {**record["run"], "seed": seed, **parts}}


def test_the_readme_shows_the_default_model_once_it_is_measured(tmp_path, monkeypatch):
    path = tmp_path / "real.jsonl"
    old = read_records(first_model_tables.REAL_SENTENCES)[0]
    use_records(monkeypatch, "REAL_SENTENCES", path)
    add_records(path, [{**old, "model": "another"}])
    assert "The model is another. Measured on" in TABLES["default-job"]()
    assert "| another, 1 seed |" in TABLES["first-results"]()

    model = EncoderOptions().model
    add_records(path, [{**old, "model": model}, real_run(old, model, 2)])
    assert f"The model is {model}. Measured on" in TABLES["default-job"]()
    assert TABLES["first-results"]().startswith(f"|  | {model}, 2 seeds | majority |\n")
    assert f"| another, 1 seed | {model}, 2 seeds | majority |" in TABLES["real-sentences"]()
    assert f"How good is {model}, trained by the default job?" in main_results()


def test_a_seed_on_real_sentences_that_is_measured_again_counts_once(tmp_path, monkeypatch):
    path = tmp_path / "real.jsonl"
    old = read_records(first_model_tables.REAL_SENTENCES)[0]
    use_records(monkeypatch, "REAL_SENTENCES", path)
    newer = {**old, "scores": {**old["scores"], "SST, polarity": 0.123}}
    add_records(path, [old, newer])
    text = TABLES["real-sentences"]()
    assert f"| {old['model']}, 1 seed |" in text and "| SST, polarity | 0.123 |" in text


def test_models_that_stand_side_by_side_have_the_same_data(tmp_path, monkeypatch):
    path = tmp_path / "real.jsonl"
    old = read_records(first_model_tables.REAL_SENTENCES)[0]
    use_records(monkeypatch, "REAL_SENTENCES", path)
    add_records(path, [real_run(old, "first", 1), real_run(old, "second", 1)])
    assert "| first, 1 seed | second, 1 seed | majority |" in TABLES["real-sentences"]()

    # The data changes: no model without a run on them is shown.
    add_records(path, [real_run(old, "second", 1, data="0" * 64)])
    assert TABLES["real-sentences"]().startswith("|  | second, 1 seed | majority |\n")
    # The order is that of the first measurements.
    add_records(path, [real_run(old, "first", 1, data="0" * 64)])
    assert "| first, 1 seed | second, 1 seed | majority |" in TABLES["real-sentences"]()
    # A run that is no default job has no place among the seeds.
    options = {**old["run"]["options"], "epochs": 1}
    add_records(path, [real_run(old, "first", 2, data="0" * 64, options=options)])
    with pytest.raises(ValueError, match="two experiments: --epochs is 3 and 1"):
        TABLES["real-sentences"]()


def test_fast_and_readable_fine_tunes_have_the_same_settings(tmp_path, monkeypatch):
    path = tmp_path / "readable.jsonl"
    use_records(monkeypatch, "READABLE_RUNS", path)
    add_records(path, [{**READABLE, "epochs": 3}, {**READABLE, "path": "readable", "epochs": 1}])
    with pytest.raises(ValueError, match=r"several values of epochs: \[3, 1\]"):
        TABLES["readable"]()


def test_flags_of_a_command_stand_inside_its_quotes():
    text = not_measured("reliability", "--parts soak")
    assert text.endswith("`.venv/bin/python -m tools.reliability --record --parts soak`")


def test_the_closing_table_is_that_of_the_default_seed(tmp_path, monkeypatch):
    path = tmp_path / "real.jsonl"
    old = read_records(first_model_tables.REAL_SENTENCES)[0]
    use_records(monkeypatch, "REAL_SENTENCES", path)
    add_records(path, [real_run(old, "first", 1)])
    assert TABLES["default-job"]().endswith("with a RUN of first that has the default seed.")


def test_a_part_that_is_trained_again_replaces_its_row(tmp_path, monkeypatch):
    path = tmp_path / "parts.jsonl"
    old = read_records(sample_tables.SAMPLE_PARTS)[0]
    use_records(monkeypatch, "SAMPLE_PARTS", path)
    newer = {**old, "scores": {**old["scores"], "SST, polarity": 0.123}}
    add_records(path, [old, newer])
    rows = [line for line in TABLES["sample-parts"]().splitlines() if line.startswith("| nothing")]
    assert len(rows) == 1 and " 0.123 " in rows[0]


def test_records_of_several_machines_are_all_named():
    other = {**CONDITIONS, "date": "2026-11-26", "machine": {**MACHINE, "gpu": "H100"}}
    text = measured_on([CONDITIONS, CONDITIONS, other], ["torch", "transformers"])
    assert text == (
        "Measured on 2026-11-25 and 2026-11-26 with commit `0123456789-dirty`: "
        "Linux, EPYC with 4 cores, 2 threads, cpu and "
        "Linux, EPYC with 4 cores, 2 threads, H100, torch 2.13.0, transformers 5.23.0."
    )
    assert join("aabca") == "a, b and c"


def test_all_versions_of_the_benchmarks_are_named(tmp_path, monkeypatch):
    """A part of them may have been measured again, with newer libraries."""
    path = tmp_path / "benchmarks.jsonl"
    use_records(monkeypatch, "BENCHMARKS", path)
    # This one compares with nothing of transformers.
    other = {**BENCHMARK, "name": "startup", "versions": {"torch": "2.14.0", "minBERT": "abc"}}
    add_records(path, [BENCHMARK, other])
    assert "torch 2.13.0 and 2.14.0, transformers 5.23.0. Before" in TABLES["speed"]()


def test_the_first_table_has_a_row_for_what_was_measured(tmp_path, monkeypatch):
    benchmarks, kills = tmp_path / "benchmarks.jsonl", tmp_path / "kills.jsonl"
    use_records(monkeypatch, "BENCHMARKS", benchmarks)
    use_records(monkeypatch, "KILL_RESUME", kills)
    before = main_results()
    assert "speed.md" not in before and "resume.md" not in before
    add_records(benchmarks, [BENCHMARK])
    add_records(kills, [KILLS, {**KILLS, "stages": "mlm"}])
    rows = [line for line in main_results().splitlines() if line not in before]
    assert rows == [
        "| [How fast is a training step, next to a plain Hugging Face loop?](speed.md) | "
        "5.19 times: 207 for 39.8 sentences/s |",
        "| [Does a killed run end in the same bits?](resume.md) | 8 of 10 runs |",
    ]
