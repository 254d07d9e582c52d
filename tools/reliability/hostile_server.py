"""A web server on this machine that answers wrongly, in one of many ways.

It serves the files of a folder. The first folder of an address says how: /cut/NAME, for example.
"""

from __future__ import annotations

import gzip
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

WELL = "well"


class Handler(BaseHTTPRequestHandler):
    """Answers a request as the address asks for."""

    protocol_version = "HTTP/1.1"
    folder = Path()
    count = 0

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:  # noqa: N802, the name that http.server calls
        """Answer."""
        Handler.count += 1
        _, way, name = self.path.split("/", 2)
        body = (self.folder / name).read_bytes()
        self.close_connection = True
        with suppress(OSError):
            WAYS[way](self, body)

    def send(self, code: int, body: bytes, length: object = None, **headers: str) -> None:
        """Send an answer. length: that the header states, if it is not the true one."""
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def send_well(self, body: bytes) -> None:
        """Send the file, or the part that is asked for."""
        start = 0
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            start = int(wanted.removeprefix("bytes=").split("-")[0])
        if start == 0:
            self.send(200, body, ETag='"1"')
            return
        span = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self.send(206, body[start:], Content_Range=span, ETag='"1"')


def cut(handler: Handler, body: bytes) -> None:
    """Send half, and close the connection."""
    handler.send(200, body[: len(body) // 2], len(body))


def now_and_then(handler: Handler, body: bytes) -> None:
    """Fail every second time."""
    if handler.count % 2:
        handler.send(500, b"busy")
    else:
        handler.send_well(body)


def wrong_part(handler: Handler, body: bytes) -> None:
    """Say that this is a part, and send all. The first time send half."""
    if "Range" in handler.headers:
        handler.send(206, body, Content_Range=f"bytes 0-{len(body) - 1}/{len(body)}")
    else:
        cut(handler, body)


def new_version(handler: Handler, body: bytes) -> None:
    """Send half of another file first, then the rest of this one."""
    if "Range" in handler.headers:
        handler.send_well(body)
    else:
        other = bytes(reversed(body))
        handler.send(200, other[: len(body) // 2], len(body), ETag='"0"')


def slow(handler: Handler, body: bytes) -> None:
    """Send a byte now and then."""
    handler.send(200, b"", len(body))
    for number in range(100):
        handler.wfile.write(body[number : number + 1])
        handler.wfile.flush()
        time.sleep(0.2)


def endless(handler: Handler, body: bytes) -> None:
    """Send bytes without an end, and no length."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def raw(text: bytes) -> Callable[[Handler, bytes], None]:
    """A way that sends these bytes and nothing else."""

    def send(handler: Handler, body: bytes) -> None:
        handler.wfile.write(text)

    return send


def status(code: int, text: bytes = b"no") -> Callable[[Handler, bytes], None]:
    """A way that always answers with this code."""
    return lambda handler, body: handler.send(code, text)


def headers(code: int = 200, length: object = None, **values: str) -> Callable[..., None]:
    """A way that sends the file with these headers."""
    return lambda handler, body: handler.send(code, body, length, **values)


WAYS: dict[str, Callable[[Handler, bytes], None]] = {
    WELL: Handler.send_well,
    "now-and-then": now_and_then,
    "new-version": new_version,
    "cut": cut,
    "wrong-part": wrong_part,
    "slow": slow,
    "endless": endless,
    "log-in-page": status(200, b"<html><body>log in</body></html>"),
    "empty": status(200, b""),
    "blank-lines": lambda handler, body: handler.send(200, b"\n" * body.count(b"\n")),
    "zeros": lambda handler, body: handler.send(200, bytes(len(body))),
    "too-long": lambda handler, body: handler.send(200, body + b"more"),
    "other-case": lambda handler, body: handler.send(200, body.swapcase()),
    "204": status(204, b""),
    "401": status(401),
    "404": status(404),
    "416": status(416),
    "429": status(429),
    "500": status(500),
    "503": status(503),
    "loop": lambda handler, body: handler.send(302, b"", Location=handler.path),
    "to-a-file": headers(302, Location="file:///etc/passwd"),
    "to-nowhere": headers(302, Location="http://127.0.0.1:1/"),
    "huge-length": headers(length=10**18),
    "negative-length": headers(length=-5),
    "no-number": headers(length="abc"),
    "gzip": lambda handler, body: handler.send(200, gzip.compress(body), Content_Encoding="gzip"),
    "partial": headers(206),
    "garbage": raw(b"\x00\xff\xfe garbage\r\n\r\n"),
    "nothing": raw(b""),
    "many-headers": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"),
    "long-header": raw(b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n"),
}


class HostileServer:
    """The server as a process of its own, within a `with` block. address: where it listens."""

    def __init__(self, folder: Path) -> None:
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        Handler.folder = folder
        Handler.count = 0

    def __enter__(self) -> HostileServer:
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with suppress(BaseException):
                self.server.serve_forever()
            os._exit(0)
        self.server.server_close()
        return self

    def __exit__(self, *arguments: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
