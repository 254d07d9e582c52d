"""Ctrl-C while a command works: it stops the command, also where a library loses the exception.

Python raises KeyboardInterrupt wherever the program happens to be. In some places that is lost:
safetensors turns it into an error about the file, and Python only prints it if it comes within a
destructor. A command that took the error for the truth would blame a file that is whole.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from typing import Any

SECONDS_TO_OBEY = 1.0  # in which further signals change nothing
SECONDS_UNTIL_REPEATED = 0.05


class Interruption:
    """The handler of Ctrl-C, and of SIGTERM in a training run.

    is_wanted: whether one of these signals has come since the command listens. A function of ours
    in a notebook does not listen, and goes by the exception alone.
    """

    def __init__(self) -> None:
        self.is_listening = False
        self.is_wanted = False
        self.obeyed_from: float | None = None  # when the last KeyboardInterrupt was raised

    def receive(self, signal_number: int, frame: object) -> None:
        """Raise KeyboardInterrupt. Signals right after it count as the same one.

        Otherwise they would come in the way of what the command says and removes at its end.
        """
        now = time.monotonic()
        if self.obeyed_from is not None and now < self.obeyed_from + SECONDS_TO_OBEY:
            return
        self.is_wanted = self.is_listening
        self.obeyed_from = now
        raise KeyboardInterrupt

    def listen(self) -> None:
        """Be the handler of Ctrl-C from here on, in this program alone."""
        self.is_listening = True
        self.is_wanted = False
        self.obeyed_from = None
        show = sys.unraisablehook

        def report(lost: Any) -> None:
            if issubclass(lost.exc_type, KeyboardInterrupt):
                self.repeat()
            else:
                show(lost)

        sys.unraisablehook = report
        signal.signal(signal.SIGINT, self.receive)

    def repeat(self) -> None:
        """Send a signal again whose exception was lost. Another one here would be lost, too."""
        self.obeyed_from = None
        main = threading.main_thread().ident
        assert main is not None
        if hasattr(signal, "pthread_kill"):
            # It ends a call of the system that waits.
            timer = threading.Timer(
                SECONDS_UNTIL_REPEATED, signal.pthread_kill, (main, signal.SIGINT)
            )
        else:
            timer = threading.Timer(SECONDS_UNTIL_REPEATED, _thread.interrupt_main)
        timer.daemon = True
        timer.start()


INTERRUPTION = Interruption()
