"""Runs a function in a forked process. What it sent before a crash is kept."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable

Send = Callable[[bytes], None]


def run_in_child(
    work: Callable[[Send], None], seconds: float, longest: int | None = None
) -> tuple[list[bytes], str]:
    """Run `work(send)` in a process. Returns what it sent, and how it ended.

    Nothing that it prints is seen. seconds: after which it is stopped. longest: bytes of a message.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def run() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        work(writer.send_bytes)

    child = context.Process(target=run)
    child.start()
    writer.close()
    messages = []
    ending = f"stopped after {seconds} seconds"
    deadline = time.monotonic() + seconds
    try:
        while reader.poll(max(0.0, deadline - time.monotonic())):
            messages.append(reader.recv_bytes(longest))
    except EOFError:
        ending = "the process died: too much memory, or too deep a recursion?"
    except OSError:
        ending = "the answer is cut off, or too long"
    reader.close()
    child.kill()
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        ending = "stopped after its seconds of computing"
    child.close()
    return messages, ending
