"""tools/benchmarks/real_sentences.py, and the hundred sentences that it measures on."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from experiments.records import read_records
from multitask.saved_run import read_record
from tools.benchmarks import real_sentences
from tools.benchmarks.real_sentences import (
    SENTENCES,
    class_scores,
    hundred_scores,
    main,
    polarity_accuracy,
    read_sentences,
)
from tools.tables.generic import make_table

NEGATION = re.compile(r"\b(no|not|never|nobody)\b", re.IGNORECASE)


def test_the_hundred_sentences_are_balanced_and_short():
    with open(SENTENCES, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 100
    assert len({row["sentence"].lower() for row in rows}) == 100
    for polarity, num_negations in (("positive", 9), ("negative", 11)):
        members = [row for row in rows if row["polarity"] == polarity]
        assert len(members) == 50
        assert sum(row["negation"] == "yes" for row in members) == num_negations
    for row in rows:
        assert len(row["sentence"].split()) <= 12
        has_negation = NEGATION.search(row["sentence"]) is not None
        assert has_negation == (row["negation"] == "yes"), row["sentence"]
    assert len({row["domain"] for row in rows}) >= 8


def test_polarity_counts_a_neutral_prediction_half_and_leaves_out_neutral_labels():
    labels = np.array([0, 1, 3, 4, 2, 2])
    predictions = np.array([1, 3, 2, 4, 0, 4])
    # Right, wrong, half, right.
    assert polarity_accuracy(predictions, labels) == 2.5 / 4


def test_class_scores_by_hand():
    labels = np.array([0, 0, 1, 2, 3, 4])
    predictions = np.array([0, 1, 1, 3, 3, 3])
    scores = class_scores(predictions, labels)
    assert scores["SST, five classes, accuracy"] == pytest.approx(3 / 6)
    # F1 of the classes: 2/3, 2/3, 0, 1/2, 0.
    assert scores["SST, macro-F1"] == pytest.approx((2 / 3 + 2 / 3 + 1 / 2) / 5)
    assert [scores[f"SST, recall of class {label}"] for label in range(5)] == [0.5, 1, 0, 1, 0]
    assert scores["SST, polarity"] == pytest.approx(5 / 5)


def test_the_hundred_are_scored_by_kind():
    examples, has_negation = read_sentences(SENTENCES)
    labels = np.array([example.label for example in examples])
    scores = hundred_scores(np.full(100, 3), labels, has_negation)
    assert scores == {
        "100 sentences, polarity": 0.5,
        "50 sentences, negative, polarity": 0.0,
        "50 sentences, positive, polarity": 1.0,
        "20 sentences, with a negation, polarity": 9 / 20,
    }


def test_a_run_is_measured(two_runs, sample_data, capsys):
    """The scores on the dev files are those that the run itself recorded."""
    assert main([str(two_runs[0]), "--course", str(sample_data)]) == 0
    table = capsys.readouterr().out
    record = read_record(two_runs[0])
    for name, task in (("SST, five classes, accuracy", "sst"), ("STS, Pearson", "sts")):
        assert f"| {name} | {record.scores[task]:.3f} |" in table
    assert main([str(two_runs[0])]) == 0
    assert "SST" not in capsys.readouterr().out


def test_the_scores_of_a_run_become_a_record(
    two_runs, sample_data, record_files, monkeypatch, capsys
):
    path = record_files / "real-sentences.jsonl"
    monkeypatch.setattr(real_sentences, "REAL_SENTENCES", path)
    runs = [str(folder) for folder in two_runs]
    assert main([*runs, "--course", str(sample_data), "--record"]) == 0
    printed = capsys.readouterr().out
    assert [record["run"]["seed"] for record in read_records(path)] == [1, 2]

    # The table for the documents has the numbers that the command has printed.
    table = make_table("real-sentences")
    assert table.splitlines()[0].endswith(", 2 seeds | ± by rows | majority |")
    rows = [line for line in printed.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        score, majority = row.removesuffix(" |").rsplit(" | ", 1)
        assert re.search(rf"^{re.escape(score)} \| [.\d–]+ \| {majority} \|$", table, re.MULTILINE)


def test_sentences_of_two_classes_are_measured(
    two_runs, sample_data, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "binary.tsv"
    path.write_text("a good film\t1\na bad film\t0\nnot good\t0\n")
    monkeypatch.setattr(real_sentences, "REAL_SENTENCES", tmp_path / "real.jsonl")
    flags = ["--course", str(sample_data), "--binary", str(path)]
    flags += ["--label", "before", "--record", "mine"]
    assert main([str(two_runs[0]), *flags]) == 0
    capsys.readouterr()
    record = read_records(tmp_path / "mine.jsonl")[0]
    assert record["label"] == "before"
    # Two of three are negative.
    assert record["majority"]["3 other sentences, polarity"] == pytest.approx(2 / 3)
    assert 0 <= record["scores"]["3 other sentences, polarity"] <= 1

    path.write_text("a good film\t2\n")
    assert main([str(two_runs[0]), "--binary", str(path)]) == 2
    assert "line 1: expected are a sentence, a tab, and 0 or 1." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(two_runs[0]), "--course", "d", "--record", "--label", "x"])
    assert "Add --record NAME." in capsys.readouterr().err


def test_a_record_needs_the_course_files(two_runs, capsys):
    with pytest.raises(SystemExit):
        main([str(two_runs[0]), "--record"])
    assert "--record has no effect without --course" in capsys.readouterr().err
