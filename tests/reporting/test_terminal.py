"""minbert/reporting/terminal.py: what a person sees, in a terminal and in a log."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time

import pytest

from minbert.reporting import terminal
from minbert.reporting.terminal import Fact

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9](;|m)")


class FakeTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        """All that was written, without colours and movements of the cursor."""
        return ESCAPE.sub("", self.getvalue()).replace("\r", "")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A terminal of 60 columns, whatever the tests run in."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


def use(stream: io.StringIO, monkeypatch) -> io.StringIO:
    """Make the stream standard output and standard error.

    Called in a test, and no fixture: pytest puts its own streams back after the fixtures.
    """
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def show_everything() -> None:
    """One of each kind of output."""
    terminal.heading("minBERT")
    terminal.title("Settings")
    terminal.facts([Fact("lr", 0.5, "a reason"), Fact("precision", "fp32")])
    terminal.table("dev  score\nSST    0.5")
    terminal.scores("toy", "5/15", {"loss": 0.25, "a": 1.0}, "best")
    terminal.scores("toy", "10/15", {"loss": 0.125, "a": 0.5}, "")


# --- lines ----------------------------------------------------------------------------------------


def test_a_log_has_plain_lines(monkeypatch):
    log = use(io.StringIO(), monkeypatch)
    with terminal.session("starting"):
        show_everything()
    assert log.getvalue() == (
        "minBERT\n"
        "\n== Settings ==\n"
        "lr: 0.5 (a reason)\n"
        "precision: fp32\n"
        "dev  score\nSST    0.5\n"
        "toy: step 5/15  loss 0.2500  a 1.0000  (best)\n"
        "toy: step 10/15  loss 0.1250  a 0.5000\n"
    )


def test_a_terminal_has_aligned_tables(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    show_everything()
    assert screen.shown.splitlines() == [
        "minBERT",
        "",
        "── Settings ".ljust(60, "─"),
        "lr         0.5 (a reason)",
        "precision  fp32",
        "dev  score",
        "SST    0.5",
        "       step    loss       a",
        "       5/15  0.2500  1.0000  best",
        "      10/15  0.1250  0.5000",
    ]


def test_the_titles_of_scores_come_again_after_other_lines(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    terminal.scores("toy", "1/2", {"loss": 1.0}, "")
    terminal.say("a note")
    terminal.scores("toy", "2/2", {"loss": 1.0}, "")
    assert screen.shown.count("step") == 2


def test_a_long_reason_is_wrapped_in_its_column_and_a_path_is_not(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    path = "runs/" + "long-" * 20
    terminal.facts([Fact("a name", "word " * 20), Fact("model", path)])
    lines = screen.shown.splitlines()
    assert lines[1].startswith("        word") and max(map(len, lines[:2])) <= 60
    assert f"model   {path}" in lines


def test_a_value_stands_below_a_long_name(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    path = "minbert/" + "long-" * 6
    terminal.facts([Fact(path, "word " * 15), Fact("lr", 0.5)])
    lines = screen.shown.splitlines()
    assert lines[0] == path and lines[-1] == "lr  0.5"
    assert lines[1] == "    " + " ".join(["word"] * 11) and lines[2].startswith("    word")


def test_colours_are_for_terminals_and_not_with_no_color(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    show_everything()
    assert COLOUR.search(screen.getvalue())
    screen.truncate(0)
    monkeypatch.setenv("NO_COLOR", "1")
    show_everything()
    assert "Settings" in screen.getvalue() and not COLOUR.search(screen.getvalue())


@pytest.mark.parametrize("kind", [FakeTerminal, io.StringIO])
def test_text_of_the_user_is_neither_markup_nor_obeyed(kind, monkeypatch):
    stream = use(kind(), monkeypatch)
    text = "[bold]x[/bold] [/nothing] :smile: \x1b[31mred\x07"
    with terminal.session("starting"):
        terminal.say(text)
        terminal.facts([Fact("[red]a", text)])
        with terminal.working(text, 2) as work:
            work.advance(note=text)
    shown = stream.getvalue()
    assert shown.count("[bold]x[/bold] [/nothing] :smile: \\x1b[31mred\\x07") >= 2
    assert "\x1b[31m" not in shown and "\x07" not in shown


def test_other_processes_of_torchrun_are_silent(monkeypatch):
    log = use(io.StringIO(), monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with terminal.session("starting"):
        show_everything()
    assert log.getvalue() == ""


# --- streams that are closed ----------------------------------------------------------------------


def test_closed_streams_stop_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with terminal.session("starting"):
        show_everything()
    with terminal.session("starting", uses_stderr=True):
        terminal.say("a note")
    assert not terminal.SCREEN.works, "all of it was done"


def test_a_reader_that_has_gone_stops_nothing(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        terminal.say("nobody reads this")
        terminal.say("nor this")
        assert os.fstat(writer).st_rdev == os.stat(os.devnull).st_rdev, "it is dropped from then on"


def test_stderr_may_be_closed():
    code = (
        "import sys\n"
        "from minbert.reporting import terminal\n"
        "with terminal.session('starting'):\n"
        "    terminal.say('a line')\n"
    )
    command = f'exec "{sys.executable}" -c "$CODE" 2>&-'
    result = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "CODE": code}, stdout=subprocess.PIPE, text=True
    )
    assert (result.returncode, result.stdout) == (0, "a line\n")


# --- progress -------------------------------------------------------------------------------------


@pytest.fixture
def hurry(monkeypatch):
    """A log that is silent for no longer than a twentieth of a second, and bars at once."""
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0.05)
    monkeypatch.setattr(terminal, "BAR_SECONDS", 0.02)


def test_a_log_is_never_silent_for_long(hurry, monkeypatch):
    log = use(io.StringIO(), monkeypatch)
    with terminal.session("reading"):
        time.sleep(0.15)
        with terminal.working("toy", 8, "step", done=2) as work:
            work.advance(2, "loss 0.5000")
            time.sleep(0.15)
    lines = log.getvalue().splitlines()
    assert lines[0] == "reading: 0:00 so far"
    assert lines[-1] == "toy: step 4 of 8, loss 0.5000, 0:00 so far, about 0:00 left"
    time.sleep(0.1)
    assert log.getvalue().splitlines() == lines, "it goes on after its end"


def test_the_time_left_follows_from_the_units_of_this_run():
    work = terminal.Work("toy", 100, "step", done=50)
    assert work.seconds_left is None
    work.started -= 20
    work.advance(10)  # 2 seconds a step
    assert work.seconds_left == pytest.approx(80, rel=1e-3)
    assert terminal.clock(59.6) == "1:00" and terminal.clock(7265) == "2:01:05"


def test_a_terminal_has_a_bar_and_removes_it(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    with terminal.session("starting"), terminal.working("toy", 4, "step") as work:
        work.advance(1, "loss 0.5000")
        terminal.SCREEN.refresh()
        terminal.say("a line")
        print("from another ", end="")
        print("library")
    shown = screen.getvalue()
    assert "toy  " in shown and "1/4, loss 0.5000  00:00 < 00:00" in shown
    assert "toy: step" not in shown, "lines of a log"
    # Lines stand above the bar, which is erased before them, and at its end.
    assert "\ra line\n" in shown and "\rfrom another library\n" in shown
    assert shown.endswith(" \r")
    assert sys.stdout is screen and not terminal.SCREEN.works and not terminal.SCREEN.bars


def test_a_session_shows_what_it_does_until_something_else_works(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    with terminal.session("starting"):
        terminal.doing("reading")
        terminal.SCREEN.refresh()
        assert [bar.desc for bar in terminal.SCREEN.bars.values()] == ["reading"]
        # Its time is that of what is done now.
        terminal.SCREEN.base.started -= 70
        terminal.SCREEN.refresh()
        assert screen.getvalue().endswith("reading  01:10")
        terminal.doing("counting")
        terminal.SCREEN.refresh()
        assert screen.getvalue().rstrip().endswith("counting  00:00")
        with terminal.working("outer", 4), terminal.working("inner"):
            terminal.SCREEN.refresh()
            assert [bar.desc for bar in terminal.SCREEN.bars.values()] == ["outer", "inner"]
    assert "reading  00:00" in screen.getvalue()


def test_bars_of_an_old_terminal_are_ascii(monkeypatch):
    class OldTerminal(FakeTerminal):
        encoding = "cp437"

    screen = use(OldTerminal(), monkeypatch)
    with terminal.working("toy", 4) as work:
        terminal.title("Data")
        work.advance(2)
        terminal.SCREEN.refresh()
    assert screen.getvalue().isascii() and "-- Data ---" in screen.getvalue()


def test_a_notebook_has_bars_of_tqdm(monkeypatch):
    """Without its widgets, tqdm.auto draws bars of text."""
    use(io.StringIO(), monkeypatch)
    monkeypatch.setattr(terminal, "is_notebook", lambda: True)
    with terminal.working("toy", 4, "step") as work:
        work.advance(1)
        terminal.SCREEN.refresh()
        assert "1/4" in sys.stderr.getvalue()


def test_the_bar_is_on_stderr_if_only_that_is_a_terminal(hurry, monkeypatch):
    log = use(io.StringIO(), monkeypatch)
    screen = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.working("toy", 4, "step"):
        time.sleep(0.12)
        terminal.say("a line")
    assert log.getvalue() == "a line\n" and "0/4" in screen.shown


def test_lines_on_progress_are_no_results(hurry, monkeypatch):
    results = use(io.StringIO(), monkeypatch)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with terminal.working("toy", 4, "step"):
        time.sleep(0.12)
        terminal.say("a line")
    assert results.getvalue() == "a line\n" and "toy: step 0 of 4" in sys.stderr.getvalue()


def test_a_terminal_that_cannot_move_its_cursor_is_a_log(hurry, monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with terminal.working("toy", 4, "step"):
        time.sleep(0.12)
    assert "toy: step 0 of 4" in screen.getvalue() and "\x1b" not in screen.getvalue()


def test_answers_go_to_stdout_and_notes_to_stderr(monkeypatch):
    answers, notes = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", answers)
    monkeypatch.setattr(sys, "stderr", notes)
    with terminal.session("starting", uses_stderr=True):
        terminal.say("a note")
        terminal.answer("an answer")
    assert (answers.getvalue(), notes.getvalue()) == ("an answer\n", "a note\n")
    terminal.say("after it")
    assert answers.getvalue().endswith("after it\n")


def test_a_long_answer_is_not_broken_by_the_bar(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    with terminal.session("starting", uses_stderr=True):
        terminal.answer("x" * 100)
    assert f"{'x' * 100}\n" in screen.shown


def test_what_fails_leaves_no_bar(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    with pytest.raises(ValueError, match="broken"), terminal.session("starting"):
        for _ in terminal.track([1, 2], "batches"):
            raise ValueError("broken")
    assert not terminal.SCREEN.works and not terminal.SCREEN.bars and sys.stdout is screen


def test_items_are_tracked_only_in_a_session(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    assert list(terminal.track([1, 2], "batches")) == [1, 2]
    assert screen.getvalue() == ""
    with terminal.session("starting"):
        assert list(terminal.track([1, 2], "batches")) == [1, 2]


def test_no_bar_while_another_library_shows_its_own(monkeypatch):
    screen = use(FakeTerminal(), monkeypatch)
    with terminal.session("starting"):
        with terminal.paused():
            assert terminal.SCREEN.pulse is None and sys.stdout is screen
        assert terminal.SCREEN.pulse is not None
