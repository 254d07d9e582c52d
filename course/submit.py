"""The hand-in of a course: `python -m course.submit RUN --part1 runs/part1`.

The six files of a run, and the eight files of part 1, are read back and verified: each id of the
data stands there once, with a value that the task has. The zip then has the names and the folders
that the course's prepare_submit.py gives it. Like that script, it holds the Python files of a
folder, too (--code).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course.options import SubmitOptions
from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command

PROGRAM = "python -m course.submit"


@exit_code(PROGRAM)
def main(argv: Sequence[str] | None = None) -> None:
    """Verify all files first. Nothing is written where one of them is refused."""
    description = "Verify the prediction files of a hand-in and write its zip."
    options = parse_command(SubmitOptions, PROGRAM, description, argv)
    from course.hand_in import write_hand_in

    write_hand_in(options, print)


if __name__ == "__main__":
    sys.exit(main())
