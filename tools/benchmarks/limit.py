"""The machine's limit in matrix products, and what is skipped where bf16 is not native.

All benchmarks and profiles have the same limit: the speed of large square products with the same
threads and in the same precision, in the same run. In int8 these are the products of a large layer.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

import torch
from torch import nn

from minbert.training import cost_estimate, int8, runtime
from tools.benchmarks.settings import DEVICE

INT8 = "int8"
NUM_TIMED = 10


def int8_limit() -> float:
    """Return the operations per second that a large int8 layer reaches, the best of some.

    The layer is that of int8.quantised. So the time includes the rounding of its inputs.
    """
    size, _ = cost_estimate.PRODUCTS["cpu"]
    model = nn.ModuleDict({"layers": nn.Sequential(nn.Linear(size, size))})
    layer = int8.quantised(model, DEVICE).get_submodule("layers")
    rows = torch.rand(size, size)
    seconds = []
    with torch.no_grad():
        for _ in range(NUM_TIMED + 1):
            started = time.perf_counter()
            layer(rows)
            seconds.append(time.perf_counter() - started)
    # The first one warms up.
    return 2 * size**3 / min(seconds[1:])


@dataclass
class Limit:
    """The machine's limit, measured between rounds, while no side works."""

    precision: str
    device: torch.device = DEVICE
    measurements: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Measure once more."""
        # A machine that slows down for a while reaches less here, too.
        if self.precision == INT8:
            limit = int8_limit()
        else:
            limit = cost_estimate.matrix_product_limit(self.device, self.precision)
        self.measurements.append(limit)

    @property
    def median(self) -> float:
        """The median of the measurements, in FLOP/s."""
        return statistics.median(self.measurements)


def notes_without_bf16(consequence: str, device: torch.device = DEVICE) -> list[str]:
    """Return the note that bf16 is skipped, where the device would emulate it; otherwise [].

    consequence: what that changes, as a sentence.
    """
    if runtime.is_native("bf16", device):
        return []
    return [f"bf16 is skipped: {runtime.NO_BF16}. {consequence}"]
