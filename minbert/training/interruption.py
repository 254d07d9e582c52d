"""Ctrl-C, SIGTERM and SIGHUP in a training run: heard at once, honoured where nothing is lost. Used by loop.py."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from minbert.training import processes


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP arrived; the state is saved and the job can be resumed."""


class StopSignal:
    """Turns these signals into a request that the loop honours after its step, or at once inside an evaluation."""

    def __init__(self) -> None:
        self.is_requested = self.is_evaluating = False

    def receive(self, number: int, frame: object) -> None:
        is_alone = (
            processes.count() == 1
        )  # if not, torchrun repeats what the terminal sent, and kills in half a minute
        if self.is_requested and is_alone:  # the second time somebody means it
            raise KeyboardInterrupt
        self.is_requested = True
        if self.is_evaluating and is_alone:  # an evaluation changes nothing and can be done again
            raise Interrupted

    @contextmanager
    def listening(self) -> Iterator[None]:
        if (
            threading.current_thread() is not threading.main_thread()
        ):  # only the main thread may set handlers
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if (
            hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
        ):  # as nohup asks
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self.receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
