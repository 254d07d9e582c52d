"""Measurements as records: beside the numbers, which machine and which code gave them, and when."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from data.examples import COURSE_FILES
from experiments.records import Record, add_records, data_digest, without_folders
from minbert.commands.flags import Parser
from minbert.options import EncoderOptions
from minbert.training.code_version import code_version
from minbert.training.run_folder import describe_machine
from tools.benchmarks.comparison import versions

HELP = "add the result to experiments/records, from which the tables of the documents are made"


def parser_of_job(prog: str, description: str) -> Parser:
    """Return the parser of a command that measures a training: it has --model and --record."""
    parser = Parser(prog=prog, allow_abbrev=False, description=description)
    parser.add_argument(
        "--model",
        default=EncoderOptions().model,
        help="as --model of run_multitask.py (%(default)s)",
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


def conditions(device: str = "cpu", num_threads: int | None = None) -> Record:
    """Return the machine and the code of a measurement.

    device: that computes. num_threads: of the processes that were measured. None means this
    process, with the number that torch has now.
    """
    machine = describe_machine(device)
    if num_threads is not None:
        machine["threads"] = num_threads
    return {"machine": machine, "code": code_version()}


def digest_of_folder(data_dir: str | Path) -> str:
    """Return one SHA-256 for the nine course files of a folder, wherever it is."""
    files = {}
    for splits in COURSE_FILES.values():
        for name in splits.values():
            path = Path(data_dir) / name
            files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return data_digest(files)


def record_measurement(path: Path, measured: Mapping[str, Any]) -> None:
    """Add a measurement of today to a file of records, and say what comes next.

    measured: its numbers. "machine", "code" and "versions" are those of this process where it has
    none.
    """
    origin = {**conditions(), "versions": versions(), "command": without_folders(sys.argv)}
    add_records(path, [{**origin, **measured, "date": date.today().isoformat()}])
    print(f"recorded in {path}; python -m tools.tables writes its tables")
