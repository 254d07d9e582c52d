"""Score (dev) or verify (test) leaderboard files: `python -m multitask.check FILE...`.

The files may come from anywhere. The header of a file tells its task. Its ids tell which rows it is
for. Those of a run's file are looked up in the data of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.memory import check_limit_of_libraries
from multitask.command_options import CheckOptions

PROGRAM = "python -m multitask.check"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files on the command line."""
    description = "Score (dev) or verify (test) prediction files."
    options = parse_command(CheckOptions, PROGRAM, description, arguments)
    check_limit_of_libraries()
    from multitask.checked_files import check_files

    return check_files(options, print)


if __name__ == "__main__":
    sys.exit(main())
