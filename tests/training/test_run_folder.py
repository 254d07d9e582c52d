"""minbert/training/run_folder.py: a run's folder comes into being at once, and what a run reads may not change on the way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import run_multitask
from minbert.commands.paths import is_free
from minbert.training import code_version as provenance
from minbert.training import run_folder as record
from minbert.training.loop import Loop
from multitask import stage as train

pytestmark = pytest.mark.usefixtures("no_fsync")


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_and_what_it_needs_come_at_once(tmp_path):
    run, seen = tmp_path / "runs" / "a", []
    write = lambda folder: (seen.append(run.exists()), (folder / "vocab.txt").write_text("[PAD]\n"))  # noqa: E731
    record.claim(run, {"lr": 1}, {"a.csv": "0"}, False, write)
    assert seen == [False] and listing(tmp_path) == [
        "runs",
        "runs/a",
        "runs/a/options.json",
        "runs/a/vocab.txt",
    ]
    record.claim(run, {}, {"a.csv": "0"}, True)  # resumed: nothing is made
    with pytest.raises(ValueError, match="--resume .*: a.csv has changed since the run began"):
        record.claim(run, {}, {"a.csv": "1"}, True)
    before = (run / "options.json").read_text()
    with pytest.raises(
        ValueError,
        match=r"runs/a: the run's folder cannot be made \(.*not empty\). Start the command",
    ):
        record.claim(run, {"lr": 2}, {}, False)  # another run took it
    assert (run / "options.json").read_text() == before and listing(tmp_path / "runs")[0] == "a"


def test_other_code_and_another_number_of_processes_or_threads_are_said(
    tmp_path, monkeypatch, capsys
):
    num_threads = torch.get_num_threads()
    record.claim(tmp_path / "a", {}, {}, False)
    record.claim(tmp_path / "a", {}, {}, True)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(record, "code_version", lambda: {"sha256": "0" * 64, "git": ""})
    monkeypatch.setattr(record.processes, "count", lambda: 2)
    monkeypatch.setattr(record.torch, "get_num_threads", lambda: 1_000)
    monkeypatch.setattr(record.processes, "from_first", lambda make: make())
    record.claim(tmp_path / "a", {}, {}, True)
    began = provenance.name_of(provenance.code_version())
    assert capsys.readouterr().out == (
        f"{tmp_path / 'a'}: begun with other code ({began}, now 000000000000) and another number of processes (1, now "
        f"2) and another number of threads ({num_threads}, now 1000); it goes on, but not to the same bits"
        "\n"
    )


def test_a_run_that_another_process_works_on(tmp_path):
    """Two would write one checkpoint: an ablation started twice, or again after its run lost its parent."""
    run = tmp_path / "a"
    record.claim(run, {}, {}, False)
    record.claim(run, {}, {}, True)  # again in this process: a notebook
    ask = (
        "import sys; from pathlib import Path; from minbert import record\n"
        "try: record.claim(Path(sys.argv[1]), {}, {}, True)\nexcept ValueError as error: print(error)"
    )
    other = [sys.executable, "-c", ask, str(run)]
    assert subprocess.run(
        other, cwd=provenance.ROOT, check=True, capture_output=True, text=True
    ).stdout == (f"{run}: another process works on this run. Wait for its end, or stop it.\n")
    record.HELD.pop((run / "options.json").stat().st_ino).close()  # as the end of this process does
    assert (
        subprocess.run(
            other, cwd=provenance.ROOT, check=True, capture_output=True, text=True
        ).stdout
        == ""
    )


def test_the_version_of_the_code(tmp_path, monkeypatch):
    """Every file that a run may import counts, a document does not; the commit is that of this clone or none."""
    for name in provenance.SOURCES:
        source, target = provenance.ROOT / name, tmp_path / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
    clean = provenance.code_version.__wrapped__()
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.code_version.__wrapped__() == {"sha256": clean["sha256"], "git": ""}
    (tmp_path / "README.md").write_text("changed")
    assert provenance.code_version.__wrapped__()["sha256"] == clean["sha256"]
    for name in (
        "minbert/training/loop.py",
        "contrastive/losses.py",
        "multitask/surgery.py",
        "data/batching.py",
        "command_line/options.py",
    ):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b"\n")
        assert provenance.code_version.__wrapped__()["sha256"] != clean["sha256"]
        (tmp_path / name).write_bytes(before)


def test_an_empty_folder_can_be_taken_and_a_failed_start_leaves_nothing(tmp_path):
    run = tmp_path / "a"
    run.mkdir()
    assert is_free(run)

    def fail(folder: Path) -> None:
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        record.claim(run, {}, {}, False, fail)
    assert listing(tmp_path) == ["a"] and is_free(run)
    record.claim(run, {}, {}, False)
    assert listing(tmp_path) == ["a", "a/options.json"] and not is_free(run)
    assert is_free(tmp_path / "none") and not is_free(run / "options.json")


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("first", ["mlm", "simcse", "heads", "multitask"]),
        ("last", ["heads", "multitask", "simcse"]),
    ],
)
def test_what_was_done_is_not_done_again(
    tiny_model, sample_data, tmp_path, monkeypatch, order, names
):
    """Stopped once in each job; the same bits, which other tests ask for, would also come of starting anew."""
    flags = [
        "--model",
        tiny_model,
        "--data-dir",
        sample_data,
        "--output-dir",
        tmp_path,
        "--name",
        "run",
        "--epochs",
        1,
        "--pretrain",
        ",".join(name for name in names if name in ("mlm", "simcse")),
        "--contrastive-order",
        order,
        "--heads-first",
        1,
        "--precision",
        "fp32",
    ]
    step, done = Loop.train_step, {}

    def counted(loop, parts):
        step(loop, parts)
        steps = done.setdefault(loop.job.name, [])
        steps.append(loop.progress.step)
        loop.stop.is_requested = len(steps) == 3

    monkeypatch.setattr(Loop, "train_step", counted)
    codes = [run_multitask.main(list(map(str, flags)))]
    while codes[-1] == 130 and len(codes) < 9:
        codes.append(run_multitask.main(["--resume", str(tmp_path / "run")]))
    assert codes == [130] * len(names) + [0] and list(done) == names
    assert all(steps == list(range(1, len(steps) + 1)) for steps in done.values()), done


def test_neither_a_changed_model_nor_a_run_at_work_is_resumed(
    tiny_model, sample_data, tmp_path, monkeypatch, capsys
):
    """Rows in other token ids, or other weights, beside a checkpoint of the old ones."""
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    flags = [
        "--model",
        model,
        "--data-dir",
        sample_data,
        "--output-dir",
        tmp_path,
        "--name",
        "run",
        "--epochs",
        1,
    ]

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Loop, "run", stop)
    assert run_multitask.main(list(map(str, flags))) == 130
    words = (model / "vocab.txt").read_text(encoding="utf-8")
    (model / "vocab.txt").write_text(
        "\n".join([*words.split()[:5], *sorted(words.split()[5:])]), encoding="utf-8"
    )
    assert run_multitask.main(["--resume", str(tmp_path / "run")]) == 2
    assert f"--model {model} has changed since the run began. Restore it" in capsys.readouterr().err
    record.HELD.pop((tmp_path / "run" / "options.json").stat().st_ino).close()
    lock = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, 2); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", lock, str(tmp_path / "run" / "options.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with monkeypatch.context() as patch:
            patch.setattr(train, "read_tables", lambda options: pytest.fail("that comes later"))
            assert run_multitask.main(["--resume", str(tmp_path / "run")]) == 2
        other.stdin.close()
    assert "another process works on this run. Wait for its end" in capsys.readouterr().err
    (model / "vocab.txt").write_text(words, encoding="utf-8")
    assert run_multitask.main(["--resume", str(tmp_path / "run")]) == 130
