"""Packages that only some commands need. setup.sh installs them where it is asked to."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from minbert.commands.hidden import ROOT

NO_TENSORBOARD = (
    "--tensorboard writes a log for TensorBoard, and tensorboard is not installed. Run "
    "`bash setup.sh --plots`, or drop the flag; log.csv holds the same losses."
)
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
NOTEBOOK_PACKAGES = ("jupytext", "nbformat", "nbclient", "ipykernel")


def check_tensorboard(is_wanted: bool) -> None:
    """Raise ValueError if a log for TensorBoard is wanted and cannot be written."""
    if is_wanted and importlib.util.find_spec("tensorboard") is None:
        raise ValueError(NO_TENSORBOARD)


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
        # Only a clone has setup.sh.
        is_clone = (ROOT / "setup.sh").is_file()
        command = f"bash setup.sh {flag}" if is_clone else f"pip install {' '.join(missing)}"
        raise ValueError(
            f"not installed, but needed for {purpose}: {', '.join(missing)}. Run `{command}`."
        )
