"""From the text of a notebook to an .ipynb file with outputs.

The packages come with `bash setup.sh --notebooks`.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat import NotebookNode

from minbert.commands.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600  # a cell that takes longer is stopped


def build(source: Path, built: Path, runs_cells: bool) -> None:
    """Make an .ipynb file of a notebook's text. ValueError if a cell fails or takes too long."""
    notebook = read_notebook(source)
    if runs_cells:
        run_cells(notebook, source.name)
    write_notebook(notebook, built)


def read_notebook(path: Path) -> NotebookNode:
    """A notebook without outputs, from its text."""
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
    text = nbformat.writes(notebook) + "\n"
    write_atomically(path, lambda beside: beside.write_text(text, encoding="utf-8"))
