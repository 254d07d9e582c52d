"""Locks on files, which keep two processes from the same work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock


def lock_file(path: Path, timeout: float = -1) -> FileLock | None:
    """Lock a file until the lock is released or this process ends, also after a kill.

    Returns None where files cannot be locked, as on some network drives. timeout: seconds to wait
    for another process; -1 waits without end. Raises filelock.Timeout after that time.
    """
    # Imported late, so that --help answers at once.
    from filelock import FileLock, Timeout

    # A soft lock, which filelock can use instead, would outlive a process that is killed.
    lock = FileLock(path, timeout=timeout, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    # A Timeout is an OSError, too.
    except Timeout:
        raise
    except OSError:
        return None
    return lock


@contextmanager
def locked(path: Path, timeout: float = -1) -> Iterator[None]:
    """Hold a lock of `lock_file` within the block. Arguments and errors as there.

    The file stays. If it were removed, a process that waits for the old file and a process that
    makes a new one would both hold a lock.
    """
    lock = lock_file(path, timeout)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
