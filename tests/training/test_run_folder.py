"""minbert/training/run_folder.py: a run's folder is made at once, and one process works in it.

What a run reads may not change before it is resumed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import run_multitask
from minbert.commands.paths import is_free
from minbert.training import code_version, run_folder
from minbert.training.loop import Loop
from multitask import rows as multitask_rows

CLAIM = """
import sys
from pathlib import Path
from minbert.training import run_folder
try:
    run_folder.claim(Path(sys.argv[1]), {}, {}, is_resumed=True)
    print("claimed", flush=True)
except ValueError as error:
    print(error, flush=True)
"""
STAY = CLAIM + "sys.stdin.read()\n"


def listing(folder: Path) -> list[str]:
    """All paths in a folder, without the locks."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return [path for path in paths if not path.endswith(run_folder.LOCK_FILE)]


def claim_elsewhere(folder: Path) -> str:
    """What another process says that resumes the run in the folder, and ends."""
    command = [sys.executable, "-c", CLAIM, str(folder)]
    root = code_version.ROOT
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def start_elsewhere(folder: Path) -> subprocess.Popen:
    """Another process that works on the run in the folder until its input ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", STAY, str(folder)],
        cwd=code_version.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "claimed\n"
    return process


PIPED = {"check": True, "capture_output": True, "text": True}


def refusal(folder: Path) -> str:
    """What the second of two processes on a run is told."""
    return f"{folder}: another process works on this run. Wait for its end, or stop it.\n"


# --- how a folder comes into being ----------------------------------------------------------------


def test_a_folder_and_its_files_come_at_once(tmp_path):
    run = tmp_path / "runs" / "a"
    seen = []

    def write(folder: Path) -> None:
        seen.append(run.exists())
        (folder / "vocab.txt").write_text("[PAD]\n")

    run_folder.claim(run, {"lr": 1}, {"a.csv": "0"}, False, write)
    assert seen == [False]
    assert listing(tmp_path) == ["runs", "runs/a", "runs/a/options.json", "runs/a/vocab.txt"]
    run_folder.claim(run, {}, {"a.csv": "0"}, True)  # resumed: nothing is made
    with pytest.raises(ValueError, match="--resume .*: a.csv has changed since the run began"):
        run_folder.claim(run, {}, {"a.csv": "1"}, True)

    before = (run / "options.json").read_text()
    message = r"runs/a: the run's folder cannot be made \(.*not empty\). Start the command"
    with pytest.raises(ValueError, match=message):
        run_folder.claim(run, {"lr": 2}, {}, False)  # another run took it
    assert (run / "options.json").read_text() == before
    assert listing(tmp_path / "runs")[0] == "a"


def test_what_a_killed_start_has_left_is_removed(tmp_path):
    """Only of this name, and only where its process has ended."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], **PIPED)
    leftovers = [f".a.writing.{ended.stdout.strip()}", f".a.writing.{os.getpid()}", ".b.writing.1"]
    for name in [*leftovers, ".a.writing.notes"]:
        (tmp_path / name).mkdir()
    run_folder.claim(tmp_path / "a", {}, {}, False)
    names = {path.name for path in tmp_path.iterdir()}
    # This process makes its folder where an earlier one of its number has left one.
    assert names == {"a", ".b.writing.1", ".a.writing.notes"}


def test_an_empty_folder_can_be_taken_and_a_failed_start_leaves_nothing(tmp_path):
    run = tmp_path / "a"
    run.mkdir()
    assert is_free(run)

    def fail(folder: Path) -> None:
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        run_folder.claim(run, {}, {}, False, fail)
    assert listing(tmp_path) == ["a"] and is_free(run)
    run_folder.claim(run, {}, {}, False)
    assert listing(tmp_path) == ["a", "a/options.json"] and not is_free(run)
    assert is_free(tmp_path / "none") and not is_free(run / "options.json")


def test_other_code_and_another_number_of_processes_or_threads_are_said(
    tmp_path, monkeypatch, capsys
):
    num_threads = torch.get_num_threads()
    run = tmp_path / "a"
    run_folder.claim(run, {}, {}, False)
    run_folder.claim(run, {}, {}, True)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(run_folder, "code_version", lambda: {"sha256": "0" * 64, "git": ""})
    monkeypatch.setattr(run_folder.processes, "count", lambda: 2)
    monkeypatch.setattr(run_folder.torch, "get_num_threads", lambda: 1_000)
    monkeypatch.setattr(run_folder.processes, "from_first", lambda make: make())
    run_folder.claim(run, {}, {}, True)
    version = code_version.name_of(code_version.code_version())
    assert capsys.readouterr().out == (
        f"{run}: begun with other code ({version}, now 000000000000) and another number of "
        f"processes (1, now 2) and another number of threads ({num_threads}, now 1000); it goes "
        "on, but not to the same bits\n"
    )


# --- one process on one run -----------------------------------------------------------------------


@pytest.fixture
def run(tmp_path) -> Path:
    """A run that has begun, and that no process works on."""
    folder = tmp_path / "a"
    run_folder.claim(folder, {"device": "cpu"}, {}, False)
    run_folder.release(folder)
    return folder


def test_a_run_that_another_process_works_on_is_refused(run):
    """Two would write one checkpoint: a run that was started twice, or that lost its parent."""
    run_folder.claim(run, {}, {}, True)
    run_folder.claim(run, {}, {}, True)  # again in this process: a notebook
    assert claim_elsewhere(run) == refusal(run)
    run_folder.release(run)
    assert claim_elsewhere(run) == "claimed\n"
    assert claim_elsewhere(run) == "claimed\n", "the lock of the process before has ended with it"


@pytest.mark.parametrize("how", ["end", signal.SIGKILL], ids=["ends", "is killed"])
def test_a_lock_ends_with_its_process(run, how):
    other = start_elsewhere(run)
    with pytest.raises(ValueError, match="another process works on this run. Wait for its end"):
        run_folder.hold(run)
    if how == "end":
        other.stdin.close()
    else:
        other.send_signal(how)
    other.wait(timeout=60)
    assert run_folder.hold(run) == run
    assert claim_elsewhere(run) == refusal(run)


def test_a_finished_run_has_no_lock(run):
    run_folder.hold(run)
    assert (run / run_folder.LOCK_FILE).is_file()
    (run / "checkpoint").mkdir()
    record = run_folder.make_record({"device": "cpu"}, {}, scores={"sst": 0.5})
    run_folder.write_record(run, record)
    assert sorted(path.name for path in run.iterdir()) == ["options.json", "run.json"]
    assert json.loads((run / "run.json").read_text())["scores"] == {"sst": 0.5}
    assert claim_elsewhere(run) == "claimed\n"


def test_the_end_of_a_run_does_not_fail_where_nothing_can_be_removed(run, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    run_folder.hold(run)
    monkeypatch.setattr(Path, "unlink", refuse)
    run_folder.tidy_up(run)
    assert run_folder.hold(run) == run, "the lock itself has ended"


def test_nothing_is_locked_before_a_run_begins(tmp_path):
    """A lock file would keep a folder from being taken as an empty one."""
    for folder in (tmp_path / "absent", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        assert run_folder.hold(folder) == folder
        assert is_free(folder)


def test_a_copy_of_a_run_is_another_run(run):
    """The copy of a run at work takes the lock's file along, and not the lock."""
    run_folder.hold(run)
    copy = Path(shutil.copytree(run, run.with_name("copy")))
    assert claim_elsewhere(copy) == "claimed\n"
    assert claim_elsewhere(run) == refusal(run)


def test_a_folder_that_was_made_anew_is_locked_anew(run):
    """In one process: a notebook whose user removes a run and starts it again."""
    run_folder.hold(run)
    shutil.rmtree(run)
    run_folder.claim(run, {}, {}, False)
    assert claim_elsewhere(run) == refusal(run)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EROFS])
def test_where_files_cannot_be_locked_the_run_goes_on(run, monkeypatch, number):
    """Some network drives have no locks."""

    def refuse(lock) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FileLock, "_acquire", refuse)
    assert run_folder.hold(run) == run
    run_folder.claim(run, {}, {}, True)
    run_folder.write_record(run, run_folder.make_record({"device": "cpu"}, {}))
    assert not (run / run_folder.LOCK_FILE).exists()


# --- the whole command ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("first", ["mlm", "simcse", "heads", "multitask"]),
        ("last", ["heads", "multitask", "simcse"]),
    ],
)
def test_finished_steps_are_not_done_again(
    tiny_model, sample_data, tmp_path, monkeypatch, order, names
):
    """Stopped once in each job. A fresh start would end in the same bits, too."""
    stages = ",".join(name for name in names if name in ("mlm", "simcse"))
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--output-dir", tmp_path]
    flags += ["--name", "run", "--epochs", 1, "--pretrain", stages, "--contrastive-order", order]
    flags += ["--heads-first", 1, "--precision", "fp32"]
    train_step = Loop.train_step
    done: dict[str, list[int]] = {}

    def counted(loop, update):
        train_step(loop, update)
        steps = done.setdefault(loop.job.name, [])
        steps.append(loop.progress.step)
        loop.stop.is_requested = len(steps) == 3

    monkeypatch.setattr(Loop, "train_step", counted)
    codes = [run_multitask.main(list(map(str, flags)))]
    while codes[-1] == 130 and len(codes) < 9:
        codes.append(run_multitask.main(["--resume", str(tmp_path / "run")]))
    assert codes == [130] * len(names) + [0] and list(done) == names
    for steps in done.values():
        assert steps == list(range(1, len(steps) + 1)), done


def test_neither_a_changed_model_nor_a_run_at_work_is_resumed(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """Rows in other token ids, or other weights, beside a checkpoint of the old ones."""
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    flags = ["--model", model, "--data-dir", sample_data, "--output-dir", tmp_path]
    flags += ["--name", "run", "--epochs", 1]
    folder = tmp_path / "run"

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "run", stop)
    assert run_multitask.main(list(map(str, flags))) == 130

    # Another vocabulary: the words in another order.
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8")
    words = vocabulary.split()
    reordered = "\n".join([*words[:5], *sorted(words[5:])])
    (model / "vocab.txt").write_text(reordered, encoding="utf-8")
    assert run_multitask.main(["--resume", str(folder)]) == 2
    assert f"--model {model} has changed since the run began. Restore it" in capsys.readouterr().err
    (model / "vocab.txt").write_text(vocabulary, encoding="utf-8")

    # Another process at work: noticed before the data are read.
    run_folder.release(folder)
    lock = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
    lock += "print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", lock, str(folder / run_folder.LOCK_FILE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with monkeypatch.context() as patch:
            unread = lambda options: pytest.fail("that comes later")  # noqa: E731
            patch.setattr(multitask_rows, "read_tables", unread)
            assert run_multitask.main(["--resume", str(folder)]) == 2
        other.stdin.close()
    assert "another process works on this run. Wait for its end" in capsys.readouterr().err
    assert run_multitask.main(["--resume", str(folder)]) == 130


# --- the link to the newest run -------------------------------------------------------------------


def test_latest_points_to_the_newest_run(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        run_folder.point_to_latest(tmp_path / "runs" / name)
        assert os.readlink(tmp_path / "runs" / "latest") == name
    # It is relative, so the folder of the runs can be moved.
    moved = (tmp_path / "runs").rename(tmp_path / "moved")
    assert (moved / "latest").resolve() == (moved / "second").resolve()
    assert sorted(path.name for path in moved.iterdir()) == ["first", "latest", "second"]


def test_latest_leaves_what_is_no_link(tmp_path):
    (tmp_path / "latest").mkdir()
    (tmp_path / "run").mkdir()
    run_folder.point_to_latest(tmp_path / "run")
    assert not (tmp_path / "latest").is_symlink()
    assert list((tmp_path / "latest").iterdir()) == []


def test_a_link_to_a_run_that_is_gone_is_replaced(tmp_path):
    (tmp_path / "latest").symlink_to("gone")
    (tmp_path / "run").mkdir()
    run_folder.point_to_latest(tmp_path / "run")
    assert os.readlink(tmp_path / "latest") == "run"


def test_a_resumed_run_is_the_latest_unless_a_newer_one_is(tmp_path):
    """A kill can come between a run's folder and its link."""
    for seconds, name in enumerate(("older", "killed", "newer"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / "options.json").touch()
        os.utime(tmp_path / name / "options.json", (seconds, seconds))
    (tmp_path / "latest").symlink_to("older")
    (tmp_path / ".latest.writing").symlink_to("killed")
    run_folder.point_to_latest(tmp_path / "killed")
    assert os.readlink(tmp_path / "latest") == "killed"
    assert not (tmp_path / ".latest.writing").is_symlink()
    run_folder.point_to_latest(tmp_path / "newer")
    run_folder.point_to_latest(tmp_path / "killed")
    assert os.readlink(tmp_path / "latest") == "newer"


def test_where_the_system_makes_no_links_the_run_goes_on(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refuse)
        (tmp_path / "run").mkdir()
        run_folder.point_to_latest(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert capsys.readouterr().out == ""


def test_a_link_that_still_leads_to_an_older_run_is_said(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "latest").symlink_to("older")
    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        run_folder.point_to_latest(tmp_path / "run")
    warning = f"warning: {tmp_path / 'latest'} still leads to older ([Errno 5]"
    assert capsys.readouterr().out.startswith(warning)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "run"]
    run_folder.point_to_latest(tmp_path / "run")
    assert os.readlink(tmp_path / "latest") == "run"
