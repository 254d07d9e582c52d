"""The machine's limit in matrix products, and what is skipped where bf16 is not native."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import torch

from minbert.training import cost_estimate, runtime
from tools.benchmarks.settings import DEVICE


@dataclass
class Limit:
    """The machine's limit, measured between rounds, while no side works."""

    precision: str
    device: torch.device = DEVICE
    measurements: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Measure once more."""
        # A machine that slows down for a while reaches less here, too.
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
