"""Standard input and output that may be closed, full or without a reader."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from minbert.commands.texts import as_message


class Lasting:
    """A stream whose reader may go away. What is written afterwards is dropped.

    A training run then goes on to its end, and its files are written as without a reader.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, if there is still a reader."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            drop_output(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flush the stream, if there is still a reader."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop_output(self._stream)


def prepare(outlives_reader: bool) -> bool:
    """Make output appear at once, and give closed streams an end.

    outlives_reader: whether the command goes on where the reader of its output has gone away.
    Returns whether standard error was closed.
    """
    # The output of a notebook is of another class.
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A log shows a line once it is printed. The encoding of a pipe may lack a character, which
        # is then escaped.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
        if outlives_reader and not sys.stdout.isatty():
            sys.stdout = Lasting(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper) and outlives_reader and not sys.stderr.isatty():
        sys.stderr = Lasting(sys.stderr)

    # None stands for a stream that is closed.
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    is_silent = sys.stderr is None
    if is_silent:
        # print(file=None) would go to standard output, and progress bars would fail.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, it stays open to the end
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        print("standard output is closed: what the command prints is lost.", file=sys.stderr)
    return is_silent


def say(text: str, is_silent: bool = False) -> None:
    """Print a message for the user to standard error, or to standard output where that is closed.

    is_silent: what `prepare` returned. A message that cannot be printed is dropped.
    """
    stream = sys.stdout if is_silent else sys.stderr
    try:
        print(as_message(text), file=stream, flush=True)
    except (OSError, ValueError):
        drop_output(stream)


def finish() -> OSError | None:
    """Flush standard output; returns the error where that is not possible.

    The output is then dropped. Otherwise Python would try again at its end, and complain.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        drop_output(sys.stdout)
        return error
    except ValueError:  # it was closed in the meantime
        return None
    return None


def drop_output(stream: TextIO) -> None:
    """Let a stream write to the null device from now on."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # a stream of a notebook or a test
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
