"""minbert/commands/ending.py: messages and exit codes of a command that is stopped or refuses."""

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
from minbert.pretraining import __main__ as pretrain
from multitask.ensemble import __main__ as ensemble

ROOT = Path(__file__).resolve().parents[2]
LIGHT = (
    "minbert.pretraining",
    "contrastive.embed",
    "contrastive.quality",
    "experiments",
    "multitask.errors",
    "multitask.predict",
    "data.sample",
    "data.download",
    "benchmarks",
)
HEAVY = {"torch", "transformers", "tokenizers", "sklearn", "scipy", "numpy", "huggingface_hub"}


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (ValueError("a.csv: no header."), 2, "python -m x: a.csv: no header.\n"),
        (
            FileNotFoundError(2, "No such file", "b"),
            2,
            "python -m x: [Errno 2] No such file: 'b'\n",
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

    assert main(["--flag"]) == code and capsys.readouterr().err == said


def test_what_is_said_stands_in_a_log_at_once():
    """Also where the process is killed next; a pipe would keep up to 8 KB back."""
    program = (
        "import os; from minbert.commands.ending import exit_code\n"
        "exit_code('x')(lambda arguments: (print('price'), os._exit(9)))()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (9, "price\n")


def test_a_pipe_that_knows_no_dash_gets_an_escape(monkeypatch):
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="ascii"))
    assert exit_code("x")(lambda arguments: print("–: not trained"))() == 0
    assert pipe.getvalue() == b"\\u2013: not trained\n"


def test_what_took_long_is_written_before_it_is_said(
    two_runs, tiny_model, sample_data, tmp_path, monkeypatch
):
    """A pipe such as `| head` may break, a terminal may know no dash."""

    def break_pipe(*_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(ensemble, "score_table", break_pipe)
    assert ensemble.main([*map(str, two_runs), "--out", str(tmp_path / "ensemble")]) == 2
    assert (tmp_path / "ensemble" / "ensemble.json").is_file()
    monkeypatch.setattr("minbert.reporting.pages.render_text", break_pipe)
    dev = sample_data / "sts-dev.csv"
    assert (
        quality.main([str(tiny_model), "--sets", str(dev), "--out", str(tmp_path / "quality")]) == 2
    )
    assert any((tmp_path / "quality").iterdir())


def test_the_command_of_this_python(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for path, said in (
        (tmp_path / ".venv" / "bin" / "python", ".venv/bin/python"),
        (Path("/usr/bin/python3"),) * 2,
    ):
        monkeypatch.setattr(sys, "executable", str(path))
        assert this_python() == str(said)


@pytest.mark.parametrize("name", ["run", "mit Leer", "o'brien naïve", "$HOME; ls"])
def test_a_path_survives_the_shell(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name), tmp_path.parent / name):
        (word,) = shlex.split(in_shell(path))
        assert Path(word) == (path if path.parent == tmp_path.parent else Path(name))


def test_several_processes_are_told_to_go_on_as_several(monkeypatch, tmp_path, capsys):
    """And by one of them; with another number of processes the bits would be others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_launcher() == ".venv/bin/python"
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert this_launcher() == ".venv/bin/torchrun --nproc_per_node 2"

    @exit_code("x")
    def main(arguments=None):
        raise KeyboardInterrupt("Continue.")

    for rank, said in (("0", "\nStopped. Continue.\n"), ("3", "")):
        monkeypatch.setenv("RANK", rank)
        assert main() == 130 and capsys.readouterr().err == said


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
    def run(wanted):
        wanted.folder.mkdir()
        (wanted.folder / "options.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.pretraining.plain_text.pretrain", run)
    (tmp_path / "text.txt").write_text("A line.\n")
    assert (
        pretrain.main(["--corpus", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out")])
        == 130
    )
    advice = f"Continue with: {this_python()} -m minbert.pretraining --resume {tmp_path / 'out'}"
    assert capsys.readouterr().err == f"\nStopped. {advice}\n"


def test_standard_input_that_is_closed_is_empty(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    found = []
    assert (
        exit_code("x")(lambda arguments: found.append(sys.stdin.read() + str(sys.stdin.isatty())))()
        == 0
    )
    assert found == ["False"]


@pytest.mark.parametrize("own", [None, 0, 7])
def test_a_code_of_its_own(own, capsys):
    assert exit_code("x")(lambda arguments: own)() == (own or 0) and not capsys.readouterr().err


def test_a_defect_is_shown_whole():
    @exit_code("x")
    def main(arguments=None):
        raise TypeError("a defect")

    with pytest.raises(TypeError):
        main()


@pytest.mark.parametrize(
    "command",
    [
        ("run_multitask.py", "--help"),
        ("-c", "import minbert"),
        *(("-m", module, "--help") for module in LIGHT),
    ],
)
def test_it_loads_nothing_heavy(command):
    """It answers within a second only because torch and its like are imported late."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, (
        f"{command} failed:\n{result.stdout[-500:]}\n{result.stderr[-1000:]}"
    )
    loaded = {
        line.rsplit("|", 1)[-1].strip().split(".")[0]
        for line in result.stderr.splitlines()
        if "|" in line
    }
    assert not loaded & HEAVY, (
        f"it imports {sorted(loaded & HEAVY)}. Import them in the functions that need them."
    )
