"""`python -m multitask.errors RUN`: where a finished run is wrong, as errors.md and errors.html.

The report shows the dev set of each task: a confusion table or a scatter plot, the worst mistakes
with their texts, the score by length, and for pairs the score by word overlap. The test files have
no labels, so the report does not show them.

torch is imported once the command line is understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.plugins import load_named
from minbert.reporting import terminal
from multitask.errors.options import TITLE_START, ErrorsOptions, check_output_files

PROGRAM = "python -m multitask.errors"


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files and print their paths."""
    description = "Shows where a finished run is wrong."
    request = parse_command(ErrorsOptions, PROGRAM, description, arguments)
    load_named(request.plugin)
    # Checked now, and not after all rows have been predicted.
    check_output_files(request)
    title = f"{TITLE_START}{request.run.resolve().name}"
    with terminal.session(f"opening {request.run}"):
        from multitask.errors import page

        if request.suspicious is not None:
            page.write_list(request.run, request.task, request.suspicious)
        page.write_pages(request.run, request.folder, title, request.worst)


if __name__ == "__main__":
    sys.exit(main())
