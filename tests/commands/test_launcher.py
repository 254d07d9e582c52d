"""The command `minbert`: its list, the commands that it starts, and what it refuses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import parser
from command_line.options import Options
from command_line.reproduction import command_of
from minbert import __version__
from minbert.commands import launcher
from minbert.commands.optional import advice_on_module
from tests.packages import PACKAGES
from tests.python_processes import run_python

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess:
    """Run `python -m minbert` in a folder outside of the clone, as an installed one would be."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run_python("-m", "minbert", *words, cwd=cwd, env=environment, input=text)


# --- the list -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_list(words, tmp_path):
    result = run(*words, cwd=tmp_path)
    assert result.returncode == 0 and not result.stderr
    for command in launcher.COMMANDS:
        lines = [
            line for line in result.stdout.splitlines() if line.strip().startswith(command.name)
        ]
        assert any(command.line in line for line in lines), f"no line on {command.name}"
        assert any(command.module in line for line in lines)


def test_every_command_is_listed():
    """A file that can be run as a module has a short name."""
    modules = {"run_multitask"}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if '__name__ == "__main__"' in path.read_text("utf-8"):
                name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
                modules.add(name.removesuffix(".__main__"))
    # The second one is the script that stands beside an exported graph.
    modules -= {"minbert", "multitask.export.onnx_predictor"}
    assert modules == {command.module for command in launcher.COMMANDS}, (
        "minbert/commands/launcher.py lists other commands than there are"
    )


def test_the_version(tmp_path):
    result = run("--version", cwd=tmp_path)
    assert result.stdout == f"minbert {__version__} in {ROOT}\n"
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predct", "runs/x"], "no command 'predct'; did you mean predict?"),
        (["embedd"], "did you mean embed?"),
        (["classify", "runs/x"], "no command 'classify'; did you mean predict?"),
        (["evaluate"], "did you mean errors?"),
        (["finetune"], "did you mean train?"),
        (["xyz"], "no command 'xyz'; `minbert` lists all commands."),
        (["z" * 100_000], "`minbert` lists all commands."),
        (["--option", "finetune"], "such as `minbert train --option ...`"),
    ],
)
def test_a_word_that_is_no_command(words, message, capsys):
    assert launcher.main(words) == 2
    said = capsys.readouterr().err
    assert message in said and len(said) < 2000


def test_an_installed_package_names_a_command_that_is_installed(monkeypatch, capsys):
    """No folder of its user has run_multitask.py."""
    options = Options.of(epochs=3)
    assert command_of(options).startswith("python run_multitask.py")
    monkeypatch.setattr(launcher, "is_clone", lambda: False)
    assert command_of(options).startswith("minbert train")
    with suppress(SystemExit):
        parser.parse(["--help"])
    shown = capsys.readouterr().out
    assert "`minbert train --help-all` shows all flags" in shown and "python run_" not in shown
    assert launcher.find("train").module == "run_multitask"


def test_other_names_lead_to_commands():
    names = {command.name for command in launcher.COMMANDS}
    assert set(launcher.OTHER_NAMES.values()) <= names
    assert not set(launcher.OTHER_NAMES) & names


# --- what is started ------------------------------------------------------------------------------


# A command that takes long says so in a line such as "reading the rows: 0:09".
PROGRESS = re.compile(r"^.*: \d+:\d\d.*\n", re.MULTILINE)


def test_a_command_ends_as_it_does_by_itself(tmp_path):
    """The same output, messages and exit codes as `python -m`, by the short and the long name."""
    for words, code in (
        (["multitask.predict", "--help"], 0),
        (["multitask.predict", "no-run", "--task", "sst"], 2),
        (["multitask.predict", "no-run", "--taks", "sst"], 2),
        (["run_multitask", "--optoin", "finetune"], 2),
        (["contrastive.quality", "minbert-mini"], 2),
    ):
        module, *flags = words
        name = next(item.name for item in launcher.COMMANDS if item.module == module)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        expected = run_python("-m", *words, cwd=tmp_path, env=environment)
        assert expected.returncode == code
        for started in (name, module):
            result = run(started, *flags, cwd=tmp_path)
            assert result.returncode == code
            assert result.stdout == expected.stdout, words
            assert PROGRESS.sub("", result.stderr) == PROGRESS.sub("", expected.stderr), words


@pytest.mark.parametrize(("absent", "is_named"), [("safetensors", True), ("data", False)])
def test_a_package_that_is_not_installed_is_named(monkeypatch, capsys, absent, is_named):
    """A package of ours that cannot be imported is a defect, and its traceback is shown."""

    def run_module(*_, **__):
        raise ModuleNotFoundError(f"No module named '{absent}'", name=absent)

    monkeypatch.setattr(launcher.runpy, "run_module", run_module)
    monkeypatch.setattr(sys, "argv", ["minbert"])
    if not is_named:
        with pytest.raises(ModuleNotFoundError):
            launcher.main(["embed"])
        return
    assert launcher.main(["embed"]) == 2
    said = capsys.readouterr().err
    assert said == f"minbert: No module named 'safetensors'. {advice_on_module('safetensors')}.\n"


def test_standard_input_reaches_the_command(tmp_path):
    result = run("embed", "minbert-mini", "--nearest", "1", cwd=tmp_path, text="A dog.\nA cat.\n")
    assert result.returncode == 0, result.stderr
    assert "1: A dog." in result.stdout and "2: A cat." in result.stdout


def test_ctrl_c_is_that_of_the_command(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "minbert", "embed", "minbert-mini", "--nearest", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # It waits for sentences, so it has come into its own code after a while.
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped. Files named above are complete" in said and "Traceback" not in said
