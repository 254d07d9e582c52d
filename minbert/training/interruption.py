"""Ctrl-C, SIGTERM and SIGHUP in a training run: noticed at once, obeyed where nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from minbert.commands.ctrl_c import INTERRUPTION
from minbert.training import processes


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP arrived; the state is saved and the job can be resumed."""


class StopSignal:
    """Turns these signals into a request. The loop obeys it after its step.

    A signal within an evaluation stops it at once: an evaluation changes nothing and can be
    repeated.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self.is_evaluating = False

    def receive(self, signal_number: int, frame: object) -> None:
        """The handler of the signals. A second signal stops at once, without a checkpoint."""
        # Otherwise torchrun repeats what the terminal sent, and kills half a minute later.
        is_alone = processes.count() == 1
        if self.is_requested and is_alone:
            INTERRUPTION.receive(signal_number, frame)
            return
        self.is_requested = True
        if self.is_evaluating and is_alone:
            raise Interrupted

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it the signals are received. Afterwards the earlier handlers are back."""
        # Python lets only the main thread set handlers.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        # nohup ignores SIGHUP, and it has to stay ignored.
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self.receive) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
