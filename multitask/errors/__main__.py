"""`python -m multitask.errors RUN`: where a finished run is wrong, as errors.md and errors.html.

The report shows the dev set of each task: a confusion table or a scatter plot, the worst mistakes
with their texts, the score by length, and for pairs the score by word overlap. The test files have
no labels, so the report does not show them.

torch is imported once the command line is understood.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    PAGE_START,
    Output,
    begins_with,
    check_outputs,
)
from minbert.commands.paths import check_writable
from minbert.reporting import terminal

TITLE_START = "Errors of "


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line. Exits with code 2 and a message for a wrong flag."""
    parser = Parser(
        prog="python -m multitask.errors",
        allow_abbrev=False,
        description="Shows where a finished run is wrong.",
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="folder that run_multitask.py wrote, such as runs/NAME",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for errors.md and errors.html; default: RUN",
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    parser.add_argument(
        "--worst",
        type=int,
        default=10,
        metavar="N",
        help="number of mistakes shown per task (%(default)s)",
    )
    return parser.parse_args(arguments)


def check_request(request: argparse.Namespace) -> None:
    """Raise ValueError for everything that can be refused before any work."""
    check_at_least(request, {"worst": 1})
    if request.overwrite and request.out is None:
        raise ValueError(f"{OVERWRITE} has no effect without --out. Drop it.")
    folder = request.run if request.out is None else request.out
    if request.out is None and not folder.is_dir():
        return  # the reader of the run says what is wrong
    check_writable(folder)
    outputs = []
    for name, start in (("errors.md", f"# {TITLE_START}"), ("errors.html", PAGE_START)):
        outputs.append(Output("--out", folder / name, begins_with(start), request.run / name))
    check_outputs(outputs, overwrite=request.overwrite or request.out is None)


@exit_code("python -m multitask.errors")
def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files and print their paths."""
    request = parse(arguments)
    folder = request.run if request.out is None else request.out
    # Checked now, and not after all rows have been predicted.
    check_request(request)

    from minbert.reporting.pages import write_html, write_markdown
    from multitask.errors.page import run_sections
    from multitask.saved_run import open_run

    title = f"{TITLE_START}{request.run.resolve().name}"
    with terminal.session(f"opening {request.run}"):
        sections = run_sections(open_run(request.run), request.worst)
        terminal.doing("drawing the figures")
        for name, write in (("errors.md", write_markdown), ("errors.html", write_html)):
            write(folder / name, title, sections)
            terminal.say(str(folder / name))


if __name__ == "__main__":
    sys.exit(main())
