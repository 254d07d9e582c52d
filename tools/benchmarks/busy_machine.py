"""Command: how much slower is a training step beside other programs?

    python -m tools.benchmarks.busy_machine --record

It takes steps of the default job with as many threads as there are cores: alone, beside as many
programs that only compute, and beside the same programs with a low priority. Three ways of waiting
take turns (minbert/commands/cores.py). Each has its own process, because libgomp reads its settings
once. Use a quiet machine. `--record` adds the result to the records from which the documents are
written.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments.records import RECORDS
from minbert import BertModel, BertTokenizer
from minbert.commands import cores
from minbert.commands.ending import exit_code
from minbert.training import runtime
from multitask.rows import read_tables
from tools.benchmarks.comparison import versions
from tools.benchmarks.jobs import build_task_job, encode_rows, make_loop, resolve_options
from tools.benchmarks.recording import conditions, parser_of_job, record_measurement
from tools.benchmarks.settings import DEVICE
from tools.benchmarks.timing import Side, SideProcess
from tools.tables.generic import show_table

# The number of looks that libgomp takes by itself.
BUSY_MACHINE = RECORDS / "busy-machine.jsonl"
OWN_NUM_LOOKS = "300000"
# The ways of waiting: a title, and the settings of libgomp.
WAYS: dict[str, dict[str, str]] = {
    "minBERT": {cores.LOOKS: cores.NUM_LOOKS},
    "libgomp's own": {cores.LOOKS: OWN_NUM_LOOKS},
    "threads sleep at once": {cores.POLICY: "passive"},
}
BUSY_PROGRAM = """
import os, sys
if sys.argv[1] != "0":
    os.nice(int(sys.argv[1]))
while True:
    pass
"""
LOW_PRIORITY = 10  # what the command `nice` adds by default. 0 is normal, 19 the lowest priority.


class State(NamedTuple):
    """What else runs on the machine. niceness: of the busy programs, from 0 to 19."""

    name: str
    are_programs_busy: bool
    niceness: int


STATES = (
    State("alone", False, 0),
    State("busy", True, 0),
    State("low priority", True, LOW_PRIORITY),
)


class Timed(NamedTuple):
    """Seconds of a step, and how many cores other programs used meanwhile, if it is known."""

    seconds: float
    others: float | None


def make_side(model: str, num_steps: int) -> Side:
    """Return a function that takes `num_steps` steps of the default job, and times them.

    Steps come in the order of an epoch, and each round takes the next ones.
    """
    runtime.settle_memory()
    runtime.seed_everything(0)
    encoder = BertModel.from_pretrained(model)
    precision = runtime.choose_precision("auto", DEVICE).precision
    options = resolve_options(encoder.config.hidden_size, DEVICE, precision, model=model, seed=0)
    tokenizer = BertTokenizer.from_pretrained(model)
    rows = encode_rows(options, read_tables(options.data), tokenizer)
    # The loop writes nothing before its first evaluation.
    job = build_task_job(options, encoder, rows, Path(tempfile.gettempdir()))
    loop = make_loop(job)
    steps = job.epoch_steps(0, torch.Generator().manual_seed(0))

    def take(number: int) -> None:
        for _ in range(number):
            loop.train_step(steps[loop.progress.step % len(steps)])

    def run_part(request: None) -> Timed:
        take(1)  # not timed
        before = cores.read(counts_nice=True)
        started = time.perf_counter()
        take(num_steps)
        seconds = time.perf_counter() - started
        others = cores.used_by_others(before, cores.read(counts_nice=True))
        return Timed(seconds / num_steps, others)

    return run_part


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Within it the settings of libgomp are these alone, for processes that start."""
    before = dict(os.environ)
    for name in (cores.LOOKS, cores.POLICY, "OMP_NUM_THREADS"):
        os.environ.pop(name, None)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def busy_programs(number: int, niceness: int = 0) -> Iterator[None]:
    """Within it so many programs compute, with one thread each. niceness: 0 (usual) to 19."""
    command = [sys.executable, "-c", BUSY_PROGRAM, str(niceness)]
    programs = [subprocess.Popen(command) for _ in range(number)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def measure(sides: Mapping[str, Side], num_rounds: int, num_cores: int) -> dict[str, Any]:
    """Return the seconds of each side's rounds in each state, and the cores of others."""
    seconds: dict[str, dict[str, list[float]]] = {state.name: {} for state in STATES}
    cores_of_others = []
    for round_number in range(num_rounds):
        # The first side changes, as in timing.py.
        names = list(sides)
        if round_number % 2:
            names.reverse()
        for state in STATES:
            with busy_programs(num_cores if state.are_programs_busy else 0, state.niceness):
                for name in names:
                    timed = sides[name](None)
                    seconds[state.name].setdefault(name, []).append(timed.seconds)
                    if not state.are_programs_busy and timed.others is not None:
                        cores_of_others.append(timed.others)
        print(f"round {round_number + 1} of {num_rounds}", file=sys.stderr, flush=True)
    return {"seconds": seconds, "others": cores_of_others}


def make_record(measured: Mapping[str, Any], model: str, num_cores: int) -> dict[str, Any]:
    """Return the medians of a measurement, and what it was measured on."""
    milliseconds: dict[str, dict[str, float]] = {}
    for state, of_side in measured["seconds"].items():
        milliseconds[state] = {}
        for name, values in of_side.items():
            milliseconds[state][name] = 1e3 * statistics.median(values)
    others = measured["others"]
    return {
        **conditions(num_threads=num_cores),
        "model": model,
        "milliseconds": milliseconds,
        "rounds": len(next(iter(measured["seconds"]["alone"].values()))),
        "busy_programs": num_cores,
        "niceness": LOW_PRIORITY,
        "busy_cores": statistics.median(others) if others else None,
        "versions": versions(),
    }


@exit_code("python -m tools.benchmarks.busy_machine")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure all ways of waiting, and print a table and one line of JSON."""
    parser = parser_of_job(
        "python -m tools.benchmarks.busy_machine",
        "How much slower is a training step beside other programs?",
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=15, metavar="N", help="of a round, each side")
    options = parser.parse_args(argv)

    num_cores = cores.num_usable()
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, settings in WAYS.items():
            with environment(settings):
                process = SideProcess(num_cores, make_side, options.model, options.steps)
            side = stack.enter_context(process)
            # The first step of a process is slow.
            side(None)
            sides[name] = side
        measured = measure(sides, options.rounds, num_cores)
    record = make_record(measured, options.model, num_cores)
    print(show_table("busy-machine", [record]))
    print(json.dumps(record))
    if options.record:
        record_measurement(BUSY_MACHINE, record)


if __name__ == "__main__":
    sys.exit(main())
