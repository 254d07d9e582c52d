"""Several processes of one run as forks of this one: quicker than torchrun, which starts Python."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a process ended, and what it wrote to both of its streams."""

    code: int
    text: str


def free_port() -> int:
    """A port of this machine that nothing uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def forked(folder: Path, acts: Sequence[Callable[[], int]]) -> list[Ended]:
    """Run each function as a process of one group, with the variables that torchrun sets.

    folder: receives what they print. The functions return exit codes.
    """
    variables = {
        "WORLD_SIZE": str(len(acts)),
        "LOCAL_WORLD_SIZE": str(len(acts)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    children = []
    for rank, act in enumerate(acts):
        child = os.fork()
        if child == 0:
            code = 70
            try:
                output = os.open(folder / f"said-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(output, 1)
                os.dup2(output, 2)
                # pytest has put its own files in their place.
                sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
                sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
                os.environ |= {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                code = act()
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)
        children.append(child)
    ended = []
    for rank, child in enumerate(children):
        _, status = os.waitpid(child, 0)
        text = (folder / f"said-{rank}.txt").read_text()
        ended.append(Ended(os.waitstatus_to_exitcode(status), text))
    return ended
