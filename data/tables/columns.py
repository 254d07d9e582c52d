"""Which column of a table holds what: by the name that a user passes, or by the usual names.

A name fits a column exactly, or else in capitals or small letters. Nothing is guessed: where no
column fits, or several do, the message shows the header and the flag to pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from data.tables.headers import missing_header
from data.tables.rows import RawTable


class ColumnNames(NamedTuple):
    """The names of columns that a user passed. None: not passed."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    id: str | None = None

    @property
    def are_given(self) -> bool:
        """Whether the user passed any."""
        return any(name is not None for name in self)


class Role(NamedTuple):
    """What a column is for.

    flag: the flag that names it, such as "--text"; "" where there is none.
    names: the names that it usually has.
    """

    flag: str
    names: tuple[str, ...]


def find_columns(
    table: RawTable, roles: Sequence[Role], passed: Sequence[str | None], purpose: str
) -> list[int]:
    """Return the position of the column for each role.

    passed: for each role the name that the user passed, or None.
    purpose: a sentence for the message where columns are missing, with what is expected and what
        to do.

    Raises ValueError where the header lacks a column, or has several that fit.
    """
    for role, name in zip(roles, passed, strict=True):
        if not any(
            positions_of(table, usual) for usual in (role.names if name is None else [name])
        ):
            refuse_rows_as_header(table, [role.flag for role in roles])
    positions = []
    missing = []
    for role, name in zip(roles, passed, strict=True):
        position = find_column(table, role, name)
        if position is None:
            missing.append(role)
        else:
            positions.append(position)
    if missing:
        listed = ", ".join(role.names[0] for role in missing)
        raise ValueError(
            f"{place_of_header(table)}: the header has no column {listed}; found are: "
            f"{table.shown_columns}. {purpose}"
        )
    # One column cannot be text and label at once.
    double = [position for position in positions if positions.count(position) > 1]
    if double:
        flags = " and ".join(role.flag or role.names[0] for role in roles)
        raise ValueError(
            f"{table.name}: {flags} name the same column, {table.columns[double[0]]}. Pass "
            "different ones."
        )
    return positions


def find_column(table: RawTable, role: Role, passed: str | None) -> int | None:
    """Return the position of one column, or None where none has a usual name.

    Raises ValueError where the column that the user passed is not there, and where several fit.
    """
    if passed is not None:
        fitting = positions_of(table, passed)
        if not fitting:
            refuse_rows_as_header(table, [role.flag])
            raise ValueError(
                f"{place_of_header(table)}: the header has no column {passed}, which {role.flag} "
                f"names; found are: {table.shown_columns}. Pass one of these, or its position, "
                f"1 to {len(table.columns)}, if the file has no header."
            )
        names: tuple[str, ...] = (passed,)
    else:
        fitting = []
        for name in role.names:
            fitting += positions_of(table, name)
        names = role.names
    if len(fitting) > 1:
        advice = f"Pass one with {role.flag}" if role.flag and passed is None else "Rename one"
        raise ValueError(
            f"{place_of_header(table)}: {len(fitting)} columns may be '{' or '.join(names)}'; "
            f"found are: {table.shown_columns}. {advice}."
        )
    return fitting[0] if fitting else None


def positions_of(table: RawTable, name: str) -> list[int]:
    """Return the positions of the columns with a name: exactly, or else in any letters."""
    columns = table.columns
    name = " ".join(name.split())
    exact = [position for position, column in enumerate(columns) if column == name]
    if exact:
        return exact
    folded = name.casefold()
    return [position for position, column in enumerate(columns) if column.casefold() == folded]


def place_of_header(table: RawTable) -> str:
    """Where the header stands, for a message. JSON lines have none."""
    return table.place(table.header) if table.header.line else table.name


def refuse_rows_as_header(table: RawTable, flags: Sequence[str]) -> None:
    """Raise ValueError where a table has no header. flags: those that name columns; may be ""."""
    fault = missing_header(table, [flag for flag in flags if flag])
    if fault:
        raise ValueError(fault)
