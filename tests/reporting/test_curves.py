"""minbert/reporting/curves.py: a picture and a TensorBoard log of a history."""

import importlib.util

import pytest

from minbert.reporting import curves
from minbert.reporting.curves import Curves, missing_libraries

HISTORY = [
    {
        "step": 10 * (number + 1),
        "loss": 6.0 - number,
        "held_out_loss": 6.5 - number,
        "masked_accuracy": 0.1 * number,
        "epoch": number + 1,
    }
    for number in range(4)
]


@pytest.fixture
def libraries():
    for name in ("matplotlib", "tensorboard"):
        pytest.importorskip(name, reason=f"{name} is optional; run setup.sh --plots")


def logged(folder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        name: [(event.step, pytest.approx(event.value)) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def expected(history, tokens_per_step):
    return {
        name: [(entry["step"] * tokens_per_step, entry[name]) for entry in history]
        for name in ("loss", "held_out_loss", "masked_accuracy")
    }


def test_the_log_holds_every_entry_once_over_tokens(libraries, tmp_path):
    draw = Curves(tmp_path, 2048, "mini")
    for number in range(1, 5):
        draw(HISTORY[:number])
    assert logged(tmp_path) == expected(HISTORY, 2048)


def test_a_resumed_run_has_one_curve(libraries, tmp_path):
    Curves(tmp_path, 2048, "mini")(HISTORY[:2])
    Curves(tmp_path, 2048, "mini")(HISTORY)  # another process
    assert logged(tmp_path) == expected(HISTORY, 2048)


def test_the_picture(libraries, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda figure, *place, clean=Figure.savefig, **rest: (
            drawn.append(figure),
            clean(figure, *place, **rest),
        ),
    )
    Curves(tmp_path, 2_000_000, "mini, 80,000,000 tokens")(HISTORY)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    loss, accuracy = drawn[0].axes
    assert [line.get_label() for line in loss.lines] == ["training", "held out"]
    assert loss.lines[1].get_xydata().tolist() == [
        [20, 6.5],
        [40, 5.5],
        [60, 4.5],
        [80, 3.5],
    ]  # millions of tokens
    assert accuracy.lines[0].get_ydata() == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert (
        accuracy.lines[0].get_color() == loss.lines[1].get_color() != loss.lines[0].get_color()
    )  # both held out
    assert (
        accuracy.get_ylabel() == "masked accuracy"
        and accuracy.get_xlabel() == "tokens seen (millions)"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "tensorboard"]


@pytest.mark.parametrize(
    ("absent", "words", "left"),
    [
        ("matplotlib", "no curves: matplotlib is not", "tensorboard"),
        ("tensorboard", "no log: tensor", "curves.png"),
    ],
)
def test_what_has_no_library_is_not_written_and_that_is_said(
    libraries, tmp_path, monkeypatch, absent, words, left
):
    find = importlib.util.find_spec
    monkeypatch.setattr(curves, "find_spec", lambda name: None if name == absent else find(name))
    assert missing_libraries().startswith(words) and missing_libraries().endswith(
        "(bash setup.sh --plots)"
    )
    Curves(tmp_path, 1, "x")(HISTORY)
    assert [path.name for path in tmp_path.iterdir()] == [left]
