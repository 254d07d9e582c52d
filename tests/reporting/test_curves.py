"""minbert/reporting/curves.py: a PNG file and a TensorBoard log of a history."""

import threading

import pytest
from matplotlib.figure import Figure as Canvas

from minbert.commands.optional import install_command
from minbert.reporting import curves
from minbert.reporting.curves import Curves, missing_libraries
from minbert.reporting.event_file import EventFile

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
KEYS = ("loss", "held_out_loss", "masked_accuracy")


@pytest.fixture
def tensorboard():
    pytest.importorskip("tensorboard", reason="it is optional; run setup.sh --plots")


@pytest.fixture
def drawn(monkeypatch):
    """The matplotlib figures that are saved while a test runs."""
    canvases = []
    save = Canvas.savefig

    def remember(canvas, *arguments, **keywords):
        canvases.append(canvas)
        save(canvas, *arguments, **keywords)

    monkeypatch.setattr(Canvas, "savefig", remember)
    return canvases


def logged(folder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    points = {}
    for name in events.Tags()["scalars"]:
        scalars = events.Scalars(name)
        points[name] = [(event.step, pytest.approx(event.value)) for event in scalars]
    return points


def expected(history, tokens_per_step):
    points = {}
    for key in KEYS:
        points[key] = [(entry["step"] * tokens_per_step, entry[key]) for entry in history]
    return points


def test_the_log_holds_every_entry_once_over_tokens(tensorboard, tmp_path):
    draw = Curves(tmp_path, 2048, "mini")
    for number in range(1, 5):
        draw(HISTORY[:number])
    assert logged(tmp_path) == expected(HISTORY, 2048)


def test_a_resumed_run_has_one_curve(tensorboard, tmp_path):
    Curves(tmp_path, 2048, "mini")(HISTORY[:2])
    # Another process starts with the whole history.
    Curves(tmp_path, 2048, "mini")(HISTORY)
    assert logged(tmp_path) == expected(HISTORY, 2048)


def test_points_are_written_after_some_seconds_and_at_once_by_flush(tensorboard, tmp_path):
    file = EventFile(tmp_path / "tensorboard")
    file.add_scalar("loss", 0.5, 1)
    assert not file.path.exists()
    file.flush()
    assert logged(tmp_path) == {"loss": [(1, 0.5)]}
    file.last_write -= 60
    file.add_scalar("loss", 0.25, 2)
    assert logged(tmp_path) == {"loss": [(1, 0.5), (2, 0.25)]}


def test_a_log_that_cannot_be_written_is_named_without_a_traceback(tensorboard, tmp_path, capsys):
    (tmp_path / "tensorboard").write_text("a file in its place")
    threads = threading.enumerate()
    with pytest.raises(ValueError, match=r"tensorboard/events.*cannot be written \(File exists\)"):
        Curves(tmp_path, 2048, "mini").log(HISTORY)
    assert threading.enumerate() == threads and capsys.readouterr().err == ""


def test_the_plots(tmp_path, drawn):
    Curves(tmp_path, 2_000_000, "mini, 80,000,000 tokens").draw(HISTORY)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
    loss, accuracy = drawn[0].axes
    training, held_out = loss.lines
    assert [line.get_label() for line in loss.lines] == ["training", "held out"]
    # 2 million tokens a step, so step 10 is at 20 million.
    assert held_out.get_xydata().tolist() == [[20, 6.5], [40, 5.5], [60, 4.5], [80, 3.5]]
    assert accuracy.lines[0].get_ydata() == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert accuracy.lines[0].get_color() == held_out.get_color() != training.get_color()
    assert accuracy.get_ylabel() == "masked accuracy"
    assert accuracy.get_xlabel() == "tokens seen (millions)"
    assert drawn[0].get_suptitle() == "mini, 80,000,000 tokens"


def test_a_history_of_one_entry_can_be_drawn(tmp_path):
    Curves(tmp_path, 1, "x").draw(HISTORY[:1])
    assert (tmp_path / "curves.png").is_file()


def test_without_tensorboard_there_are_curves_and_a_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    assert missing_libraries().startswith("no TensorBoard log: tensorboard is not installed")
    assert missing_libraries().endswith(f"({install_command(['tensorboard'], '--plots')})")
    Curves(tmp_path, 1, "x")(HISTORY)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


def test_with_all_libraries_there_is_no_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "find_spec", lambda name: name)
    assert missing_libraries() == ""
