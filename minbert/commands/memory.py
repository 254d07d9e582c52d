"""Too little memory: noticed before the work where the process is limited, and told as such.

Imports nothing heavy.
"""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from pathlib import Path

# What libraries say where an allocation fails: torch, oneDNN, CUDA, C++, the loader of libraries.
FULL_MEMORY = (
    "can't allocate memory",
    "annot allocate memory",
    "out of memory",
    "bad_alloc",
    "bad allocation",
    "could not create a primitive",
    "could not create a memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "failed to map segment from shared object",
    "can't start new thread",
    "Unable to allocate",
    "ThreadPoolBuildError",
)

# Bytes of address space that a command takes with the smallest model, once PyTorch is imported.
# Each thread takes some more.
NEEDED_BYTES = 420e6
BYTES_OF_THREAD = 20e6
# Those of PyTorch, NumPy and SciPy once they are imported, on Linux with one thread, rounded up.
LIBRARY_BYTES = 900e6


class TooSmallLimit(MemoryError):
    """The process may have less memory than any work takes."""


def check_limit_of_libraries() -> None:
    """Raise TooSmallLimit where the process may have less memory than PyTorch and SciPy take.

    Call it before they are imported. Within this limit their loaders abort, or try without end.
    """
    limit = limit_of_process()
    if limit is not None and limit < LIBRARY_BYTES:
        raise TooSmallLimit(
            f"this process may have {limit / 1e9:.2f} GB, and PyTorch and the libraries beside it "
            f"take {LIBRARY_BYTES / 1e9:.2f} GB alone"
        )


def check_limit(num_threads: int) -> None:
    """Raise TooSmallLimit where the process may have less memory than a small model takes.

    Call it when PyTorch is imported. Close to a limit (ulimit -v), libraries in C end the process
    or hang. num_threads: those that compute.
    """
    limit = limit_of_process()
    if limit is None:
        return
    needed = size_of_process("VmSize") + NEEDED_BYTES + num_threads * BYTES_OF_THREAD
    if limit < needed:
        raise TooSmallLimit(
            f"this process may have {limit / 1e9:.2f} GB, and even a small model takes "
            f"{needed / 1e9:.2f} GB"
        )


def limit_of_process() -> int | None:
    """The most address space of this process in bytes; None where nothing limits it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def size_of_process(name: str) -> int:
    """A size of this process in bytes; 0 where none is known.

    name: VmSize (now), VmPeak (the most so far), or RssAnon (in memory, without pages of files).
    """
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def is_near_limit() -> bool:
    """Whether this process has had almost all of the memory that it may have."""
    limit = limit_of_process()
    return limit is not None and size_of_process("VmPeak") > 0.8 * limit


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one that it was made of, says that the memory is full.

    A ValueError that speaks of memory says itself what to do.
    """
    if isinstance(error, ValueError) and "memory" in str(error):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryError":
            return True
        if isinstance(cause, OSError) and cause.errno == errno.ENOMEM:
            return True
        text = str(cause)
        is_of_library = not isinstance(cause, ValueError | TypeError)
        if is_of_library and any(words in text for words in FULL_MEMORY):
            return True
        # Python itself says nothing else where a library in C has lost an error.
        if isinstance(cause, SystemError) and is_near_limit():
            return True
        cause = cause.__cause__
    return False


def message_of_full_memory(error: BaseException) -> str:
    """What was asked for, what there is, and what to lower."""
    if isinstance(error, TooSmallLimit):
        return f"there is not enough memory: {error}. Raise the limit (ulimit -v, a container)."
    asked = re.search(r"allocate ([\d.]+) ?(bytes|[KMGT]i?B)", str(error))
    figures = []
    if asked and asked[2] == "bytes":
        num_bytes = float(asked[1])
        amount = f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.2f} MB"
        figures.append(f"{amount} more were asked for")
    elif asked:
        figures.append(f"{asked[1]} {asked[2]} more were asked for")
    sizes = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, size = line.split()[:2]
            sizes[name] = int(size) * 1024
        free = sizes["MemAvailable:"] / 1e9
        figures.append(f"{free:.1f} of {sizes['MemTotal:'] / 1e9:.1f} GB of the machine are free")
    limit = limit_of_process()
    if limit is not None:
        figures.append(f"this process may have {limit / 1e9:.2f} GB")
    if not asked and str(error):
        figures.append(first_line_of(error))
    return (
        f"there is not enough memory ({', '.join(figures)}). Choose smaller batches, shorter rows "
        "or a smaller model, or stop other programs. If the memory of this process is limited "
        "(ulimit -v, a container), raise the limit."
    )


def first_line_of(error: BaseException) -> str:
    """The first line of an exception's text, which may be very long."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no text"
