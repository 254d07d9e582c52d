"""Command: one sentence on its way through the model, station by station.

Run `python -m teaching.trace "A lovely film."`. Each station has its file and line, its shape and
its numbers. `--against FOLDER` runs other code beside ours and names the first tensor that differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.memory import check_limit_of_libraries
from minbert.commands.outputs import PAGE_START, Output, begins_with, check_outputs
from teaching.options import TraceOptions

PROGRAM = "python -m teaching.trace"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Print the stations, or write their page."""
    description = "Show one sentence on its way through the model, station by station."
    options = parse_command(TraceOptions, PROGRAM, description, arguments)
    if options.page is not None:
        output = Output("--page", options.page, begins_with(PAGE_START))
        folders = [] if options.model is None else [Path(options.model)]
        check_outputs([output], folders=folders, overwrite=options.overwrite)
    check_limit_of_libraries()
    from teaching import tracing

    print(tracing.trace(options))


if __name__ == "__main__":
    sys.exit(main())
