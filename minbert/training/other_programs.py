"""What a run says about other programs that use its cores."""

from __future__ import annotations

import math

import torch

from minbert.commands import cores
from minbert.training import processes


def notes_on_others(device: torch.device) -> list[str]:
    """A sentence where other programs have used our cores since the command began, or none.

    device: that computes. A GPU needs few cores.
    """
    # Several processes of one run would count each other as other programs.
    if device.type != "cpu" or processes.num_started() > 1:
        return []
    others = cores.used_by_others(cores.at_start, cores.read())
    if others is None or not cores.are_crowded(others, torch.get_num_threads()):
        return []
    # Rounded down, so that it is never more than there are.
    shown = math.floor(10 * others) / 10
    return [
        f"Other programs use {shown:.1f} of {cores.num_usable()} cores, so this run will take "
        "longer than usual. `renice -n 10 -p PID` gives a program of yours a low priority."
    ]
