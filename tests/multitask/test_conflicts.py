"""multitask/conflicts.py: the table and the plots of the tasks' conflicts."""

import pytest
import torch

from multitask.conflicts import draw_conflicts, report
from tests.toy_surgery import make_surgery

TASKS = ["sst", "para", "sts"]


@pytest.fixture
def surgery():
    """130 steps of random gradients. Every other step lacks PARA."""
    surgery = make_surgery("pcgrad", "sum", 0.01, TASKS, seed=0)
    torch.manual_seed(0)
    for number in range(130):
        gradients = torch.randn(3, 5, dtype=torch.float64)
        tasks = TASKS if number % 2 else ["sst", "sts"]
        surgery(gradients[: len(tasks)] @ gradients[: len(tasks)].T, tasks)
    return surgery


def test_gradients_at_a_right_angle_are_no_conflict():
    """Cosines 1, 0 and -1 of three steps: one conflict, and a mean of 0."""
    surgery = make_surgery("pcgrad", "sum", 0.01, ["sst", "sts"], seed=0)
    for cosine in (1.0, 0.0, -1.0):
        gramian = torch.tensor([[1.0, cosine], [cosine, 1.0]], dtype=torch.float64)
        surgery(gramian, ["sst", "sts"])
    (entry,) = surgery.conflicts()
    assert entry["conflicts"] == pytest.approx(1 / 3)
    assert entry["cosine"] == 0.0
    assert entry["steps"] == 3


def test_report_writes_the_plots_and_says_where(surgery, tmp_path):
    record, text = report(surgery, tmp_path / "run")
    assert [entry["steps"] for entry in record] == [65, 130, 65]
    path = tmp_path / "run" / "conflicts.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert text.endswith(f"figure: {path}\n\n") and "PARA and STS" in text


def test_the_curves_by_a_slow_loop(surgery, tmp_path, monkeypatch):
    """A point stands in the middle of its steps, which are counted from 1."""
    drawn = []
    monkeypatch.setattr("multitask.conflicts.write_png", lambda path, plots: drawn.extend(plots))
    draw_conflicts(surgery, tmp_path / "conflicts.png")
    means, shares = drawn
    assert (means.x_label, means.y_label) == ("step", "mean cosine of the gradients")
    assert (shares.x_label, shares.y_label) == ("step", "conflicts (% of the steps)")

    names = [line.name for line in means.lines]
    assert names == ["SST and PARA", "SST and STS", "PARA and STS"]
    assert [line.name for line in shares.lines] == names

    # 130 steps in 60 pieces: pieces of three come first, then pieces of two.
    mean = means.lines[1]
    assert len(mean.x) == 60 and mean.x[0] == 2.0 and mean.x[-1] == 129.5
    cosines = surgery.state_dict()["cosines"].numpy()
    number = [entry["tasks"] for entry in surgery.conflicts()].index(["sst", "sts"])
    assert mean.y[0] == pytest.approx(cosines[:3, number].mean())
    assert mean.y[-1] == pytest.approx(cosines[-2:, number].mean())
    share = shares.lines[1]
    assert share.x == mean.x
    assert share.y[0] == pytest.approx(100 * (cosines[:3, number] < 0).mean())

    # The first two steps that hold PARA are 2 and 4.
    assert means.lines[2].x[0] == 3.0


def test_without_a_surgery_there_is_nothing_to_draw(tmp_path):
    assert report(None, tmp_path) == ([], "")
    assert not list(tmp_path.iterdir())
