"""Command: what does the default job gain where more compiled kernels are kept?

    python -m tools.benchmarks.compiled_kernels --record

oneDNN compiles a kernel for each shape of a product, and keeps the last ones. The command runs the
default job with several numbers of them, one run after the other. The seconds are those of the
whole process. Use a quiet machine. `--record` adds the result to the records from which the
documents are written.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.records import RECORDS, data_digest
from minbert.commands.ending import exit_code
from minbert.training import runtime
from tools.benchmarks.busy_machine import environment
from tools.benchmarks.comparison import versions
from tools.benchmarks.default_job import train
from tools.benchmarks.recording import conditions, parser_of_job, record_measurement
from tools.tables.generic import show_table

COMPILED_KERNELS = RECORDS / "compiled-kernels.jsonl"
NUMBERS = (runtime.MAX_KERNELS, runtime.MAX_TILE_KERNELS)


def measure(model: str) -> dict[str, Any]:
    """Return the record of the default job with each number of kept kernels."""
    runs = []
    for number in NUMBERS:
        settings = dict.fromkeys(runtime.KERNEL_CACHES, str(number))
        with tempfile.TemporaryDirectory() as folder, environment(settings):
            finished = train(Path(folder), model, ())
        runs.append(
            {
                "kernels": number,
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


@exit_code("python -m tools.benchmarks.compiled_kernels")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure the job, and print a table and one line of JSON."""
    parser = parser_of_job(
        "python -m tools.benchmarks.compiled_kernels",
        "Time and memory of the default job, with few and many compiled kernels kept.",
    )
    options = parser.parse_args(argv)

    record = measure(options.model)
    print(show_table("compiled-kernels", [record]))
    print(json.dumps(record))
    if options.record:
        record_measurement(COMPILED_KERNELS, record)


if __name__ == "__main__":
    sys.exit(main())
