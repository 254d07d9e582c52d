"""Which data the records of this repository come from, and what follows for their numbers.

records/data.json has the name of each digest, and the rows of its dev files. An accuracy is a whole
number of rows divided by all rows, so an edited one is nearly always noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from data.examples import BUILT_IN_FILES
from data.options import numbers_by_task
from experiments.flags import is_different, parse_flags
from experiments.records import (
    RECORDS,
    contradictions,
    data_digest,
    default_options,
    split_command,
    unrecorded_options,
)
from minbert.commands.files import digest_of_file
from minbert.commands.options import NONE

KNOWN_DATA = RECORDS / "data.json"
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


class KnownData(NamedTuple):
    """The data of a digest.

    dev: the number of dev rows by task. commit: one that has an earlier bundled sample.
    """

    name: str
    dev: Mapping[str, int]
    commit: str = ""


@cache
def known_data() -> dict[str, KnownData]:
    """Return all known data by their digest."""
    content = json.loads(KNOWN_DATA.read_text(encoding="utf-8"))
    return {digest: KnownData(**entry) for digest, entry in content.items()}


def dev_rows_of(record: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of dev rows of a run by task; {} for unknown data.

    A run with --dev_rows has read fewer of them than its files hold.
    """
    known = known_data().get(str(record.get("data")))
    sizes = dict(known.dev) if known else {}
    limits = numbers_by_task(record.get("options", {}).get("dev_rows", NONE))
    for task in limits.keys() & sizes.keys():
        sizes[task] = min(sizes[task], int(limits[task]))
    return sizes


def describe(digest: str) -> str:
    """Return which data have a digest, and how an earlier sample is had; "" for other data."""
    data = known_data().get(digest)
    if data is None:
        return ""
    if not data.commit:
        return f"These are {data.name}. "
    return (
        f"These are {data.name}. `git archive {data.commit[:10]} data/sample | tar -x -C FOLDER` "
        "writes them to FOLDER/data/sample. "
    )


def digest_of_data(folder: Path, record: Mapping[str, Any]) -> str:
    """The digest of the files of a record's tasks in a folder; "" where one is missing."""
    tasks = record["options"].get("tasks", "sst,para,sts")
    tasks = f"{tasks},{record['options'].get('untrained_tasks', '')}".split(",")
    files = {}
    for task in {name for name in tasks if name in BUILT_IN_FILES}:
        for name in BUILT_IN_FILES[task].values():
            path = folder / name
            if not path.is_file():
                return ""
            files[str(path)] = digest_of_file(path)
    return data_digest(files)


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


def faults_of_command(record: Mapping[str, Any]) -> list[str]:
    """Return the options and the seed that differ from those in the record's command.

    Older records have no command.
    """
    command = record.get("command", "")
    if not command.startswith("python run_multitask.py"):
        return []
    flags = parse_flags(split_command(command))
    defaults = default_options()
    recorded = {**record["options"], "seed": record["seed"]}
    faults = []
    # What only names a place is in the command, and not in the record.
    for name in sorted({*recorded, *flags} - (unrecorded_options() - {"seed"})):
        value = recorded.get(name, defaults.get(name))
        asked = flags.get(name, str(defaults.get(name)))
        if is_different(value, asked):
            faults.append(f"--{name} is {value}, and the command has {asked}")
    return faults
