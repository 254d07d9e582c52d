"""Builds the notebooks: from the text in docs/notebooks/ to .ipynb files with outputs.

Run `python -m teaching.notebooks`. The text is Python in jupytext's percent format: `# %%` begins a
cell, and `# %% [markdown]` begins a cell of text. So a change is easy to read, and the tests can
run the file as it is. The packages of `bash setup.sh --notebooks` are imported late.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.commands.ending import exit_code
from minbert.commands.files import write_atomically
from minbert.commands.flags import parse_command
from minbert.commands.optional import check_notebook_packages
from minbert.commands.options import CommandOptions, argument, positional
from minbert.commands.outputs import HELP_OF_OVERWRITE, Output, check_outputs

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "docs" / "notebooks"
BUILT = SOURCES / "built"
SECONDS = 600  # a cell that takes longer is stopped


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


def read_notebook(path: Path) -> NotebookNode:
    """A notebook without outputs, from its text."""
    import jupytext

    notebook = jupytext.read(path, fmt="py:percent")
    # Jupyter and Colab choose a kernel by this name.
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    # Ids that depend on chance would change each file with each build.
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return notebook


def run_cells(notebook: NotebookNode, name: str) -> None:
    """Run all cells in a new kernel, and keep their outputs in the notebook.

    The kernel works in the root of the clone. Raises ValueError if a cell fails or takes too long.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    resources = {"metadata": {"path": str(ROOT)}}
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources=resources, record_timing=False
    )
    # Files instead of ports: no other user of the machine can read what the cells print.
    client.create_kernel_manager().transport = "ipc"
    try:
        client.execute()
    except CellExecutionError as error:
        raise ValueError(f"{name}: a cell fails with {error.ename}: {error.evalue}") from error
    except CellTimeoutError as error:
        raise ValueError(f"{name}: a cell takes more than {SECONDS} seconds.") from error


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write an .ipynb file. ValueError if it cannot be written."""
    import nbformat

    text = nbformat.writes(notebook) + "\n"
    write_atomically(path, lambda beside: beside.write_text(text, encoding="utf-8"))


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
    for path in paths:
        notebook = read_notebook(path)
        if not options.no_run:
            run_cells(notebook, path.name)
        built = options.out / f"{path.stem}.ipynb"
        write_notebook(notebook, built)
        print(built)


if __name__ == "__main__":
    sys.exit(main())
