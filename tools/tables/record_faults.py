"""What does not fit together in a record of ours, and what each must say of its origin.

An accuracy is a whole number of rows divided by all rows, so an edited one is nearly always
noticed.

A stranger who wants to measure again needs the command, the code, the data, the versions of the
libraries and the machine. Records of an older kind stay as they are: nobody can add what was not
written down. OLDER names all of them, and a test allows no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from experiments.known_data import faults_of_command, known_data
from experiments.records import contradictions
from minbert.commands.options import NONE
from tools.tables.row_chance import dev_rows_of

WITH_ACCURACY = ("sst", "para")
# The solver of TF-IDF rounds otherwise with other versions, so a row may get another label.
SAME_BASELINE = 1e-4
NEARLY_WHOLE = 1e-6
# What each record of a run says about where it was made.
ORIGIN = {
    "versions": ("python", "torch", "numpy", "tokenizers"),
    "machine": ("system", "threads", "device", "processes"),
    "code": ("sha256", "git"),
}
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


# --- what does not fit together -------------------------------------------------------------------


def faults_of(record: Mapping[str, Any]) -> list[str]:
    """Return what does not fit together in a record of a run of this repository.

    Beside `contradictions`, its data must be known ones, its accuracies must be possible with their
    rows, its command must start this run, no epoch may be missing, and the machine must be named.
    """
    return [
        *contradictions(record),
        *faults_of_data(record),
        *faults_of_command(record),
        *faults_of_origin(record),
    ]


def faults_of_origin(record: Mapping[str, Any]) -> list[str]:
    """Return what a record of a run does not say: an epoch in between, a version, the machine."""
    epochs = record.get("epochs")
    if not isinstance(epochs, list):
        return []
    faults = []
    if [entry["epoch"] for entry in epochs] != list(range(1, len(epochs) + 1)):
        faults.append("an epoch is missing")
    for field, names in ORIGIN.items():
        missing = [name for name in names if not record.get(field, {}).get(name)]
        if missing:
            faults.append(f"{field} has no {', '.join(missing)}")
    return faults


def faults_of_data(record: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the digest of the data, and with scores on these data."""
    if not isinstance(record.get("data"), str):
        return []
    data = known_data().get(record["data"])
    if data is None:
        return [f"no known data have the digest {record['data'][:10]}"]

    tables = {"scores": record.get("scores", {})}
    epochs = record.get("epochs")
    for entry in epochs if isinstance(epochs, list) else []:
        tables[f"epoch {entry['epoch']}"] = entry
    for name, scores in (record.get("baselines") or {}).items():
        tables[f"baseline {name}"] = scores
    sizes = dev_rows_of(record)
    faults = []
    for title, scores in tables.items():
        for task in WITH_ACCURACY:
            if task in scores and task in sizes:
                num_right = scores[task] * sizes[task]
                if abs(num_right - round(num_right)) > NEARLY_WHOLE:
                    faults.append(f"{title}: {task} is no share of {sizes[task]:,} rows")
    return faults


def unlike_baselines(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a fault for each record whose baselines differ from those of an earlier record.

    Baselines follow from the data, the tasks and the rows that are read, so no option of the model
    changes them. Other versions change them by a rounding at most.
    """
    first: dict[tuple[str, frozenset[str], tuple[str, str]], Any] = {}
    faults = []
    for number, record in enumerate(records, start=1):
        baselines = record.get("baselines")
        if not baselines or not isinstance(record.get("data"), str):
            continue
        options = record["options"]
        tasks = frozenset(options.get("tasks", "").split(","))
        rows = (options.get("train_rows", NONE), options.get("dev_rows", NONE))
        earlier = first.setdefault((record["data"], tasks, rows), baselines)
        if not are_near(scores_of(earlier), scores_of(baselines)):
            faults.append(f"record {number}: the same data have other baselines in another record")
    return faults


def scores_of(baselines: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    """The scores of all baselines, by baseline and task."""
    scores = {}
    for name, of_tasks in baselines.items():
        for task, score in of_tasks.items():
            scores[name, task] = score
    return scores


def are_near(scores: Mapping[Any, float], others: Mapping[Any, float]) -> bool:
    """Whether both have the same keys, and the same scores but for rounding."""
    if scores.keys() != others.keys():
        return False
    return all(abs(score - others[key]) <= SAME_BASELINE for key, score in scores.items())


# --- what it says of its origin -------------------------------------------------------------------


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
