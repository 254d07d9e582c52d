"""Predict other data with a finished run, as leaderboard files: `python -m course.predict RUN`.

A run writes the files of a leaderboard for the data that it was trained with. This command writes
them for other data files without training again: for all dev rows after a run with --dev-rows, or
for the course's files after a trial with others.

Next: submit.py, which verifies the files and writes the zip.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course.options import PredictOptions
from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.plugins import load_named
from minbert.reporting import terminal

PROGRAM = "python -m course.predict"
DESCRIPTION = "Predict other data with a finished run, and write the files of a leaderboard."
EPILOG = "course.submit takes the folder of --out together with --data-dir."


@exit_code(PROGRAM)
def main(argv: Sequence[str] | None = None) -> None:
    """Write the files and print a line for each. Exit code 2 where a file cannot be used."""
    options = parse_command(PredictOptions, PROGRAM, DESCRIPTION, argv, EPILOG)
    load_named(options.plugin)
    with terminal.session("importing PyTorch"):
        from course.predicted_files import write_all

        write_all(options)


if __name__ == "__main__":
    sys.exit(main())
