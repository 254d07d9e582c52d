"""tools/tables/figures.py: recorded runs become a page of bars and curves."""

from __future__ import annotations

import json
from datetime import date

import pytest

from experiments.records import add_records, record_of
from tools.tables import figures
from tools.tables.figures import by_recipe, main, read_runs


def test_recorded_runs_become_a_page(two_runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "RECORDS", tmp_path)
    runs = [json.loads((folder / "run.json").read_text()) for folder in two_runs]
    path = tmp_path / "mine.jsonl"
    add_records(path, [record_of(run, date(2026, 11, 25)) for run in runs])

    scores, histories = by_recipe(read_runs(path))
    assert [run["sts"] for run in scores["none"]] == [run["scores"]["sts"] for run in runs]
    assert [len(history) for history in histories["none"]] == [len(run["epochs"]) for run in runs]
    page = tmp_path / "page.html"
    assert main(["mine", "--out", str(page)]) == 0
    assert main(["mine", "--out", str(page)]) == 0, "a page of ours is replaced"
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 5
    assert "How the runs were measured" in text
    assert "Measured on 2026-11-25 with commit" in text
    assert "Bars of one group: dev score of SST, PARA, STS" in text
    last = histories["none"][0][-1]
    assert f"<title>none, epoch {last['epoch']}: " in text
    assert capsys.readouterr().out == 2 * f"{page}: written\n"


def test_recipes_stand_in_the_order_of_the_reports(tmp_path):
    path = tmp_path / "mine.jsonl"
    names = ["rob-10", "mine", "gen-nli", "rob-2"]
    row = {"trained": ["sst"], "scores": {"sst": 0.5}, "epochs": [{"epoch": 1, "sst": 0.5}]}
    add_records(path, [{**row, "recipe": name} for name in names])
    scores, histories = by_recipe(read_runs(path))
    assert list(scores) == list(histories)
    assert list(scores).index("rob-2") < list(scores).index("rob-10")
    assert list(scores)[-1] == "mine"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("round-trips", "round-trips.jsonl holds no runs"),
        ("mine", "mine.jsonl: there is no such file. This command makes it: python -m experiments"),
        ("elsewhere/mine.jsonl", "elsewhere/mine.jsonl: there is no such file."),
    ],
)
def test_records_without_runs_are_refused(name, words, tmp_path, capsys):
    assert main([name, "--out", str(tmp_path / "page.html")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
