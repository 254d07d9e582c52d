"""The flags of a benchmark, and the device and precision that a side computes with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from minbert.training import runtime

# Every goal is for a processor, with two threads.
DEVICE = torch.device("cpu")


@dataclass(frozen=True)
class Execution:
    """The device and precision that a side computes with.

    precision: "fp32" or "bf16", of matrix products.
    is_compiled: whether torch.compile makes its kernels.
    """

    device: torch.device = DEVICE
    precision: str = "fp32"
    is_compiled: bool = False

    def wait(self) -> None:
        """Wait until the device is done. Python runs ahead of a GPU."""
        getattr(torch, self.device.type).synchronize()


@dataclass(frozen=True)
class Settings:
    """The flags of `python -m tools.benchmarks`.

    num_rounds: None for the benchmark's own number.
    folder: a temporary folder, which holds the model in "model".
    pooling: the sentence vector of both sides, "mean" or "cls".
    asked_precision: "fp32", "bf16", "fp32-onednn", or "auto" for that of a run on this device.
    """

    data_dir: str
    threads: int
    batch_size: int
    is_quick: bool
    num_rounds: int | None
    folder: Path
    device: torch.device = DEVICE
    is_compiled: bool = False
    pooling: str = "mean"
    asked_precision: str = "auto"

    @property
    def model(self) -> Path:
        """The folder of the model."""
        return self.folder / "model"

    @property
    def precision(self) -> str:
        """The precision that was asked for, or that of a run on this device."""
        return runtime.choose_precision(self.asked_precision, self.device)[0]

    @property
    def has_goals(self) -> bool:
        """Whether the goals hold, which are a processor's."""
        return self.device == DEVICE

    @property
    def device_name(self) -> str:
        """The name of the GPU, or "cpu"."""
        # A report must name the GPU, because its numbers depend on it.
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return self.device.type

    def rounds(self, full: int, quick: int) -> int:
        """Return the number of rounds, of a full or a quick benchmark."""
        return self.num_rounds or self.size(full, quick)

    def size(self, full: int, quick: int) -> int:
        """Return the size of the work, of a full or a quick benchmark."""
        return quick if self.is_quick else full

    def execution(self, precision: str) -> Execution:
        """Return how our side computes in this precision."""
        return Execution(self.device, precision, self.is_compiled)
