"""Command: the CPU seconds of each phase of the default job.

    python -m tools.benchmarks.phases --record

It starts the command of the README in this process, with one thread, and counts the CPU seconds of
each phase. Other programs hardly change these numbers, so the machine may be busy. `--record` adds
the result to the records from which the documents are written.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import RECORDS, data_digest
from minbert.commands.ending import exit_code
from minbert.commands.files import read_json
from tools.benchmarks.comparison import versions
from tools.benchmarks.default_job import JOB
from tools.benchmarks.recording import conditions, parser_of_job, record_measurement
from tools.tables.generic import show_table

PHASES = RECORDS / "phases.jsonl"
REST = "start of Python, imports, and the rest"


class Timed(NamedTuple):
    """A function, and the phase that its seconds belong to."""

    module: str
    name: str  # in the module, such as "Loop.score"
    phase: str


# A function that is called within another one has a phase of its own.
TIMED = (
    Timed("run_multitask", "prepare", "reading and tokenizing the rows, opening the encoder"),
    Timed("run_multitask", "estimate", "cost estimate"),
    Timed("run_multitask", "train", "the rest of both stages"),
    Timed("minbert.training.loop", "Loop.train_step", "training steps of both stages"),
    Timed("minbert.training.loop", "Loop.score", "evaluations while training"),
    Timed("minbert.training.loop", "Loop.save", "checkpoints and best models"),
    Timed("minbert.training.loop", "Loop.save_best", "checkpoints and best models"),
    Timed("multitask.leaderboard", "write_results", "predictions of dev and test rows"),
    Timed("multitask.results", "predict_baselines", "baselines"),
    Timed("multitask.leaderboard", "measure_chance", "intervals of the scores"),
    Timed("multitask.results", "write_report", "report and pictures"),
)


class PhaseClock:
    """CPU seconds of each phase, without those of the phases within it."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self.phases = [REST]  # the last one runs now
        self.noted = 0.0

    def note(self) -> None:
        """Give the seconds since the last note to the phase that runs."""
        now = self.clock()
        self.seconds[self.phases[-1]] += now - self.noted
        self.noted = now

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its seconds counted for a phase."""

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.note()
            self.phases.append(phase)
            self.calls[phase] += 1
            try:
                return function(*arguments, **keywords)
            finally:
                self.note()
                self.phases.pop()

        return call

    @contextmanager
    def watching(self, functions: Sequence[Timed]) -> Iterator[None]:
        """Within it the functions are timed."""
        before = []
        for item in functions:
            owner: Any = importlib.import_module(item.module)
            *path, name = item.name.split(".")
            for part in path:
                owner = getattr(owner, part)
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, self.timed(item.phase, getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)


def measure(model: str) -> dict[str, Any]:
    """Return the phases of the default job, the longest first. It runs with one thread."""
    import torch

    import run_multitask

    torch.set_num_threads(1)
    clock = PhaseClock()
    with tempfile.TemporaryDirectory() as folder, clock.watching(TIMED):
        flags = ["--model", model, "--output-dir", folder, "--name", "run"]
        code = run_multitask.main([*JOB, *flags])
        clock.note()
        if code:
            raise ValueError(f"the job ended with code {code}; its message stands above.")
        run = read_json(Path(folder) / "run" / "run.json")
    phases = []
    for phase, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        share = seconds / clock.noted
        calls = clock.calls[phase]
        phases.append({"phase": phase, "seconds": seconds, "share": share, "calls": calls})
    return {
        "model": model,
        "precision": run["options"]["precision"],
        "seconds": clock.noted,
        "phases": phases,
        "data": data_digest(run["files"]),
    }


@exit_code("python -m tools.benchmarks.phases")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure the job, and print a table and one line of JSON."""
    parser = parser_of_job(
        "python -m tools.benchmarks.phases",
        "Where the time of the default job goes, in CPU seconds of one thread.",
    )
    options = parser.parse_args(argv)

    measured = {**conditions(num_threads=1), **measure(options.model)}
    print(show_table("phases-of-default-job", [measured | {"versions": versions()}]))
    print(json.dumps(measured))
    if options.record:
        record_measurement(PHASES, measured)


if __name__ == "__main__":
    sys.exit(main())
