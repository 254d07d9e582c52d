"""A soak: training and predicting in a loop, in one process, for a long time.

Survived: the resident memory and the number of open files at the end are those after the first
rounds. Memory that grows by a fixed amount per round would show in a run of days.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from tools.reliability.children import main_of
from tools.reliability.targets import training
from tools.reliability.workplace import Workplace, in_child

# Rounds until caches are filled, such as those of the allocator.
WARM_UP = 5
MOST_GROWTH = 0.02  # of the resident memory
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """What the process has after a round."""

    seconds: float
    bytes: int  # of resident memory
    descriptors: int


def take_sample(begun: float) -> Sample:
    """Measure this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors = len(os.listdir("/proc/self/fd"))
    return Sample(time.monotonic() - begun, pages * PAGE_SIZE, descriptors)


def soak(workplace: Workplace, folder: Path, minutes: float) -> list[Sample]:
    """Train and predict in one child until the time is over. Returns a sample for each round."""
    workplace.make_tables()
    path = folder / "samples.jsonl"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    in_child(lambda: loop(workplace, folder, path, 60 * minutes))
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Sample(*json.loads(line)) for line in lines]


def loop(workplace: Workplace, folder: Path, path: Path, seconds: float) -> None:
    """Do rounds of work, and add a line to a file after each."""
    train = main_of("run_multitask")
    predict = main_of("multitask.predict")
    table = str(workplace.places.data / "ids-sst-dev.csv")
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        runs = folder / "runs"
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            codes = [train(training(workplace.places, "simcse", output=str(runs)))]
            codes.append(predict([str(runs / "run"), "--task", "sst", "--input", table]))
        if any(codes):
            raise RuntimeError(f"a round ended with the codes {codes}")
        shutil.rmtree(runs)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(take_sample(begun)) + "\n")


def growth(samples: list[Sample]) -> float:
    """How much memory the last quarter of the rounds has more than the second one, as a share."""
    usual = samples[WARM_UP:]
    quarter = max(1, len(usual) // 4)
    early = statistics.mean(sample.bytes for sample in usual[:quarter])
    late = statistics.mean(sample.bytes for sample in usual[-quarter:])
    return late / early - 1


def judge(samples: list[Sample]) -> str:
    """The problem of a soak; "" if memory and descriptors are flat."""
    usual = samples[WARM_UP:]
    if len(usual) < 4:
        return f"only {len(samples)} rounds: give it more minutes"
    if usual[-1].descriptors > usual[0].descriptors:
        return f"open files grew from {usual[0].descriptors} to {usual[-1].descriptors}"
    share = growth(samples)
    return f"the memory grew by {share:.1%}" if share > MOST_GROWTH else ""
