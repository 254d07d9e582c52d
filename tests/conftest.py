"""Fixtures of all tests: no network, one thread, a tiny model, and data that is generated.

With them a laptop, a shared machine and CI see the same numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.reference_models import hugging_face_folder, minilm_folder

__all__ = ["hugging_face_folder", "minilm_folder"]

ROOT = Path(__file__).resolve().parents[1]
# The longest one first.
LONGEST_FILES = (
    "test_processes.py",
    "test_handout.py",
    "test_lesson_functions.py",
    "test_gpu.py",
    "test_runs.py",
    "test_end_to_end.py",
    "test_series.py",
    "test_package.py",
    "test_grade.py",
    "test_run_folder.py",
    "test_resume.py",
)
SAMPLE_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?'-"

# huggingface_hub reads this at its import, so it is set before any test module is loaded.
os.environ["HF_HUB_OFFLINE"] = "1"

# torch reads this, and so do the processes that tests start. Tiny matrices gain nothing from a
# second thread.
os.environ["OMP_NUM_THREADS"] = "1"

# A shell starts jobs in the background with Ctrl-C ignored. The processes that tests start would
# inherit that, and the tests that stop them would fail.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests leave nothing in the user's cache.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="minbert-tests-")


def pytest_addoption(parser: pytest.Parser) -> None:
    """--plugin-file mine.py: the general tests also run over the methods of that file."""
    parser.addoption("--plugin-file", action="append", default=[], help="a file for --plugin")


def pytest_configure(config: pytest.Config) -> None:
    """Load the files of --plugin-file before any test module asks a registry for its names."""
    from minbert.commands.plugins import load
    from minbert.reporting import terminal

    # On a busy machine, lines on progress would stand among those that a test compares.
    terminal.LOG_SECONDS = 3600.0
    for path in config.getoption("--plugin-file"):
        load(path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no core waits for the other at the end."""
    place = {name: number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """A test that connects to another machine fails with this reason. A local server is allowed."""
    connect = socket.socket.connect

    def connect_locally(self, address):
        is_network = self.family != socket.AF_UNIX
        if is_network and address[0] not in {"127.0.0.1", "::1", "localhost"}:
            raise AssertionError(
                f"this test connects to {address}; tests run offline. Use a local server or a fake."
            )
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_locally)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tensors are tiny here. A second thread only waits for the first, long on a busy machine."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _records_of_edited_code():
    """Tests may write records before a change is committed. Gives the check that is left out."""
    from experiments import records

    def leave_out(code):
        """Not check that the code is in a commit."""

    # The tests of the tools have this fixture, too. One process may run both.
    leave_out.check = getattr(records.check_committed, "check", records.check_committed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "check_committed", leave_out)
        yield leave_out.check


@pytest.fixture(scope="session", autouse=True)
def _no_reports():
    """Runs in this process draw no report.html, which takes longer than many a tiny run.

    The fixture `reports` lets the runs of a file draw. Runs in processes of their own always do.
    """
    from multitask import results

    with pytest.MonkeyPatch.context() as patch:
        write_report = results.write_report
        patch.setattr(results, "write_report", lambda *arguments: [])
        yield write_report


@pytest.fixture(scope="module")
def reports(_no_reports):
    """The runs of this file write their report and their model card."""
    from multitask import results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "write_report", _no_reports)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_pretraining():
    """Pretraining in this process draws no curves, and measures the machine in a moment.

    Processes that tests start do both. test_curves.py draws.
    """
    from minbert.pretraining import plain_text
    from minbert.training import cost_estimate

    class Undrawn(plain_text.Curves):
        def draw(self, history):
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "Curves", Undrawn)
        patch.setitem(cost_estimate.PRODUCTS, "cpu", cost_estimate.Products(64, 1))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_fsync():
    """Write files without fsync, which guards against a power cut and is slow on a busy disk.

    A killed process leaves them complete all the same. Processes that tests start do flush.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def controlled_data(tmp_path_factory):
    """Nine generated files: 3,000 training rows, 500 of dev and test, for each task."""
    folder = tmp_path_factory.mktemp("controlled")
    # Nothing outside of tools/ imports it.
    command = [sys.executable, "-m", "tools.sample.controlled", "--out", str(folder), "--seed", "0"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder


def sample_vocabulary(folder: Path) -> list[str]:
    """Special tokens, the 300 most frequent words of the files, and letters to spell the rest."""
    from minbert.tokenizer import SPECIAL_TOKENS

    paths = sorted(folder.glob("*-train.csv"))
    text = " ".join(path.read_text(encoding="utf-8").lower() for path in paths)
    counts = Counter(re.findall("[a-z]+", text)).most_common(300)
    words = [word for word, _ in counts]
    pieces = [f"##{letter}" for letter in SAMPLE_LETTERS]
    return list(dict.fromkeys([*SPECIAL_TOKENS, *words, *SAMPLE_LETTERS, *pieces]))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory, controlled_data):
    """A random model for `--model`: 2 layers, 32 units, 128 positions, the data's words.

    It has no record of its files, as models of other libraries. So tests may edit copies of it.
    """
    import torch

    from minbert import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("tiny-model")
    tokens = sample_vocabulary(controlled_data)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
    model.save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    BertTokenizer(vocabulary).save_pretrained(folder)
    (folder / "SHA256SUMS").unlink()
    return folder


@pytest.fixture
def model_copy(tiny_model, tmp_path):
    """A copy of tiny_model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


@pytest.fixture
def short_model(model_copy):
    """A copy of tiny_model that has 64 positions only."""
    import json

    from safetensors.torch import load_file, save_file

    path = model_copy / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_position_embeddings": 64}))
    tensors = load_file(model_copy / "model.safetensors")
    name = "embeddings.position_embeddings.weight"
    tensors[name] = tensors[name][:64].contiguous()
    save_file(tensors, model_copy / "model.safetensors", metadata={"format": "pt"})
    return model_copy


def write_cut(source: Path, folder: Path, num_rows: int, num_train_rows: int | None = None) -> Path:
    """Write the first rows of each file in `source` into `folder`.

    num_train_rows: of the training files, where it is not num_rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.glob("*.csv"):
        num_kept = num_rows
        if num_train_rows and "-train" in path.name:
            num_kept = num_train_rows
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(lines[: num_kept + 1])
        (folder / path.name).write_text(text, encoding="utf-8", newline="\n")
    return folder


@pytest.fixture(scope="session")
def cut_sample(controlled_data) -> Callable[..., Path]:
    """A function (folder, num_rows, num_train_rows=None) that writes a cut of controlled_data."""
    return partial(write_cut, controlled_data)


@pytest.fixture(scope="session")
def sample_data(cut_sample, tmp_path_factory):
    """A folder with the nine course files: 64 train, 24 dev and 24 test rows of each task."""
    return cut_sample(tmp_path_factory.mktemp("data"), 24, 64)


@pytest.fixture(scope="session")
def two_runs(tiny_model, sample_data, tmp_path_factory):
    """The folders of two finished tiny runs with two seeds. Copy one before you change it."""
    import run_multitask

    folder = tmp_path_factory.mktemp("two-runs")
    flags = ["--model", str(tiny_model), "--data-dir", str(sample_data)]
    # Enough steps that different rows get different answers, in the precision that every machine
    # computes alike.
    flags += ["--epochs", "6", "--lr", "3e-3", "--batch-size", "8", "--precision", "fp32"]
    flags += ["--output-dir", str(folder)]
    for name, seed in (("first", "1"), ("second", "2")):
        assert run_multitask.main([*flags, "--seed", seed, "--name", name]) == 0
    return [folder / "first", folder / "second"]


@pytest.fixture
def make_stages(sample_data, tiny_model, tmp_path, monkeypatch):
    """A function that builds the stages of a chain (toy_stages.py), small and quick."""
    from command_line.options import Options
    from contrastive import methods
    from minbert import BertTokenizer
    from multitask.rows import read_tables
    from tests.toy_stages import make_chain

    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)
    options = Options.of(data_dir=str(sample_data)).with_files()
    tables = read_tables(options.data)
    tokenizer = BertTokenizer.from_pretrained(tiny_model)

    def make(chain: str, run: str = "run", **changes):
        return make_chain(chain, tiny_model, tables, tokenizer, tmp_path / run, **changes)

    return make
