"""data/download.py against a server of our own: whole, interrupted, without ranges, wrong files."""

import hashlib
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data import download
from data.readers import CFIMDB_FILES, COURSE_FILES

NAMES = []
for files in COURSE_FILES.values():
    NAMES += files.values()
UNPUBLISHED = ["quora-train.csv", "quora-test-student.csv"]


def content_of(name: str) -> bytes:
    """A file of 3,000 rows."""
    rows = [f"{number}\tid{number}\t{name}\n" for number in range(3000)]
    return "".join(["\tid\tsentence\n", *rows]).encode()


CONTENTS = {name: content_of(name) for name in NAMES}


class Server(ThreadingHTTPServer):
    """Serves `contents` on 127.0.0.1.

    cuts: the bytes after which the next answers end. requests: the names and ranges asked for.
    knows_ranges: whether it can send a part of a file. failure: a status instead of every file.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = dict(CONTENTS)
        self.cuts = []
        self.requests = []
        self.knows_ranges = True
        self.failure = None
        self.url = f"http://127.0.0.1:{self.server_port}/data/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802, the name that http.server calls
        server = self.server
        name = self.path.rsplit("/", 1)[-1]
        byte_range = self.headers.get("Range")
        server.requests.append((name, byte_range))
        if server.failure or name not in server.contents:
            self.send_error(server.failure or 404)
            return

        body = server.contents[name]
        start = 0
        if byte_range and server.knows_ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", byte_range)[1])
        if start >= len(body):
            self.send_error(416)
            return

        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = start + server.cuts.pop(0) if server.cuts else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    published = {}
    for name in set(NAMES) - set(UNPUBLISHED):
        published[name] = hashlib.sha256(CONTENTS[name]).hexdigest()
    monkeypatch.setattr(download, "CHECKSUMS", published)
    monkeypatch.setattr(download, "NUM_ROWS", dict.fromkeys(UNPUBLISHED, 3001))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch_all(folder, server):
    download.download_course(folder, server.url, wait=0)


def fetch_error(folder, server) -> str:
    with pytest.raises(ValueError) as caught:
        fetch_all(folder, server)
    return str(caught.value)


def assert_complete(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted([*NAMES, "SHA256SUMS"])
    assert all((folder / name).read_bytes() == CONTENTS[name] for name in NAMES)


def test_whole_download_and_a_second_run_that_downloads_nothing(server, tmp_path, capsys):
    fetch_all(tmp_path / "new", server)
    assert_complete(tmp_path / "new")
    printed = capsys.readouterr().out
    assert printed.count("SHA-256 verified") == 7
    assert printed.count("no published checksum; 3,000 rows; SHA-256 recorded") == 2
    server.requests.clear()
    fetch_all(tmp_path / "new", server)
    assert server.requests == []
    assert capsys.readouterr().out.count("here already; SHA-256 verified") == 9


def test_checksum_file_is_what_sha256sum_writes(server, tmp_path):
    fetch_all(tmp_path, server)
    for line in (tmp_path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert digest == hashlib.sha256(CONTENTS[name]).hexdigest()


def test_a_blank_line_in_the_checksum_file_is_none(server, tmp_path):
    fetch_all(tmp_path, server)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{sums.read_text()}\n")
    server.requests.clear()
    fetch_all(tmp_path, server)
    assert server.requests == []


def test_part_of_an_earlier_run_is_continued(server, tmp_path):
    (tmp_path / "sts-dev.csv.part").write_bytes(CONTENTS["sts-dev.csv"][:1000])
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)
    assert ("sts-dev.csv", "bytes=1000-") in server.requests
    assert ("sts-dev.csv", None) not in server.requests


def test_part_that_is_already_whole(server, tmp_path):
    (tmp_path / "sts-dev.csv.part").write_bytes(CONTENTS["sts-dev.csv"])
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


def test_server_that_knows_no_ranges_sends_it_all_again(server, tmp_path):
    server.knows_ranges = False
    (tmp_path / "sts-dev.csv.part").write_bytes(CONTENTS["sts-dev.csv"][:1000])
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


@pytest.mark.parametrize("stale", [b"of an older version", b"x" * 10**6], ids=["shorter", "longer"])
def test_part_of_a_file_that_has_changed_is_started_again(server, tmp_path, stale):
    (tmp_path / "sts-dev.csv.part").write_bytes(stale)
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)
    assert ("sts-dev.csv", None) in server.requests


def test_dropped_connection_is_continued_in_the_same_run(server, tmp_path):
    server.cuts = [5000, 7000]
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)
    assert server.requests[:3] == [
        (NAMES[0], None),
        (NAMES[0], "bytes=5000-"),
        (NAMES[0], "bytes=12000-"),
    ]


def test_connection_that_keeps_dropping_leaves_a_part_for_the_next_run(server, tmp_path):
    server.cuts = [1000] * download.NUM_ATTEMPTS
    message = fetch_error(tmp_path, server)
    assert "the connection ended after 1,000 of" in message
    assert "run the same command again" in message
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[0] + ".part"]
    assert (tmp_path / (NAMES[0] + ".part")).stat().st_size == 1000 * download.NUM_ATTEMPTS
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


def test_wrong_checksum_is_refused_and_nothing_is_left(server, tmp_path):
    server.contents[NAMES[0]] = b"<html>Please log in</html>"
    message = fetch_error(tmp_path, server)
    assert f"{NAMES[0]}: what came is not the course's file: SHA-256" in message
    assert "log-in page" in message
    assert list(tmp_path.iterdir()) == []


def test_file_without_a_checksum_is_refused_by_its_rows(server, tmp_path):
    server.contents["quora-train.csv"] = b"<html>\n</html>\n"
    problem = "what came is not the course's file: 1 rows, expected are about 3,001"
    assert f"quora-train.csv: {problem}" in fetch_error(tmp_path, server)
    assert not list(tmp_path.glob("quora-train*"))


def test_file_without_a_checksum_must_match_the_recorded_one_later(server, tmp_path):
    fetch_all(tmp_path, server)
    (tmp_path / "quora-train.csv").unlink()
    # As many rows as before.
    server.contents["quora-train.csv"] = CONTENTS["quora-train.csv"].replace(b"id7", b"id8")
    assert "is not the course's file: SHA-256" in fetch_error(tmp_path, server)


def test_other_file_of_the_name_is_not_overwritten(server, tmp_path):
    (tmp_path / NAMES[0]).write_text("my own rows\n")
    assert "Move it away, or choose another --out" in fetch_error(tmp_path, server)
    assert (tmp_path / NAMES[0]).read_text() == "my own rows\n"


def test_address_that_does_not_exist_is_asked_once(server, tmp_path):
    del server.contents[NAMES[0]]
    assert "the server answers 404" in fetch_error(tmp_path, server)
    assert len(server.requests) == 1


def test_failing_server_is_asked_again(server, tmp_path):
    server.failure = 503
    assert "the server answers 503" in fetch_error(tmp_path, server)
    assert len(server.requests) == download.NUM_ATTEMPTS


def test_full_disk_is_named_at_once(server, tmp_path, monkeypatch):
    def fail(url, part):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "fetch_rest", fail)
    assert ".part: cannot be written (No space left on device)" in fetch_error(tmp_path, server)


@pytest.mark.parametrize(
    "error, code",
    [(ValueError("what, where"), 2), (OSError("folder"), 2), (KeyboardInterrupt(), 130)],
)
def test_exit_codes(monkeypatch, capsys, tmp_path, error, code):
    def fail(*arguments, **named):
        raise error

    monkeypatch.setattr(download, "download_course", fail)
    monkeypatch.setattr(sys, "argv", ["download", "--out", str(tmp_path)])
    assert download.main() == code
    assert capsys.readouterr().err.strip()


def test_command_line_without_a_server(tmp_path):
    program = """
import sys, time
time.sleep = lambda seconds: None
from data.download import main
sys.exit(main())
"""
    # Nothing listens on port 9.
    arguments = ["--out", str(tmp_path), "--base-url", "http://127.0.0.1:9/none"]
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 2
    assert "ids-sst-train.csv" in result.stderr
    assert "Traceback" not in result.stderr


# --- CFIMDB, and files that a student has already -------------------------------------------------


def test_cfimdb_comes_when_it_is_asked_for(server, tmp_path, monkeypatch):
    names = list(CFIMDB_FILES.values())
    for name in names:
        server.contents[name] = content_of(name)
    monkeypatch.setattr(download, "NUM_ROWS", dict.fromkeys([*UNPUBLISHED, *names], 3001))
    download.download_course(tmp_path, server.url, wait=0, has_cfimdb=True)
    for name in names:
        assert (tmp_path / name).read_bytes() == server.contents[name]


def test_the_published_numbers_of_cfimdb_add_up():
    """The data set has 2,434 reviews (its page, and the course's hand-out)."""
    assert sum(download.NUM_ROWS[name] for name in CFIMDB_FILES.values()) == 2434


def test_files_of_a_student_are_taken_and_the_others_downloaded(server, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    # One is the published file. One has another name and other rows, as in Goettingen.
    (mine / "ids-sst-train.csv").write_bytes(CONTENTS["ids-sst-train.csv"])
    other = "id\tsentence1\tsentence2\tsimilarity\na\tone\ttwo\t2.5\n"
    (mine / "sts-similarity-dev.csv").write_text(other)
    out = tmp_path / "out"
    download.download_course(out, server.url, wait=0, source=mine)
    assert (out / "ids-sst-train.csv").read_bytes() == CONTENTS["ids-sst-train.csv"]
    assert (out / "sts-dev.csv").read_text() == other
    asked = {name for name, _ in server.requests}
    assert asked == set(NAMES) - {"ids-sst-train.csv", "sts-dev.csv"}
    printed = capsys.readouterr().out
    assert "ids-sst-train.csv; SHA-256 verified" in printed
    assert "not the file of the public repository; 1 rows; SHA-256 recorded" in printed

    # Later runs know the file that was taken, and notice when it changes.
    fetch_all(out, server)
    assert "here already; SHA-256 verified; not the file of" in capsys.readouterr().out
    (out / "sts-dev.csv").write_text(other.replace("2.5", "3.5"))
    assert "this is not the course's file" in fetch_error(out, server)


def test_a_file_that_is_no_table_of_its_task_is_not_taken(server, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sts-dev.csv").write_text("id\tsentence1\tsentence2\tsimilarity\na\tone\ttwo\t9\n")
    with pytest.raises(ValueError, match="sts-dev.csv, line 2"):
        download.download_course(tmp_path / "out", server.url, wait=0, source=mine)
    assert not (tmp_path / "out" / "sts-dev.csv").exists()


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match="none of the course's files is there"):
        download.download_course(tmp_path / "out", source=tmp_path)
    assert not (tmp_path / "out").exists()
