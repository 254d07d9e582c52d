"""data/download.py against servers that fail: what is said, the exit code, and that nothing stays.

The server of this file sends the bytes of a table of faults. So it can also send answers that no
real server should.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import NamedTuple

import pytest

from data import download
from data.transfer import Limits

NAME = "sts-dev.csv"
NUM_ROWS = 40
HEADER = "\tid\tsentence1\tsentence2\tsimilarity\n"
ROWS = [f"{row}\tid{row}\tA dog barks.\tA cat sleeps.\t1.5\n" for row in range(NUM_ROWS)]
BODY = "".join([HEADER, *ROWS]).encode()
SIZE = len(BODY)
OTHER = BODY.replace(b"dog", b"cow")

LIMITS = Limits(attempts=2, wait=0)

Answer = bytes | Callable[[socket.socket], None]


def answer(body: bytes = BODY, status: str = "200 OK", **headers: str | int) -> bytes:
    """An answer with its Content-Length, unless `headers` has another or an empty one."""
    headers = {"Content_Length": len(body), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status}"]
    for name, value in headers.items():
        if value != "":
            lines.append(f"{name.replace('_', '-')}: {value}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunks(*pieces: bytes) -> bytes:
    """An answer in chunks. Without an empty piece at its end, it is cut off."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return answer(body, Content_Length="", Transfer_Encoding="chunked")


def silence(connection: socket.socket) -> None:
    """Send nothing until the client goes away."""
    connection.recv(1)


def drip(connection: socket.socket) -> None:
    """Send a byte now and then, until the client goes away."""
    connection.sendall(answer(b"", Content_Length=SIZE))
    for number in range(SIZE):
        connection.sendall(BODY[number : number + 1])
        time.sleep(0.01)


def reset(connection: socket.socket) -> None:
    """End the connection without a goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


class Server(ThreadingTCPServer):
    """Sends the answers in turn, and the last one again and again. requests: their heads."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request, client_address):
        """A client that goes away is no fault here."""


class Handler(BaseRequestHandler):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            block = self.request.recv(1 << 12)
            if not block:
                return
            head += block
        server = self.server
        reply = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        server.requests.append(head.decode())
        if callable(reply):
            reply(self.request)
        else:
            self.request.sendall(reply)


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(server, monkeypatch, tmp_path, capsys):
    """A function (*answers) that runs the command for one file."""
    published = {NAME: download.Published(SIZE, hashlib.sha256(BODY).hexdigest())}
    monkeypatch.setattr(download, "COURSE_FILES", {"sts": {"dev": NAME}})
    monkeypatch.setattr(download, "PUBLISHED", published)
    monkeypatch.setattr(download, "NUM_ROWS", {NAME: NUM_ROWS})
    monkeypatch.setattr(download, "LIMITS", LIMITS)

    def run(*answers: Answer) -> Outcome:
        server.answers = list(answers)
        server.requests.clear()
        code = download.main(["--out", str(tmp_path), "--base-url", server.url])
        error = capsys.readouterr().err
        assert "Traceback" not in error and error.count("\n") <= 1
        assert not (tmp_path / f"{NAME}.part").exists()
        whole = tmp_path / NAME
        content = whole.read_bytes() if whole.exists() else b""
        return Outcome(code, error, content, len(server.requests))

    return run


class Outcome(NamedTuple):
    """What a download leaves: its exit code and message, the file, and its requests."""

    code: int
    error: str
    content: bytes
    num_requests: int


class Case(NamedTuple):
    """An answer, a part of the message, and how often the server is asked."""

    answer: Answer
    message: str
    num_requests: int = 1
    limits: Limits = LIMITS


TWICE = LIMITS.attempts
FAULTS = {
    # statuses
    "401": Case(answer(b"", "401 No"), "the server answered 401 No"),
    "404": Case(answer(b"", "404 Not Found"), "the server answered 404 Not Found"),
    "escape in the reason": Case(answer(b"", "404 \x1b[2J"), "the server answered 404"),
    "500": Case(answer(b"", "500 Oh"), "the server answered 500 Oh", TWICE),
    "429": Case(answer(b"", "429 Oh"), "the server answered 429 Oh"),
    # redirections
    "circle": Case(answer(b"", "302 To", Location=f"/{NAME}"), "the server answered 302", 5),
    "to a file": Case(
        answer(b"", "302 To", Location="file:///etc/passwd"), "the server answered 302"
    ),
    # other things instead of the file
    "web page": Case(answer(b" <!DOCTYPE html>", Content_Length=""), "file: it is a web page"),
    "empty": Case(answer(b""), "file: it is empty"),
    "another size": Case(answer(b"12345"), f"file: it has 5 of {SIZE:,} bytes"),
    "huge": Case(answer(BODY * 9), f"it sent more than {SIZE:,} bytes"),
    "short, no length": Case(
        answer(BODY[:100], Content_Length=""), f"file: it has 100 of {SIZE:,} bytes"
    ),
    "another file": Case(answer(OTHER), "course's file: SHA-256 "),
    # connections
    "cut": Case(answer(BODY[:100], Content_Length=SIZE), f"after 100 of {SIZE:,} bytes", TWICE),
    "cut in a chunk": Case(
        chunks(BODY[:100]) + b"999\r\n" + BODY[100:102], "it broke off (", TWICE
    ),
    "closed at once": Case(b"", "it broke off (", TWICE),
    "reset": Case(reset, "it broke off (", TWICE),
    "silent": Case(silence, "timed out", TWICE, LIMITS._replace(silence=0.05)),
    "slow": Case(drip, "it took more than 0.1 s", TWICE, LIMITS._replace(seconds=0.1)),
    # answers that are none
    "garbage": Case(b"\0\xff\xfe garbage\r\n\r\n", "it broke off (", TWICE),
    "long line": Case(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "it broke off (", TWICE),
    "many headers": Case(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200, "it broke off (", TWICE),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_line_and_leaves_nothing(fetch, server, monkeypatch, case):
    monkeypatch.setattr(download, "LIMITS", case.limits)
    outcome = fetch(case.answer)
    assert outcome.code == 2 and outcome.content == b""
    assert outcome.error.startswith(f"python -m data.download: {server.url}{NAME}: ")
    assert case.message in outcome.error
    assert "\x1b" not in outcome.error and "pass another one with --base-url" in outcome.error
    assert outcome.num_requests == case.num_requests


RECOVERIES = {
    "length that is none": ([answer(Content_Length="abc")], 1),
    "more than the length": ([answer() + b"more"], 1),
    "chunks": ([chunks(BODY[:50], BODY[50:], b"")], 1),
    "failed, then not": ([answer(b"", "503 Oh"), answer()], 2),
    "dropped once": ([answer(BODY[:100], Content_Length=SIZE), answer()], 2),
}


@pytest.mark.parametrize("answers, num_requests", RECOVERIES.values(), ids=RECOVERIES)
def test_the_file_comes_all_the_same(fetch, answers, num_requests):
    outcome = fetch(*answers)
    assert (outcome.code, outcome.content) == (0, BODY), outcome.error
    assert outcome.num_requests == num_requests


# A file whose checksum is not known must be a table of its task.
STRUCTURES = {
    "blank": (b"\n" * (NUM_ROWS + 1), "bytes of blank space"),
    "web page": (b"<script>\n" * (NUM_ROWS + 1), "it is a web page"),
    "no table": (b"404: Not Found\n", "no column sentence1"),
    "another column": (BODY.replace(b"similarity", b"label"), "similarity"),
    "another task": (b"\tid\tsentence\tsentiment\n" + b"0\ta\tb\t1\n" * NUM_ROWS, "sentence1"),
    "UTF-16": (BODY.decode().encode("utf-16"), "it is not text in UTF-8 (byte 0)"),
    "Latin-1": (BODY.replace(b"dog", b"d\xe9g"), "it is not text in UTF-8"),
    "zero bytes": (BODY[:500] + b"\0" * 500 + b"\n", "it holds zero bytes (byte 500)"),
    "last row cut": (BODY[:-5], "its last row is cut off"),
    "rows missing": (
        BODY[: SIZE // 2].rpartition(b"\n")[0] + b"\n",
        "19 rows, expected are about 40",
    ),
    "rows too many": (
        BODY + b"".join(b"x%d\ty%d\ta\tb\t1\n" % (n, n) for n in range(30)),
        "70 rows",
    ),
    "no labels": (re.sub(rb"\t1\.5\n", rb"\t\n", BODY), "no usable rows"),
}


@pytest.mark.parametrize("body, message", STRUCTURES.values(), ids=STRUCTURES)
def test_a_file_without_a_checksum_must_be_its_table(fetch, monkeypatch, body, message):
    monkeypatch.setattr(download, "PUBLISHED", {})
    outcome = fetch(answer(body))
    assert outcome.code == 2 and outcome.content == b""
    assert "what came is not the course's file: " in outcome.error and message in outcome.error
    assert "--drop-bad-rows" not in outcome.error and ".part" not in outcome.error


def test_a_file_of_unknown_size_is_not_read_without_an_end(fetch, monkeypatch):
    monkeypatch.setattr(download, "PUBLISHED", {})
    monkeypatch.setattr(download, "LIMITS", Limits(attempts=1, num_bytes=5000))
    outcome = fetch(answer(b"\0" * 9000, Content_Length=""))
    assert "it sent more than 5,000 bytes" in outcome.error


def test_all_addresses_are_asked_before_one_is_asked_again(server, fetch, monkeypatch, tmp_path):
    """Each address has its place in the message."""
    monkeypatch.setattr(download, "ADDRESSES", [f"{server.url}one", f"{server.url}two/"])
    server.answers = [answer(b"", "500 Oh"), answer(b"", "404 No"), answer(b"", "500 Oh")]
    server.requests.clear()
    with pytest.raises(ValueError) as caught:
        download.download_course(tmp_path, download.ADDRESSES)
    paths = [request.split()[1] for request in server.requests]
    assert paths == [f"/one/{NAME}", f"/two/{NAME}", f"/one/{NAME}"]
    expected = r"one/sts-dev.csv: .* 500 Oh; .*two/sts-dev.csv: .* 404 No"
    assert re.search(expected, str(caught.value))
