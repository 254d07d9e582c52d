"""One file over HTTP, from the first address that gives it. Every fault is told in plain words."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, NamedTuple

from minbert.commands.files import flush_folder
from minbert.commands.texts import visible_everywhere

BLOCK = 1 << 16  # bytes
USER_AGENT = "minBERT data.download"


class Limits(NamedTuple):
    """How long a download is tried, and how large it may be."""

    attempts: int = 3  # rounds through all addresses
    wait: float = 2.0  # seconds between two rounds
    silence: float = 30.0  # seconds without a byte
    seconds: float = 600.0  # for one file at one address
    num_bytes: int = 1 << 26  # of a file whose size is not known


class Fault(NamedTuple):
    """Why an address did not give the file. may_pass: whether a later attempt may succeed."""

    text: str
    may_pass: bool


def fetch(
    urls: Sequence[str],
    part: Path,
    find_fault: Callable[[Path], str | None],
    num_bytes: int | None,
    limits: Limits,
) -> None:
    """Write a file from the first address that gives it to `part`.

    find_fault: says what is wrong with a whole file, or None. num_bytes: its size, if known.
    Raises ValueError with the fault of each address, and for a file that cannot be written.
    """
    faults: dict[str, Fault] = {}
    for attempt in range(limits.attempts):
        if attempt:
            time.sleep(limits.wait)
        for url in urls:
            if url in faults and not faults[url].may_pass:
                continue
            fault = fetch_once(url, part, num_bytes or limits.num_bytes, limits)
            if fault is None:
                problem = find_fault(part)
                if problem is None:
                    return
                fault = Fault(f"what came is not the course's file: {problem}", may_pass=False)
            part.unlink(missing_ok=True)
            faults[url] = fault
    lines = "; ".join(f"{url}: {fault.text}" for url, fault in faults.items())
    raise ValueError(
        f"{lines}. Check the connection and the address, or pass another one with --base-url. The "
        "same command keeps the files that are whole."
    )


def fetch_once(url: str, part: Path, most_bytes: int, limits: Limits) -> Fault | None:
    """Write what one address sends to `part`. Returns what went wrong, or None."""
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    deadline = time.monotonic() + limits.seconds
    try:
        with (
            urllib.request.urlopen(request, timeout=limits.silence) as response,
            opened(part) as file,
        ):
            expected = response.length
            received = 0
            while block := response.read1(BLOCK):
                received += len(block)
                if received > most_bytes:
                    return Fault(f"it sent more than {most_bytes:,} bytes", may_pass=False)
                if time.monotonic() > deadline:
                    return Fault(f"it took more than {limits.seconds:g} s", may_pass=True)
                write_block(file, block, part)
    except urllib.error.HTTPError as error:
        return Fault(f"the server answered {error.code} {in_line(error.reason)}", error.code >= 500)
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, UnwritableFile):
            raise
        reason = in_line(getattr(error, "reason", error))
        return Fault(f"no connection, or it broke off ({reason})", may_pass=True)
    if expected is not None and received < expected:
        return Fault(f"the connection ended after {received:,} of {expected:,} bytes", True)
    return None


def in_line(reason: object) -> str:
    """A reason that another machine gave, as a short part of one line."""
    return visible_everywhere(" ".join(str(reason).split()))[:200]


class UnwritableFile(ValueError):
    """The file on this machine cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        advice = "Free some space, or change --out."
        super().__init__(f"{path}: cannot be written ({error.strerror}). {advice}")


def opened(part: Path) -> BinaryIO:
    """Open the file for writing. Raises UnwritableFile."""
    try:
        return open(part, "wb")
    except OSError as error:
        raise UnwritableFile(part, error) from None


def write_block(file: BinaryIO, block: bytes, part: Path) -> None:
    """Write some bytes. Raises UnwritableFile."""
    try:
        file.write(block)
        file.flush()
    except OSError as error:
        raise UnwritableFile(part, error) from None


def finish(part: Path, path: Path) -> None:
    """Give the whole file its name, also for the time after a power cut."""
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    flush_folder(path.parent)
