"""The notebooks of docs/notebooks/: they run from start to end, and each begins and asks alike.

The text of a notebook is Python, so it is run as a file, in this process and without a kernel.
Neither jupytext nor ipykernel is needed for that. The tests of the command that builds .ipynb files
need them, and are skipped where `bash setup.sh --notebooks` was not run.
"""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import subprocess
import sys

import pytest

from minbert.commands import optional
from teaching import notebooks
from teaching.notebooks import main, source_files

NAMES = [path.stem for path in source_files()]
FOLD = re.compile(r"<details><summary>Answer</summary>\n\n(.+?)\n\n</details>", re.DOTALL)


def cells_of(text: str) -> list[tuple[str, str]]:
    """(kind, source) of each cell: "markdown" or "code"."""
    cells = []
    for part in re.split(r"(?m)^# %%", text)[1:]:
        mark, _, source = part.partition("\n")
        kind = "markdown" if mark.strip() == "[markdown]" else "code"
        if kind == "markdown":
            source = re.sub(r"(?m)^# ?", "", source)
        cells.append((kind, source.strip()))
    return cells


@pytest.fixture(params=source_files(), ids=NAMES)
def path(request):
    return request.param


@pytest.fixture
def cells(path):
    return cells_of(path.read_text(encoding="utf-8"))


def test_there_are_six():
    assert [name[0] for name in NAMES] == list("123456")


# --- how a notebook is written --------------------------------------------------------------------


def test_it_begins_with_what_the_reader_can_do_afterwards(cells):
    kind, text = cells[0]
    assert kind == "markdown"
    title, _, rest = text.partition("\n\n")
    assert re.fullmatch(r"# [A-Z].+", title)
    assert rest.startswith("After this notebook you can ")


def test_the_first_cell_of_code_is_the_same_in_all(cells):
    first = cells_of(source_files()[0].read_text(encoding="utf-8"))[1]
    assert cells[1] == first
    assert first[1].startswith("# This cell prepares a fresh environment")


def test_questions_have_answers_in_a_fold(cells):
    texts = [text for kind, text in cells if kind == "markdown"]
    num_questions = sum(text.count("**Question.**") for text in texts)
    assert num_questions >= 3
    for text in texts:
        # An empty line on both sides of an answer, or Jupyter shows its Markdown as it is.
        folds = FOLD.findall(text)
        assert len(folds) == text.count("**Question.**") == text.count("<details>")
        assert all(len(fold) > 40 for fold in folds)


def test_text_is_checked_by_code(cells):
    code = [source for kind, source in cells if kind == "code"]
    assert sum(source.count("assert ") for source in code) >= 6


# --- from start to end ----------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch):
    """The figures that plt.show() would show, without a window."""
    import matplotlib.pyplot as plt

    figures = []

    def show() -> None:
        for number in plt.get_fignums():
            figures.append(plt.figure(number))
        plt.close("all")

    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", show)
    yield figures
    plt.close("all")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_runs_from_start_to_end(path, shown, tmp_path, monkeypatch, capsys):
    import torch

    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(devices=[]):
        runpy.run_path(str(path))
    # Every picture was reached, and each has something in it.
    assert len(shown) >= path.read_text(encoding="utf-8").count("plt.show()") >= 1
    for figure in shown:
        assert figure.axes and all(axes.has_data() or axes.texts for axes in figure.axes)
    assert not list(tmp_path.iterdir()), "it leaves files behind"


def test_a_wrong_claim_is_noticed(tmp_path):
    """The negative control: a notebook whose text no longer holds does not run to its end."""
    text = source_files()[0].read_text(encoding="utf-8")
    claim = "assert weights[2].argmax() == 1"
    place = text.index(claim)
    broken = tmp_path / "broken.py"
    broken.write_text(text[:place] + claim.replace("1", "0"), encoding="utf-8")
    with pytest.raises(AssertionError):
        runpy.run_path(str(broken))


# --- a fresh environment --------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A function that runs the first cell where minBERT is not installed. It returns calls."""
    cell = tmp_path / "cell.py"
    cell.write_text(cells_of(source_files()[0].read_text(encoding="utf-8"))[1][1], encoding="utf-8")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    calls: list[list[str]] = []

    def run(is_installed: bool) -> list[list[str]]:
        find_spec = importlib.util.find_spec
        found = find_spec if is_installed else lambda name: name != "minbert" and find_spec(name)
        with monkeypatch.context() as patch:
            patch.setattr(importlib.util, "find_spec", lambda name, *rest: found(name) or None)
            patch.setattr(subprocess, "run", lambda command, check: calls.append(command))
            runpy.run_path(str(cell))
        return calls

    return run


def test_nothing_is_installed_where_minbert_is(fresh):
    assert fresh(is_installed=True) == []


@pytest.mark.parametrize("place", ["", "minBERT-main", ".."])
def test_a_clone_is_installed(fresh, tmp_path, place):
    """The clone may be the folder itself, a folder of it, or one above it."""
    clone = (tmp_path / "here" / place).resolve()
    (clone / "minbert").mkdir(parents=True)
    (clone / "minbert" / "bert.py").touch()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", str(clone)]
    assert fresh(is_installed=False) == [command]
    assert sys.path[0] == str(clone)


def test_without_a_clone_it_says_what_to_do(fresh):
    with pytest.raises(FileNotFoundError, match="Clone the repository here, or unpack its zip"):
        fresh(is_installed=False)


# --- the command ----------------------------------------------------------------------------------


def test_a_notebook_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["7", "--out", str(tmp_path)]) == 2
    assert f"no notebook 7. The notebooks are {NAMES[0]}," in capsys.readouterr().err


def test_without_a_clone_it_is_refused(tmp_path, monkeypatch, capsys):
    """A wheel has no docs/."""
    monkeypatch.setattr(notebooks, "SOURCES", tmp_path / "docs")
    assert main(["--out", str(tmp_path / "built")]) == 2
    assert "docs holds no notebooks. Start this command from a clone." in capsys.readouterr().err


def test_missing_packages_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(optional.importlib.util, "find_spec", lambda name: None)
    assert main(["1", "--out", str(tmp_path / "built")]) == 2
    assert capsys.readouterr().err == (
        "python -m teaching.notebooks: not installed, but needed for notebooks: jupytext, "
        "nbformat, nbclient, ipykernel. Run "
        f"`{optional.install_command(optional.NOTEBOOK_PACKAGES, '--notebooks')}`.\n"
    )
    assert not (tmp_path / "built").exists()


def test_a_built_notebook_has_the_same_cells(tmp_path, capsys):
    """jupytext reads the text as this file does. Equal texts give equal files."""
    pytest.importorskip("jupytext", reason="bash setup.sh --notebooks installs jupytext")
    nbformat = pytest.importorskip("nbformat", reason="bash setup.sh --notebooks installs nbformat")
    outputs = []
    for name in ("first", "second"):
        assert main(["--no-run", "--out", str(tmp_path / name)]) == 0
        outputs.append([path.read_bytes() for path in sorted((tmp_path / name).iterdir())])
    assert outputs[0] == outputs[1]
    for source, content in zip(source_files(), outputs[0], strict=True):
        notebook = json.loads(content)
        built = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
        assert built == cells_of(source.read_text(encoding="utf-8"))
        nbformat.validate(nbformat.from_dict(notebook))
    assert len(capsys.readouterr().out.splitlines()) == 12


@pytest.fixture
def tiny_source(tmp_path, monkeypatch):
    """A notebook of two cells in the place of the real ones."""
    monkeypatch.setattr(notebooks, "SOURCES", tmp_path)
    source = tmp_path / "1-tiny.py"
    source.write_text("# %% [markdown]\n# # Tiny\n\n# %%\nprint(6 * 7)\n", encoding="utf-8")
    return source


def test_the_cells_are_run_in_a_kernel(tiny_source, tmp_path):
    for package in optional.NOTEBOOK_PACKAGES:
        pytest.importorskip(package, reason=f"bash setup.sh --notebooks installs {package}")
    assert main(["--out", str(tmp_path / "built")]) == 0
    notebook = json.loads((tmp_path / "built" / "1-tiny.ipynb").read_text(encoding="utf-8"))
    assert notebook["cells"][1]["outputs"][0]["text"] == ["42\n"]
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


def test_a_cell_that_fails_is_named(tiny_source, tmp_path, monkeypatch, capsys):
    nbclient = pytest.importorskip("nbclient", reason="bash setup.sh --notebooks installs nbclient")

    def fail(self):
        raise nbclient.exceptions.CellExecutionError("", "AssertionError", "too small")

    monkeypatch.setattr(nbclient.NotebookClient, "execute", fail)
    assert main(["--out", str(tmp_path / "built")]) == 2
    assert "1-tiny.py: a cell fails with AssertionError: too small" in capsys.readouterr().err
    assert not (tmp_path / "built").exists()
