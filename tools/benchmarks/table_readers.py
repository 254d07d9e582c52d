"""Which readers find the delimiter and the quotes of a table by themselves?

`python -m tools.benchmarks.table_readers` reads the delimited files of tests/data/table_variants.py
with our reader, and with csv.Sniffer, clevercsv, pandas and duckdb where they are installed. A file
counts as right if the columns id, sentence and label hold the expected text. It counts as wrong in
silence if a reader returns other text without an error. --record keeps the counts.
"""

from __future__ import annotations

import csv
import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from experiments.records import RECORDS
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from tests.data.table_variants import READ, read_variant, write_variant
from tools.benchmarks.recording import HELP, record_measurement

Rows = list[tuple[str, ...]]
COLUMNS = ("id", "sentence", "label")
DELIMITED = (".csv", ".tsv", ".txt")


def read_as_we_do(path: Path) -> Rows:
    """The reader of every command."""
    return read_variant(path).rows


def named_rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Rows:
    """The three columns by name. Raises ValueError where one is missing."""
    places = [list(header).index(name) for name in COLUMNS]
    chosen: Rows = []
    for row in rows:
        if row:
            chosen.append(tuple(row[place].strip() for place in places))
    return chosen


def read_by_sniffer(path: Path) -> Rows:
    """csv.Sniffer of the standard library."""
    text = path.read_text(encoding="utf-8-sig")
    dialect = csv.Sniffer().sniff(text)
    header, *rows = csv.reader(text.splitlines(keepends=True), dialect)
    return named_rows(header, rows)


def read_by_clevercsv(path: Path) -> Rows:
    """clevercsv, with its own guess of the encoding."""
    header, *rows = importlib.import_module("clevercsv").read_table(str(path))
    return named_rows(header, rows)


def read_by_pandas(path: Path) -> Rows:
    """pandas, which sniffs the delimiter and the compression. All fields stay text."""
    pandas = importlib.import_module("pandas")
    frame = pandas.read_csv(
        path, sep=None, engine="python", dtype=str, keep_default_na=False, encoding="utf-8-sig"
    )
    return named_rows(list(frame.columns), frame.values.tolist())


def read_by_duckdb(path: Path) -> Rows:
    """duckdb's read_csv_auto. All fields stay text."""
    duckdb = importlib.import_module("duckdb")
    table = duckdb.read_csv(str(path), all_varchar=True, header=True)
    rows = []
    for row in table.fetchall():
        rows.append(["" if field is None else field for field in row])
    return named_rows(table.columns, rows)


READERS: dict[str, Callable[[Path], Rows]] = {
    "minBERT": read_as_we_do,
    "csv.Sniffer": read_by_sniffer,
    "clevercsv": read_by_clevercsv,
    "pandas": read_by_pandas,
    "duckdb": read_by_duckdb,
}


def outcome(reader: Callable[[Path], Rows], path: Path, expected: Sequence[tuple[str, ...]]) -> str:
    """How a reader reads a file: "right", "refused" or "wrong in silence"."""
    try:
        rows = reader(path)
    except Exception:  # noqa: BLE001, any error of a library is a refusal
        return "refused"
    return "right" if rows == list(expected) else "wrong in silence"


OUTCOMES = ("right", "refused", "wrong in silence")


def compare() -> list[dict[str, Any]]:
    """Count the outcomes of each reader that is installed."""
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        for name, reader in READERS.items():
            try:
                release = version(name) if name in ("clevercsv", "pandas", "duckdb") else ""
            except PackageNotFoundError:
                print(f"{name} is not installed")
                continue
            outcomes: Counter[str] = Counter()
            for suffix, content, expected in READ.values():
                if suffix in DELIMITED:
                    assert isinstance(content, str | bytes)
                    path = write_variant(Path(folder), suffix, content)
                    outcomes[outcome(reader, path, expected)] += 1
            count = {kind: outcomes[kind] for kind in OUTCOMES}
            counts.append({"reader": name, "version": release, **count})
            print(name, dict(outcomes))
    return counts


@exit_code("python -m tools.benchmarks.table_readers")
def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison."""
    assert __doc__ is not None
    parser = Parser(prog="python -m tools.benchmarks.table_readers", description=__doc__)
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)
    counts = compare()
    if arguments.record:
        for count in counts:
            files = sum(count[kind] for kind in OUTCOMES)
            record_measurement(RECORDS / "table-readers.jsonl", {**count, "files": files})


if __name__ == "__main__":
    sys.exit(main())
