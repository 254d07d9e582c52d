"""Processes beside each other: in one folder, with one cache, and as the ranks of one run.

Survived: one process works and the other one says so, or both end with the right bits.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from minbert.commands.ending import DONE
from tests.killed_runs import ROOT, saved_step
from tools.reliability.children import LONGEST, Call, Child
from tools.reliability.kills import compare, continue_and_compare
from tools.reliability.targets import call_of, differences, facts_of, prepare, training
from tools.reliability.trial import Outcome, Part, Trial, complaint
from tools.reliability.workplace import TRAINING, Workplace


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """One of the ways. torchrun starts real Pythons, so it is the rarest."""
    ways = (one_new_folder, one_resumed_folder, lost_rank, one_cache, one_resumed_folder)
    way = ways[trial.number % len(ways)]
    folder.mkdir()
    problem = way(workplace, folder, trial.chance)
    words = (way.__doc__ or "").splitlines()[0].rstrip(".")
    return Outcome(words, f"{words}, trial {trial.number}", problem)


def one_new_folder(workplace: Workplace, folder: Path, chance: random.Random) -> str:
    """Two processes with one new folder."""
    target = workplace.targets[TRAINING]
    prepare(target, folder)
    first = Child(call_of(target, folder))
    first.wait(chance.uniform(0, workplace.undisturbed[TRAINING].seconds))
    second = Child(call_of(target, folder))
    return endings(first, second) or continue_and_compare(workplace, target, folder)


def one_resumed_folder(workplace: Workplace, folder: Path, chance: random.Random) -> str:
    """Two processes that resume one run."""
    target = workplace.targets[TRAINING]
    run = folder / "run"
    shutil.copytree(workplace.killed, run)
    calls = [Call(target.module, ["--resume", str(run)])] * 2
    first = Child(calls[0])
    first.wait(chance.uniform(0, workplace.undisturbed[TRAINING].seconds / 2))
    second = Child(calls[1])
    return endings(first, second) or continue_and_compare(workplace, target, folder)


def one_cache(workplace: Workplace, folder: Path, chance: random.Random) -> str:
    """Two processes with one cache of token ids."""
    target = workplace.targets[TRAINING]
    children_of_trial = []
    places = [folder / "first", folder / "second"]
    for place in places:
        words = list(training(workplace.places, "mlm,simcse", output=str(place)))
        words[words.index("--token_cache") + 1] = str(folder / "cache")
        place.mkdir()
        children_of_trial.append(Child(Call(target.module, words)))
        children_of_trial[0].wait(chance.uniform(0, 0.3))
    for child, place in zip(children_of_trial, places, strict=True):
        ending = child.end()
        problem = complaint(ending, (DONE,)) or compare(workplace, target, place, ending)
        if problem:
            return f"{place.name}: {problem}"
    return ""


def endings(first: Child, second: Child) -> str:
    """The problem of two processes of which at least one must succeed; "" if there is none."""
    results = [first.end(), second.end()]
    for result in results:
        problem = complaint(result)
        if problem:
            return problem
    if all(result.code != DONE for result in results):
        return "neither of the two has come to its end"
    return ""


# --- torchrun -------------------------------------------------------------------------------------


def lost_rank(workplace: Workplace, folder: Path, chance: random.Random) -> str:
    """A rank of torchrun is killed, and the run is resumed."""
    target = workplace.targets[TRAINING]
    whole = folder / "whole"
    words = training(workplace.places, "simcse", "--epochs", "4", output=str(whole))
    ending = finish(start_ranks(words))
    if ending:
        return f"without a kill: {ending}"
    killed = folder / "killed"
    words = training(workplace.places, "simcse", "--epochs", "4", output=str(killed))
    process = start_ranks(words)
    if not wait_until(process, lambda: saved_step(killed / "run", "multitask") >= 2):
        return "it ended before a rank could be killed"
    os.kill(rank_of(process.pid, chance.choice("01")), signal.SIGKILL)
    if not finish(process):
        return "a rank was killed, and the exit code is 0"
    ending = finish(start_ranks(["--resume", str(killed / "run")]))
    if ending:
        return f"resumed: {ending}"
    return differences(facts_of(target, whole), facts_of(target, killed))


def start_ranks(words: list[str] | tuple[str, ...]) -> subprocess.Popen[str]:
    """Start a run of two ranks, each with one thread."""
    launcher = str(Path(sys.executable).with_name("torchrun"))
    command = [launcher, "--nproc_per_node", "2", "run_multitask.py", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the end of torchrun. Returns "" where it is good, or else how it ended."""
    try:
        output, _ = process.communicate(timeout=4 * LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return f"it hung: {output[-300:]!r}"
    if process.returncode == 0:
        return ""
    return f"exit code {process.returncode}: {output[-300:]!r}"


def wait_until(process: subprocess.Popen[str], is_time: Callable[[], bool]) -> bool:
    """Wait for a moment. False if the process ends before."""
    while process.poll() is None:
        if is_time():
            return True
        time.sleep(0.01)
    return False


def rank_of(launcher: int, rank: str) -> int:
    """The process of a rank that a launcher has started."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"\nPPid:\t{launcher}\n" in status and f"RANK={rank}".encode() in environment:
            return int(entry.name)
    raise ProcessLookupError(f"torchrun has no rank {rank}")


PART = Part("together", "two processes and torchrun", 20, 6.0, run_trial)
