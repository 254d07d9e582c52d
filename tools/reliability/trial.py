"""What a trial is, how it ends, and what counts as survived."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from minbert.commands.ending import BAD_INPUT, DONE
from tools.reliability.children import Ending
from tools.reliability.workplace import Workplace

COMMAND = "python -m tools.reliability"

# A command that refuses something must answer within these limits.
MOST_SECONDS = 10.0
MOST_BYTES = 2e9
LONGEST_MESSAGE = 2000


class Trial(NamedTuple):
    """One trial of a part. The values say exactly what it does.

    commands: the only ones that it may stop, with commas between them; "" for all.
    """

    part: str
    number: int
    seed: int
    commands: str = ""

    @property
    def chance(self) -> random.Random:
        """The trial's own source of random numbers."""
        return random.Random(f"{self.seed} {self.part} {self.number}")

    @property
    def command(self) -> str:
        """The command that repeats this trial."""
        chosen = f" --commands {self.commands}" if self.commands else ""
        return f"{COMMAND} --repeat {self.part}:{self.number} --seed {self.seed}{chosen}"

    def may_stop(self, command: str) -> bool:
        """Whether this trial may stop a command."""
        return not self.commands or command in self.commands.split(",")


class Outcome(NamedTuple):
    """How a trial ended.

    kind: a row of the table, such as "SIGKILL before a file operation". action: the trial in words.
    problem: "" if it was survived, otherwise what went wrong.
    """

    kind: str
    action: str
    problem: str = ""


class Part(NamedTuple):
    """A kind of fault.

    goal: the number of trials of a full campaign. cost: of a trial, in undisturbed training runs.
    run: does one trial in a folder that is not there yet.
    """

    name: str
    title: str
    goal: int
    cost: float
    run: Callable[[Workplace, Trial, Path], Outcome]


def complaint(ending: Ending, codes: Collection[int] = (DONE, BAD_INPUT)) -> str:
    """What is wrong in how a command ended; "" if nothing is.

    A refusal must be one line with the command's name. It must come in time, and with little
    memory. codes: the exit codes that are right.
    """
    if ending.code is None:
        return f"no end after {ending.seconds:.0f} seconds; {last_line(ending)}"
    if "Traceback (most recent" in ending.errors or "panicked at" in ending.errors:
        return f"a traceback: {last_line(ending)}"
    if ending.code not in codes:
        return f"exit code {ending.code}: {last_line(ending)}"
    if ending.bytes > MOST_BYTES:
        return f"{ending.bytes / 1e9:.1f} GB of memory; {last_line(ending)}"
    if ending.code != BAD_INPUT:
        return ""
    if ending.busy_seconds > MOST_SECONDS:
        return f"{ending.busy_seconds:.0f} seconds until it refused; {last_line(ending)}"
    # multitask.check says for each file whether it is refused.
    starts = (f"{ending.name}: ", "refused: ")
    lines = [line for line in ending.errors.splitlines() if line.startswith(starts)]
    if len(lines) != 1:
        return f"{len(lines)} lines with the command's name, expected one: {last_line(ending)}"
    if len(lines[0]) > LONGEST_MESSAGE:
        return f"a message of {len(lines[0])} characters: {last_line(ending)}"
    return ""


def last_line(ending: Ending) -> str:
    """The end of what a command said."""
    lines = (ending.errors.strip() or ending.output.strip()).splitlines()
    return repr(lines[-1][:300]) if lines else "it said nothing"
