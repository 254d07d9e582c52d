"""What a command shows while it works: titles, aligned lines, tables and progress.

A terminal gets colours and a bar that moves. A notebook gets the bar, too. A log (a file or a pipe)
gets plain text. It has no bar, but a line about the work at the latest LOG_SECONDS after the line
before. These lines go to standard error, so that standard output holds results alone.

    with session("importing PyTorch"):  # a whole command; from here on there is no long silence
        title("Data")
        doing("reading the files")  # what is shown until the next title, or the next of these
        say("data/sst.csv: 12 rows read")
        with working("multitask", total=100, unit="step") as work:
            work.advance(note="loss 0.4312")

Control characters in a text are shown and do not act, because it may come from a file of the user.
tqdm draws the bars. `NO_COLOR=1` turns the colours off.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from tqdm import tqdm
from tqdm.contrib import DummyTqdmFile

from minbert.commands.memory import check_limit_of_libraries
from minbert.commands.streams import drop_output
from minbert.commands.texts import as_message, visible_everywhere

Item = TypeVar("Item")

# The longest silence of a log is below ten seconds, and a line may come late on a busy machine.
LOG_SECONDS = 8.0
BAR_SECONDS = 0.25  # between two looks at the bars; work that is shorter gets none
MAX_BARS = 10
MIN_WIDTH = 20  # letters of a column that is wrapped
INDENT = 4  # blanks before a value below its name
WARNING = "warning: "
STYLES = {"bold": "1", "title": "1;36", "warning": "33", "best": "32"}  # of ANSI terminals
# Of a piece of work whose end is known, and of one whose end is not.
BAR = "{desc}  {bar}  {n_fmt}/{total_fmt}{postfix}  {elapsed} < {remaining}"
NO_BAR = "{desc}  {elapsed}"


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


def is_ascii(stream: TextIO | None) -> bool:
    """Whether a stream may lack the characters of lines and bars."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return not encoding.lower().startswith("utf")


def is_notebook() -> bool:
    """Whether this is a notebook that can show bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config and bool(find_spec("ipywidgets"))


def is_muted() -> bool:
    """Whether another one of several processes speaks for all, as with torchrun."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "0") != "0"


def write_plain(stream: TextIO, text: str) -> None:
    """Write lines of a log. A reader that has gone, such as `head`, does not stop the work."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        drop_output(stream)


def styled(text: str, style: str) -> str:
    """A text in one of STYLES, unless NO_COLOR forbids it."""
    if not style or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def width() -> int:
    """The number of columns of the terminal."""
    return shutil.get_terminal_size().columns


# --- the screen -----------------------------------------------------------------------------------


class Screen:
    """Where the words of a command go, and the work that it is busy with."""

    def __init__(self) -> None:
        self.uses_stderr = False
        self.has_bar = True
        self.works: list[Work] = []  # the outermost first
        self.base: Work | None = None  # of the session
        self.bars: dict[Work, tqdm] = {}
        self.draws_bars = False
        self.bar_stream: TextIO | None = None  # the terminal of the bars
        self.redirected = ExitStack()  # the streams of Python, while there are bars in a terminal
        self.pulse: Pulse | None = None
        self.last_line = 0.0  # when it was written
        self.columns: tuple[str, ...] = ()  # of the table whose rows are being written

    @property
    def stream(self) -> TextIO | None:
        """Where lines go. None: it is closed."""
        return sys.stderr if self.uses_stderr else sys.stdout

    def write(self, text: str, style: str = "") -> None:
        """Write lines. style: of STYLES, in a terminal. A long line is not broken there."""
        stream = self.stream
        if is_muted() or stream is None:
            return
        self.columns = ()
        self.last_line = time.monotonic()
        text = as_message(text)
        write_plain(stream, styled(text, style) if is_terminal(stream) else text)

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

    def open(self) -> None:
        """Start the bars of a terminal or a notebook, or the lines of a log."""
        terminals = [stream for stream in (self.stream, sys.stderr) if is_terminal(stream)]
        if is_muted() or (terminals and not self.has_bar):
            return
        self.draws_bars = bool(terminals) or is_notebook()
        self.bar_stream = terminals[0] if terminals else None
        self.redirect()
        self.last_line = time.monotonic()
        self.pulse = Pulse(self)
        self.pulse.start()

    def redirect(self) -> None:
        """Let all that is printed, also by other libraries, stand above the bars."""
        if self.bar_stream is None:
            return
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if is_terminal(stream):
                self.redirected.enter_context(redirect(DummyTqdmFile(self.bar_stream)))

    def close(self) -> None:
        """Remove the bars."""
        if self.pulse is not None:
            self.pulse.stop()
            self.pulse = None
        self.show([])
        self.redirected.close()

    @property
    def shown(self) -> list[Work]:
        """The work to show: that of the session only if there is no other."""
        inner = [work for work in self.works if work is not self.base]
        return inner or list(self.works)

    def refresh(self) -> None:
        """Draw the bars, or write a line to a log that was silent for long."""
        if self.draws_bars:
            self.show(self.shown)
        elif time.monotonic() - self.last_line >= LOG_SECONDS:
            self.report()

    def show(self, works: Sequence[Work]) -> None:
        """Draw a bar for each of these, and remove all others."""
        for work in set(self.bars) - set(works):
            self.bars.pop(work).close()
        for work in works:
            if work not in self.bars:
                self.bars[work] = make_bar(work, self.bar_stream)
            draw(self.bars[work], work)

    def report(self) -> None:
        """Write a line on the work to standard error."""
        text = "; ".join(map(str, self.shown))
        if text and sys.stderr is not None:
            self.last_line = time.monotonic()
            write_plain(sys.stderr, visible_everywhere(text))


class Pulse(threading.Thread):
    """Draws the bars, or writes a line to the log whenever nothing else was written for long."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(name="pulse", daemon=True)
        self.screen = screen
        self.seconds = BAR_SECONDS if screen.draws_bars else LOG_SECONDS / 8
        self.is_over = threading.Event()

    def run(self) -> None:
        """Look every now and then, until `stop` is called."""
        while not self.is_over.wait(self.seconds):
            self.screen.refresh()

    def stop(self) -> None:
        """Write no more lines."""
        self.is_over.set()
        self.join()


SCREEN = Screen()
tqdm.monitor_interval = 0  # Pulse draws the bars, so tqdm needs no thread of its own
tqdm.set_lock(threading.RLock())  # tqdm's own is shared by forked processes, which may be killed


def make_bar(work: Work, stream: TextIO | None) -> tqdm:
    """The bar of some work. stream: that of a terminal, or None in a notebook."""
    if stream is None:
        # Only a notebook needs it, and it takes a while.
        from tqdm.auto import tqdm as bar_class
    else:
        bar_class = tqdm
    return bar_class(
        desc=visible_everywhere(work.description),
        total=work.total,
        initial=work.num_before,
        file=stream,
        bar_format=NO_BAR if work.total is None else BAR,
        ascii=is_ascii(stream),
        leave=False,
        ncols=width() - 1,
        nrows=MAX_BARS,
        smoothing=0,  # the time left follows from the mean speed
    )


def draw(bar: tqdm, work: Work) -> None:
    """Show how far some work has come."""
    bar.ncols = width() - 1
    bar.n = work.done
    bar.start_t = time.time() - work.seconds  # `doing` starts anew
    bar.set_description_str(visible_everywhere(work.description), refresh=False)
    bar.set_postfix_str(visible_everywhere(work.note), refresh=False)
    bar.refresh()


# --- words ----------------------------------------------------------------------------------------


def say(*lines: str) -> None:
    """Print lines. A warning is yellow in a terminal."""
    for line in lines:
        SCREEN.write(line, "warning" if line.startswith(WARNING) else "")


def heading(text: str) -> None:
    """Print the first line of a command."""
    SCREEN.write(text, "title")


def title(text: str, activity: str = "") -> None:
    """Print the title of a part of the work, after an empty line.

    activity: what is being done from here on, as of `doing`; by default the title.
    """
    doing(activity or text)
    if is_terminal(SCREEN.stream):
        rule = "-" if is_ascii(SCREEN.stream) else "─"
        SCREEN.write("\n" + f"{rule}{rule} {text} ".ljust(width(), rule), "title")
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
    half = width() // 2
    column = max((len(row.name) for row in rows if len(row.name) <= half), default=0) + 2
    for row in rows:
        is_beside = len(row.name) <= half
        indent = " " * (column if is_beside else INDENT)
        start = f"{row.name:<{column}}" if is_beside else f"{row.name}\n{indent}"
        space = max(MIN_WIDTH, width() - len(indent))
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
    SCREEN.write(f"{row}  {mark}".rstrip(), "best" if mark else "")
    SCREEN.columns = columns


def answer(text: str) -> None:
    """Print what a command was asked for, to standard output, above the bar where there is one."""
    print(visible_everywhere(text) if is_terminal(sys.stdout) else text)


def complain(text: str) -> None:
    """Print what went wrong, to standard error."""
    if sys.stderr is not None:
        write_plain(sys.stderr, as_message(text))


# --- work -----------------------------------------------------------------------------------------


@contextmanager
def session(activity: str, uses_stderr: bool = False, has_bar: bool = True) -> Iterator[None]:
    """Within it nobody waits in silence, whatever takes long. The work needs PyTorch.

    activity: what is done first; `doing` names what follows. uses_stderr: lines go to standard
    error, because standard output holds the answers of the command. has_bar: False where another
    process shows its bar in the same terminal. TooSmallLimit where the process may have less
    memory than the libraries take.
    """
    check_limit_of_libraries()
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
def typing(item: str, file: Path | None) -> Iterator[None]:
    """Within it a person may type one `item` a line, if the input is no file but a terminal."""
    if file is not None or not sys.stdin.isatty():
        yield
        return
    say(f"Type one {item} a line and end with Ctrl-D.")
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
