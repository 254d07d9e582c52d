"""Which columns of a task's file hold the sentences, the label and the id."""

from __future__ import annotations

from typing import NamedTuple

from data.examples import ID_COLUMN, Format
from data.tables.columns import ColumnNames, Role, find_column, find_columns
from data.tables.delimited import CMU_DELIMITER
from data.tables.rows import RawTable
from data.tables.thousands import thousands_fault


class TaskColumns(NamedTuple):
    """The positions of the columns of a task.

    values: of the sentences and, in a labelled file, of the label.
    id: None where the file has none. Then rows are called by their lines.
    notes: what the user should know about the ids.
    """

    values: list[int]
    id: int | None
    notes: tuple[str, ...] = ()


def find_task_columns(
    table: RawTable, format: Format, labelled: bool, names: ColumnNames
) -> TaskColumns:
    """Return the columns of a task's file. names: those that the user passed.

    Raises ValueError where the header lacks a column, or has several that fit. It is also raised
    where the numbers of the label have signs between thousands.
    """
    values = find_value_columns(table, format, labelled, names)
    if labelled and not format.is_integer:
        fault = thousands_fault(table, values[-1])
        if fault:
            raise ValueError(fault)
    if not format.is_course:
        return find_own_ids(table, format, values)

    # A leaderboard knows the rows of an unlabelled file by their ids, so it must have them. Files
    # `label ||| sentence` never have any.
    role = Role("--id", (ID_COLUMN,))
    if not (labelled or table.layout.delimiter == CMU_DELIMITER):
        advice = f"A file without labels needs the column {ID_COLUMN}. Fix the header."
        return TaskColumns(values, find_columns(table, [role], [names.id], advice)[0])
    column = find_column(table, role, names.id)
    if column is None:
        return TaskColumns(
            values, None, ("it has no column id, so rows are called by their lines",)
        )
    return TaskColumns(values, column)


def find_value_columns(
    table: RawTable, format: Format, labelled: bool, names: ColumnNames
) -> list[int]:
    """Return the positions of the sentences and, in a labelled file, of the label."""
    # Only `check --gold` has these flags. Training has none for the course's columns.
    flags = ("--text", "--text-pair", "--label") if names.are_given else ("", "", "")
    roles = []
    for flag, name in zip(flags, format.text_columns, strict=False):
        roles.append(Role(flag, (name,)))
    passed = [names.text, names.text_pair][: len(roles)]
    if labelled:
        # `label ||| sentence` has the column under its own name.
        is_cmu = table.layout.delimiter == CMU_DELIMITER
        usual: tuple[str, ...] = (format.label_column,)
        if is_cmu and "label" not in usual:
            usual = ("label", format.label_column)
        roles.append(Role(flags[2], usual))
        passed.append(names.label)
    ids = [ID_COLUMN] if format.is_course else []
    expected = ", ".join([*ids, *(role.names[-1] for role in roles)])
    advice = f"{format.title} files need {expected}. {format.advice}"
    return find_columns(table, roles, passed, advice)


def find_own_ids(table: RawTable, format: Format, values: list[int]) -> TaskColumns:
    """Find the ids in a file of a user's own task.

    A column with the usual name may hold something else. Then rows are called by their lines.
    """
    is_named = format.id_column != ""
    name = format.id_column or ID_COLUMN
    role = Role(f"id={name} in --task", (name,))
    column = find_column(table, role, name if is_named else None)
    if column is None or is_named:
        return TaskColumns(values, column)
    ids = [row.fields[column].strip() for row in table.rows if len(row.fields) > column]
    if len(set(ids)) == len(ids) and "" not in ids:
        return TaskColumns(values, column)
    note = "its ids are not unique, so rows are called by their lines"
    return TaskColumns(values, None, (note,))
