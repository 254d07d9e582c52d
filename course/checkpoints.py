"""What the checkpoints of the course's scripts hold, besides tensors.

The scripts save their arguments, a SimpleNamespace and the states of random generators.
`torch.load` of torch 2.6 and newer refuses all types that it does not know to be harmless. These
are harmless: they hold plain values.
"""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch


def allow_checkpoints() -> None:
    """Let torch.load open the checkpoints of the course's scripts, in this process."""
    state: Any = np.random.get_state()  # noqa: NPY002, the state that the scripts save
    words = state[1]
    reconstruct, *_ = words.__reduce__()
    types: list[Any] = [Namespace, SimpleNamespace, np.ndarray, np.dtype, type(words.dtype)]
    torch.serialization.add_safe_globals([*types, reconstruct])
