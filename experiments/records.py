"""Records of measured runs: one line of JSON for each, in experiments/records/*.jsonl.

A run that is meant to be stated somewhere gets a record. The tables of measured numbers in the
documents are written from the records (pages.py), so no number is copied by hand. Every line holds
a digest of its content, so a number in it is not edited by hand either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.run_files import dev_scores
from minbert.commands.options import NONE

RECORDS = Path(__file__).parent / "records"
# The rows of the two course reports, on one cut of the data (reports.py).
REPORTS = RECORDS / "reports.jsonl"
# Options that say where a run and its data are. A digest stands for the content of the data.
PLACES = ("name", "output_dir", "data_dir", "token_cache", "seed", "recipe")
BYTES_PER_GB = 1e9
DIGEST = "digest"
# What makes the records of a file. Every other file holds runs of `python -m experiments`.
COMMANDS = {
    "bit-flips": "python -m benchmarks.bit_flips --record",
    "benchmarks": "python -m benchmarks all --data-dir DIR --record",
    "busy-machine": "python -m benchmarks.busy_machine --record",
    "default-job": "python -m benchmarks.default_job --record",
    "kill-resume": "python -m benchmarks.kill_resume --record",
    "readable": "python -m benchmarks.readable --data-dir DIR --out FILE --record",
    "real-sentences": "python -m benchmarks.real_sentences RUN --course DIR --record",
    "reports": "python -m experiments.reports rob gen --data-dir DIR --nli FILE",
    "reliability": "python -m benchmarks.reliability --record",
    "round-trips": "python -m benchmarks.round_trips",
    "sample-grades": "python -m benchmarks.sample_grades --sources DIR --out DIR ... --record",
    "sample-parts": "python -m benchmarks.sample_parts --course DIR --out DIR --record",
    "sample-shares": "python -m benchmarks.real_sentences RUN --course DIR --binary FILE "
    "--label PAIR --record sample-shares",
    "scaling": "python -m benchmarks.scaling --data-dir DIR --record",
}

Record = dict[str, Any]


def record_of(run: Mapping[str, Any], day: date) -> Record:
    """Return the record of a finished run.

    run: the content of its run.json. day: on which it is recorded. The record holds the recipe, the
    seed, the options that differ from their defaults, a digest of the data, scores after the best
    and after each epoch (of training rows, too, where --score_train asked for them), the scores
    before and after each stage of --pretrain, machine, versions, commit, minutes and gigabytes.
    """
    options = run["options"]
    actual = run["actual"]
    parts_of_some_runs = {name: run[name] for name in ("train_scores", "stages") if run.get(name)}
    return {
        "recipe": options.get("recipe", NONE),
        "seed": options["seed"],
        "options": changed_options(options),
        "data": data_digest(run["files"]),
        "scores": run["scores"],
        "trained": list(dev_scores(dict(run))),
        "epochs": run["epochs"],
        **parts_of_some_runs,
        "baselines": run["baselines"],
        "minutes": round(actual["seconds"] / 60, 2),
        "gigabytes": round(actual["peak_memory"] / BYTES_PER_GB, 2),
        "machine": run["machine"],
        "versions": run["versions"],
        "code": run["code"],
        "date": day.isoformat(),
    }


def changed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, without those that only name a place.

    Paths of files are left out, too: `data_digest` stands for their content.
    """
    # Imported late: this reads the options of all packages.
    from command_line.options import Options
    from minbert.commands.options import all_fields

    changed = {}
    for item in all_fields(Options):
        is_place = item.name in PLACES or item.metadata["is_file"]
        # JSON has lists in place of tuples.
        default = list(item.default) if isinstance(item.default, tuple) else item.default
        if is_place or item.name not in options or options[item.name] in (item.default, default):
            continue
        changed[item.name] = options[item.name]
    return changed


def data_digest(files: Mapping[str, str]) -> str:
    """Return one SHA-256 for all data files of a run, whatever their folders are.

    files: the SHA-256 of each file by its path.
    """
    digest = hashlib.sha256()
    for name, sha256 in sorted((Path(path).name, sha256) for path, sha256 in files.items()):
        digest.update(f"{name} {sha256}\n".encode())
    return digest.hexdigest()


# --- on disk --------------------------------------------------------------------------------------


def command_of(path: Path) -> str:
    """Return the command that adds records to a file."""
    return COMMANDS.get(path.stem, f"python -m experiments RECIPE --record {path.stem}")


def digest_of(record: Mapping[str, Any]) -> str:
    """Return the beginning of the SHA-256 of a record without its digest."""
    content = {name: value for name, value in record.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def add_records(path: Path, records: Sequence[Mapping[str, Any]]) -> int:
    """Append records to a file, and return how many were new.

    A record that the file holds already, whatever its date, is not written again. Several processes
    may add at the same time. Raises ValueError where the file is damaged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    num_new = 0
    with FileLock(lock):
        known = [without_date(record) for record in read_records(path)]
        with open(path, "a", encoding="utf-8") as file:
            for new in records:
                # As it will be read: JSON has no tuples, and its keys are text.
                record = json.loads(json.dumps(new, allow_nan=False))
                if without_date(record) in known:
                    continue
                file.write(json.dumps({**record, DIGEST: digest_of(record)}) + "\n")
                known.append(without_date(record))
                num_new += 1
    lock.unlink(missing_ok=True)
    return num_new


def without_date(record: Mapping[str, Any]) -> Record:
    """Return what identifies a record."""
    return {name: value for name, value in record.items() if name != "date"}


def group_records(records: Sequence[Record], name: str) -> dict[str, list[Record]]:
    """Return the records by their value of a field, in the order in which the values come."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record[name], []).append(record)
    return groups


def read_records(path: Path) -> list[Record]:
    """Return the records of a file in its order, without their digests; none without a file.

    Raises ValueError with the line that is no record, or that was edited.
    """
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}: no record there ({error}). Restore the file."
            ) from error
        if record.pop(DIGEST, None) != digest_of(record):
            raise ValueError(
                f"{path}, line {number}: this record was edited after it was written. Restore the "
                f"file with git checkout, or remove the line and measure again: {command_of(path)}"
            )
        records.append(record)
    return records
