"""tools/tables/record_faults.py: our records fit together, and say where they come from."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest

from experiments import reproduction
from experiments.known_data import known_data
from experiments.records import RECORDS, default_options, read_records, unrecorded_options
from minbert.commands.flags import shell_command
from tools.tables.record_faults import (
    OLDER,
    RECEIPTS,
    faults_of,
    faults_of_receipts,
    unlike_baselines,
)


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_our_records_contradict_nothing(path):
    for number, record in enumerate(read_records(path), start=1):
        assert faults_of(record.get("run", record)) == [], f"{path.name}, line {number}"


def test_the_same_data_have_the_same_baselines_in_all_our_records():
    """A shifted one is noticed, though the page of its table does not show it."""
    runs = []
    for path in sorted(RECORDS.glob("*.jsonl")):
        runs += [record.get("run", record) for record in read_records(path)]
    assert unlike_baselines(runs) == []

    shifted = copy.deepcopy(next(record for record in runs if record.get("baselines")))
    shifted["baselines"]["TF-IDF"]["sts"] += 0.001
    assert len(unlike_baselines([*runs, shifted])) == 1


def test_no_default_has_changed_since_the_records_were_made():
    """A record leaves out options with their default. Another default would change what it says."""
    stored = json.loads((RECORDS / "defaults.json").read_text(encoding="utf-8"))
    unrecorded = unrecorded_options()
    now = {name: value for name, value in default_options().items() if name not in unrecorded}
    for name in sorted(stored.keys() | now.keys()):
        assert stored.get(name, "no such option") == now.get(name, "no such option"), (
            f"{name}: a new option needs its default in experiments/records/defaults.json. For a "
            "changed one, first write the old default into each record that leaves it out."
        )


def real_record():
    """A record of ours, with the command that newer ones have."""
    record = read_records(RECORDS / "methods.jsonl")[0]
    assert record["recipe"] == "defaults" and len(record["epochs"]) > 1
    values = {**record["options"], "seed": record["seed"]}
    return {**record, "command": shell_command(["python", "run_multitask.py"], values)}


def shift_all(record):
    """The accuracy of SST is .1 higher everywhere, and so is all that follows from it."""
    for scores in (record["scores"], *record["epochs"]):
        scores["sst"] += 0.1
        scores["overall_2023"] += 0.1 / 3


def take_another_epoch(record):
    """The scores are those of an epoch that was not the best one."""
    worst = min(record["epochs"], key=lambda epoch: epoch["overall_2023"])
    record["scores"] = {name: worst[name] for name in record["scores"]}


TAMPERED = {
    "a score": lambda record: record["scores"].update(sst=0.7),
    "the overall score": lambda record: record["scores"].update(overall_2023=0.8),
    "a score in all places": shift_all,
    "another epoch": take_another_epoch,
    "a score of an epoch": lambda record: record["epochs"][0].update(para=0.9),
    "a baseline": lambda record: record["baselines"]["TF-IDF"].update(sst=0.4),
    "an epoch that is left out": lambda record: record["epochs"].pop(0),
    "the versions": lambda record: record.update(versions={}),
    "the machine": lambda record: record["machine"].pop("threads"),
    "unknown data": lambda record: record.update(data="0" * 64),
    "the data of another task": lambda record: record.update(
        data=next(digest for digest, data in known_data().items() if data.dev == {"sst": 1101})
    ),
    "the seed": lambda record: record.update(seed=record["seed"] + 1),
    "an option": lambda record: record["options"].update(lr=0.123),
    "an option that is left out": lambda record: record["options"].pop("lr"),
    "an option of the command": lambda record: record.update(
        command=f"{record['command']} --batch_size 7"
    ),
    "the commit": lambda record: record["code"].update(git="0123456789abcdef"),
    "code in no commit": lambda record: record["code"].update(git="0179ec29ba-dirty"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_record_is_noticed_though_its_digest_is_computed_anew(name, monkeypatch):
    """By the check of all records, or by `reproduce` before it trains."""
    # Of a shallow clone, git does not know the commit of the record itself.
    there = "0179ec29ba"
    monkeypatch.setattr(
        reproduction, "run_git", lambda *words: SimpleNamespace(returncode=there not in words[-1])
    )
    record = real_record()
    record["code"]["git"] = there
    assert faults_of(record) == []
    reproduction.check_record("methods:1", record)

    TAMPERED[name](record)
    if not faults_of(record):
        with pytest.raises(ValueError, match="in no commit|no commit 0123456789abcdef"):
            reproduction.check_record("methods:1", record)


def test_every_record_says_where_it_comes_from():
    """Or it is of an older kind. Negative controls: a receipt is gone, and an older day is not."""
    lacking = set()
    newest = {}
    for path in sorted(RECORDS.glob("*.jsonl")):
        for record in read_records(path):
            assert not faults_of_receipts(path.stem, record)
            newest[path.stem] = record
            part = record.get("run", record)
            lacking |= {name for name in RECEIPTS if name != "data" and not part.get(name)}
    assert lacking == {older.receipt for older in OLDER}, "the list names no more than is needed"

    untuned = newest["papers"]
    for name in RECEIPTS:
        without = {field: value for field, value in untuned.items() if field != name}
        assert faults_of_receipts("papers", without) == [
            f"a record of papers.jsonl of {untuned['date']} has no {name}"
        ]
    older = newest["course-ensembles"]
    assert faults_of_receipts("course-ensembles", {**older, "date": "2026-11-29"}) != []
