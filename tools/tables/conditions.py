"""What stands below every table: when, where and with which code its numbers were measured.

A table without records says which command measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.records import RECORDS, Record, command_of
from experiments.results import describe_code, join


def count(number: int, noun: str) -> str:
    """The number with its noun, such as "1 seed" or "3 seeds"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe_machine(machine: Mapping[str, Any]) -> str:
    """A machine in words. machine: as run.json and the benchmarks write it."""
    # The version of the kernel behind the "-" changes nothing that is measured.
    parts = [machine["system"].partition("-")[0]]
    if "processor" in machine:
        parts.append(f"{machine['processor']} with {count(machine['cores'], 'core')}")
    parts.append(count(machine["threads"], "thread"))
    parts.append(machine.get("gpu", machine["device"]))
    return ", ".join(parts)


def measured_on(records: Sequence[Record], libraries: Sequence[str] = ("torch",)) -> str:
    """When, with which code, on which machine and with which libraries records were measured.

    libraries: names in the records' "versions". A record may lack some of them.
    """
    dates = join(record["date"] for record in records)
    commits = describe_code(record["code"] for record in records)
    machines = join(describe_machine(record["machine"]) for record in records)
    # Records of one table may come from several days, with newer libraries.
    versions = []
    for name in libraries:
        numbers = [record["versions"][name] for record in records if name in record["versions"]]
        versions.append(f"{name} {join(numbers)}")
    return f"Measured on {dates} with {commits}: {', '.join([machines, *versions])}."


def not_measured(name: str, flags: str = "") -> str:
    """The text in place of a table without records.

    name: of their file, without its ending. flags: that the command needs for this table.
    """
    command = f".venv/bin/{command_of(RECORDS / name)} {flags}".rstrip()
    return f"Not measured yet. This command does: `{command}`"
