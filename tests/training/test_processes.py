"""minbert/training/processes.py: several processes train what one would, and one of them writes.

If losses agree and gradients do not, a factor is wrong, or the gradient of a row that another
process made is not added.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from contrastive.registry import METHODS
from minbert.training import processes
from minbert.training.code_version import ROOT
from minbert.training.processes import OwnRows
from tests.python_processes import run_python, run_ranks, start_ranks
from tests.toy_ranks import in_ranks
from tests.toy_text import LINES

STAGES = (
    "mt-dnn",
    "pcgrad",
    "accumulation",
    "gradvac",
    "heads-first",
    "heads-alone",
    "bi",
    "dual",
    "cosine",
    "fusion",
    "mlm",
    "pretrain",
    *METHODS,
)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
TORCHRUN += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]  # any free port
# Everything that a run leaves is written beside its place, and renamed.
WATCH = """import os, sys

def note(event, arguments):
    if event == "os.rename":
        name = "renamed-" + os.environ.get("RANK", "launcher")
        with open(os.path.join(os.environ["WATCH"], name), "a") as file:
            print(arguments[1], file=file)

sys.addaudithook(note)
"""


def run(
    *command: str | Path, limit: int = 300, watch: Path | None = None
) -> subprocess.CompletedProcess:
    """Run a command to its end.

    watch: a folder into which each process writes what it puts into place, as renamed-NUMBER.
    The beginning of stderr tells what went wrong: the process that ended first speaks first, then
    the others, then torchrun.
    """
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}  # a process that aborts says where
    if watch:
        (watch / "sitecustomize.py").write_text(WATCH)
        environment |= {"WATCH": str(watch), "PYTHONPATH": str(watch)}
    return subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit,
        env=environment,
    )


def check_ended(results: Sequence[subprocess.CompletedProcess]) -> None:
    """Fail with the complaints of the processes that ended with an error."""
    complaints = [result.stderr[:6000] for result in results if result.returncode]
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def curves(tiny_model, sample_data, tmp_path_factory):
    """Of 12 steps of each stage: the losses of one process, of two, both weights, the folder."""
    folder = tmp_path_factory.mktemp("processes")
    model = shutil.copytree(tiny_model, folder / "model")
    config = json.loads((model / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (model / "config.json").write_text(json.dumps(config))
    seen = []
    for name, count in (("alone", 1), ("together", 2)):
        (folder / name).mkdir()
        command = ["tests/toy_processes.py", model, sample_data, folder / name, *STAGES]
        check_ended(run_ranks(count, *command) if count > 1 else [run_python(*command)])
        seen.append(json.loads((folder / name / "losses.json").read_text()))
    weights = []
    for number in (0, 1):
        path = folder / "together" / f"weights-{number}.json"
        weights.append(json.loads(path.read_text()))
    return *seen, weights, folder


@pytest.mark.parametrize("stage", STAGES)
def test_two_processes_have_the_losses_of_one(curves, stage):
    of_one, of_two, weights, _ = curves
    alone = of_one["losses"][stage]
    together = of_two["losses"][stage]
    assert len(alone) == 12 and len(set(alone)) > 9
    assert together == pytest.approx(alone, rel=1e-5, abs=1e-6)
    assert weights[0][stage] == weights[1][stage], "both end with the same weights"


@pytest.mark.parametrize("stage", STAGES)
def test_two_processes_have_the_gradients_of_one(curves, stage):
    """A wrong factor, such as of rows of another process, hardly moves the losses."""
    alone, together = (seen["gradients"][stage] for seen in curves[:2])
    assert len(alone) >= 4 and sum(alone) > 0  # the heads alone have four
    assert together == pytest.approx(alone, rel=1e-4, abs=1e-6)


def test_of_several_processes_none_clears_up(curves):
    """A thread of gloo that is still alive while Python does so can abort its process."""
    assert not list((curves[3] / "together").glob("cleared-up-*"))
    assert (curves[3] / "alone" / "cleared-up-0").exists(), "one alone does"


def test_a_process_that_ends_ends_the_job(tiny_model, sample_data, tmp_path):
    started = time.monotonic()
    command = ["tests/toy_processes.py", tiny_model, sample_data, tmp_path, "death"]
    survivor, dead = run_ranks(2, *command)
    assert dead.returncode == 9
    assert survivor.returncode != 0 and not (tmp_path / "losses.json").exists()
    assert "process 0 of 2 lost the others" in survivor.stderr, (
        "the other one hangs, or ends without a word"
    )
    assert time.monotonic() - started < 100, "it is noticed when it ends, not when patience does"


@pytest.fixture(scope="module")
def command(tiny_model, sample_data, tmp_path_factory):
    """A small run of three stages in two processes, without --name."""
    flags = ["--model", tiny_model, "--data-dir", sample_data, "--precision", "fp32"]
    flags += ["--pretrain", "mlm,simcse", "--batch-size", "8", "--epochs", "2"]
    flags += ["--save-every", "1", "--device", "cpu"]
    return [*TORCHRUN, "run_multitask.py", *flags, "--output-dir", tmp_path_factory.mktemp("runs")]


@pytest.fixture(scope="module")
def whole_run(command, tmp_path_factory):
    """What it printed, its folder, and the folder of what each process put into place."""
    watch = tmp_path_factory.mktemp("watch")
    result = run(*command, "--name", "whole", watch=watch)
    assert result.returncode == 0, result.stderr[:6000]
    return result.stdout, command[-1] / "whole", watch


def test_one_process_prints_and_writes(whole_run):
    printed, folder, watch = whole_run
    assert printed.count("leaderboard files:") == 1 and printed.count("zero-shot STS dev") == 1
    record = json.loads((folder / "run.json").read_text())
    assert record["scores"].keys() >= {"sst", "para", "sts"} and len(record["epochs"]) == 2
    assert (
        len(list((folder / "predictions").iterdir())) == 6 and not (folder / "checkpoint").exists()
    )
    others = [path.read_text() for path in watch.glob("renamed-*") if path.name != "renamed-0"]
    assert not any(str(folder.parent) in text for text in others), (
        "another one writes more than the cache of tokens"
    )
    renamed = (watch / "renamed-0").read_text().splitlines()
    written = {str(path) for path in (folder / "predictions").iterdir()}
    assert written <= set(renamed) and all(renamed.count(path) == 1 for path in written)


def test_a_run_that_was_stopped_ends_in_the_same_bits(command, whole_run):
    # A folder of its own, or its stages would be taken from the other run.
    folder = command[-1] / "stopped" / "run"
    going = [*command[:-1], folder.parent, "--name", "run"]
    # A stop in a stage before the tasks is tested in tests/system/test_resume.py.
    with open(command[-1] / "stderr.txt", "w+") as said:
        process = subprocess.Popen(
            list(map(str, going)),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    deadline = time.monotonic() + 300
    while not (folder / "checkpoint" / "multitask" / "state.json").is_file():
        complaint = (command[-1] / "stderr.txt").read_text()[:6000]
        assert process.poll() is None and time.monotonic() < deadline, complaint
        time.sleep(0.02)
    # Ctrl-C, which a terminal sends to torchrun and to the processes at once.
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=100)
    assert process.returncode != 0 and not (folder / "run.json").exists()
    check_ended(run_ranks(2, "run_multitask.py", "--resume", folder))
    for name in ("model.safetensors", "heads.safetensors"):
        assert (folder / "model" / name).read_bytes() == (
            whole_run[1] / "model" / name
        ).read_bytes()


def test_pretraining_in_two_processes_is_stopped_and_ends(tmp_path):
    """From the command line to the folder. The other command shows that the bits are the same."""
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    pretrain = ["-m", "minbert.pretraining"]
    flags = ["--corpus", tmp_path / "text.txt", "--size", "tiny", "--vocabulary", "minbert-mini"]
    flags += ["--tokens", "1536", "--batch-size", "6", "--block-size", "16"]
    flags += ["--precision", "fp32", "--device", "cpu"]
    ranks = start_ranks(2, *pretrain, *flags, "--out", tmp_path / "stopped")
    deadline = time.monotonic() + 300
    while not (tmp_path / "stopped" / "checkpoint" / "state.json").is_file():
        assert ranks[0].poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    for rank in ranks:
        rank.send_signal(signal.SIGINT)
    stopped = [rank.completed(timeout=100) for rank in ranks]
    assert all(result.returncode != 0 for result in stopped)
    assert not (tmp_path / "stopped" / "run.json").exists()
    resumed = run_ranks(2, *pretrain, "--resume", tmp_path / "stopped")
    check_ended(resumed)
    printed = "".join(result.stdout for result in resumed)
    assert printed.count("tokens/s") == 1 and "predicted" in printed
    record = json.loads((tmp_path / "stopped" / "run.json").read_text())
    assert record["machine"]["processes"] == 2 and record["tokens"] == 1536
    assert len(record["history"]) == 16 and (tmp_path / "stopped" / "model.safetensors").is_file()
    assert (tmp_path / "stopped" / "curves.png").is_file()


def test_two_processes_embed_what_one_embeds(tmp_path):
    """Seven sentences in batches of two. The first process reads standard input, and writes."""
    command = ["-m", "contrastive.embed", "minbert-mini", "--lines", "--batch-size", "2"]
    content = "\n".join(line[: 5 * place] for place, line in enumerate(LINES[:7], start=1))
    stored = []
    for count in (1, 2):
        path = tmp_path / f"{count}.npy"
        line = [*command, "--out", path]
        if count == 1:
            results = [run_python(*line, input=content)]
        else:
            results = run_ranks(count, *line, input=content)
        check_ended(results)
        complaints = "".join(result.stderr for result in results)
        assert complaints.count("vectors: ") == 1, "one process speaks"
        stored.append(path.read_bytes())
    assert stored[0] == stored[1]


@pytest.mark.parametrize("count", [2, 5])
def test_batches_are_shared_and_joined_to_the_bit(monkeypatch, count):
    """Five processes have three batches: two of them have none of their own."""
    batches = [[3, 1], [0, 4], [2]]
    values = torch.tensor([[-0.0], [1e-45], [3.5], [-7.0], [1e38]])

    def act(number: int) -> torch.Tensor:
        own = processes.share_out(batches)
        return processes.join_rows(own, values[own.rows], len(values))

    for joined in in_ranks(monkeypatch, count, act):
        assert torch.equal(joined.view(torch.int32), values.view(torch.int32))


def test_alone_nothing_changes():
    assert processes.count() == 1 and processes.number() == 0
    assert processes.own_rows(3) == OwnRows([0, 1, 2], 1.0)
    tensor = torch.arange(6.0).view(3, 2)
    assert processes.add(tensor) is tensor and processes.gather(tensor, 3) is tensor
    before = torch.get_rng_state()
    with processes.own_randomness():
        assert torch.equal(torch.get_rng_state(), before)
    assert processes.any_of(True) and not processes.any_of(False)
    processes.leave()
    processes.end()
    assert processes.from_first(lambda: 5) == 5


def test_each_process_needs_a_gpu_of_its_own(monkeypatch):
    """Asked before the processes meet, which here they never would."""
    variables = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "here"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(ValueError, match="WORLD_SIZE is 2, and MASTER_PORT is not set"):
        processes.join("auto")
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    message = "process 2 on this machine, which has 1 GPUs; .*_per_node 1 to torchrun"
    with pytest.raises(ValueError, match=message):
        processes.join("auto")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(ValueError, match="cannot share an Apple GPU: .* Pass --device cpu"):
        processes.join("auto")
    met = []
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, timeout: met.append(backend)
    )
    monkeypatch.setattr(processes, "number", lambda: 0)
    processes.join("cpu")
    assert met == ["gloo"]


@pytest.mark.parametrize(
    ("number", "count", "expected"),
    [(0, 2, ([0, 2, 4], 0.6)), (1, 2, ([1, 3], 0.4)), (2, 3, ([2], 0.2)), (6, 7, ([0], 0.0))],
)
def test_every_row_belongs_to_one_process(monkeypatch, number, count, expected):
    monkeypatch.setattr(processes, "number", lambda: number)
    monkeypatch.setattr(processes, "count", lambda: count)
    assert processes.own_rows(5) == expected


def test_masks_differ_between_processes_and_states_do_not(monkeypatch):
    drawn, left = [], []
    for number in (0, 1):
        monkeypatch.setattr(processes, "number", lambda number=number: number)
        monkeypatch.setattr(processes, "count", lambda: 2)
        torch.manual_seed(3)
        for _ in range(2):
            with processes.own_randomness():
                drawn.append(torch.rand(4).tolist())
            with processes.own_randomness():
                pass
        left.append(torch.get_rng_state())
    assert len(set(map(tuple, drawn))) == 4 and torch.equal(*left)
    torch.manual_seed(3)
    torch.randint(2**62, ())
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), left[0]), (
        "one draw further for each time that anything was drawn"
    )
