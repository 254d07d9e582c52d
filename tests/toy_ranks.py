"""Several processes as threads of this one, for tests of what they compute together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from minbert.training import processes

Result = TypeVar("Result")


def in_ranks(patch: pytest.MonkeyPatch, count: int, act: Callable[[int], Result]) -> list[Result]:
    """The results of act(number) of `count` threads, each of which is a process of its own number.

    Sums over all processes are those of torch.distributed: all give a tensor, and all get the sum.
    """
    own = threading.local()
    barrier = threading.Barrier(count, timeout=60)
    given: list[Tensor | None] = [None] * count
    values: list[Any] = [None] * count

    def from_each(value: Any) -> list[Any]:
        values[own.number] = value
        barrier.wait()
        of_all = list(values)
        barrier.wait()
        return of_all

    def add(tensor: Tensor) -> Tensor:
        given[own.number] = tensor.clone()
        barrier.wait()
        total = torch.stack([part for part in given if part is not None]).sum(dim=0)
        barrier.wait()
        return tensor.copy_(total)

    def start(number: int) -> Result:
        own.number = number
        try:
            return act(number)
        except BaseException:
            barrier.abort()
            raise

    with patch.context() as patched:
        patched.setattr(processes, "count", lambda: count)
        patched.setattr(processes, "number", lambda: own.number)
        patched.setattr(processes, "add", add)
        patched.setattr(processes, "from_each", from_each)
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(start, range(count)))
