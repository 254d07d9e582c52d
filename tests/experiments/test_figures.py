"""experiments/figures.py: from runs to bars and curves, and the page that holds them."""

from __future__ import annotations

import json
from datetime import date

import pytest

from experiments import figures
from experiments.figures import build_sections, by_recipe, main, mean_by_epoch, read_runs
from experiments.records import add_records, record_of

# Two recipes. The second one trains STS alone.
SCORES = {
    "rob-3": [
        {"sst": 0.5, "para": 0.7, "sts": 0.6, "overall_2023": 0.6},
        {"sst": 0.3, "para": 0.7, "sts": 0.8, "overall_2023": 0.6},
    ],
    "gen-given-sts": [{"sts": 0.4}],
}
HISTORIES = {
    "rob-3": [
        [{"epoch": 1, "sst": 0.2, "sts": 0.5}, {"epoch": 2, "sst": 0.5, "sts": 0.6}],
        [{"epoch": 1, "sst": 0.4, "sts": 0.7}],
    ],
    "gen-given-sts": [[{"epoch": 1, "sts": 0.4}]],
}


def sections():
    return {section.title: section for section in build_sections(SCORES, HISTORIES)}


def test_a_bar_is_the_mean_of_the_runs_that_trained_the_task():
    section = sections()["Scores by recipe"]
    (plot,) = section.body.plots
    assert plot.groups == ["rob-3", "gen-given-sts"]
    sst, para, sts = plot.series
    assert [bars.name for bars in plot.series] == ["SST", "PARA", "STS"]
    assert sst.heights == pytest.approx([0.4, 0.0])
    assert sst.deviations == pytest.approx([2**0.5 / 10, 0.0])
    assert sst.notes == ["rob-3, SST: 0.400 ± 0.141", ""]
    assert para.deviations == pytest.approx([0.0, 0.0])
    assert sts.heights == pytest.approx([0.7, 0.4])
    assert section.table.rows == (
        ("rob-3", "2", "0.400 ± 0.141", "0.700 ± 0.000", "0.700 ± 0.141", "0.600 ± 0.000"),
        ("gen-given-sts", "1", "–", "–", "0.400", "–"),
    )


def test_a_curve_is_the_mean_of_the_runs_that_reached_the_epoch():
    assert mean_by_epoch(HISTORIES["rob-3"], "sst") == pytest.approx({1: 0.3, 2: 0.5})
    found = sections()
    assert list(found)[1:] == ["Scores by epoch", "SST by epoch", "STS by epoch"]
    (plot,) = found["STS by epoch"].body.plots
    assert [line.name for line in plot.lines] == ["rob-3", "gen-given-sts"]
    assert plot.lines[0].x == [1, 2]
    assert plot.lines[0].y == pytest.approx([0.6, 0.6])
    assert found["STS by epoch"].table.rows == (
        ("rob-3", "0.600", "0.600"),
        ("gen-given-sts", "0.400", "–"),
    )


def test_many_recipes_have_several_plots():
    histories = {f"recipe-{number}": [[{"epoch": 1, "sts": 0.5}]] for number in range(17)}
    section = build_sections({"recipe-0": [{"sts": 0.5}]}, histories)[-1]
    assert [len(plot.lines) for plot in section.body.plots] == [8, 8, 1]
    assert len(section.table.rows) == 17


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
