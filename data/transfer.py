"""One file over HTTP: continued, limited in time and size, and every fault in plain words.

The bytes that have come are kept as NAME.part. Beside it, NAME.part.from names the address and the
version of the file: its ETag, or the time of its last change. A later start asks that address for
the rest of that version (If-Range, RFC 9110). A server that has another version by then sends all
of it, and the part begins anew. So two versions are never mixed.
"""

from __future__ import annotations

import email.utils
import errno
import json
import math
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead, InvalidURL
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from minbert.commands.files import flush_folder, write_json
from minbert.commands.texts import visible_everywhere

BLOCK = 1 << 16  # bytes
USER_AGENT = "minBERT data.download"
NO_NETWORK = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)


class Limits(NamedTuple):
    """How long a download is tried, and how large it may be."""

    attempts: int = 4  # at each address
    wait: float = 1.0  # seconds before the second attempt; it doubles with each attempt
    longest_wait: float = 60.0  # seconds that a server may ask for
    silence: float = 30.0  # seconds without a byte
    seconds: float = 1800.0  # for one file, with all attempts
    num_bytes: int = 1 << 26  # of a file whose size is not known


CHECK_ADDRESS = "Check the address, or pass another one with --base-url"
CHECK_CONNECTION = "Check the connection"
WAIT = "Wait a while"
LOOK = "Open the address in a browser to see what it gives"


class Fault(Exception):
    """A download that failed. The text follows the address in a message.

    advice: what the user can do. is_final: whether the same address would fail again. pause:
    seconds that the server asks for.
    """

    def __init__(
        self, text: str, advice: str = CHECK_ADDRESS, is_final: bool = False, pause: float = 0.0
    ) -> None:
        super().__init__(text)
        self.advice = advice
        self.is_final = is_final
        self.pause = pause


@dataclass
class Part:
    """The bytes of a file that have come so far, and what they belong to."""

    path: Path

    @property
    def source(self) -> Path:
        """The file that names the address and the version of the part."""
        return self.path.with_name(f"{self.path.name}.from")

    @property
    def num_bytes(self) -> int:
        """How many bytes have come."""
        return self.path.stat().st_size if self.path.exists() else 0

    def version(self, url: str) -> str:
        """The version that the part belongs to, as this address named it. "": not known."""
        try:
            source = json.loads(self.source.read_text(encoding="utf-8"))
            version = str(source["version"]) if source["url"] == url else ""
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return ""
        # It becomes a header of a request.
        return version if version.isascii() and version.isprintable() else ""

    def begin(self, url: str, version: str) -> None:
        """Begin anew with a version of an address."""
        # In this order, no kill leaves old bytes beside the name of a new version.
        self.remove()
        if version:
            write_json(self.source, {"url": url, "version": version})

    def append(self, blocks: Callable[[], bytes]) -> None:
        """Append blocks until an empty one comes. Raises ValueError where that is impossible."""
        try:
            file = open(self.path, "ab")  # noqa: SIM115, a fault of the network is no fault of it
        except OSError as error:
            raise self.unwritable(error) from None
        with file:
            while block := blocks():
                try:
                    file.write(block)
                    file.flush()
                except OSError as error:
                    raise self.unwritable(error) from None

    def unwritable(self, error: OSError) -> ValueError:
        """The error about a part that cannot be written."""
        return ValueError(
            f"{self.path}: cannot be written ({error.strerror}). Free some space, or change --out."
        )

    def remove(self) -> None:
        """Forget what has come."""
        self.path.unlink(missing_ok=True)
        self.source.unlink(missing_ok=True)

    def finish(self, path: Path) -> None:
        """Give the whole file its name, also for the time after a power cut."""
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())
        os.replace(self.path, path)
        self.source.unlink(missing_ok=True)
        flush_folder(path.parent)


@dataclass
class Download:
    """One file, from the first address that gives it.

    check: returns what is wrong with a whole file, or None. size: in bytes, where it is known.
    has_digest: whether `check` compares a digest, which would notice two mixed versions. say: is
    told that an attempt failed.
    """

    part: Part
    check: Callable[[Path], str | None]
    size: int | None
    has_digest: bool
    limits: Limits
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.limits.seconds

    @property
    def most_bytes(self) -> int:
        """No more bytes than these are read."""
        return self.limits.num_bytes if self.size is None else self.size

    def run(self, urls: Sequence[str]) -> None:
        """Fetch the file to the part. All addresses are asked before one is asked again.

        Raises ValueError with the fault of each address and what to do.
        """
        faults: dict[str, Fault] = {}
        open_urls = list(urls)
        for attempt in range(self.limits.attempts):
            if attempt > 0 and not self.pause(attempt, [faults[url] for url in open_urls]):
                break
            for url in open_urls:
                try:
                    return self.fetch(url)
                except Fault as fault:
                    faults[url] = fault
            open_urls = [url for url in open_urls if not faults[url].is_final]
            if not open_urls:
                break
        raise ValueError(self.message(faults))

    def pause(self, attempt: int, faults: Sequence[Fault]) -> bool:
        """Wait before an attempt. Returns False where the time does not suffice."""
        asked = max(fault.pause for fault in faults)
        seconds = max(self.limits.wait * 2 ** (attempt - 1), asked)
        if time.monotonic() + seconds > self.deadline:
            return False
        self.say(f"{self.part.path.name}: {faults[0]}. The next attempt is in {seconds:g} s.")
        time.sleep(seconds)
        return True

    def message(self, faults: Mapping[str, Fault]) -> str:
        """The error about all addresses, with what to do."""
        kept = self.part.num_bytes
        going_on = f": it goes on from the {kept:,} bytes that have come" if kept else ""
        urls_of: dict[str, list[str]] = {}
        for url, fault in faults.items():
            urls_of.setdefault(str(fault), []).append(url)
        lines = "; ".join(f"{places(urls)}: {text}" for text, urls in urls_of.items())
        # Each advice once.
        advice = ". ".join(dict.fromkeys(fault.advice for fault in faults.values()))
        return f"{lines}. {advice}. Run the same command again{going_on}."

    def fetch(self, url: str) -> None:
        """Fetch the file from one address and check it. Raises Fault."""
        was_begun = self.part.num_bytes > 0
        self.fetch_while_it_comes(url)
        fault = self.check(self.part.path)
        if fault is None:
            return
        self.part.remove()
        if not was_begun:
            raise Fault(
                f"what came is not the course's file: {fault}. Nothing of it was kept",
                LOOK,
                is_final=True,
            )
        # The part may be of an older version. So the whole file is fetched once.
        self.fetch(url)

    def fetch_while_it_comes(self, url: str) -> None:
        """Fetch the rest. After a drop, the same address goes on, as long as more bytes come."""
        while True:
            num_before = self.part.num_bytes
            try:
                return self.fetch_rest(url)
            except Fault as fault:
                if fault.is_final or self.part.num_bytes <= num_before:
                    raise
            time.sleep(self.limits.wait)

    def fetch_rest(self, url: str) -> None:
        """Append to the part the bytes that it lacks. Raises Fault."""
        start = self.part.num_bytes
        if self.size is not None and start >= self.size:
            # It may be whole, which the check will tell.
            return
        version = self.part.version(url)
        headers = {"User-Agent": USER_AGENT}
        if start > 0 and version:
            headers |= {"Range": f"bytes={start}-", "If-Range": version}
        elif start > 0 and self.has_digest:
            headers["Range"] = f"bytes={start}-"
        else:
            start = 0

        response = self.open(urllib.request.Request(url, headers=headers))
        if response is None:
            # Nothing lies beyond the part. It may be whole, which the check will tell.
            return
        with response:
            self.receive(response, url, start, version)

    def open(self, request: urllib.request.Request) -> HTTPResponse | None:
        """Send a request. Returns the answer, or None where it says that the part is whole."""
        try:
            response: HTTPResponse = urllib.request.urlopen(request, timeout=self.seconds_left())
            return response
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416 and request.has_header("Range"):
                    return None
                raise fault_of_status(error.code, error.msg, error.headers, self.limits) from None
        except (OSError, HTTPException, ValueError) as error:
            raise fault_of_connection(error, self.limits.silence) from None

    def seconds_left(self) -> float:
        """How long the next byte may take. Raises Fault where the time is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            minutes = self.limits.seconds / 60
            raise Fault(
                f"the file did not come in {minutes:g} minutes", CHECK_CONNECTION, is_final=True
            )
        return min(self.limits.silence, left)

    def receive(self, response: HTTPResponse, url: str, start: int, version: str) -> None:
        """Append the body of an answer to the part.

        start: the byte that was asked for. version: the version that was asked for.
        """
        check_kind(response)
        length = announced_length(response)
        if response.status == 206:
            self.check_range(response, start, version)
        else:
            # The server sends all of the file.
            start = 0
        if length is not None:
            self.check_size(start + length)
        if start == 0:
            self.part.begin(url, named_version(response.headers))

        # One byte more than is allowed shows that the file is too long.
        most = self.most_bytes + 1 - start if length is None else length
        received = 0

        def read_block() -> bytes:
            nonlocal received
            self.seconds_left()
            try:
                block = response.read1(min(BLOCK, most - received))
            except (OSError, HTTPException, ValueError) as error:
                raise fault_of_connection(error, self.limits.silence) from None
            received += len(block)
            return block

        self.part.append(read_block)
        if length is not None and received < length:
            raise Fault(
                f"the connection ended after {received:,} of {length:,} bytes", CHECK_CONNECTION
            )

    def check_range(self, response: HTTPResponse, start: int, version: str) -> None:
        """Raise Fault unless a part of the file continues what has come. The part is dropped."""
        problem = ""
        byte_range = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if byte_range is None or int(byte_range[1]) != start:
            problem = "the server sent another part of the file than it was asked for"
        named = named_version(response.headers)
        if version and named and named != version:
            problem = "the server sent the rest of another version of the file"
        if problem:
            self.part.remove()
            raise Fault(problem)

    def check_size(self, num_bytes: int) -> None:
        """Raise Fault if the announced size is not that of the file. The part is kept."""
        if self.size is not None and num_bytes != self.size:
            raise Fault(
                f"the server has a file of {num_bytes:,} bytes, and the course's file has "
                f"{self.size:,}",
                is_final=True,
            )
        if num_bytes > self.most_bytes:
            raise Fault(
                f"the server has a file of {num_bytes:,} bytes, and at most {self.most_bytes:,} "
                "are read",
                is_final=True,
            )


def places(urls: Sequence[str]) -> str:
    """One address, or the servers of several."""
    if len(urls) == 1:
        return urls[0]
    name = urls[0].rpartition("/")[2]
    servers = dict.fromkeys(urlsplit(url).netloc for url in urls)
    return f"{name} at {' and '.join(servers)}"


# --- what an answer says --------------------------------------------------------------------------


def check_kind(response: HTTPResponse) -> None:
    """Raise Fault if an answer cannot be the file, by its status and its headers."""
    if response.status not in (200, 206):
        raise fault_of_status(response.status, "", response.headers, Limits())
    if response.headers.get_content_type() == "text/html":
        raise Fault("the server sent a web page (text/html) and not the file", LOOK, is_final=True)
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise Fault(
            f"the server sent the file in the encoding {visible_everywhere(encoding)}, which it "
            "was not asked for",
            is_final=True,
        )


def announced_length(response: HTTPResponse) -> int | None:
    """The number of bytes of the body, or None where the server does not say it."""
    text = response.headers.get("Content-Length", "").strip()
    if response.chunked or not re.fullmatch(r"[0-9]{1,20}", text):
        return None
    return int(text)


def named_version(headers: Message) -> str:
    """The ETag of a file or the time of its last change, for If-Range. "": it has neither.

    A weak ETag (W/...) may stand for different bytes, so If-Range does not allow it.
    """
    etag = headers.get("ETag", "").strip()
    return etag if etag.startswith('"') else headers.get("Last-Modified", "").strip()


def asked_pause(headers: Message) -> float:
    """The seconds of Retry-After, which holds a number or a time. 0: there is none."""
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, math.ceil(until - time.time()))


def fault_of_status(code: int, reason: str, headers: Message, limits: Limits) -> Fault:
    """The fault of an answer that is no file. reason: says more about a redirection."""
    try:
        name = f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        name = str(code)
    if code in (429, 503):
        pause = asked_pause(headers)
        if pause > limits.longest_wait:
            return Fault(
                f"the server asks for a pause of {pause:,.0f} s ({name})", WAIT, is_final=True
            )
        return Fault(f"the server is busy ({name})", WAIT, pause=pause)
    if code == 408 or code >= 500:
        return Fault(f"the server failed ({name})", WAIT)
    texts = {
        401: "the server wants a password",
        403: "the server refuses access",
        404: "the server has no such file",
        407: "the proxy wants a password",
        410: "the server has no such file any more",
    }
    text = texts.get(code, "the server did not send the file")
    if 300 <= code < 400:
        is_circle = "infinite loop" in reason
        text = "the server redirects in a circle"
        if not is_circle:
            text = "the server redirects to an address that cannot be followed"
    return Fault(f"{text} ({name})", is_final=True)


def fault_of_connection(error: Exception, silence: float) -> Fault:
    """The fault of a connection that failed or ended. silence: the limit, in seconds."""
    reason: object = error.reason if isinstance(error, urllib.error.URLError) else error
    detail = visible_everywhere(" ".join(str(getattr(reason, "strerror", None) or reason).split()))
    detail = detail[:200]
    text = f"no connection is possible ({detail})"
    advice = CHECK_CONNECTION
    is_final = False
    if isinstance(reason, socket.gaierror):
        text = f"the name of the server cannot be looked up ({detail})"
        # EAI_AGAIN: the name server may answer later.
        is_final = reason.errno != socket.EAI_AGAIN
    elif isinstance(reason, ssl.SSLCertVerificationError):
        text = f"the certificate of the server is not accepted ({reason.verify_message})"
        is_final = True
    elif isinstance(reason, ssl.SSLError):
        text = f"no secure connection (TLS) is possible ({detail})"
        is_final = not isinstance(reason, ssl.SSLEOFError)
    elif isinstance(reason, TimeoutError):
        text = f"the server sent nothing for {silence:g} s"
    elif isinstance(reason, ConnectionRefusedError):
        text = "the server refuses connections"
        is_final = True
    elif isinstance(reason, ConnectionError | IncompleteRead):
        text = "the connection broke off"
    elif isinstance(reason, OSError) and reason.errno in NO_NETWORK:
        text = f"no way leads to the server ({detail})"
        is_final = True
    elif isinstance(reason, InvalidURL | ValueError):
        text = f"the address is not possible ({detail})"
        advice = CHECK_ADDRESS
        is_final = True
    elif isinstance(reason, HTTPException):
        text = f"the answer is not valid HTTP ({type(reason).__name__})"
        advice = CHECK_ADDRESS
        is_final = True
    return Fault(text, advice, is_final)
