"""Two sides of a benchmark in turn: `alternate` times them, `Process` gives one a process of its own.

They take their parts in turn, so that a machine that slows down for a while slows both. A side that is used in a
process of its own (ours asks the C library to keep freed memory, a Hugging Face loop does not) is measured in one.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

Take = Callable[[int], Any]  # a side: does the part with this number


def alternate(
    sides: Mapping[str, Take],
    num_rounds: int,
    num_parts: int = 1,
    num_warm: int = 2,
    between: Callable[[], Any] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each side's rounds. In a round every side takes the parts 0 to `num_parts` - 1, in turn part by part.

    Who goes first changes with every part. Before the first round each takes `num_warm` parts that are not timed.
    between: is called after each round.
    """
    for part in range(num_warm):
        for take in sides.values():
            take(part % num_parts)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(num_rounds):
        taken = dict.fromkeys(sides, 0.0)
        for part in range(num_parts):
            for name in sides if (number + part) % 2 == 0 else reversed(sides):
                started = clock()
                sides[name](part)
                taken[name] += clock() - started
        for name, total in taken.items():
            seconds[name].append(total)
        between()
    return seconds


def spread(values: Sequence[float]) -> float:
    """The distance of the outer quartiles as a share of the median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    first, middle, third = statistics.quantiles(values, n=4, method="inclusive")
    return (third - first) / middle


def serve(pipe: Connection, num_threads: int, make: Callable[..., Take], arguments: tuple) -> None:
    """What runs in the process: make the side, then answer requests until None comes."""
    import torch  # late, as in all that a light command imports

    torch.set_num_threads(num_threads)
    take = make(*arguments)
    pipe.send(None)  # ready
    while (request := pipe.recv()) is not None:
        pipe.send(take(request))


class Process:
    """`make(*arguments)` in a fresh process; calling the object calls what it returned, there.

    make: a function of a module, since it is found by name; arguments, requests and answers are pickled. A `with` block
    ends the process. Raises RuntimeError where the process has ended by itself, after it printed why.
    """

    def __init__(self, num_threads: int, make: Callable[..., Take], *arguments) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, num_threads, make, arguments), daemon=True
        )
        self.process.start()
        theirs.close()  # else this process would hold the other end open, and wait for ever
        self.receive()

    def receive(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(
                f"a side's process ended with code {self.process.exitcode}; why stands above."
            ) from None

    def __call__(self, request: Any) -> Any:
        self.pipe.send(request)
        return self.receive()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_) -> None:
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join()
