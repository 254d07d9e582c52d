"""Packages that are not installed, and the command that installs them.

setup.sh of a clone makes its .venv, with the packages that only some commands need where it is
asked to. Another environment, such as that of Colab, has its own pip.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.commands.hidden import ROOT
from minbert.commands.paths import in_shell

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
NOTEBOOK_PACKAGES = ("jupytext", "nbformat", "nbclient", "ipykernel")
# A package that is imported by another name than it is installed by.
INSTALLED_AS = {"sklearn": "scikit-learn"}


def install_command(packages: Sequence[str], flag: str = "") -> str:
    """The command that installs packages for this Python, for advice.

    packages: arguments of `pip install`. flag: of setup.sh, which installs the same; "": none does.
    """
    if flag and uses_setup():
        return f"bash {in_shell(ROOT / 'setup.sh')} {flag}"
    return f"{in_shell(Path(sys.executable))} -m pip install {' '.join(packages)}"


def uses_setup() -> bool:
    """Whether setup.sh serves this Python: that of the clone's .venv, or one of no environment."""
    is_own = Path(sys.prefix) == ROOT / ".venv" or sys.prefix == sys.base_prefix
    # Only a clone has it.
    return is_own and (ROOT / "setup.sh").is_file()


def advice_on_module(name: str) -> str:
    """What to do where a package that every command needs cannot be imported."""
    if uses_setup():
        python = in_shell(ROOT / ".venv" / "bin" / "python")
        return f"Run `bash {in_shell(ROOT / 'setup.sh')}` once, then {python}"
    is_clone = (ROOT / "pyproject.toml").is_file()
    packages = ["-e", in_shell(ROOT)] if is_clone else [INSTALLED_AS.get(name, name)]
    return f"Run `{install_command(packages)}` once"


def check_tensorboard(is_wanted: bool) -> None:
    """Raise ValueError if a log for TensorBoard is wanted and cannot be written."""
    if is_wanted and importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard writes a log for TensorBoard, and tensorboard is not installed. Run "
            f"`{install_command(['tensorboard'], '--plots')}`, or drop the flag; log.csv holds the "
            "same losses."
        )


def check_onnx_packages() -> None:
    """Raise ValueError if a package that writes or computes ONNX files is not installed."""
    check_packages(ONNX_PACKAGES, "ONNX files", "--onnx")


def check_notebook_packages() -> None:
    """Raise ValueError if a package that builds notebooks is not installed."""
    check_packages(NOTEBOOK_PACKAGES, "notebooks", "--notebooks")


def check_packages(names: Sequence[str], purpose: str, flag: str) -> None:
    """Raise ValueError if one of the packages is not installed.

    purpose: what they are for. flag: of setup.sh, which installs them.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"not installed, but needed for {purpose}: {', '.join(missing)}. Run "
            f"`{install_command(missing, flag)}`."
        )
