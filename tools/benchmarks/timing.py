"""Two sides of a benchmark in turn: `alternate` times them, `SideProcess` runs one in its process.

They take turns part by part. So a machine that slows down for a while slows down both. A side that
is used in its own process is also measured in one: ours asks the C library to keep freed memory,
and a Hugging Face loop does not.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

# A side of a benchmark. It runs the part with this number, or answers another request.
Side = Callable[[Any], Any]


def do_nothing() -> None:
    """The default of `between` in `alternate`."""


def alternate(
    sides: Mapping[str, Side],
    num_rounds: int,
    num_parts: int = 1,
    num_warmup: int = 2,
    between: Callable[[], None] = do_nothing,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each side's rounds.

    In a round every side runs the parts 0 to `num_parts` - 1. The sides take turns part by part,
    and the order of the sides changes with every part. Before the first round each side runs
    `num_warmup` parts that are not timed.

    between: is called after each round.
    """
    for part in range(num_warmup):
        for run_part in sides.values():
            run_part(part % num_parts)

    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(num_rounds):
        round_seconds = dict.fromkeys(sides, 0.0)
        for part in range(num_parts):
            is_forward = (round_number + part) % 2 == 0
            for name in names if is_forward else reversed(names):
                started = clock()
                sides[name](part)
                round_seconds[name] += clock() - started
        for name, total in round_seconds.items():
            seconds[name].append(total)
        between()
    return seconds


def relative_spread(values: Sequence[float]) -> float:
    """Return the distance of the outer quartiles as a share of the median; 0 for one value."""
    if len(values) < 2:
        return 0.0
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return (third - first) / median


def serve(
    pipe: Connection, num_threads: int, make_side: Callable[..., Side], arguments: tuple
) -> None:
    """Run in the process: make the side, then answer requests until None comes."""
    # Imported late, as in everything that a light command imports.
    import torch

    torch.set_num_threads(num_threads)
    side = make_side(*arguments)
    # Tell the other end that the side is ready.
    pipe.send(None)
    while (request := pipe.recv()) is not None:
        pipe.send(side(request))


class SideProcess:
    """A side in a fresh process. Calling the object calls the side there.

    make_side: a function of a module, because it is found by its name. It returns the side.
    arguments: of `make_side`. Arguments, requests and answers are pickled.

    A `with` block ends the process. Raises RuntimeError where the process has ended by itself. It
    has printed the reason.
    """

    def __init__(self, num_threads: int, make_side: Callable[..., Side], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other_end = context.Pipe()
        self.process = context.Process(
            target=serve, args=(other_end, num_threads, make_side, arguments), daemon=True
        )
        self.process.start()
        # Otherwise this process would hold the other end open, and wait for ever.
        other_end.close()
        self.receive()

    def receive(self) -> Any:
        """Return the next answer of the process."""
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

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join()
