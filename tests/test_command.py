"""minbert/command.py: what a command says and returns where it is stopped or its input is bad."""

import subprocess
import sys
from pathlib import Path

import pytest

from minbert.command import exit_code

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ("minbert.pretrain", "contrastive.embed", "contrastive.quality", "multitask.ablation", "multitask.predict",
         "data.sample", "data.download", "benchmarks")
HEAVY = {"torch", "transformers", "tokenizers", "sklearn", "scipy", "numpy", "huggingface_hub"}


@pytest.mark.parametrize(("raised", "code", "said"), [
    (ValueError("a.csv: no header."), 2, "python -m x: a.csv: no header.\n"),
    (FileNotFoundError(2, "No such file", "b"), 2, "python -m x: [Errno 2] No such file: 'b'\n"),
    (FloatingPointError("the loss is nan."), 1, "python -m x: the loss is nan.\n"),
    (KeyboardInterrupt(), 130, "\nStopped.\n"),
    (KeyboardInterrupt("Continue with: x"), 130, "\nStopped. Continue with: x\n"),
])
def test_how_it_ends(raised, code, said, capsys):
    @exit_code("python -m x")
    def main(arguments=None):
        assert arguments == ["--flag"]
        raise raised

    assert main(["--flag"]) == code and capsys.readouterr().err == said


@pytest.mark.parametrize("own", [None, 0, 7])
def test_a_code_of_its_own(own, capsys):
    assert exit_code("x")(lambda arguments: own)() == (own or 0) and not capsys.readouterr().err


def test_a_defect_is_shown_whole():
    @exit_code("x")
    def main(arguments=None):
        raise TypeError("a defect")

    with pytest.raises(TypeError):
        main()


@pytest.mark.parametrize("command", [("run_multitask.py", "--help"), ("-c", "import minbert"),
                                     *(("-m", module, "--help") for module in LIGHT)])
def test_it_loads_nothing_heavy(command):
    """It answers within a second only because torch and its like are imported late."""
    result = subprocess.run([sys.executable, "-X", "importtime", *command], cwd=ROOT, capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout[-500:]}\n{result.stderr[-1000:]}"
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in result.stderr.splitlines() if "|" in line}
    assert not loaded & HEAVY, f"it imports {sorted(loaded & HEAVY)}. Import them in the functions that need them."
