"""What a command shows while it works: titles, aligned lines, tables and progress.

A terminal gets colours and a bar that moves. A log (a file, a pipe, a notebook) gets plain text. It
has no bar, but a line about the work at the latest LOG_SECONDS after the line before. These lines
go to standard error, so that standard output holds results alone.

    with session("importing PyTorch"):  # a whole command; from here on there is no long silence
        title("Data")
        doing("reading the files")  # what is shown until the next title, or the next of these
        say("data/sst.csv: 12 rows read")
        with working("multitask", total=100, unit="step") as work:
            work.advance(note="loss 0.4312")

Text is never read as markup, because it may come from a file of the user. Control characters in it
are shown and do not act. rich draws all that only a terminal gets, so it is imported for a terminal
alone. `NO_COLOR=1` turns the colours off.
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from minbert.commands.streams import drop_output
from minbert.commands.texts import as_message, visible_everywhere

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType
    from rich.live import Live

Item = TypeVar("Item")

# The longest silence of a log is below ten seconds, and a line may come late on a busy machine.
LOG_SECONDS = 8.0
REFRESHES = 4  # of the bar in a second
MIN_WIDTH = 20  # letters of a column that is wrapped
INDENT = 4  # blanks before a value below its name
WARNING = "warning: "


class Fact(NamedTuple):
    """A name, its value, and why it is so."""

    name: str
    value: Any
    reason: str = ""

    @classmethod
    def of(cls, name: str, line: str) -> Fact:
        """The fact in a line such as "name: value"."""
        return cls(name, line.removeprefix(f"{name}: "))

    @property
    def content(self) -> str:
        """All but the name."""
        return f"{self.value} ({self.reason})" if self.reason else str(self.value)


@dataclass(eq=False)
class Work:
    """Something that a person waits for, and how far it has come.

    total: how many units it has, or None where nobody knows. done: those that are finished.
    """

    description: str
    total: int | None = None
    unit: str = ""
    done: int = 0
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    num_before: int = field(init=False)  # units that were finished when it started

    def __post_init__(self) -> None:
        self.num_before = self.done

    def advance(self, count: int = 1, note: str = "") -> None:
        """Count finished units. note: what stands behind the numbers, such as the loss."""
        self.done += count
        self.note = note

    @property
    def seconds(self) -> float:
        """Seconds since it started."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until it will end at the mean speed so far, or None where nobody knows."""
        num_new = self.done - self.num_before
        if self.total is None or num_new <= 0:
            return None
        return self.seconds / num_new * max(0, self.total - self.done)

    def __str__(self) -> str:
        """The line of a log."""
        if self.total is None:
            return f"{self.description}: {clock(self.seconds)} so far"
        count = f"{self.done:,} of {self.total:,}"
        parts = [f"{self.description}: {self.unit} {count}"]
        if self.note:
            parts.append(self.note)
        parts.append(f"{clock(self.seconds)} so far")
        if self.seconds_left is not None:
            parts.append(f"about {clock(self.seconds_left)} left")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, such as "1:05", or with hours, such as "2:01:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


# --- the streams ----------------------------------------------------------------------------------


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream, on a screen whose cursor can be moved."""
    if stream is None or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (OSError, ValueError):  # it is closed
        return False


def unwrap(stream: TextIO | None) -> TextIO | None:
    """The stream itself, where rich has put something in its place to keep the bar whole."""
    return getattr(stream, "rich_proxied_file", stream)


def is_muted() -> bool:
    """Whether another one of several processes speaks for all, as with torchrun."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "0") != "0"


def write_plain(stream: TextIO, text: str) -> None:
    """Write lines of a log. A reader that has gone, such as `head`, does not stop the work."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        drop_output(stream)


# --- the screen -----------------------------------------------------------------------------------


class Screen:
    """Where the words of a command go, and the work that it is busy with."""

    def __init__(self) -> None:
        self.uses_stderr = False
        self.has_bar = True
        self.works: list[Work] = []  # the outermost first
        self.base: Work | None = None  # of the session
        self.live: Live | None = None
        self.pulse: Pulse | None = None
        self.last_line = 0.0  # when it was written
        self.columns: tuple[str, ...] = ()  # of the table whose rows are being written

    @property
    def stream(self) -> TextIO | None:
        """Where lines go. None: it is closed."""
        return unwrap(sys.stderr if self.uses_stderr else sys.stdout)

    # --- lines ---

    def write(self, text: str, style: str = "") -> None:
        """Write lines, above the bar where there is one. style: of rich, in a terminal."""
        stream = self.stream
        if is_muted() or stream is None:
            return
        self.columns = ()
        self.last_line = time.monotonic()
        if is_terminal(stream):
            self.draw(as_message(text), style)
        else:
            write_plain(stream, as_message(text))

    def draw(self, text: str, style: str = "") -> None:
        """Write lines to the terminal. A long line is not broken, so it can be copied."""
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)

    @property
    def console(self) -> Console:
        """The terminal that lines go to."""
        if self.live is not None and self.live.console.file is self.stream:
            return self.live.console
        stream = self.stream
        assert stream is not None
        return make_console(stream)

    # --- work ---

    def begin(self, work: Work) -> None:
        """Show that some work has begun."""
        self.works.append(work)
        if len(self.works) == 1:
            self.open()

    def end(self, work: Work) -> None:
        """Show no longer some work, which is finished or has failed, nor what it is made of."""
        if work not in self.works:
            return
        del self.works[self.works.index(work) :]
        if not self.works:
            self.close()
        elif self.live is not None and work.seconds > 1 / REFRESHES:
            self.live.refresh()

    def open(self) -> None:
        """Start the bar of a terminal, and the lines of a log."""
        if is_muted():
            return
        self.last_line = time.monotonic()
        terminals = [stream for stream in (self.stream, unwrap(sys.stderr)) if is_terminal(stream)]
        if not terminals:
            self.pulse = Pulse(self)
            self.pulse.start()
        elif self.has_bar and terminals[0] is not None:
            self.live = make_live(terminals[0], self)
            self.live.start(refresh=True)

    def close(self) -> None:
        """Remove the bar."""
        if self.pulse is not None:
            self.pulse.stop()
            self.pulse = None
        if self.live is not None:
            self.live.stop()
            self.live = None

    @property
    def shown(self) -> list[Work]:
        """The work to show: that of the session only if there is no other."""
        inner = [work for work in self.works if work is not self.base]
        return inner or self.works

    def report(self) -> None:
        """Write a line on the work to standard error."""
        text = "; ".join(str(work) for work in list(self.shown))
        if text and sys.stderr is not None:
            self.last_line = time.monotonic()
            write_plain(sys.stderr, visible_everywhere(text))


class Pulse(threading.Thread):
    """Writes a line to the log whenever nothing else was written for some time."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(name="pulse", daemon=True)
        self.screen = screen
        self.is_over = threading.Event()

    def run(self) -> None:
        """Look every now and then, until `stop` is called."""
        while not self.is_over.wait(LOG_SECONDS / 8):
            if time.monotonic() - self.screen.last_line >= LOG_SECONDS:
                self.screen.report()

    def stop(self) -> None:
        """Write no more lines."""
        self.is_over.set()
        self.join()


SCREEN = Screen()


# --- what a terminal gets -------------------------------------------------------------------------


def make_console(stream: TextIO) -> Console:
    """A terminal, with colours unless NO_COLOR forbids them."""
    from rich.console import Console

    return Console(
        file=stream,
        force_terminal=True,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def make_live(stream: TextIO, screen: Screen) -> Live:
    """The lines at the bottom of a terminal that follow the work. Others are written above them."""
    from rich.live import Live
    from rich.spinner import Spinner

    console = make_console(stream)
    spinner = Spinner("line" if console.options.ascii_only else "dots", style="cyan")

    def render() -> RenderableType:
        return draw_works(list(screen.shown), spinner)

    return Live(
        console=console,
        get_renderable=render,
        refresh_per_second=REFRESHES,
        transient=True,
        # What other libraries print must not stand in the middle of the bar.
        redirect_stdout=is_terminal(sys.stdout),
        redirect_stderr=is_terminal(sys.stderr),
    )


def draw_works(works: Sequence[Work], spinner: RenderableType) -> RenderableType:
    """One line for each piece of work: a bar where its end is known."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    lines = []
    for work in works:
        line = Table.grid(padding=(0, 2, 0, 0), expand=work.total is not None)
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True)
        time_text = clock(work.seconds)
        cells: list[RenderableType] = [spinner, Text(visible_everywhere(work.description), "bold")]
        if work.total is not None:
            line.add_column(ratio=1)
            bar = ProgressBar(max(1, work.total), work.done, complete_style="cyan")
            cells.append(bar)
            texts = [f"{work.done:,}/{work.total:,}", work.note]
            if work.seconds_left is not None:
                time_text += f" < {clock(work.seconds_left)}"
            for text in texts:
                if text:
                    line.add_column(no_wrap=True)
                    cells.append(Text(visible_everywhere(text)))
        line.add_column(no_wrap=True)
        cells.append(Text(time_text, "dim"))
        line.add_row(*cells)
        lines.append(line)
    return Group(*lines)


# --- words ----------------------------------------------------------------------------------------


def say(*lines: str) -> None:
    """Print lines. A warning is yellow in a terminal."""
    for line in lines:
        SCREEN.write(line, "yellow" if line.startswith(WARNING) else "")


def heading(text: str) -> None:
    """Print the first line of a command."""
    SCREEN.write(text, "bold cyan")


def title(text: str, activity: str = "") -> None:
    """Print the title of a part of the work, after an empty line.

    activity: what is being done from here on, as of `doing`; by default the title.
    """
    doing(activity or text)
    if is_terminal(SCREEN.stream):
        line = f"── {text} ".ljust(SCREEN.console.width, "─")
        if SCREEN.console.options.ascii_only:
            line = line.replace("─", "-")
        SCREEN.write(f"\n{line}", "bold cyan")
    else:
        SCREEN.write(f"\n== {text} ==")


def table(text: str) -> None:
    """Print a table. Its first line, the heading, is bold in a terminal."""
    first, *rest = text.split("\n")
    SCREEN.write(first, "bold")
    if rest:
        SCREEN.write("\n".join(rest))


def facts(rows: Iterable[Fact]) -> None:
    """Print names with their values: aligned in a terminal, as "name: value (reason)" in a log.

    In a terminal, the value of a name that is longer than half a line stands below the name.
    """
    rows = list(rows)
    if not is_terminal(SCREEN.stream):
        say(*(f"{row.name}: {row.content}" for row in rows))
        return
    half = SCREEN.console.width // 2
    width = max((len(row.name) for row in rows if len(row.name) <= half), default=0) + 2
    for row in rows:
        is_beside = len(row.name) <= half
        indent = " " * (width if is_beside else INDENT)
        start = f"{row.name:<{width}}" if is_beside else f"{row.name}\n{indent}"
        space = max(MIN_WIDTH, SCREEN.console.width - len(indent))
        lines = textwrap.wrap(row.content, space, break_long_words=False, break_on_hyphens=False)
        say(start + f"\n{indent}".join(lines))


def scores(stage: str, position: str, values: Mapping[str, float], mark: str) -> None:
    """Print the scores of one evaluation: a row of a table in a terminal, a line in a log.

    position: of the step, such as "8/32". mark: a remark behind the scores, or "".
    """
    if not is_terminal(SCREEN.stream):
        shown = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
        say(f"{stage}: step {position}  {shown}{f'  ({mark})' if mark else ''}")
        return
    # The heading comes again only after other lines.
    columns = (stage, *values)
    first_width = max(len(position), len("step"), 11)
    widths = {name: max(8, len(name) + 2) for name in values}
    if SCREEN.columns != columns:
        names = "".join(name.rjust(width) for name, width in widths.items())
        SCREEN.write("step".rjust(first_width) + names, "bold")
    cells = "".join(f"{values[name]:.4f}".rjust(width) for name, width in widths.items())
    row = position.rjust(first_width) + cells
    SCREEN.write(f"{row}  {mark}".rstrip(), "green" if mark else "")
    SCREEN.columns = columns


def answer(text: str) -> None:
    """Print what a command was asked for, to standard output, above the bar where there is one."""
    if SCREEN.live is None or not is_terminal(sys.stdout):
        print(text)
        return
    from rich.text import Text

    SCREEN.live.console.print(Text(visible_everywhere(text)), soft_wrap=True)


def complain(text: str) -> None:
    """Print what went wrong, to standard error."""
    stream = unwrap(sys.stderr)
    if stream is not None:
        write_plain(stream, as_message(text))


# --- work -----------------------------------------------------------------------------------------


@contextmanager
def session(activity: str, uses_stderr: bool = False, has_bar: bool = True) -> Iterator[None]:
    """Within it nobody waits in silence, whatever takes long.

    activity: what is done first; `doing` names what follows. uses_stderr: lines go to standard
    error, because standard output holds the answers of the command. has_bar: False where another
    process shows its bar in the same terminal.
    """
    before = (SCREEN.uses_stderr, SCREEN.has_bar, SCREEN.base)
    SCREEN.uses_stderr, SCREEN.has_bar = uses_stderr, has_bar
    SCREEN.base = Work(activity)
    work = SCREEN.base
    SCREEN.begin(work)
    try:
        yield
    finally:
        SCREEN.end(work)
        SCREEN.uses_stderr, SCREEN.has_bar, SCREEN.base = before


def doing(activity: str) -> None:
    """Name what the command does from here on. Without a session nothing is shown."""
    if SCREEN.base is not None:
        SCREEN.base.description = activity
        SCREEN.base.started = time.monotonic()


@contextmanager
def working(
    description: str, total: int | None = None, unit: str = "", done: int = 0
) -> Iterator[Work]:
    """Show how far some work has come, which calls `advance` for each finished unit."""
    work = Work(description, total, unit, done)
    SCREEN.begin(work)
    try:
        yield work
    finally:
        SCREEN.end(work)


def track(items: Sequence[Item], description: str, unit: str = "batch") -> Iterator[Item]:
    """The items one after the other. Within a session the progress through them is shown."""
    if not SCREEN.works:
        yield from items
        return
    with working(description, len(items), unit) as work:
        for item in items:
            yield item
            work.advance()


@contextmanager
def typing(what: str, file: Path | None) -> Iterator[None]:
    """Within it a person may type one `what` a line, if the input is no file but a terminal."""
    if file is not None or not sys.stdin.isatty():
        yield
        return
    say(f"Type one {what} a line and end with Ctrl-D.")
    with paused():
        yield


@contextmanager
def paused() -> Iterator[None]:
    """Within it no bar is shown: another library shows its own, such as that of a download."""
    SCREEN.close()
    try:
        yield
    finally:
        if SCREEN.works:
            SCREEN.open()
