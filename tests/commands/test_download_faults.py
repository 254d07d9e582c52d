"""data/download.py against servers that fail: what is kept, what is said, and the exit code.

The server of this file sends the bytes of a table of faults. So it can also send answers that no
real server should.
"""

from __future__ import annotations

import errno
import hashlib
import re
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Callable
from http.client import BadStatusLine, IncompleteRead, InvalidURL, RemoteDisconnected
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import NamedTuple

import pytest

from data import download, transfer
from data.transfer import Limits
from tests.conftest import skip_fsync

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


def rest(start: int, body: bytes = BODY, **headers: str | int) -> bytes:
    """The bytes from `start` on, as a part of the file."""
    content_range = f"bytes {start}-{len(body) - 1}/{len(body)}"
    headers = {"Content_Range": content_range, **headers}
    return answer(body[start:], "206 Partial Content", **headers)


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
    """A function (*answers, part=, version=) that runs the command for one file."""
    published = {NAME: download.Published(SIZE, hashlib.sha256(BODY).hexdigest())}
    monkeypatch.setattr(download, "COURSE_FILES", {"sts": {"dev": NAME}})
    monkeypatch.setattr(download, "PUBLISHED", published)
    monkeypatch.setattr(download, "NUM_ROWS", {NAME: NUM_ROWS})
    monkeypatch.setattr(download, "LIMITS", LIMITS)
    skip_fsync(monkeypatch)

    def run(*answers: Answer, part: bytes = b"", version: str = "") -> Outcome:
        server.answers = list(answers)
        server.requests.clear()
        file = tmp_path / f"{NAME}.part"
        if part:
            url = f"{server.url}{NAME}"
            transfer.Part(file).begin(url, version)
            file.write_bytes(part)
        code = download.main(["--out", str(tmp_path), "--base-url", server.url])
        error = capsys.readouterr().err
        assert "Traceback" not in error and error.count("\n") <= 1
        kept = file.read_bytes() if file.exists() else b""
        whole = tmp_path / NAME
        content = whole.read_bytes() if whole.exists() else b""
        return Outcome(code, error, kept, content, len(server.requests))

    return run


class Outcome(NamedTuple):
    """What a download leaves: its exit code and message, the part, the file, its requests."""

    code: int
    error: str
    kept: bytes
    content: bytes
    num_requests: int


class Case(NamedTuple):
    """Answers, a part of the message, how much is kept, and how often the server is asked."""

    answers: list[Answer]
    message: str
    kept: bytes = b""
    num_requests: int = 1
    limits: Limits = LIMITS


TWICE = LIMITS.attempts
FAULTS = {
    # statuses
    "400": Case([answer(b"", "400 Bad")], "did not send the file (400 Bad Request)"),
    "401": Case([answer(b"", "401 No")], "the server wants a password (401 Unauthorized)"),
    "403": Case([answer(b"", "403 No")], "the server refuses access (403 Forbidden)"),
    "404": Case([answer(b"", "404 No")], "the server has no such file (404 Not Found)"),
    "410": Case([answer(b"", "410 No")], "no such file any more (410 Gone)"),
    "escape in the reason": Case([answer(b"", "404 \x1b[2J")], "(404 Not Found)"),
    "408": Case([answer(b"", "408 Late")], "the server failed (408", num_requests=TWICE),
    "500": Case([answer(b"", "500 Oh")], "the server failed (500 Inter", num_requests=TWICE),
    "599": Case([answer(b"", "599 Oh")], "the server failed (599)", num_requests=TWICE),
    "503": Case([answer(b"", "503 Oh")], "the server is busy (503 Serv", num_requests=TWICE),
    "429": Case([answer(b"", "429 Oh")], "the server is busy (429 Too", num_requests=TWICE),
    "429, too long": Case(
        [answer(b"", "429 Oh", Retry_After=7200)], "a pause of 7,200 s (429 Too Many Requests)"
    ),
    "503, too long": Case(
        [answer(b"", "503 Oh", Retry_After="Fri, 01 Jan 2100 00:00:00 GMT")],
        "asks for a pause of 2,",
    ),
    "204": Case([answer(b"", "204 None")], "did not send the file (204 No Content)"),
    # redirections
    "circle": Case([answer(b"", "302 To", Location=f"/{NAME}")], "in a circle (302", b"", 5),
    "to a file": Case(
        [answer(b"", "302 To", Location="file:///etc/passwd")], "an address that cannot be followed"
    ),
    "to nowhere": Case(
        [answer(b"", "302 To", Location="http://[x/")], "the address is not possible ("
    ),
    # other things instead of the file
    "web page": Case([answer(Content_Type="text/html")], "sent a web page (text/html)"),
    "web page as text": Case(
        [answer(b" <!DOCTYPE html>", Content_Length="")], "file: it is a web page. Nothing of it"
    ),
    "compressed": Case([answer(Content_Encoding="gzip")], "in the encoding gzip, which it was"),
    "empty": Case([answer(b"")], f"a file of 0 bytes, and the course's file has {SIZE:,}"),
    "empty, no length": Case([answer(b"", Content_Length="")], "file: it is empty"),
    "another size": Case(
        [answer(b"12345")], f"a file of 5 bytes, and the course's file has {SIZE:,}"
    ),
    "huge": Case([answer(Content_Length=10**18)], "a file of 1,000,000,000,000,000,000 bytes"),
    "short, no length": Case(
        [answer(BODY[:100], Content_Length="")], f"file: it has 100 of {SIZE:,} bytes"
    ),
    "long, no length": Case(
        [answer(BODY * 9, Content_Length="")], f"file: it is longer than {SIZE:,} bytes"
    ),
    "another file": Case([answer(OTHER)], "course's file: SHA-256 "),
    # connections
    "cut": Case(
        [answer(BODY[:100], Content_Length=SIZE), rest(100)[: 100 - SIZE]],
        "again: it goes on from the 100 bytes that have come",
        BODY[:100],
        1 + TWICE,
    ),
    "cut in a chunk": Case(
        [chunks(BODY[:100]) + b"999\r\n" + BODY[100:102], b""],
        "the connection broke off",
        BODY[:100],
        1 + TWICE,
    ),
    "closed at once": Case([b""], "the connection broke off", num_requests=TWICE),
    "reset": Case([reset], "the connection broke off", num_requests=TWICE),
    "silent": Case(
        [silence], "the server sent nothing for 0.05 s", b"", TWICE, LIMITS._replace(silence=0.05)
    ),
    "slow": Case([drip], "the file did not come in", limits=LIMITS._replace(seconds=0.3)),
    # answers that are none
    "garbage": Case([b"\0\xff\xfe garbage\r\n\r\n"], "is not valid HTTP (BadStatusLine)"),
    "long line": Case(
        [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000], "is not valid HTTP (LineTooLong)"
    ),
    "many headers": Case(
        [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200], "is not valid HTTP (HTTPExc"
    ),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_line_and_keeps_only_good_bytes(fetch, server, monkeypatch, case):
    monkeypatch.setattr(download, "LIMITS", case.limits)
    outcome = fetch(*case.answers)
    assert outcome.code == 2 and outcome.content == b""
    assert outcome.error.startswith(f"python -m data.download: {server.url}{NAME}: ")
    assert case.message in outcome.error
    assert "\x1b" not in outcome.error and "Run the same command again" in outcome.error
    assert outcome.kept[: len(case.kept)] == case.kept
    # A slow server has sent some bytes by chance.
    assert BODY.startswith(outcome.kept)
    assert outcome.num_requests == case.num_requests


PART = BODY[:100]
RECOVERIES = {
    "length that is none": ([answer(Content_Length="abc")], 1),
    "negative length": ([answer(Content_Length=-5)], 1),
    "more than the length": ([answer() + b"more"], 1),
    "chunks": ([chunks(BODY[:50], BODY[50:], b"")], 1),
    "busy, then not": ([answer(b"", "429 Oh", Retry_After=0), answer()], 2),
    "busy until a time": (
        [answer(b"", "503 Oh", Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"), answer()],
        2,
    ),
    "dropped twice": ([answer(PART, Content_Length=SIZE), rest(100)[: 200 - SIZE], rest(200)], 3),
}


@pytest.mark.parametrize("answers, num_requests", RECOVERIES.values(), ids=RECOVERIES)
def test_the_file_comes_all_the_same(fetch, answers, num_requests):
    outcome = fetch(*answers)
    assert (outcome.code, outcome.content, outcome.kept) == (0, BODY, b""), outcome.error
    assert outcome.num_requests == num_requests


CONTINUED = {
    "the rest": ([rest(100)], 1),
    "the rest of this version": ([rest(100, ETag='"a"')], 1),
    "the rest of another version": ([rest(100, OTHER, ETag='"b"'), answer()], 2),
    "another part": ([rest(50), answer()], 2),
    "all of it, called a part": ([rest(0), answer()], 2),
    "a part without its place": ([rest(100, Content_Range=""), answer()], 2),
    "all of it": ([answer()], 1),
    "nothing lies behind it": ([answer(b"", "416 No"), answer()], 2),
}


@pytest.mark.parametrize("answers, num_requests", CONTINUED.values(), ids=CONTINUED)
@pytest.mark.parametrize("is_published", [True, False])
def test_a_part_is_continued_or_begun_anew(
    fetch, server, monkeypatch, answers, num_requests, is_published
):
    """The file is never a mixture, also where no checksum could notice it."""
    if not is_published:
        monkeypatch.setattr(download, "PUBLISHED", {})
    outcome = fetch(*answers, part=PART, version='"a"')
    assert (outcome.code, outcome.content, outcome.kept) == (0, BODY, b""), outcome.error
    assert outcome.num_requests == num_requests
    assert 'If-Range: "a"' in server.requests[0] and "Range: bytes=100-" in server.requests[0]


@pytest.mark.parametrize("version", ["", 'W/"weak"'])
def test_a_part_without_a_strong_version_is_begun_anew(fetch, server, monkeypatch, version):
    monkeypatch.setattr(download, "PUBLISHED", {})
    outcome = fetch(answer(PART, Content_Length=SIZE, ETag=version), answer())
    assert (outcome.code, outcome.content) == (0, BODY), outcome.error
    assert not any("Range" in request for request in server.requests)


@pytest.mark.parametrize(
    "source", ["", "[]", '{"url": 1}', '{"url": "URL", "version": "a\\r\\nCookie: b"}', "[" * 9999]
)
def test_a_damaged_record_of_a_part_is_not_used(fetch, server, monkeypatch, tmp_path, source):
    monkeypatch.setattr(download, "PUBLISHED", {})
    text = source.replace("URL", f"{server.url}{NAME}")
    (tmp_path / f"{NAME}.part").write_bytes(PART)
    (tmp_path / f"{NAME}.part.from").write_text(text)
    outcome = fetch(answer())
    assert (outcome.code, outcome.content) == (0, BODY), outcome.error
    assert "Range" not in server.requests[0] and "Cookie" not in server.requests[0]


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
    assert outcome.code == 2 and outcome.content == outcome.kept == b""
    assert "what came is not the course's file: " in outcome.error and message in outcome.error
    assert "--drop-bad-rows" not in outcome.error and ".part" not in outcome.error


def test_a_file_of_unknown_size_is_not_read_without_an_end(fetch, monkeypatch):
    monkeypatch.setattr(download, "PUBLISHED", {})
    monkeypatch.setattr(download, "LIMITS", Limits(attempts=1, num_bytes=5000))
    outcome = fetch(answer(b"\0" * 9000))
    assert "a file of 9,000 bytes, and at most 5,000 are read" in outcome.error
    outcome = fetch(answer(b"\0" * 9000, Content_Length=""))
    assert "it holds zero bytes" in outcome.error and outcome.kept == b""


def refused(error: Exception) -> urllib.error.URLError:
    """As urllib passes an error on."""
    return urllib.error.URLError(error)


CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
CERTIFICATE.verify_message = "self-signed certificate"
CONNECTIONS = {
    "no name": (refused(socket.gaierror(socket.EAI_NONAME, "Name unknown")), "(Name unknown)", 1),
    "no name now": (refused(socket.gaierror(socket.EAI_AGAIN, "Later")), "looked up (Later)", 2),
    "refused": (refused(ConnectionRefusedError()), "refuses connections", 1),
    "no network": (refused(OSError(errno.ENETUNREACH, "Unreachable")), "no way leads to", 1),
    "certificate": (refused(CERTIFICATE), "is not accepted (self-signed certificate)", 1),
    "TLS": (refused(ssl.SSLError(1, "WRONG_VERSION")), "(TLS) is possible (WRONG_VERSION)", 1),
    "TLS ended": (refused(ssl.SSLEOFError(8, "EOF")), "(TLS) is possible (EOF)", 2),
    "timeout": (refused(TimeoutError("timed out")), "sent nothing for 30 s", 2),
    "proxy": (refused(OSError("Tunnel failed: 403")), "(Tunnel failed: 403)", 2),
    "disconnected": (RemoteDisconnected("end"), "the connection broke off", 2),
    "incomplete": (IncompleteRead(b"", 5), "the connection broke off", 2),
    "address": (InvalidURL("bad port"), "the address is not possible (bad port)", 1),
    "status": (BadStatusLine("\x1b[2J"), "is not valid HTTP (BadStatusLine)", 1),
    "escape": (refused(OSError("\x1b[2J\nx")), r"(\x1b[2J x)", 2),
}


@pytest.mark.parametrize("error, message, num_requests", CONNECTIONS.values(), ids=CONNECTIONS)
def test_a_connection_that_fails_is_explained(fetch, monkeypatch, error, message, num_requests):
    requests = []

    def fail(request, timeout):
        requests.append(request)
        raise error

    monkeypatch.setattr(transfer.urllib.request, "urlopen", fail)
    outcome = fetch(b"")
    assert outcome.code == 2 and message in outcome.error
    assert len(requests) == num_requests


def test_a_pause_that_a_server_asks_for_is_kept(fetch, monkeypatch):
    """The wait doubles, and Retry-After makes it longer."""
    slept = []
    monkeypatch.setattr(download, "LIMITS", Limits(attempts=4, wait=1.0))
    monkeypatch.setattr(transfer.time, "sleep", slept.append)
    failure = answer(b"", "500 Oh")
    outcome = fetch(failure, answer(b"", "429 Oh", Retry_After=30), failure, answer())
    assert outcome.code == 0 and slept == [1.0, 30.0, 4.0]


def test_all_addresses_are_asked_before_one_is_asked_again(server, fetch, monkeypatch, tmp_path):
    """Each address has its place in the message."""
    monkeypatch.setattr(download, "ADDRESSES", [f"{server.url}one", f"{server.url}two/"])
    server.answers = [answer(b"", "500 Oh"), answer(b"", "404 No"), answer(b"", "500 Oh")]
    server.requests.clear()
    with pytest.raises(ValueError) as caught:
        download.download_course(tmp_path, download.ADDRESSES)
    paths = [request.split()[1] for request in server.requests]
    assert paths == [f"/one/{NAME}", f"/two/{NAME}", f"/one/{NAME}"]
    assert re.search(r"one/sts-dev.csv: .*\(500 .*; .*two/sts-dev.csv: .*\(404 ", str(caught.value))


def test_servers_with_the_same_fault_stand_together(server, fetch, monkeypatch, tmp_path):
    """Without a network, the message stays one short line."""
    server.answers = [answer(b"", "404 No")]
    other = server.url.replace("127.0.0.1", "localhost")
    with pytest.raises(ValueError) as caught:
        download.download_course(tmp_path, [f"{server.url}one", f"{server.url}two", other])
    hosts = f"{server.url[7:-1]} and {other[7:-1]}"
    assert str(caught.value).startswith(f"{NAME} at {hosts}: the server has no such file (404")
