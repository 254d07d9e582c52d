"""The processor, how our threads wait for each other on its cores, and who else uses them.

A matrix product is divided among threads, and a thread that is done waits for the others. libgomp,
the OpenMP of torch on Linux, lets it look again and again for several milliseconds before it
sleeps. On a core that another program wants, this takes the time of the thread it waits for.

This file imports neither torch nor NumPy: libgomp reads its settings while torch is imported.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import NamedTuple

STATISTICS = "/proc/stat"  # of Linux: the time that each core has spent on what

# How often a thread looks before it sleeps: a tenth of a millisecond, and longer than most pauses
# between two products. It changes no result. tools/benchmarks/busy_machine.py measures other
# numbers.
NUM_LOOKS = "3000"
LOOKS = "GOMP_SPINCOUNT"
POLICY = "OMP_WAIT_POLICY"

SHORTEST = 0.2  # seconds: the system counts in hundredths, so a shorter time says nothing


def limit_waiting() -> None:
    """Let a waiting thread sleep early. Call it before torch is imported.

    What the environment already sets stays as it is. Another OpenMP than libgomp ignores it.
    """
    if "torch" not in sys.modules and POLICY not in os.environ:
        os.environ.setdefault(LOOKS, NUM_LOOKS)


def num_usable() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Reading(NamedTuple):
    """Core seconds up to a moment: of all programs on the cores that we may use, and ours."""

    moment: float
    everybody: float
    ours: float
    counts_nice: bool = False  # whether programs of low priority are among everybody


def read(counts_nice: bool | None = None) -> Reading | None:
    """The use of the cores up to now; None where the system does not tell.

    counts_nice: count programs of low priority, too. They step aside for a program of normal
    priority, so None means: if ours has a low priority itself.
    """
    try:
        with open(STATISTICS, encoding="ascii") as file:
            lines = file.read().splitlines()
        if counts_nice is None:
            counts_nice = os.nice(0) > 0
        ticks = used_ticks(lines, os.sched_getaffinity(0), counts_nice)
        everybody = ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    return Reading(time.monotonic(), everybody, ours, counts_nice)


def used_ticks(lines: list[str], cores: set[int], counts_nice: bool) -> int:
    """The ticks of the clock in which the cores worked, from the lines of /proc/stat.

    counts_nice: as in `read`. ValueError where no line is of one of the cores.
    """
    names = {f"cpu{number}" for number in cores}
    rows = [line.split() for line in lines if line.split(" ", 1)[0] in names]
    if not rows:
        raise ValueError("no line is of a core that this process may use")
    total = 0
    for _, user, nice, system, _idle, _waiting, interrupts, soft_interrupts, *_ in rows:
        total += int(user) + int(system) + int(interrupts) + int(soft_interrupts)
        total += int(nice) if counts_nice else 0
    return total


def used_by_others(before: Reading | None, now: Reading | None) -> float | None:
    """How many cores other programs used between two readings, on average.

    None where it is unknown: a reading is missing, the time between them is too short, or our
    priority was changed between them, so that they count other programs.
    """
    if before is None or now is None or now.moment - before.moment < SHORTEST:
        return None
    if before.counts_nice != now.counts_nice:
        return None
    others = (now.everybody - before.everybody) - (now.ours - before.ours)
    return max(0.0, others / (now.moment - before.moment))


def are_crowded(others: float | None, num_threads: int) -> bool:
    """Whether our threads lack half a core or more. others: as `used_by_others` returns."""
    return others is not None and num_usable() - others <= num_threads - 0.5


# When the command began; None in a program that is no command of ours.
at_start: Reading | None = None


def begin() -> None:
    """Limit the waiting, and take the first reading. start.py calls it in a command of ours."""
    global at_start
    limit_waiting()
    at_start = read()


def processor_name() -> str:
    """The processor's name and generation, as far as the system tells them."""
    # platform.processor() is empty on many Linux systems.
    path = Path("/proc/cpuinfo")
    fields: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            field, _, value = line.partition(":")
            fields.setdefault(field.strip(), value.strip())
    name = fields.get("model name")
    if not name:
        return platform.processor() or platform.machine()
    # On some rented machines several generations have one name, and other speeds in bf16.
    if "cpu family" in fields and "model" in fields:
        return f"{name} (family {fields['cpu family']}, model {fields['model']})"
    return name
