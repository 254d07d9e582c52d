"""multitask/conflicts.py: the table and the picture of the tasks' conflicts."""

import sys

import pytest
import torch

from multitask.conflicts import conflict_table, draw_conflicts, report
from multitask.surgery import GradientSurgery


@pytest.fixture
def surgery():
    found = GradientSurgery("pcgrad", "sum", 0.01, ["sst", "para", "sts"], seed=0)
    torch.manual_seed(0)
    for number in range(130):
        gradients = torch.randn(3, 5, dtype=torch.float64)
        tasks = ["sst", "para", "sts"] if number % 2 else ["sst", "sts"]
        found(gradients[: len(tasks)] @ gradients[: len(tasks)].T, tasks)
    return found


def test_table_by_hand():
    text = conflict_table(
        [{"tasks": ["sst", "sts"], "steps": 1200, "conflicts": 0.25, "cosine": -0.0625}]
    )
    assert text.splitlines() == [
        "gradients of         steps   conflicts   mean cosine",
        "SST and STS          1,200       25.0%       -0.0625",
    ]


def test_report_writes_the_picture_and_says_where(surgery, tmp_path):
    pytest.importorskip("matplotlib", reason="the picture is an extra; run setup.sh --plots")
    found, text = report(surgery, tmp_path / "run")
    assert [entry["steps"] for entry in found] == [65, 130, 65]
    assert (tmp_path / "run" / "conflicts.png").read_bytes().startswith(b"\x89PNG")
    assert (
        text.endswith(f"picture: {tmp_path / 'run' / 'conflicts.png'}\n\n")
        and "PARA and STS" in text
    )


def test_what_is_drawn(surgery, tmp_path, monkeypatch):
    """A point stands in the middle of its steps, which are counted from 1."""
    drawn = {}
    monkeypatch.setattr("multitask.conflicts.find_spec", lambda name: name)
    monkeypatch.setattr(
        "multitask.conflicts.draw_panels", lambda path, label, panels: drawn.update(panels)
    )
    assert draw_conflicts(surgery, tmp_path / "conflicts.png")
    (means, shares), cosines = drawn.values(), surgery.state_dict()["cosines"].numpy()
    (x, y), (of_shares, percent) = (panel["SST and STS"] for panel in (means, shares))
    assert (
        len(x) == 60 and x[0] == of_shares[0] == 2.0 and x[-1] == 129.5
    )  # 130 steps: pieces of three, then of two
    number = [entry["tasks"] for entry in surgery.conflicts()].index(["sst", "sts"])
    assert y[0] == pytest.approx(cosines[:3, number].mean()) and y[-1] == pytest.approx(
        cosines[-2:, number].mean()
    )
    assert percent[0] == pytest.approx(100 * (cosines[:3, number] < 0).mean())
    assert means["PARA and STS"][0][0] == 3.0  # steps 2 and 4, the first two that hold the pair


def test_without_a_surgery_or_matplotlib_there_is_nothing_to_draw(surgery, tmp_path, monkeypatch):
    assert report(None, tmp_path) == ([], "")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("multitask.conflicts.find_spec", lambda name: None)
    assert not draw_conflicts(surgery, tmp_path / "conflicts.png") and not list(tmp_path.iterdir())
    assert (
        "\npicture: none, matplotlib is not installed (bash setup.sh --plots)\n"
        in report(surgery, tmp_path)[1]
    )
