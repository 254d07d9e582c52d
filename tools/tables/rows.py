"""The rows of a table: what each is computed from, and what its cells may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.records import Record, newest_of

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a table.

    title: names it. records: those that its numbers are computed from. controls: those that are
    subtracted, seed by seed. published: the score in brackets, by the field of the measured one.
    values: for templates, beside the fields of the first record. count: a text in the place of the
    number of records. is_judged: whether a difference may be called a hint or clear. may_lack:
    whether some records may lack a score, such as that of a task that was not trained.
    """

    title: str
    records: Sequence[Record] = ()
    controls: Sequence[Record] = ()
    published: Mapping[str, float | None] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    count: str | None = None
    is_judged: bool = True
    may_lack: bool = False


@dataclass(frozen=True)
class Content:
    """What a note may speak of: the entry of its table, its records, and its rows."""

    entry: Entry
    records: Sequence[Record]
    rows: Sequence[Row]

    @property
    def runs(self) -> list[Record]:
        """The runs that the rows were computed from, row by row."""
        records: list[Record] = []
        for row in self.rows:
            records += row.records
        return runs_of(self.entry, records)


def value_of(record: Any, path: str) -> Any:
    """Return the value of a field, such as "scores.sst" or "sizes.-1"; None where it is absent."""
    value = record
    for part in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(part)]
        elif part in value:
            value = value[part]
        else:
            return None
    return value


def values_of(record: Record, paths: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of several fields."""
    return tuple(value_of(record, path) for path in paths)


def runs_of(entry: Entry, records: Sequence[Record]) -> list[Record]:
    """Return the runs that records measure."""
    return [value_of(record, entry.get("run", "")) for record in records]


def by_seed(records: Sequence[Record]) -> list[Record]:
    """Return the newest record of each seed, in the order of the seeds."""
    return sorted(newest_of(records, lambda run: run["seed"]), key=lambda run: run["seed"])


def pairs_of(records: Sequence[Record], controls: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Return each record with the control of the same seed, for the seeds that both have."""
    control_of = {record["seed"]: record for record in controls}
    return [
        (record, control_of[record["seed"]]) for record in records if record["seed"] in control_of
    ]


def pair_rows(
    title: str,
    records: Sequence[Record],
    controls: Sequence[Record],
    values: Mapping[str, Any] | None = None,
    is_judged: bool = True,
) -> Row:
    """Return the row that compares runs with their controls, for the seeds that both have.

    Raises ValueError where a run and its control have read other data.
    """
    pairs = pairs_of(records, controls)
    for run, control in pairs:
        if run.get("data") != control.get("data"):
            raise ValueError(
                f"the runs of seed {run['seed']} have read other data than their controls. Run "
                "both on the same data, or remove the lines of one of them from the records."
            )
    runs = [run for run, _ in pairs]
    partners = [control for _, control in pairs]
    return Row(title, runs, partners, values=values or {}, is_judged=is_judged)
