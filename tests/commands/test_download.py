"""data/download.py against a server of our own: whole, interrupted, without ranges, wrong files."""

import hashlib
import os
import resource
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from data import download, transfer
from data.examples import CFIMDB_FILES, COURSE_FILES
from data.transfer import Limits

NAMES = []
for files in COURSE_FILES.values():
    NAMES += files.values()
UNPUBLISHED = ["quora-train.csv", "quora-test-student.csv"]


def content_of(name: str) -> bytes:
    """A file of 1,000 rows. Those of Quora are tables of their task."""
    header = "\tid\tsentence\n"
    ending = ""
    if name in UNPUBLISHED:
        header = "\tid\tsentence1\tsentence2\tis_duplicate\n"
        ending = "\tother\t1.0"
    if name == "quora-test-student.csv":
        header = "\tid\tsentence1\tsentence2\n"
        ending = "\tother"
    rows = [f"{number}\tid{number}\t{name}{ending}\n" for number in range(1000)]
    return "".join([header, *rows]).encode()


CONTENTS = {name: content_of(name) for name in NAMES}


class Server(ThreadingHTTPServer):
    """Serves `contents` on 127.0.0.1.

    cuts: the bytes after which the next answers end. requests: the names asked for. failure: a
    status instead of every file.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = dict(CONTENTS)
        self.cuts = []
        self.requests = []
        self.failure = None
        self.url = f"http://127.0.0.1:{self.server_port}/data/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802, the name that http.server calls
        server = self.server
        name = self.path.rsplit("/", 1)[-1]
        server.requests.append(name)
        if server.failure or name not in server.contents:
            self.send_error(server.failure or 404)
            return

        body = server.contents[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        end = server.cuts.pop(0) if server.cuts else len(body)
        self.wfile.write(body[:end])

    def log_message(self, *arguments):
        pass


def published_as(content: bytes) -> download.Published:
    return download.Published(len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def server(monkeypatch):
    published = {name: published_as(CONTENTS[name]) for name in set(NAMES) - set(UNPUBLISHED)}
    monkeypatch.setattr(download, "PUBLISHED", published)
    # The reports may count the header.
    num_rows = dict.fromkeys([*NAMES, *CFIMDB_FILES.values()], 1000)
    monkeypatch.setattr(download, "NUM_ROWS", num_rows | dict.fromkeys(UNPUBLISHED, 1001))
    monkeypatch.setattr(download, "LIMITS", Limits(wait=0))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch_all(folder, server):
    download.download_course(folder, [server.url])


def fetch_error(folder, server) -> str:
    with pytest.raises(ValueError) as caught:
        fetch_all(folder, server)
    return str(caught.value)


def names_in(folder) -> set[str]:
    return {path.name for path in folder.iterdir()} - {download.LOCK}


def assert_complete(folder):
    assert names_in(folder) == {*NAMES, "SHA256SUMS"}
    assert all((folder / name).read_bytes() == CONTENTS[name] for name in NAMES)


def test_whole_download_and_a_second_run_that_downloads_nothing(server, tmp_path, capsys):
    fetch_all(tmp_path / "new", server)
    assert_complete(tmp_path / "new")
    printed = capsys.readouterr().out
    assert printed.count("SHA-256 verified") == 7
    assert printed.count("no published checksum; 1,000 rows; SHA-256 recorded") == 2
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


def test_what_a_killed_download_left_is_not_used(server, tmp_path):
    for name in ("sts-dev.csv.part", ".SHA256SUMS.writing"):
        (tmp_path / name).write_text("half")
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


def test_a_dropped_connection_is_asked_again(server, tmp_path):
    server.cuts = [5000, 7000]
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)
    assert server.requests[:4] == [NAMES[0], NAMES[0], NAMES[0], NAMES[1]]


def test_a_connection_that_keeps_dropping_keeps_the_files_that_are_whole(server, tmp_path):
    whole = len(CONTENTS[NAMES[0]])
    server.cuts = [whole] + [500] * download.LIMITS.attempts
    message = fetch_error(tmp_path, server)
    assert "the connection ended after 500 of" in message
    assert names_in(tmp_path) == {NAMES[0], "SHA256SUMS"}
    server.requests.clear()
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)
    assert NAMES[0] not in server.requests


def test_wrong_checksum_is_refused_and_nothing_is_left(server, tmp_path):
    server.contents[NAMES[0]] = CONTENTS[NAMES[0]].replace(b"id7", b"id8")
    message = fetch_error(tmp_path, server)
    assert f"{NAMES[0]}: what came is not the course's file: SHA-256" in message
    assert "pass another one with --base-url" in message
    assert names_in(tmp_path) == set()


def test_file_without_a_checksum_is_refused_by_its_rows(server, tmp_path):
    lines = CONTENTS["quora-train.csv"].splitlines(keepends=True)
    server.contents["quora-train.csv"] = b"".join(lines[:900])
    problem = "what came is not the course's file: 899 rows, expected are about 1,001"
    assert f"quora-train.csv: {problem}" in fetch_error(tmp_path, server)
    assert not list(tmp_path.glob("quora-train*"))


def test_file_without_a_checksum_must_match_the_recorded_one_later(server, tmp_path):
    fetch_all(tmp_path, server)
    (tmp_path / "quora-train.csv").unlink()
    # As many rows as before.
    server.contents["quora-train.csv"] = CONTENTS["quora-train.csv"].replace(b"id7", b"id8")
    assert "is not the course's file: SHA-256" in fetch_error(tmp_path, server)


def test_a_copy_is_asked_where_the_first_address_fails(server, tmp_path, capsys):
    del server.contents["sts-dev.csv"]
    with Server() as copy:
        thread = threading.Thread(target=copy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        download.download_course(tmp_path, [server.url, copy.url])
        copy.shutdown()
        thread.join()
    assert_complete(tmp_path)
    assert copy.requests == ["sts-dev.csv"]


def test_other_file_of_the_name_is_replaced_only_when_asked(server, tmp_path):
    (tmp_path / NAMES[0]).write_text("my own rows\n")
    message = fetch_error(tmp_path, server)
    assert "this is not the course's file: it has 12 of" in message
    assert "Move it away, choose another --out, or pass --overwrite" in message
    assert (tmp_path / NAMES[0]).read_text() == "my own rows\n"
    download.download_course(tmp_path, [server.url], overwrite=True)
    assert_complete(tmp_path)


def test_address_that_does_not_exist_is_asked_once(server, tmp_path):
    del server.contents[NAMES[0]]
    assert "the server answered 404 Not Found" in fetch_error(tmp_path, server)
    assert len(server.requests) == 1


def test_failing_server_is_asked_again(server, tmp_path):
    server.failure = 503
    assert "the server answered 503 Service Unavailable" in fetch_error(tmp_path, server)
    assert len(server.requests) == download.LIMITS.attempts


def test_full_disk_is_named_at_once(server, tmp_path):
    """As in a folder where no file may grow."""
    wall = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, wall[1]))
    try:
        message = fetch_error(tmp_path, server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, wall)
    assert f"{NAMES[0]}.part: cannot be written (File too large)" in message
    assert len(server.requests) == 1
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


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


def test_ctrl_c_says_how_to_go_on(server, tmp_path, monkeypatch, capsys):
    def stop(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer.time, "sleep", stop)
    server.cuts = [1000]
    assert download.main(["--out", str(tmp_path), "--base-url", server.url]) == 130
    assert "Stopped. Run the same command again" in capsys.readouterr().err


def test_a_second_download_to_the_folder_waits_outside(server, tmp_path):
    with (
        download.only_process(tmp_path),
        pytest.raises(ValueError, match="another download writes here"),
    ):
        fetch_all(tmp_path, server)
    fetch_all(tmp_path, server)
    assert_complete(tmp_path)


@pytest.mark.parametrize("name", ["sts-dev.csv", "sts-dev.csv.part", "SHA256SUMS"])
def test_only_plain_files_are_written(server, tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert f"{name}: it is not a plain file" in fetch_error(tmp_path, server)
    assert server.requests == []


def test_a_part_that_is_a_link_is_not_followed(server, tmp_path):
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("three years of work")
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{NAMES[0]}.part").symlink_to(thesis)
    assert ".part: it is a link. Remove it" in fetch_error(out, server)
    assert thesis.read_text() == "three years of work"


def test_a_folder_of_a_model_is_refused(server, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    assert "is the folder of a run or a model" in fetch_error(tmp_path, server)


@pytest.mark.parametrize("text", ["a b c\n", "\0\n", "0123  ids-sst-dev.csv\n", "\xff\n"])
def test_a_damaged_record_of_checksums_is_named(server, tmp_path, text):
    (tmp_path / "SHA256SUMS").write_bytes(text.encode("latin-1"))
    assert "SHA256SUMS, line 1: expected are 64 hexadecimal" in fetch_error(tmp_path, server)


@pytest.mark.parametrize(
    "address",
    ["file:///etc/", "ftp://host/", "data/course", "http://", "http://host:x/", "http://a b/"],
)
def test_an_address_that_is_none_is_refused(tmp_path, capsys, address):
    out = tmp_path / "out"
    assert download.main(["--out", str(out), "--base-url", address]) == 2
    message = capsys.readouterr().err
    assert f"--base-url {address}: expected is an address such as" in message
    assert not out.exists()


# --- CFIMDB, and files that a student has already -------------------------------------------------


def test_cfimdb_comes_when_it_is_asked_for(server, tmp_path):
    names = list(CFIMDB_FILES.values())
    for name in names:
        server.contents[name] = content_of(name)
        download.PUBLISHED[name] = published_as(server.contents[name])
    download.download_course(tmp_path, [server.url], has_cfimdb=True)
    for name in names:
        assert (tmp_path / name).read_bytes() == server.contents[name]


def test_each_file_has_a_number_of_rows_and_all_but_two_a_checksum():
    assert set(download.NUM_ROWS) == {*NAMES, *CFIMDB_FILES.values()}
    assert set(download.NUM_ROWS) - set(download.PUBLISHED) == set(UNPUBLISHED)


def test_a_file_with_another_number_of_rows_is_doubted(tmp_path):
    """40,431 rows of quora-test-student.csv, as the reports say, and 8,544 of ids-sst-train.csv."""
    path = tmp_path / "some.csv"
    path.write_text("a cut file\n")
    cases = {
        ("quora-test-student.csv", 200): "reports name 40,431 rows, and this one has 200. Maybe it "
        "is cut off",
        ("quora-test-student.csv", 80_859): "Maybe it belongs to another year",
        ("quora-test-student.csv", 40_430): "",
        ("ids-sst-train.csv", 499): "file has 8,544 rows, and this one has 499",
        ("ids-sst-train.csv", 8_543): "file has 8,544 rows, and this one has 8,543",
        ("ids-sst-train.csv", 8_544): "it differs from the course's published file",
    }
    for (name, num_rows), expected in cases.items():
        note = download.describe_doubt(name, path, num_rows)
        assert expected in note and bool(expected) == bool(note), name
    path = download.SAMPLE_FOLDER / "ids-sst-dev.csv"
    assert download.describe_doubt(path.name, path, 576) == "it belongs to the bundled sample"


def test_a_cut_file_of_a_student_is_taken_with_a_warning(server, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    rows = "".join(f"id{number}\tone\ttwo\t1\n" for number in range(20))
    (mine / "quora-train.csv").write_text(f"id\tsentence1\tsentence2\tis_duplicate\n{rows}")
    warning = "warning: the course's reports name 1,001 rows, and this one has 20."
    download.download_course(tmp_path / "out", [server.url], source=mine)
    assert warning in capsys.readouterr().out
    # A later run says it again. The files of the server have all their rows.
    fetch_all(tmp_path / "out", server)
    printed = capsys.readouterr().out
    assert warning in printed and printed.count("warning") == 1
    # The student has found the whole file.
    (mine / "quora-train.csv").write_bytes(CONTENTS["quora-train.csv"])
    with pytest.raises(ValueError, match=r"another file than .*quora-train.csv. Pass --overwrite"):
        download.download_course(tmp_path / "out", [server.url], source=mine)
    download.download_course(tmp_path / "out", [server.url], source=mine, overwrite=True)
    assert (tmp_path / "out" / "quora-train.csv").read_bytes() == CONTENTS["quora-train.csv"]
    assert "warning" not in capsys.readouterr().out


def test_files_of_a_student_are_taken_and_the_others_downloaded(server, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    # One is the published file. One has another name and other rows, as in Goettingen.
    (mine / "ids-sst-train.csv").write_bytes(CONTENTS["ids-sst-train.csv"])
    other = "id\tsentence1\tsentence2\tsimilarity\na\tone\ttwo\t2.5\n"
    (mine / "sts-similarity-dev.csv").write_text(other)
    out = tmp_path / "out"
    download.download_course(out, [server.url], source=mine)
    assert (out / "ids-sst-train.csv").read_bytes() == CONTENTS["ids-sst-train.csv"]
    assert (out / "sts-dev.csv").read_text() == other
    asked = set(server.requests)
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
        download.download_course(tmp_path / "out", [server.url], source=mine)
    assert not (tmp_path / "out" / "sts-dev.csv").exists()


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match="none of the course's files is there"):
        download.download_course(tmp_path / "out", source=tmp_path)
    assert not (tmp_path / "out").exists()
