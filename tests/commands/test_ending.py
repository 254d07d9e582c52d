"""minbert/commands: what a command says and returns if it is stopped or its input is bad."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive.quality import __main__ as quality
from minbert.commands.ending import exit_code, resumable, this_launcher, this_python
from minbert.commands.paths import in_shell
from minbert.pretraining import __main__ as pretraining
from multitask.ensemble import __main__ as ensemble

ROOT = Path(__file__).resolve().parents[2]
LIGHT = (
    "minbert.pretraining",
    "contrastive.embed",
    "contrastive.quality",
    "experiments",
    "multitask.errors",
    "multitask.predict",
    "data.controlled",
    "data.download",
    "benchmarks",
)
HEAVY = {"torch", "transformers", "tokenizers", "sklearn", "scipy", "numpy", "huggingface_hub"}


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess:
    """A Python process in the root of the clone."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


# --- exit codes and messages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (ValueError("a.csv: no header."), 2, "python -m x: a.csv: no header.\n"),
        (
            FileNotFoundError(2, "No such file", "b"),
            2,
            "python -m x: [Errno 2] No such file: 'b'\n",
        ),
        (
            ModuleNotFoundError("No module named 'jinja2'"),
            2,
            "python -m x: No module named 'jinja2'. Run `bash setup.sh` once, then "
            ".venv/bin/python\n",
        ),
        (FloatingPointError("the loss is nan."), 1, "python -m x: the loss is nan.\n"),
        (KeyboardInterrupt(), 130, "\nStopped.\n"),
        (KeyboardInterrupt("Continue with: x"), 130, "\nStopped. Continue with: x\n"),
    ],
)
def test_how_it_ends(raised, code, said, capsys):
    @exit_code("python -m x")
    def main(arguments=None):
        assert arguments == ["--flag"]
        raise raised

    assert main(["--flag"]) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("code", [None, 0, 7])
def test_a_command_may_return_a_code(code, capsys):
    assert exit_code("x")(lambda arguments: code)() == (code or 0)
    assert not capsys.readouterr().err


def test_a_defect_is_shown_whole():
    @exit_code("x")
    def main(arguments=None):
        raise TypeError("a defect")

    with pytest.raises(TypeError):
        main()


# --- input and output -----------------------------------------------------------------------------


def test_what_is_said_stands_in_a_log_at_once():
    """Also if the process is killed next. A pipe would keep up to 8 KB back."""
    program = (
        "import os; from minbert.commands.ending import exit_code\n"
        "exit_code('x')(lambda arguments: (print('estimate'), os._exit(9)))()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = run_python("-c", program, env=environment)
    assert (result.returncode, result.stdout) == (9, "estimate\n")


def test_a_pipe_that_knows_no_dash_gets_an_escape(monkeypatch):
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="ascii"))
    assert exit_code("x")(lambda arguments: print("–: not trained"))() == 0
    assert pipe.getvalue() == b"\\u2013: not trained\n"


def test_standard_input_that_is_closed_is_empty(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    found = []

    @exit_code("x")
    def main(arguments=None):
        found.append(sys.stdin.read())
        found.append(sys.stdin.isatty())

    assert main() == 0
    assert found == ["", False]


def break_pipe(*_) -> None:
    raise BrokenPipeError(32, "Broken pipe")


def test_an_ensemble_is_written_before_it_is_said(two_runs, tmp_path, monkeypatch):
    """A pipe such as `| head` may break, and a terminal may know no dash."""
    monkeypatch.setattr(ensemble, "score_table", break_pipe)
    assert ensemble.main([*map(str, two_runs), "--out", str(tmp_path / "ensemble")]) == 2
    assert (tmp_path / "ensemble" / "ensemble.json").is_file()


def test_a_survey_is_written_before_it_is_said(tiny_model, sample_data, tmp_path, monkeypatch):
    monkeypatch.setattr("minbert.reporting.pages.render_text", break_pipe)
    flags = ["--sets", str(sample_data / "sts-dev.csv"), "--out", str(tmp_path / "quality")]
    assert quality.main([str(tiny_model), *flags]) == 2
    assert any((tmp_path / "quality").iterdir())


# --- advice ---------------------------------------------------------------------------------------


def test_the_command_of_this_python(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_python() == ".venv/bin/python"
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert this_python() == "/usr/bin/python3"


@pytest.mark.parametrize("name", ["run", "mit Leer", "o'brien naïve", "$HOME; ls"])
def test_a_path_survives_the_shell(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / name
    expected = {tmp_path / name: Path(name), Path(name): Path(name), outside: outside}
    for path, shown in expected.items():
        (word,) = shlex.split(in_shell(path))
        assert Path(word) == shown


def test_several_processes_are_told_to_go_on_as_several(monkeypatch, tmp_path):
    """With another number of processes the bits would be others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_launcher() == ".venv/bin/python"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert this_launcher() == ".venv/bin/torchrun --nproc_per_node 2"


@pytest.mark.parametrize(("rank", "said"), [("0", "\nStopped. Continue.\n"), ("3", "")])
def test_one_of_several_processes_speaks(rank, said, monkeypatch, capsys):
    @exit_code("x")
    def main(arguments=None):
        raise KeyboardInterrupt("Continue.")

    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", rank)
    assert main() == 130
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("is_begun", "advice"),
    [(True, "Continue with: {} -m x.y --resume {}"), (False, "Nothing was written yet.")],
)
def test_a_stopped_run_says_how_it_goes_on(tmp_path, is_begun, advice):
    """Whatever stopped it: the loop, a second Ctrl-C while it saves, or one outside of it."""
    if is_begun:
        (tmp_path / "options.json").touch()
    with pytest.raises(KeyboardInterrupt) as caught, resumable("-m x.y", tmp_path):
        raise KeyboardInterrupt
    assert caught.value.args == (advice.format(this_python(), tmp_path),)


def test_pretraining_that_is_stopped_outside_the_loop_says_how_it_goes_on(
    tmp_path, monkeypatch, capsys
):
    text = tmp_path / "text.txt"
    text.write_text("A line.\n")
    folder = tmp_path / "out"

    def run(*arguments) -> None:
        folder.mkdir()
        (folder / "options.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.pretraining.plain_text.pretrain", run)
    assert pretraining.main(["--corpus", str(text), "--out", str(folder)]) == 130
    advice = f"Continue with: {this_python()} -m minbert.pretraining --resume {folder}"
    assert capsys.readouterr().err == f"\nStopped. {advice}\n"


# --- what is imported -----------------------------------------------------------------------------

LIGHT_COMMANDS = {
    "run_multitask.py": ("run_multitask.py", "--help"),
    "import minbert": ("-c", "import minbert"),
    **{module: ("-m", module, "--help") for module in LIGHT},
}


@pytest.mark.parametrize("name", LIGHT_COMMANDS)
def test_it_loads_nothing_heavy(name):
    """It answers within a second only because torch and its like are imported late."""
    result = run_python("-X", "importtime", *LIGHT_COMMANDS[name])
    assert result.returncode == 0, (
        f"{name} failed:\n{result.stdout[-500:]}\n{result.stderr[-1000:]}"
    )
    loaded = set()
    for line in result.stderr.splitlines():
        if "|" in line:
            module = line.rsplit("|", 1)[-1].strip()
            loaded.add(module.split(".")[0])
    assert not loaded & HEAVY, (
        f"it imports {sorted(loaded & HEAVY)}. Import them in the functions that need them."
    )
