"""Grades what students hand in: `python -m teaching.grade STUDENT...`.

Each STUDENT is a folder, or a file of one exercise. Only the bodies of the functions that the
students write are taken (grafting.py). They run in a child process (running.py) on inputs that are
drawn anew, and their results are compared with those of this clone (judging.py). docs/teaching.md
says more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from teaching.options import GradeOptions

PROGRAM = "python -m teaching.grade"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Grade the students, one exercise after the other, and print a table."""
    description = "Grade what students handed in, by the functions that they wrote."
    options = parse_command(GradeOptions, PROGRAM, description, arguments)
    from teaching import grading

    print(grading.grade_all(options))


if __name__ == "__main__":
    sys.exit(main())
