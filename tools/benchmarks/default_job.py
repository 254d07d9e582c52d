"""Command: time and memory of the default job, alone and beside a busy program.

    python -m tools.benchmarks.default_job --record

It starts the command of the README twice, as a user does: alone, and beside a program that only
computes. The seconds are those of the whole process, with the import of PyTorch. Use a quiet
machine. `--record` adds the result to the records from which the documents are written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.records import RECORDS, data_digest
from minbert.commands.ending import exit_code
from tools.benchmarks.busy_machine import busy_programs
from tools.benchmarks.comparison import versions
from tools.benchmarks.recording import conditions, parser_of_job, record_measurement
from tools.tables.generic import show_table

DEFAULT_JOB = RECORDS / "default-job.jsonl"
RUN_MULTITASK = Path(__file__).resolve().parents[2] / "run_multitask.py"
JOB = ("--option", "finetune", "--pretrain", "simcse")
# How many busy programs stand beside the job, run by run.
BUSY_PROGRAMS = (0, 1)


class Finished(NamedTuple):
    """A finished job: the seconds of its process, and its run.json."""

    seconds: float
    run: dict[str, Any]


def train(output_dir: Path, model: str, flags: Sequence[str]) -> Finished:
    """Run the default job in a process of its own.

    flags: further ones. Raises CalledProcessError where the job fails.
    """
    command = [sys.executable, str(RUN_MULTITASK), *JOB, "--model", model, *flags]
    command += ["--output-dir", str(output_dir), "--name", "run"]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=sys.stderr)
    seconds = time.perf_counter() - started
    record = json.loads((output_dir / "run" / "run.json").read_text(encoding="utf-8"))
    return Finished(seconds, record)


def measure(model: str, flags: Sequence[str] = ()) -> dict[str, Any]:
    """Return the record of the job alone and beside busy programs."""
    runs = []
    for num_programs in BUSY_PROGRAMS:
        # A folder of its own for each run: no stage is used again.
        with tempfile.TemporaryDirectory() as folder, busy_programs(num_programs):
            finished = train(Path(folder), model, flags)
        runs.append(
            {
                "busy_programs": num_programs,
                "seconds": finished.seconds,
                "peak_memory": finished.run["actual"]["peak_memory"],
            }
        )
    return {
        **conditions(num_threads=finished.run["machine"]["threads"]),
        "model": model,
        "runs": runs,
        "data": data_digest(finished.run["files"]),
        "versions": versions(),
    }


@exit_code("python -m tools.benchmarks.default_job")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure the job, and print a table and one line of JSON."""
    parser = parser_of_job(
        "python -m tools.benchmarks.default_job",
        "Time and memory of the default job, alone and beside a busy program.",
    )
    options = parser.parse_args(argv)

    record = measure(options.model)
    print(show_table("cost-of-default-job", [record]))
    print(json.dumps(record))
    if options.record:
        record_measurement(DEFAULT_JOB, record)


if __name__ == "__main__":
    sys.exit(main())
