"""Compare two systems on the same rows: `python -m multitask.compare A B`.

A and B are finished runs, or files of predictions for a leaderboard. With --with, both are lists of
runs over seeds: `python -m multitask.compare runs/a-*/ --with runs/b-*/`.

The scores are those of the dev rows. They come from the files of predictions, so no model is
opened.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.plugins import load_named
from minbert.reporting import terminal
from multitask.command_options import CompareOptions

PROGRAM = "python -m multitask.compare"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print a line for each score."""
    description = "Say whether one of two systems is better than the other one."
    options = parse_command(CompareOptions, PROGRAM, description, arguments)
    load_named(options.plugin)
    with terminal.session("importing PyTorch"):
        from multitask.comparison import compare

        text = compare(options)
    print(text)


if __name__ == "__main__":
    sys.exit(main())
