"""The warnings and notes in the logs of a series' runs, each once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

MARKS = ("warning: ", "note: ")
START = re.compile(r"minBERT \S+, run ")  # of the first line that a run prints
NUMBER = re.compile(r"\d[\d.,]*")


def read_warnings(log: Path) -> list[str]:
    """Return the lines of warnings and notes in a run's log; none where it has no log.

    A log is continued when the run is started again. The last start counts: a run that goes on
    reads its data anew, and says again what is wrong with them.
    """
    if not log.is_file():
        return []
    lines: list[str] = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if START.match(line):
            lines = []
        if line.startswith(MARKS):
            lines.append(line)
    return lines


def describe_warnings(warnings: Mapping[tuple[str, int], Sequence[str]]) -> list[str]:
    """Return a list in Markdown with each warning once, and the runs that gave it; [] for none.

    warnings: by recipe and seed. Lines that differ in their numbers alone count as the same
    warning, such as one with the score of each run. The first one is shown.
    """
    runs: dict[str, dict[str, list[int]]] = {}
    shown: dict[str, list[str]] = {}
    for (name, seed), lines in warnings.items():
        for line in dict.fromkeys(lines):
            key = NUMBER.sub("0", line)
            shown.setdefault(key, []).append(line)
            seeds = runs.setdefault(key, {}).setdefault(name, [])
            if seed not in seeds:
                seeds.append(seed)
    entries = []
    for key, of_names in runs.items():
        places = []
        for name, seeds in of_names.items():
            word = "seeds" if len(seeds) > 1 else "seed"
            places.append(f"{name} ({word} {', '.join(map(str, seeds))})")
        first, *others = shown[key]
        numbers = "; the numbers are those of the first run" if {*others} - {first} else ""
        entries.append(f"- {', '.join(places)}{numbers}: {first}")
    return ["What the runs warned of:\n\n" + "\n".join(entries)] if entries else []
