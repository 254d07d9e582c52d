"""Lists the rows of a sample that touch the course's dev and test files, and removes them.

`python -m tools.sample.clean --course DIR` lists them. With `--remove` it writes the nine files
without them, and numbers the rows anew. The rule is that of held_out.py.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from data.examples import COURSE_FILES, FORMATS
from data.options import SAMPLE_FOLDER
from minbert.commands.ending import exit_code
from minbert.commands.files import write_text
from minbert.commands.flags import Parser
from tools.sample.held_out import HeldOut, read_held_out
from tools.sample.rows import to_text

Table = list[list[str]]


def read_table(path: Path) -> Table:
    """Return all rows of a file, the header first."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def split_table(table: Table, columns: Sequence[str], held_out: HeldOut) -> tuple[Table, Table]:
    """Return the table without the rows that touch a held-out sentence, and these rows.

    The remaining rows are numbered from 0 in the columns before the id.
    """
    header, *rows = table
    places = [header.index(column) for column in columns]
    num_numbers = header.index("id")
    kept, touching = [header], []
    for row in rows:
        if any(held_out.touches(row[place]) for place in places):
            touching.append(row)
            continue
        numbers = [str(len(kept) - 1)] * num_numbers
        if num_numbers > 1:
            # The first of the two index columns of SST's test file counts the header.
            numbers[0] = str(len(kept))
        kept.append([*numbers, *row[num_numbers:]])
    return kept, touching


@exit_code("python -m tools.sample.clean")
def main(arguments: Sequence[str] | None = None) -> int:
    """List or remove the rows. Exit code 1 where some touch and stay."""
    parser = Parser(
        prog="python -m tools.sample.clean",
        allow_abbrev=False,
        description="List the rows of a sample that touch the course's dev and test files.",
    )
    parser.add_argument(
        "--course",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with the course's files (python -m data.download brings them)",
    )
    parser.add_argument(
        "--sample", type=Path, default=SAMPLE_FOLDER, metavar="DIR", help="folder of the nine files"
    )
    parser.add_argument("--remove", action="store_true", help="write the files without these rows")
    options = parser.parse_args(arguments)

    held_out = read_held_out(options.course)
    num_touching = 0
    for task, splits in COURSE_FILES.items():
        for name in splits.values():
            path = options.sample / name
            table = read_table(path)
            kept, touching = split_table(table, FORMATS[task].text_columns, held_out)
            print(f"{name}: {len(touching)} of {len(table) - 1} rows touch")
            for row in touching:
                print("  " + "\t".join(row))
            num_touching += len(touching)
            if options.remove:
                write_text(path, to_text(kept))
    return 1 if num_touching and not options.remove else 0


if __name__ == "__main__":
    sys.exit(main())
