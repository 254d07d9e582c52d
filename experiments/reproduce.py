"""Train a run again and compare: `python -m experiments.reproduce RUN_OR_RECORD`.

A record is named by its file and its line, such as methods:6. For a record, the command first says
what it needs, and trains with --start.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import check_new_folder
from minbert.commands.plugins import load_named, plugin_argument
from minbert.reporting import terminal

PROGRAM = "python -m experiments.reproduce"


@dataclass(frozen=True)
class ReproduceOptions(CommandOptions):
    """The command line of this command."""

    source: str = positional(
        "RUN_OR_RECORD",
        "the folder of a finished run, or a record: its file in experiments/records and its line, "
        "such as methods:6",
    )
    out: Path = argument(Path("runs/reproduced"), "folder of the new run", "DIR")
    data_dir: Path = argument(Path("data/sample"), "for a record: the folder of its data", "DIR")
    plugin: tuple[str, ...] = plugin_argument()
    start: bool = argument(False, "for a record: train, and do not only say what it needs")


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> int:
    """Train again. Exit code 0 for the same bits or scores, 1 for others."""
    description = "Train a finished run or a record again, and say whether it comes out the same."
    options = parse_command(ReproduceOptions, PROGRAM, description, arguments)
    load_named(options.plugin)
    check_new_folder("--out", options.out)
    with terminal.session(f"opening {options.source}"):
        from experiments.reproduction import reproduce

        return reproduce(options.source, options.out, options.data_dir, options.start)


if __name__ == "__main__":
    sys.exit(main())
