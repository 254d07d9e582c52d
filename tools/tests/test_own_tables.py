"""tools/benchmarks/own_tables.py: the made tables, and what is recorded of a run on one."""

from __future__ import annotations

import csv
import itertools
from collections import Counter

import pytest

from tools.benchmarks.made_tables import read_wordings
from tools.benchmarks.own_tables import PAIRS, make_trial, record_of_run


def read(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def test_other_wordings_share_no_request_with_the_training_tickets(tmp_path):
    trial = make_trial("tickets", tmp_path, None)
    train, seen, unseen = (
        read(tmp_path / f"{name}.csv") for name in ("tickets", "tickets-seen", "tickets-unseen")
    )
    assert (len(train), len(seen), len(unseen)) == (800, 150, 150)
    assert not {text for text, _ in train} & {text for text, _ in seen + unseen}
    assert f"dev={tmp_path}/tickets-seen.csv,test={tmp_path}/tickets-unseen.csv" in trial.task
    for team, requests in read_wordings()["unseen"].items():
        for request in requests:
            assert not any(request in text for text, _ in train + seen)
            assert any(request in text and of == team for text, of in unseen)
    again = tmp_path / "again"
    make_trial("tickets", again, None)
    assert read(again / "tickets.csv") == train


def test_pairs_of_one_question_have_the_highest_score(tmp_path):
    assert make_trial("questions", tmp_path, None).arms == PAIRS
    rows = read(tmp_path / "questions.csv")
    assert Counter(score for _, _, score in rows) == {"5": 72, "2": 90, "0": 90}
    groups = [set(group) for group in itertools.chain(*read_wordings()["questions"].values())]
    for first, second, score in rows:
        assert any({first, second} <= group for group in groups) == (score == "5")


def test_a_subset_of_sts_is_read_from_its_files(tmp_path):
    lines = ["score\tsentence1\tsentence2\tsubset", "4.0\ta\tb\tforums", "1.0\tc\td\tnews"]
    (tmp_path / "STS16_test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    make_trial("news", tmp_path / "tables", tmp_path)
    assert read(tmp_path / "tables/news.csv") == [["c", "d", "1.0"]]
    for sts in (None, tmp_path):
        with pytest.raises(ValueError, match="'absent'"):
            make_trial("absent", tmp_path / "tables", sts)


def test_a_record_has_the_scores_of_the_model_and_of_the_baselines(tmp_path):
    (tmp_path / "predictions").mkdir()
    for split, num_rows in (("dev", 3), ("test", 2)):
        lines = ["id, prediction", *("0, 1.5" for _ in range(num_rows))]
        path = tmp_path / f"predictions/own-{split}-output.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = {
        "options": {"seed": 3, "head": "cosine"},
        "epochs": [{"step": 8}, {"step": 16}],
        "scores": {"own": 0.8},
        "baselines": {"TF-IDF": {"own": 0.1}, "vectors": {"own": 0.6}},
        "machine": {},
        "versions": {},
        "code": {},
        "tasks": [{"metric_name": "pearson"}],
    }
    recorded = record_of_run(run, tmp_path)
    assert (recorded["metric"], recorded["num_rows"]) == ("pearson", {"scores": 3})
    assert recorded["scores"] == {"minBERT": 0.8, "TF-IDF": 0.1, "vectors": 0.6}
    assert (recorded["seed"], recorded["steps"]) == (3, 16) and "test" not in recorded
    tested = {"test_scores": {"own": 0.5}, "test_baselines": {"TF-IDF": {"own": 0.2}}}
    recorded = record_of_run({**run, **tested}, tmp_path)
    assert recorded["test"] == {"minBERT": 0.5, "TF-IDF": 0.2}
    assert recorded["num_rows"] == {"scores": 3, "test": 2}
