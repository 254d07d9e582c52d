"""experiments/figures.py: from runs to bars and curves."""

from __future__ import annotations

import pytest

from experiments.figures import build_sections, mean_by_epoch

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
    history = [{"epoch": 1, "sts": 0.5}, {"epoch": 2, "sts": 0.6}]
    histories = {f"recipe-{number}": [history] for number in range(17)}
    section = build_sections({"recipe-0": [{"sts": 0.5}]}, histories)[-1]
    assert [len(plot.lines) for plot in section.body.plots] == [8, 8, 1]
    assert len(section.table.rows) == 17
    # One epoch is no curve.
    (only,) = build_sections({"recipe-0": [{"sts": 0.5}]}, {"recipe-0": [history[:1]]})
    assert only.title == "Scores by recipe"
