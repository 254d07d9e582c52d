"""The campaign: which trials there are, which are done, and how long the others take."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.reliability import (
    children,
    collisions,
    damaged_files,
    damaged_tables,
    disk,
    downloads,
    extremes,
    kills,
    series,
    together,
)
from tools.reliability.trial import Outcome, Part, Trial
from tools.reliability.workplace import TRAINING, Workplace

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        kills.PART,
        series.PART,
        disk.PART,
        damaged_files.PART,
        damaged_tables.PART,
        collisions.PART,
        downloads.PART,
        extremes.PART,
        together.PART,
    )
}
SECONDS_BETWEEN_LINES = 30
# The parts that stop a command. The action of their trials begins with its name.
STOPPED = (kills.PART.name, series.PART.name)


class Done(NamedTuple):
    """A trial that was done. seconds: by the clock."""

    trial: Trial
    outcome: Outcome
    seconds: float


class Row(NamedTuple):
    """A row of the closing table."""

    part: str
    kind: str
    tried: int
    survived: int


def plan(parts: Sequence[str], share: float, seed: int, commands: str = "") -> list[Trial]:
    """All trials of some parts, mixed, so that a campaign that is stopped has tried all kinds.

    share: of a full campaign. Each part has one trial at least. commands: as in Trial.
    """
    places = []
    for name in parts:
        count = max(1, round(PARTS[name].goal * share))
        for number in range(count):
            places.append(((number + 0.5) / count, Trial(name, number, seed, commands)))
    return [trial for _, trial in sorted(places)]


def read_done(path: Path) -> list[Done]:
    """The trials that a campaign has done. A line that a kill has cut is left out."""
    if not path.is_file():
        return []
    done = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            trial, outcome, seconds = json.loads(line)
        except ValueError:
            continue
        done.append(Done(Trial(*trial), Outcome(*outcome), seconds))
    return done


def add_done(path: Path, done: Done) -> None:
    """Add a line for a trial."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(done) + "\n")


def seconds_left(trials: Sequence[Trial], done: Sequence[Done], unit: float) -> float:
    """How long some trials take: as long as those that were done, or else by their costs.

    unit: the seconds of one undisturbed training run.
    """
    spent: dict[str, list[float]] = {}
    for item in done:
        spent.setdefault(item.trial.part, []).append(item.seconds)
    total = 0.0
    for trial in trials:
        times = spent.get(trial.part)
        total += sum(times) / len(times) if times else PARTS[trial.part].cost * unit
    return total


def in_words(seconds: float) -> str:
    """A time such as "3 minutes"."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def do_trial(workplace: Workplace, trial: Trial, folder: Path) -> Done:
    """Do one trial. Its folder is removed if it was survived, and kept for a look if not."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    try:
        outcome = PARTS[trial.part].run(workplace, trial, folder)
    except Exception as error:
        # A defect of the campaign itself must not stop it, and must not count as survived.
        outcome = Outcome("the campaign itself", "", f"{type(error).__name__}: {error}")
    finally:
        children.kill_all()
    if not outcome.problem:
        shutil.rmtree(folder, ignore_errors=True)
    return Done(trial, outcome, time.monotonic() - begun)


def do_all(
    workplace: Workplace,
    trials: Sequence[Trial],
    path: Path,
    minutes: float,
    say: Callable[[str], Any],
) -> list[Done]:
    """Do the trials that are not done yet, until the time is over. Returns all that are done.

    path: the file with a line for each trial. minutes: at most.
    """
    done = read_done(path)
    known = {item.trial for item in done}
    missing = [trial for trial in trials if trial not in known]
    unit = workplace.undisturbed[TRAINING].seconds
    say(
        f"{len(trials):,} trials, {len(trials) - len(missing):,} of them done; the others take "
        f"about {in_words(seconds_left(missing, done, unit))}"
    )
    begun = last = time.monotonic()
    for number, trial in enumerate(missing):
        now = time.monotonic()
        if now > begun + 60 * minutes:
            say(f"the time is over, {len(missing) - number:,} trials are left")
            break
        item = do_trial(workplace, trial, path.parent / "trials" / f"{trial.part}-{trial.number}")
        add_done(path, item)
        done.append(item)
        if item.outcome.problem:
            say(f"NOT SURVIVED: {item.outcome.action}: {item.outcome.problem}\n  {trial.command}")
        if now > last + SECONDS_BETWEEN_LINES:
            last = now
            left = in_words(seconds_left(missing[number + 1 :], done, unit))
            survived = sum(not item.outcome.problem for item in done)
            say(f"{len(done):,} trials, {survived:,} survived, {left} left")
    return done


def rows_of(done: Sequence[Done]) -> list[Row]:
    """How many trials of each kind were tried and survived."""
    counts: dict[tuple[str, str], list[int]] = {}
    for name in PARTS:
        for item in done:
            if item.trial.part == name:
                survived = not item.outcome.problem
                counts.setdefault((name, item.outcome.kind), []).append(int(survived))
    return [Row(*key, len(values), sum(values)) for key, values in sorted_by_part(counts)]


def commands_of(done: Sequence[Done]) -> dict[str, list[int]]:
    """How often each command was stopped, and how often that was survived.

    A command that ended before its signal was not stopped.
    """
    counts: dict[str, list[int]] = {}
    for item in done:
        outcome = item.outcome
        if item.trial.part in STOPPED and kills.NO_KILL not in outcome.kind:
            count = counts.setdefault(outcome.action.partition(": ")[0], [0, 0])
            count[0] += 1
            count[1] += not outcome.problem
    return dict(sorted(counts.items()))


def sorted_by_part(
    counts: Mapping[tuple[str, str], list[int]],
) -> list[tuple[tuple[str, str], list[int]]]:
    """The kinds of faults in the order of the parts, and by name within a part."""
    order = list(PARTS)
    return sorted(counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
