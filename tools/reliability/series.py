"""Commands that start runs of their own, stopped at any time: experiments and part1.

They start Pythons, which cannot be forked. So there are few of these trials. Survived: the same
command again ends well, with the same bits as without the kill, and no run goes on alone.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from data.examples import BUILT_IN_FILES, CFIMDB_FILES
from minbert.commands.ending import STOPPED
from tests.killed_runs import ROOT, read_record
from tools.reliability.children import LONGEST
from tools.reliability.kills import ENDED_BEFORE
from tools.reliability.targets import differences, file_names
from tools.reliability.trial import Outcome, Part, Trial
from tools.reliability.workplace import Workplace

# Times and pictures differ from run to run. A log has the output of both tries.
NOT_COMPARED = (".log", ".html", ".png", ".svg", "log.csv", "README.md", "ablation.md", ".json")
KEPT_OF_RECORD = ("epochs", "best_step", "scores")
NAMES = ("experiments", "part1")
AT_WORK = "another process works on this run"


class Way(NamedTuple):
    """A way to stop a command. is_group: Ctrl-C in a terminal reaches its runs, too."""

    name: str
    number: int
    is_group: bool


WAYS = (
    Way("SIGKILL", signal.SIGKILL, False),
    Way("Ctrl-C", signal.SIGINT, True),
    Way("SIGTERM", signal.SIGTERM, False),
    Way("SIGKILL of all its processes", signal.SIGKILL, True),
)


class Ended(NamedTuple):
    """How a command ended, and all that it said."""

    code: int
    text: str


def commands(workplace: Workplace) -> dict[str, list[str]]:
    """The arguments of the commands by their names. The folder of the trial is to follow."""
    places = workplace.places
    data = make_reviews(workplace)
    flags = ["--model", str(places.model), "--max_length", "32", "--epochs", "1"]
    flags += ["--precision", "fp32", "--token_cache", "none", "--save_every", "1"]
    of_runs = f"--with={' '.join([*flags, '--data_dir', str(data), '--pretrain', 'none'])}"
    experiments = ["experiments", "rob-1", "--seeds", "0", of_runs, "--out"]
    part1 = ["course.part1", "--data-dir", str(data), *flags, "--out"]
    return dict(zip(NAMES, (experiments, part1), strict=True))


def make_reviews(workplace: Workplace) -> Path:
    """The tables of the workplace, and sentences of SST as reviews, in a folder of their own."""
    folder = workplace.folder.with_name("tables-of-series")
    if (folder / CFIMDB_FILES["test"]).is_file():
        return folder
    folder.mkdir(exist_ok=True)
    for files in BUILT_IN_FILES.values():
        for split, name in files.items():
            source = workplace.places.data / name
            if source.is_file():
                (folder / name).write_bytes(source.read_bytes())
                continue
            lines = (workplace.places.data / BUILT_IN_FILES["sst"][split]).read_text("utf-8")
            (folder / name).write_text(as_reviews(lines, split), encoding="utf-8")
    return folder


def as_reviews(table: str, split: str) -> str:
    """A table of SST with the labels 0 and 1 of reviews."""
    header, *rows = table.splitlines()
    if split == "test":
        return table
    cells = [row.rsplit("\t", 1) for row in rows]
    rows = [f"{start}\t{int(int(label) > 2)}" for start, label in cells]
    return "\n".join([header, *rows]) + "\n"


def start(words: list[str]) -> subprocess.Popen[str]:
    """Start a command as the first of a group of processes."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a command. One that hangs is killed with its runs."""
    try:
        text, _ = process.communicate(timeout=4 * LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return Ended(-signal.SIGKILL, f"it hung: {text}")
    return Ended(process.returncode, text)


def again(words: list[str]) -> Ended:
    """Give a command again. A run that still saves is waited for, as the message says."""
    for _ in range(int(LONGEST)):
        ended = finish(start(words))
        if AT_WORK not in ended.text:
            break
        time.sleep(1)
    return ended


def facts_of(folder: Path) -> dict[str, str]:
    """What a command has left: the names of all files, and the digests of those without times."""
    facts = {}
    for name in file_names(folder):
        facts[name] = "is there"
        path = folder / name
        if not name.endswith(NOT_COMPARED) and not path.is_symlink():
            facts[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.name == "run.json":
            record = read_record(path.parent)
            facts |= {f"{name}: {key}": str(record[key]) for key in KEPT_OF_RECORD}
    return facts


def run_trial(workplace: Workplace, trial: Trial, folder: Path) -> Outcome:
    """Stop one of the commands at a random time, give it again, and compare."""
    arguments = commands(workplace)
    names = [name for name in NAMES if trial.may_stop(name)]
    name = names[trial.number % len(names)]
    way = WAYS[trial.number // len(names) % len(WAYS)]
    words = [*arguments[name], str(folder)]

    whole = workplace.folder.with_name(f"whole-{name}")
    seconds = whole.with_suffix(".seconds")
    if not seconds.is_file():
        begun = time.monotonic()
        ended = finish(start([*arguments[name], str(whole)]))
        if ended.code:
            return Outcome(name, "without a kill", ended.text[-300:])
        seconds.write_text(str(time.monotonic() - begun))

    delay = trial.chance.uniform(0, float(seconds.read_text()))
    action = f"{name}: {way.name} after {delay:.1f} seconds"
    process = start(words)
    try:
        process.wait(delay)
        finish(process)
        return Outcome(ENDED_BEFORE, action)
    except subprocess.TimeoutExpired:
        send = os.killpg if way.is_group else os.kill
        send(process.pid, way.number)
    ended = finish(process)
    problem = ""
    if ended.code not in (0, STOPPED, -way.number) or "Traceback" in ended.text:
        problem = f"stopped: exit code {ended.code}: {ended.text[-300:]!r}"
    if not problem:
        ended = again(words)
        if ended.code or "Traceback" in ended.text:
            problem = f"given again: exit code {ended.code}: {ended.text[-300:]!r}"
    problem = problem or differences(facts_of(whole), facts_of(folder))
    return Outcome(f"{name}: {way.name}", action, problem)


PART = Part("series", "commands that start runs", 80, 25.0, run_trial)
