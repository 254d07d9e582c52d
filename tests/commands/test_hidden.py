"""minbert/commands/hidden.py: a user's own file that hides a package of ours is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minbert.commands.hidden import ROOT, check_packages, place_of
from tests.python_processes import run_python

OPEN = "from contrastive.embedder import open_embedder; print('opened')"


def run_in(folder: Path, code: str) -> subprocess.CompletedProcess:
    """Run code in a user's folder. The clone comes last on Python's path, as an installed one."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    program = f"import sys; sys.path.append({str(ROOT)!r}); {code}"
    return run_python("-c", program, cwd=folder, env=environment)


def assert_named(result: subprocess.CompletedProcess, place: Path, package: str) -> None:
    last_line = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert f"{place} hides" in last_line and package in last_line and "Rename" in last_line


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("data", OPEN),
        ("data", "import multitask.predict"),
        ("data", "import data; import multitask.tasks"),
        ("data", "import minbert.pretraining.mlm"),
        ("experiments", "import run_multitask"),
        ("multitask", "import command_line.options"),
        ("contrastive", "import command_line.options"),
        ("command_line", "import experiments"),
    ],
)
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_or_package_of_the_user_is_named(tmp_path, package, code, is_folder):
    place = tmp_path / package if is_folder else tmp_path / f"{package}.py"
    if is_folder:
        place.mkdir()
    (place / "__init__.py" if is_folder else place).write_text("ROWS = 3\n")
    assert_named(run_in(tmp_path, code), place, f"{ROOT / package}")


@pytest.mark.parametrize(
    "code", [OPEN, "import multitask.predict", "import command_line.options, run_multitask"]
)
def test_a_file_called_minbert_is_named(tmp_path, code):
    place = tmp_path / "minbert.py"
    place.write_text("print('mine')\n")
    assert_named(run_in(tmp_path, code), place, "package minbert")


def test_files_that_are_in_nobodys_way(tmp_path):
    """A folder of data files is no package, and of the other names nothing is imported."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("text\n")
    for name in ("tests", "tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    result = run_in(tmp_path, f"import run_multitask; {OPEN}")
    assert result.returncode == 0 and result.stdout == "opened\n", result.stderr


def test_the_encoder_needs_no_other_package(tmp_path):
    """Whoever uses minbert alone may have a data.py."""
    (tmp_path / "data.py").write_text("")
    code = "from minbert import BertModel; print(BertModel.from_pretrained('minbert-mini').config)"
    result = run_in(tmp_path, code)
    assert result.returncode == 0 and "hidden_size=192" in result.stdout


def test_the_command_does_not_look_into_the_users_folder(tmp_path):
    """Its own folder comes first on Python's path, not that of the user."""
    (tmp_path / "data.py").write_text("raise SystemExit('mine was run')\n")
    script = tmp_path / "bin" / "minbert"
    script.parent.mkdir()
    # As pip writes it.
    script.write_text("import sys\nfrom minbert.commands.launcher import main\nsys.exit(main())\n")
    result = subprocess.run(
        [sys.executable, script, "predict", "no-run", "--task", "sst"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="A row.\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 2 and "no-run: no finished run there" in result.stderr


def test_our_own_packages_pass():
    check_packages(
        "data", "contrastive", "multitask", "command_line", "experiments", "run_multitask"
    )
    assert place_of("data") == ROOT / "data"
    assert place_of("no_such_module") is None
    check_packages("no_such_module")
