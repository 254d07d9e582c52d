"""The options of `python -m multitask.errors`, and what is refused before any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from data.tables.spreadsheets import check_spreadsheet
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    PAGE_START,
    Output,
    begins_with,
    check_no_links,
    check_outputs,
)
from minbert.commands.paths import check_writable
from minbert.commands.plugins import plugin_argument

TITLE_START = "Errors of "


@dataclass(frozen=True)
class ErrorsOptions(CommandOptions):
    """The command line of multitask.errors."""

    run: Path = positional("RUN", "folder that run_multitask.py wrote, such as runs/NAME")
    plugin: tuple[str, ...] = plugin_argument()
    out: Path | None = argument(None, "folder for errors.md and errors.html; default: RUN", "DIR")
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)
    suspicious: Path | None = argument(
        None, "also write the dev rows whose label may be wrong to this table", "FILE.csv"
    )
    task: str | None = argument(None, "the task of --suspicious, if the run has several", "NAME")
    worst: int = argument(10, "number of mistakes shown per task", low=1)

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.run if self.out is None else self.out

    def check(self) -> None:
        if self.overwrite and self.out is None and self.suspicious is None:
            raise ValueError(f"{OVERWRITE} has no effect without --out or --suspicious. Drop it.")
        if self.task is not None and self.suspicious is None:
            raise ValueError("--task has no effect without --suspicious. Drop it.")


def check_output_files(request: ErrorsOptions) -> None:
    """Raise ValueError for a file that cannot or must not be written."""
    if request.suspicious is not None:
        check_spreadsheet(request.suspicious)
        check_outputs([Output("--suspicious", request.suspicious)], overwrite=request.overwrite)
    folder = request.folder
    if request.out is None and not folder.is_dir():
        return  # the reader of the run says what is wrong
    check_no_links(request.folder)
    check_writable(folder)
    outputs = []
    for name, start in (("errors.md", f"# {TITLE_START}"), ("errors.html", PAGE_START)):
        outputs.append(Output("--out", folder / name, begins_with(start), request.run / name))
    check_outputs(outputs, overwrite=request.overwrite or request.out is None)
