"""How the threads of a matrix product wait for each other while other programs need the cores.

A thread that is done looks for the others some thousand times before it sleeps (cores.py). This is
the fastest way on a quiet machine. On a busy one it takes the time of the threads it waits for.
libgomp then has a short way: a thread looks a hundred times. It takes this way while the process
has more threads than cores. So as long as other programs need the cores, `Watch` keeps a second
team of threads, which sleeps.

Threads decide when a product is done, and not what it is: every result keeps its bits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from minbert.commands import cores
from minbert.commands.cores import Reading
from minbert.training import processes

SECONDS = 2.0  # between two looks at the machine
MAX_TEAMS = 4
# torch gives each thread at least so many elements.
ELEMENTS_OF_A_THREAD = 2**15


@contextmanager
def adapted() -> Iterator[None]:
    """Within it our threads hardly spin while other programs need the cores.

    Nothing happens where the user has set how threads wait, where one thread works, and where the
    system does not tell who uses the cores (macOS, Windows).
    """
    num_teams = teams_beyond(cores.num_usable(), torch.get_num_threads())
    if not cores.is_limited() or not 0 < num_teams <= MAX_TEAMS or cores.read() is None:
        yield
        return
    watch = Watch(num_teams)
    watch.start()
    try:
        yield
    finally:
        watch.end()


def teams_beyond(num_cores: int, num_threads: int) -> int:
    """How many further teams make more threads than cores; 0 where a team is one thread.

    A team has one thread that is not counted: the one that called it.
    """
    if num_threads < 2:
        return 0
    return max(0, math.ceil((num_cores + 1 - num_threads) / (num_threads - 1)))


def notes_on_others(device: torch.device) -> list[str]:
    """A sentence where other programs have used our cores since the command began, or none.

    device: that computes. A GPU needs few cores.
    """
    # Several processes of one run would count each other as other programs.
    if device.type != "cpu" or processes.num_started() > 1:
        return []
    others = cores.used_by_others(cores.at_start, cores.read())
    if others is None or not cores.are_crowded(others, torch.get_num_threads()):
        return []
    # Rounded down, so that it is never more than there are.
    shown = math.floor(10 * others) / 10
    return [
        f"Other programs use {shown:.1f} of {cores.num_usable()} cores, so this run will take "
        "longer than usual. `renice -n 10 -p PID` gives a program of yours a low priority."
    ]


class Team:
    """Threads of torch that sleep until `end`. They are those of a thread of Python."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.stay, name="minbert-team", daemon=True)
        self.thread.start()

    def stay(self) -> None:
        """Make the threads by a sum that all of them share, and keep them."""
        torch.zeros(ELEMENTS_OF_A_THREAD * torch.get_num_threads()).add_(1)
        self.is_over.wait()

    def end(self) -> None:
        """End the threads."""
        self.is_over.set()
        self.thread.join()


class Watch:
    """Looks at the machine every two seconds, and makes or ends the further teams."""

    def __init__(
        self,
        num_teams: int,
        read: Callable[[], Reading | None] = cores.read,
        make_team: Callable[[], Team] = Team,
    ) -> None:
        self.num_teams = num_teams
        self.read = read
        self.make_team = make_team
        self.num_threads = torch.get_num_threads()
        self.teams: list[Team] = []
        self.before = cores.at_start
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.repeat, name="minbert-watch", daemon=True)

    def start(self) -> None:
        """Look for the first time, and from now on in a thread.

        Where the system allows no further thread, nothing happens.
        """
        with suppress(RuntimeError):
            self.look()
            self.thread.start()

    def repeat(self) -> None:
        """What the thread does."""
        with suppress(RuntimeError):
            while not self.is_over.wait(SECONDS):
                self.look()

    def look(self) -> None:
        """Read how many cores others use since the last look, and follow it."""
        now = self.read()
        others = cores.used_by_others(self.before, now)
        self.before = now
        is_crowded = cores.are_crowded(others, self.num_threads)
        if is_crowded and not self.teams:
            for _ in range(self.num_teams):
                self.teams.append(self.make_team())
        elif not is_crowded and self.teams:
            self.end_teams()

    def end_teams(self) -> None:
        """End the further teams."""
        for team in self.teams:
            team.end()
        self.teams = []

    def end(self) -> None:
        """Stop looking, and end the further teams."""
        self.is_over.set()
        if self.thread.is_alive():
            self.thread.join()
        self.end_teams()
