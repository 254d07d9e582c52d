"""Which data the records of this repository come from, and whether one fits its own command.

records/data.json has the name of each digest, and the rows of its dev files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from data.examples import BUILT_IN_FILES
from experiments.flags import is_different, parse_flags
from experiments.records import (
    RECORDS,
    data_digest,
    default_options,
    split_command,
    unrecorded_options,
)
from minbert.commands.files import digest_of_file

KNOWN_DATA = RECORDS / "data.json"


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
