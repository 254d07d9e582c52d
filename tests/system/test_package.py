"""The clone as a package: in editable mode as setup.sh installs it, and as a wheel.

Nothing is downloaded. The packages that minBERT needs are those of this environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
FILES = ("run_multitask.py", "pyproject.toml", "constraints.txt", "README.md", "LICENSE")
# Folders of files that are no code.
TYPED = ("minbert", "data", "contrastive", "multitask", "course")  # what a user may import
OUR_DATA = ("bundled", "minbert-mini", "minbert-mini-distilled", "model", "sample", "templates")
NO_DOWNLOAD = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")

setuptools = pytest.importorskip("setuptools", minversion="70.1", reason="run setup.sh --dev")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of what git tracks, without the clone's own folders of runs."""
    folder = tmp_path_factory.mktemp("package") / "my clone"
    ignored = shutil.ignore_patterns("__pycache__", "course", "*.egg-info")
    for name in (*PACKAGES, "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    (folder / "data" / "course").mkdir()
    (folder / "data" / "course" / "quora-train.csv").write_text("not ours to publish")
    return folder


class Environment:
    """A new virtual environment that sees the packages of this one, but not this clone."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        self.command = folder / "bin" / "minbert"
        self.packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        ours = sysconfig.get_path("purelib")
        # A plain path, so that the .pth files of this environment are not read.
        (self.packages / "of-the-tests.pth").write_text(f"{ours}\n")

    def install(self, *arguments: str | Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet"]
        result = subprocess.run(
            [*pip, *NO_DOWNLOAD, *arguments], capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stderr

    def run(self, *words: str | Path, cwd: Path, **settings) -> subprocess.CompletedProcess:
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, **settings
        )


@pytest.fixture(scope="module")
def editable(clone, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("editable") / "venv")
    environment.install("--editable", clone)
    return environment


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    result = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", *NO_DOWNLOAD, "-w", folder, clone],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    (path,) = folder.glob("minbert-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.install(wheel)
    return environment


# --- in editable mode -----------------------------------------------------------------------------


def test_the_clone_is_only_pointed_to(editable, clone):
    """One line of a path, no finder: a user's folder `data` without code then hides nothing."""
    lines = []
    for path in editable.packages.glob("*minbert*.pth"):
        lines += path.read_text().split("\n")
    assert [line for line in lines if line] == [str(clone)]
    assert not list(clone.glob("*.egg-info")), "the install writes nothing into the clone"


def assert_works_anywhere(environment: Environment, folder: Path, place: Path) -> None:
    """Import, the command and the bundled files, in a user's folder that holds a folder `data`."""
    (folder / "data").mkdir()
    (folder / "data" / "rows.csv").write_text("text\nA dog.\n")
    code = "import minbert, contrastive.embedder, multitask.predict, run_multitask as r, data"
    result = environment.run(
        environment.python, "-c", f"{code}; print(minbert.__file__, data.__file__)", cwd=folder
    )
    assert result.stdout.split() == [
        *str(place / "minbert" / "__init__.py").split(),
        *str(place / "data" / "__init__.py").split(),
    ], result.stderr

    listed = environment.run(environment.command, cwd=folder)
    assert listed.returncode == 0 and "predict" in listed.stdout
    wrong = environment.run(environment.command, "predct", cwd=folder)
    assert wrong.returncode == 2 and "did you mean predict?" in wrong.stderr
    embedded = environment.run(
        environment.command,
        *("embed", "minbert-mini", "--input", "data/rows.csv", "--text", "text", "--out", "a.npy"),
        cwd=folder,
    )
    assert embedded.returncode == 0 and (folder / "a.npy").is_file(), embedded.stderr


def test_it_works_in_any_folder(editable, clone, tmp_path):
    assert_works_anywhere(editable, tmp_path, clone)


def test_training_without_flags_finds_the_sample_in_any_folder(editable, clone, tmp_path):
    """--data-dir is data/sample by default, and there is none here."""
    flags = ["--option", "pretrain", "--epochs", "1", "--name", "mine", "--token-cache", "none"]
    flags += ["--train-rows", "sst=16,para=16,sts=16", "--dev-rows", "sst=8,para=8,sts=8"]
    result = editable.run(editable.command, "train", *flags, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "runs" / "mine" / "run.json").is_file()
    errors = editable.run(editable.command, "errors", "runs/mine", cwd=tmp_path)
    assert errors.returncode == 0, errors.stderr


# --- as a wheel -----------------------------------------------------------------------------------


def test_what_the_wheel_holds(wheel, clone):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if "dist-info" not in name}
    assert tops == {*PACKAGES, "run_multitask.py"}, "tests, tools and data/course stay here"
    assert not [name for name in names if "data/course" in name]
    for folder in PACKAGES:
        for path in (clone / folder).rglob("*"):
            name = path.relative_to(clone).as_posix()
            is_ours = path.suffix in (".py", ".jinja") or path.parent.name in OUR_DATA
            if path.is_file() and is_ours:
                assert name in names, f"the wheel lacks {name}"
    assert {f"{package}/py.typed" for package in TYPED} <= set(names)


def test_an_installed_wheel_works_in_any_folder(installed, tmp_path):
    assert_works_anywhere(installed, tmp_path, installed.packages)


def test_an_installed_wheel_lists_only_commands_that_work_there(installed, clone, tmp_path):
    listed = installed.run(installed.command, "--help", cwd=tmp_path).stdout
    assert "predict" in listed and "submit" in listed
    for name in ("handout", "notebooks"):
        assert name not in listed
        refused = installed.run(installed.command, name, "out", cwd=tmp_path)
        assert refused.returncode == 2 and "Clone the repository" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_the_oldest_setuptools_is_named():
    """Before it, a wheel needs a second package."""
    text = (ROOT / "pyproject.toml").read_text()
    assert 'requires = ["setuptools>=70.1"]' in text


# --- without any install --------------------------------------------------------------------------


def test_a_clone_runs_without_being_installed(clone, tmp_path):
    """`python run_multitask.py`, from the clone and from elsewhere."""
    for folder in (clone, tmp_path):
        result = subprocess.run(
            [sys.executable, clone / "run_multitask.py", "--list-recipes"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0 and "rob-14" in result.stdout, result.stderr
