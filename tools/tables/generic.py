"""Makes a table of measured numbers from its entry in tables.toml.

An entry has these keys. Only `source` and `columns` or `scores` are expected in each.

    source    The file of records, without its ending, or a list of such files.
    where     Only records with these values, such as {name = "soak"}.
    newest    Fields that name a measurement. One that was repeated counts once, with its newest
              record. "all" uses the newest record of the file alone.
    prepare   A function of preparations.py that turns the records into others.
    each      A list in a record, or a list of fields. Each of its items becomes a record, with the
              fields of both.
    run       The field of a record that holds the measured run, if it is not the record itself.
    group     Fields. Records with equal values stand in one row.
    rows      A function of preparations.py that makes the rows, or a list of rows. A row of such a
              list has a title, and `options`: all that a run of it changes. `options` of the entry
              are those of every row.
    like      An entry whose rows are compared: `pairs` has titles of rows and of their controls.
    check     Whether the runs of a row must be one experiment (experiments/comparable.py).
    columns   Each has a title and one of
              text   a template, such as "`{name}`", filled from the first record of the row;
              value  a field, such as "scores.sst", of all records of the row, and
                     format: a number format for their mean, "scores", "interval", "count" or one of
                     FORMATS;
                     per: a unit to divide the mean by; names: texts in the place of some values;
              or the name of another entry, which has the same columns.
    scores    A column for each of these scores. "dev": those of experiments/tables.py. They are in
              the field "scores" of a record, or in the place of `scores_in`.
    compared  Whether scores are those of the records less those of their controls.
    turned    Whether the scores are rows, and the groups columns. Without `scores`: all of them.
    note      Paragraphs below the table, with {functions} of preparations.py and {fields} of the
              newest record. Without it: when and where the records were measured.
    libraries Whose versions {measured} names. Without it: torch.
    flags     Of the command that measures, where nothing was measured yet.

A function of preparations.py may read further keys.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from experiments.comparable import check_row, compared_options
from experiments.paper_scores import cell_of as cell_with_interval
from experiments.records import RECORDS, Record, group_by, newest_of, read_records
from experiments.tables import (
    COLUMNS,
    format_difference,
    format_head,
    format_row,
    format_scores,
    judge,
)
from tools.tables.conditions import count, not_measured
from tools.tables.preparations import NOTES, PREPARATIONS, ROWS
from tools.tables.row_chance import COLUMN, chance_column, score_of
from tools.tables.rows import Content, Entry, Row, by_seed, pair_rows, runs_of, value_of, values_of
from tools.toml_files import read_toml

MEASURED = "{measured}"
ENTRIES = Path(__file__).parent / "tables.toml"


@cache
def read_entries() -> dict[str, Entry]:
    """Return all entries of tables.toml by name."""
    return read_toml(ENTRIES)


# --- from a file to rows --------------------------------------------------------------------------


def records_of(entry: Entry) -> list[Record]:
    """Return the records of a table, before they are grouped."""
    records = []
    for name in sources_of(entry):
        records += read_records(RECORDS / f"{name}.jsonl")
    return select(entry, records)


def sources_of(entry: Entry) -> list[str]:
    """Return the names of the files of records of an entry. A series has a file of its own."""
    source = entry["source"]
    return [source] if isinstance(source, str) else source


def select(entry: Entry, records: Sequence[Record]) -> list[Record]:
    """Return those of the records that a table is about, as its entry prepares them."""
    for path, value in entry.get("where", {}).items():
        records = [record for record in records if value_of(record, path) == value]
    newest = entry.get("newest", [])
    if newest == "all":
        records = records[-1:]
    elif newest:
        records = newest_of(records, lambda record: values_of(record, newest))
    if records and "prepare" in entry:
        records = PREPARATIONS[entry["prepare"]](records)
    return list(records)


def items_of(entry: Entry, records: Sequence[Record]) -> list[Record]:
    """Return the items of the list that `each` names, or the records where it names none."""
    if "each" not in entry:
        return list(records)
    items = []
    for record in records:
        keys = entry["each"]
        parts = values_of(record, keys) if isinstance(keys, list) else value_of(record, keys)
        for part in parts:
            items.append({**record, **part})
    return items


def rows_of(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return the rows of a table. Raises ValueError where a row mixes two experiments."""
    rows = entry.get("rows")
    if "like" in entry:
        return compared_rows(entry, records)
    if isinstance(rows, str):
        return ROWS[rows](entry, records)
    if rows:
        return rows_of_options(entry, records)

    items = items_of(entry, records)
    if "group" not in entry:
        return [Row("", [item]) for item in items]
    grouped = group_by(items, lambda record: values_of(record, entry["group"]))
    return checked(entry, [Row(", ".join(map(str, key)), group) for key, group in grouped.items()])


def rows_of_options(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return the rows whose entries list the options of their runs, without those of no run."""
    rows = []
    for wanted in entry["rows"]:
        options = {**entry.get("options", {}), **wanted["options"]}
        runs = by_seed([record for record in records if compared_options(record) == options])
        if runs:
            rows.append(Row(wanted["title"], runs))
    return checked(entry, rows)


def checked(entry: Entry, rows: list[Row]) -> list[Row]:
    """Return the rows. Raises ValueError where the entry says so and a row is no experiment."""
    for row in rows if entry.get("check", False) else ():
        check_row(row.title, runs_of(entry, row.records))
    return rows


def compared_rows(entry: Entry, records: Sequence[Record]) -> list[Row]:
    """Return a row for each pair of another table whose two rows were measured."""
    rows = {row.title: row for row in rows_of(read_entries()[entry["like"]], records)}
    pairs = []
    for title, control in entry["pairs"]:
        if title in rows and control in rows:
            values = {"control": control}
            pairs.append(pair_rows(title, rows[title].records, rows[control].records, values))
    return pairs


# --- from rows to cells ---------------------------------------------------------------------------


def three_digits(value: float) -> str:
    """Return a measured number with three digits, or all of them before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def goal_of(comparison: Record) -> str:
    """Return the goal of a number, and whether it is met."""
    goal = comparison["goal"]
    if goal is None:
        return "none"
    # A comparison has a pair, and a check has a number with its relation beside it.
    relation, number = goal if isinstance(goal, list) else (comparison["relation"], goal)
    return f"{relation} {number:g}: {'met' if comparison['is_met'] else 'not met'}"


def programs(number: int) -> str:
    """Return how many programs kept the machine busy."""
    return count(number, "busy program") if number else "nothing"


# Of the first value of a row.
FORMATS: dict[str, Callable[[Any], str]] = {
    "three digits": three_digits,
    "goal": goal_of,
    "programs": programs,
    # A difference of exactly 0 is more than a small one.
    "exact": lambda value: f"{value:.0e}" if value else "0",
}


def own_columns(entry: Entry) -> list[Any]:
    """Return what `columns` says, or what it says in the entry that it names."""
    columns = entry.get("columns", [])
    return read_entries()[columns]["columns"] if isinstance(columns, str) else columns


def columns_of(entry: Entry) -> list[Mapping[str, Any]]:
    """Return the columns of an entry, with those of its scores in the place of "scores"."""
    names = entry.get("scores", [])
    pairs = [(name, name) for name in names]
    if names == "dev":
        pairs = [(column.score, column.title) for column in COLUMNS]
    kind = "difference" if is_comparison(entry) else "scores"
    folder = entry.get("scores_in", "scores.")
    scores = [{"title": title, "value": folder + name, "format": kind} for name, title in pairs]

    columns = own_columns(entry)
    # The scores stand last, or where the entry says so.
    place = columns.index("scores") if "scores" in columns else len(columns)
    return [*columns[:place], *scores, *columns[place + 1 :]]


def is_comparison(entry: Entry) -> bool:
    """Return whether the rows of a table are compared with controls."""
    return "like" in entry or entry.get("compared", False)


def cell_of(column: Mapping[str, Any], row: Row) -> str:
    """Return one cell."""
    if "text" in column:
        first = row.records[0] if row.records else {}
        return str(column["text"]).format_map({"title": row.title, **first, **row.values})

    kind = column.get("format", "")
    if kind == "count":
        return str(len(row.records)) if row.count is None else row.count
    values = measured(row, column["value"])
    if kind == "scores":
        return format_scores(values, row.published.get(column["value"]))
    if kind == "interval":
        scores = []
        for record in row.records:
            score = score_of(record, column["value"])
            if score is not None:
                scores.append(score)
        return cell_with_interval(scores, row.published.get(column["value"]))
    if kind == "difference":
        return difference_cell(row, column["value"])
    if kind in FORMATS:
        return FORMATS[kind](values[0])
    if not kind:
        return str(column.get("names", {}).get(str(values[0]), values[0]))
    mean = statistics.mean(values)
    return format(mean / column["per"] if "per" in column else mean, kind)


def measured(row: Row, path: str) -> list[Any]:
    """Return a field of the records of a row. Raises ValueError where one lacks it, as a rule."""
    values = []
    for record in row.records:
        value = value_of(record, path)
        if value is not None:
            values.append(value)
        elif path and not row.may_lack:
            raise ValueError(f"a record of the row {row.title!r} has no field {path}.")
    return values


def difference_cell(row: Row, path: str) -> str:
    """Return the mean difference of runs and controls with its interval."""
    return format_difference(differences_in(row, path))


def differences_in(row: Row, path: str) -> list[float]:
    """Return each run's value less that of its control."""
    differences = []
    runs = measured(row, path)
    controls = measured(replace(row, records=row.controls), path)
    for value, control in zip(runs, controls, strict=True):
        differences.append(value - control)
    return differences


def judge_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> list[list[str]]:
    """Return what each cell of a table says, row by row, corrected for the number of differences.

    Cells that hold no difference, and rows that are not judged, say "".
    """
    cells: list[list[float]] = []
    for row in rows:
        for column in columns:
            is_judged = row.is_judged and column.get("format") == "difference"
            cells.append(differences_in(row, column["value"]) if is_judged else [])
    words = judge(cells)
    width = len(columns)
    return [words[start : start + width] for start in range(0, len(words), width)]


# --- a whole table --------------------------------------------------------------------------------


def lines_of(entry: Entry, rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table with these rows."""
    if entry.get("turned", False):
        return turned_lines(entry, rows)
    columns = columns_of(entry)
    lines = format_head([column["title"] for column in columns])
    for row, words in zip(rows, judge_table(columns, rows), strict=True):
        cells = []
        for column, word in zip(columns, words, strict=True):
            cells.append(cell_of(column, row) + (f" ({word})" if word else ""))
        lines.append(format_row(cells))
    return lines


def turned_lines(entry: Entry, groups: Sequence[Row]) -> list[str]:
    """Return the lines of a table with a row for each score, and a column for each group.

    The last column is the score of the most frequent answer. All groups were measured on the same
    sentences, so it is the same for all. The column before it says how far chance in the sentences
    moves a score, where that is known.
    """
    majority = groups[0].records[0]["majority"]
    names = list(entry.get("scores", majority))
    chances = chance_column(groups, names)

    titles = [f"{group.title}, {count(len(group.records), 'seed')}" for group in groups]
    lines = format_head(["", *titles, *([COLUMN] if chances else []), "majority"])
    for name in names:
        column = {"value": f"scores.{name}", "format": "scores"}
        cells = [cell_of(column, group) for group in groups]
        if chances:
            cells.append(chances[name])
        lines.append(format_row([name, *cells, f"{majority[name]:.3f}"]))
    return lines


class Words(dict[str, Any]):
    """The words of a note: fields of the newest record, and functions of the table."""

    def __init__(self, content: Content) -> None:
        super().__init__(content.records[-1] if content.records else {})
        self.content = content

    def __missing__(self, name: str) -> str:
        return NOTES[name](self.content)


def make_table(name: str) -> str:
    """Return the table of an entry with its notes, or which command measures it.

    Raises ValueError where the records of a row are several experiments.
    """
    entry = read_entries()[name]
    try:
        records = records_of(entry)
        if not records:
            return not_measured(sources_of(entry)[0], entry.get("flags", ""))
        return build_table(entry, records, notes_of(entry))
    except ValueError as error:
        files = ", ".join(f"{source}.jsonl" for source in sources_of(entry))
        raise ValueError(f"{files}: {error}") from error


def show_table(name: str, records: Sequence[Record]) -> str:
    """Return the table of records that were just measured. Where is known, so it has no note."""
    entry = read_entries()[name]
    notes = [note for note in notes_of(entry) if MEASURED not in note]
    return build_table(entry, select(entry, records), notes)


def notes_of(entry: Entry) -> list[str]:
    """Return the paragraphs below a table."""
    notes: list[str] = entry.get("note", [MEASURED])
    return notes


def build_table(entry: Entry, records: Sequence[Record], notes: Sequence[str]) -> str:
    """Return a table of these records, and the notes below it. Raises ValueError as rows_of."""
    rows = rows_of(entry, records)
    words = Words(Content({**entry, "columns": own_columns(entry)}, records, rows))
    paragraphs = ["\n".join(lines_of(entry, rows))]
    for note in notes:
        paragraphs.append(note.format_map(words))
    # A note may have nothing to say.
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
