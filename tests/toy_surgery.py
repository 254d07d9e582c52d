"""GradientSurgery for tests, from the values of its options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from minbert.commands.options import from_flat
from multitask.combining import GradientSurgery
from multitask.options import TaskOptions
from multitask.surgery_registry import SURGERIES


class OfEqualLosses(GradientSurgery):
    """Takes the names of a step's tasks. None of our methods reads their losses."""

    def __call__(self, gramian: Tensor, losses: Iterable[str]) -> Tensor:
        return super().__call__(gramian, dict.fromkeys(losses, 1.0))


def make_surgery(
    method: str, reduction: str, beta: float, tasks: Sequence[str], seed: int
) -> GradientSurgery:
    """The object that the loop calls with --surgery `method`, whose own options have these values.

    A method that does not read one of them gets its default.
    """
    values = {"surgery": method}
    if "surgery_reduction" in SURGERIES[method].own_options:
        values["surgery_reduction"] = reduction
    if "gradvac_beta" in SURGERIES[method].own_options:
        values["gradvac_beta"] = beta
    method_options = from_flat(TaskOptions, values).of_surgery
    return OfEqualLosses(method, method_options, tasks, seed)
