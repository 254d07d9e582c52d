"""Builds the notebooks: from the text in docs/notebooks/ to .ipynb files with outputs.

Run `python -m teaching.notebooks`. The text is Python in jupytext's percent format: `# %%` begins a
cell, and `# %% [markdown]` begins a cell of text. So a change is easy to read, and the tests can
run the file as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minbert.commands.ending import exit_code
from minbert.commands.flags import parse_command
from minbert.commands.optional import check_notebook_packages
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import HELP_OF_OVERWRITE, Output, check_outputs

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "docs" / "notebooks"
BUILT = SOURCES / "built"


def source_files() -> list[Path]:
    """The notebooks as text, in reading order. ValueError where there are none, as in a wheel."""
    sources = sorted(SOURCES.glob("*.py"))
    if not sources:
        raise ValueError(f"{SOURCES} holds no notebooks. Start this command from a clone.")
    return sources


def choose(names: Sequence[str]) -> list[Path]:
    """The files of some notebooks, or of all. ValueError for a name that none begins with.

    names: a number such as 1, or the beginning of a file's name.
    """
    sources = source_files()
    chosen = []
    for name in names:
        matching = [path for path in sources if path.stem.startswith(name.removesuffix(".py"))]
        if not matching:
            known = ", ".join(path.stem for path in sources)
            raise ValueError(f"there is no notebook {name}. The notebooks are {known}.")
        chosen += matching
    return list(dict.fromkeys(chosen)) or sources


PROGRAM = "python -m teaching.notebooks"


@dataclass(frozen=True)
class NotebookOptions(CommandOptions):
    """The command line of this file."""

    names: tuple[str, ...] = positional(
        "NAME...",
        "a notebook, by its number or the beginning of its name; without a name all of them",
        is_required=False,
    )
    out: Path = argument(BUILT, "folder of the files", "DIR")
    no_run: bool = argument(False, "do not run the cells; the files have no outputs")
    overwrite: bool = argument(False, HELP_OF_OVERWRITE)


@exit_code(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Build the notebooks, and print where they are."""
    description = "Build .ipynb files from the text in docs/notebooks/."
    options = parse_command(NotebookOptions, PROGRAM, description, arguments)
    paths = choose(options.names)
    # A file in a folder of the user may hold a student's answers.
    outputs = [Output("--out", options.out / f"{path.stem}.ipynb") for path in paths]
    check_outputs(outputs, overwrite=options.overwrite or options.out == BUILT)
    check_notebook_packages()
    from teaching import built_notebooks

    for path, output in zip(paths, outputs, strict=True):
        built_notebooks.build(path, output.path, runs_cells=not options.no_run)
        print(output.path)


if __name__ == "__main__":
    sys.exit(main())
