"""Command: does minBERT install with each Python, and does it answer then?

`python -m tools.benchmarks.installs --python PATH...` builds a wheel of the last commit. For each
Python it makes an empty environment, installs the wheel with the versions of constraints.txt, and
asks the bundled model about one sentence. pip gets the packages where its own settings say. So the
seconds depend on the network, and the size on the PyTorch that it finds. --record keeps the result.

`--onnx FOLDER` measures a folder of `multitask.export --format onnx` in place of the wheel. Its
predict.py answers in an environment without PyTorch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.records import RECORDS, check_committed
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.reporting import terminal
from minbert.training.code_version import ROOT, code_version
from tools.benchmarks.comparison import versions
from tools.benchmarks.recording import HELP, record_measurement

INSTALLS = RECORDS / "installs.jsonl"
ONNX_INSTALLS = RECORDS / "onnx-installs.jsonl"
ONNX_PACKAGES = ("onnxruntime", "tokenizers", "numpy")  # that predict.py needs
QUIET = ("--no-compile", "--progress-bar", "off", "--disable-pip-version-check")
SENTENCE = "A lovely film."
VERSIONS = "import platform, torch; print(platform.python_version(), torch.__version__)"
ONNX_VERSIONS = (
    "import platform, onnxruntime; print(platform.python_version(), onnxruntime.__version__)"
)


def run_program(*words: str | Path, text: str = "") -> str:
    """Run a program away from the clone, and return what it prints.

    text: its standard input. Raises ValueError with its message where it fails.
    """
    # The program must not find the packages of this process.
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            words, cwd=folder, env=variables, input=text, capture_output=True, text=True
        )
    if result.returncode:
        raise ValueError(f"{' '.join(map(str, words))} failed:\n{result.stderr.strip()}")
    return result.stdout.strip()


def build_wheel(folder: Path) -> Path:
    """Build a wheel of the last commit, and return its path. folder: for the files of the build."""
    archive = folder / "clone.tar"
    source = folder / "clone"
    source.mkdir()
    run_program("git", "-C", ROOT, "archive", "--output", archive, "HEAD")
    run_program("tar", "-xf", archive, "-C", source)
    # The setuptools of this environment builds it, so that nothing is downloaded.
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    run_program(sys.executable, "-m", "pip", "wheel", *alone, "--wheel-dir", folder, source)
    (wheel,) = folder.glob("minbert-*.whl")
    return wheel


def measure(python: str | Path, wheel: Path) -> dict[str, Any]:
    """Install the wheel with a Python, and ask for a prediction. Raises ValueError if one fails.

    Returns the versions of Python and torch, "seconds" of the installation, "megabytes" on disk,
    and the class and probability that the model answers.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        run_program(python, "-m", "venv", environment)
        programs = environment / "bin"

        started = time.perf_counter()
        constraints = ROOT / "constraints.txt"
        run_program(programs / "pip", "install", *QUIET, "-c", constraints, wheel)
        seconds = time.perf_counter() - started

        answer = run_program(programs / "minbert", "predict", text=SENTENCE + "\n")
        _, class_name, probability, _ = answer.split("\t")
        python_version, torch_version = run_program(programs / "python", "-c", VERSIONS).split()
        return {
            "versions": {**versions(), "python": python_version, "torch": torch_version},
            "seconds": seconds,
            "megabytes": megabytes_of(environment),
            "sentence": SENTENCE,
            "answer": class_name,
            "probability": float(probability),
        }


def measure_onnx(python: str | Path, exported: Path) -> dict[str, Any]:
    """Predict with an exported folder in an environment of three packages. As `measure`.

    "seconds" are those from the beginning of the installation to the answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        run_program(python, "-m", "venv", environment)
        programs = environment / "bin"

        started = time.perf_counter()
        run_program(programs / "pip", "install", *QUIET, *ONNX_PACKAGES)
        program = exported.absolute() / "predict.py"
        answer = run_program(programs / "python", program, text=SENTENCE + "\n")
        seconds = time.perf_counter() - started

        class_name, probability, _ = answer.split("\t")
        python_version, onnxruntime_version = run_program(
            programs / "python", "-c", ONNX_VERSIONS
        ).split()
        numbers = {"minBERT": versions()["minBERT"], "python": python_version}
        return {
            "versions": {**numbers, "onnxruntime": onnxruntime_version},
            "seconds": seconds,
            "megabytes": megabytes_of(environment),
            "sentence": SENTENCE,
            "answer": class_name,
            "probability": float(probability),
        }


def megabytes_of(folder: Path) -> float:
    """The sizes of all files of a folder, in millions of bytes."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in paths) / 1e6


@exit_code("python -m tools.benchmarks.installs")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure each Python. ValueError where one of them does not install or answer."""
    assert __doc__ is not None
    parser = Parser(prog="python -m tools.benchmarks.installs", description=__doc__)
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], help="programs of Python, by their paths"
    )
    parser.add_argument("--onnx", type=Path, metavar="FOLDER", help="an exported folder")
    parser.add_argument("--record", action="store_true", help=HELP)
    arguments = parser.parse_args(argv)
    check_committed(code_version())

    with tempfile.TemporaryDirectory() as folder:
        wheel = None if arguments.onnx is not None else build_wheel(Path(folder))
        for python in arguments.python:
            if wheel is None:
                measured = measure_onnx(python, arguments.onnx)
            else:
                measured = measure(python, wheel)
            listed = ", ".join(f"{name} {text}" for name, text in measured["versions"].items())
            terminal.say(
                f"{listed}: {measured['seconds']:.0f} s, {measured['megabytes']:,.0f} MB, "
                f"{measured['answer']} {measured['probability']:.2f}"
            )
            if arguments.record:
                record_measurement(ONNX_INSTALLS if wheel is None else INSTALLS, measured)


if __name__ == "__main__":
    sys.exit(main())
