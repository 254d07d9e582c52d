"""Kills: a process is stopped in the middle of its work, and the command is given again.

Survived: no traceback, the exit code of the signal, no file of the inputs changed, and in the end
the same bits as without the kill.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.commands.ending import BAD_INPUT, DONE, STOPPED
from tools.reliability import children
from tools.reliability.children import Child, Ending
from tools.reliability.file_operations import KILL, Fault, watch
from tools.reliability.targets import (
    Target,
    call_again,
    call_of,
    differences,
    facts_of,
    prepare,
)
from tools.reliability.trial import Outcome, Part, Trial, complaint, last_line
from tools.reliability.workplace import Workplace, in_turn


class Signal(NamedTuple):
    """A way to stop a process. times: how often the signal is sent."""

    name: str
    number: int
    times: int = 1


SIGNALS = (
    Signal("SIGKILL at a random time", signal.SIGKILL),
    Signal("SIGTERM", signal.SIGTERM),
    Signal("SIGHUP", signal.SIGHUP),
    Signal("Ctrl-C", signal.SIGINT),
    Signal("several Ctrl-C", signal.SIGINT, 5),
)
# A command may be faster than the signal. This is no kill, and has its own row.
NO_KILL = "no kill"
ENDED_BEFORE = f"{NO_KILL}: it ended before the signal"
BEFORE_OPERATION = "SIGKILL before a file operation"
# Of so many trials in a row, one has a signal at a random time. The others stop at an operation.
CYCLE = 3


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Stop a command, give it again, and compare what it leaves."""
    turn, place = divmod(trial.number, CYCLE)
    if place == 0:
        return at_random_time(workplace, turn, trial, folder)
    return at_operation(workplace, turn * (CYCLE - 1) + place - 1, trial, folder)


def at_operation(workplace: Workplace, number: int, trial: Trial, folder: Path) -> Outcome:
    """SIGKILL before one file operation. The numbers go through all operations.

    Once all are done, they come again, and the process that continues is killed there, too.
    """
    rounds, target, operation = choose_operation(workplace, number, trial)
    name = workplace.undisturbed[target.name].operations[operation - 1]
    prepare(target, folder)
    problem = ""
    kind = ENDED_BEFORE
    stop = watch(folder, Fault(operation, KILL))
    for _ in range(1 + min(rounds, 1)):
        call = call_again(target, folder)
        ending = children.run(call._replace(before=in_turn(call.before, stop)))
        problem = problem or complaint(ending, (DONE, BAD_INPUT, -signal.SIGKILL))
        if ending.code == -signal.SIGKILL:
            kind = BEFORE_OPERATION
    problem = problem or continue_and_compare(workplace, target, folder)
    action = f"{target.name}: SIGKILL before file operation {operation}, {name}"
    return Outcome(kind, action, problem)


def choose_operation(workplace: Workplace, number: int, trial: Trial) -> tuple[int, Target, int]:
    """The round, the target and the operation of a number. The trial's seed shuffles all of them.

    Training has most operations. So every other number is one of the other commands.
    """
    of_training: list[tuple[Target, int]] = []
    of_others: list[tuple[Target, int]] = []
    for target in targets_of(workplace, trial):
        places = of_training if target.is_training else of_others
        for operation in range(1, 1 + len(workplace.undisturbed[target.name].operations)):
            places.append((target, operation))
    groups = [places for places in (of_training, of_others) if places]
    turn, group = divmod(number, len(groups))
    places = groups[group]
    random.Random(trial.seed).shuffle(places)
    rounds, index = divmod(turn, len(places))
    target, operation = places[index]
    return rounds, target, operation


def targets_of(workplace: Workplace, trial: Trial) -> list[Target]:
    """The targets that a trial may stop."""
    return [target for target in workplace.targets.values() if trial.may_stop(target.name)]


def at_random_time(workplace: Workplace, number: int, trial: Trial, folder: Path) -> Outcome:
    """Send a signal at a random moment of the work."""
    chance = trial.chance
    way = SIGNALS[number % len(SIGNALS)]
    target = choose_target(targets_of(workplace, trial), chance)
    prepare(target, folder)
    delay = chance.uniform(0, workplace.undisturbed[target.name].seconds)
    child = Child(call_of(target, folder))
    child.wait(delay)
    for _ in range(way.times):
        child.send(way.number)
        child.wait(chance.uniform(0, 0.03))
    ending = child.end()
    problem = complaint(ending, (DONE, STOPPED, -way.number))
    if not problem and ending.code == STOPPED and "Stopped" not in ending.errors:
        problem = f"it does not say that it was stopped: {last_line(ending)}"
    problem = problem or continue_and_compare(workplace, target, folder)
    kind = ENDED_BEFORE if ending.code == DONE else way.name
    return Outcome(kind, f"{target.name}: {way.name} after {delay:.2f} seconds", problem)


def choose_target(targets: Sequence[Target], chance: random.Random) -> Target:
    """Any command. Training comes as often as all others together."""
    training = [target for target in targets if target.is_training]
    others = [target for target in targets if not target.is_training]
    return chance.choice(training if training and chance.random() < 0.5 else others)


def continue_and_compare(workplace: Workplace, target: Target, folder: Path) -> str:
    """Give a command again and compare what it leaves. Returns the problem, "" if there is none."""
    ending = children.run(call_again(target, folder))
    problem = complaint(ending)
    if problem:
        return f"given again: {problem}"
    if ending.code != DONE and not was_complete(workplace, target, folder, ending):
        return f"given again: {last_line(ending)}"
    return compare(workplace, target, folder, ending)


def was_complete(workplace: Workplace, target: Target, folder: Path, ending: Ending) -> bool:
    """Whether a command says that its new folder exists, and all of it is there.

    It was killed when all was written. A folder that is not whole does not count.
    """
    if target.is_training or "exists" not in ending.errors:
        return False
    expected = workplace.undisturbed[target.name].facts
    return facts_of(target, folder, expected["output"]) == expected


def compare(workplace: Workplace, target: Target, folder: Path, ending: Ending) -> str:
    """What differs from the target without a fault; "" if nothing. ending: of the last command."""
    expected = workplace.undisturbed[target.name].facts
    output = expected.get("output", "") if ending.code == BAD_INPUT else ending.output
    facts = facts_of(target, folder, output)
    problem = differences(expected, facts)
    if not problem and workplace.is_changed():
        problem = "a file that it only reads has changed"
    return problem


# Some commands end before their signal. More than a thousand do not.
PART = Part("kills", "kills", 1100, 1.3, run_trial)
