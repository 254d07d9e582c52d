"""Packages that only some commands need. setup.sh installs them where it is asked to."""

from __future__ import annotations

import importlib.util

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def check_onnx_packages() -> None:
    """Raise ValueError if a package that writes or computes ONNX files is not installed."""
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"not installed, but needed for ONNX files: {', '.join(missing)}. Run "
            "`bash setup.sh --onnx`."
        )
