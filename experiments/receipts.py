"""What each record must say of its origin, and which older records say less.

A stranger who wants to measure again needs the command, the code, the data, the versions of the
libraries and the machine. Records of an older kind stay as they are: nobody can add what was not
written down. OLDER names all of them, and a test allows no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# The fields of a record that name each of them. One is enough.
RECEIPTS = {
    "command": ("command",),
    "code": ("code",),
    "versions": ("versions",),
    "machine": ("machine",),
    "data": ("data", "cut", "dev_files"),
}
# Measurements that read no file of data, and what they read in its place.
WITHOUT_DATA = {
    "bit-flips": "files that it makes",
    "busy-machine": "random tokens",
    "calibration": "simulated scores",
    "formulas": "random tokens",
    "kill-resume": "the bundled sample of its commit",
    "large": "texts that it makes, and pairs of STS",
    "museum": "the bundled sample of its commit",
    "own-tables": "tables that it makes, and subsets of STS",
    "installs": "one sentence, which each record has",
    "onnx-installs": "one sentence, which each record has",
    "profiles": "the files of --data-dir, whose lengths alone matter",
    "reliability": "the bundled sample of its commit",
    "round-trips": "models and sentences of its commit",
    "table-readers": "tables that it makes",
    "teaching-handouts": "files of its commit",
    "teaching-kit": "files of its commit",
    "teaching-unseen": "files of students, which are not published",
    "teaching-right": "files of students, which are not published",
    "vector-seconds": "sentences, whose lengths alone matter",
}


class Older(NamedTuple):
    """Records that lack a receipt: of these files, written until this day.

    files: () for all.
    """

    receipt: str
    files: tuple[str, ...]
    until: str
    reason: str


OLDER = (
    Older("command", (), "2026-11-27", "records had no command; options, seed and code are there"),
    Older("code", ("round-trips",), "2026-11-25", "the first measurement had versions alone"),
    Older("machine", ("round-trips",), "2026-11-25", "its differences are those of any machine"),
    Older("versions", ("vector-seconds",), "2026-11-28", "its commit fixes them but for patches"),
)


def faults_of_receipts(file: str, record: Mapping[str, Any]) -> list[str]:
    """Return which receipts a record lacks. file: that holds it, without its ending."""
    parts = [record, record.get("run", {})]
    # An ensemble has runs, and each of them its receipts.
    runs = record.get("runs")
    if isinstance(runs, list) and "options" in runs[0]:
        parts += runs
    day = max(part["date"] for part in parts if "date" in part)
    present = set()
    for part in parts:
        present |= {name for name, value in part.items() if value}
    faults = []
    for receipt, fields in RECEIPTS.items():
        is_there = not present.isdisjoint(fields)
        is_needed = receipt != "data" or file not in WITHOUT_DATA
        if is_needed and not is_there and not is_older(receipt, file, day):
            faults.append(f"a record of {file}.jsonl of {day} has no {receipt}")
    return faults


def is_older(receipt: str, file: str, day: str) -> bool:
    """Return whether records of this file and day are known to lack a receipt."""
    for older in OLDER:
        is_file = not older.files or file in older.files
        if older.receipt == receipt and is_file and day <= older.until:
            return True
    return False
