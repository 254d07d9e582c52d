"""minbert/hub.py: hub names, the library's cache, and no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from minbert import BertConfig, BertModel, BertTokenizer
from minbert.hub import resolve

ROOT = Path(__file__).resolve().parents[2]
TINY = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return BertModel(TINY).eval()


@pytest.fixture
def folder(model, tmp_path):
    """A model folder in Hugging Face layout."""
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    return tmp_path / "model"


def assert_loads(name: str, model: BertModel) -> None:
    loaded = BertModel.from_pretrained(name)
    for parameter_name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(parameter_name), parameter), parameter_name


def make_cache(
    home: Path, folder: Path, name: str = "acme/tiny-bert", files: tuple[str, ...] = ()
) -> Path:
    """The layout that huggingface_hub keeps below HF_HOME; returns the snapshot."""
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / ("ab" * 20)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("ab" * 20)
    for file in files or [path.name for path in folder.iterdir()]:
        shutil.copy(folder / file, snapshot)
    return snapshot


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty Hugging Face cache.

    The library reads its place and its switch at import, hence the constants.
    """
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "home"


@pytest.fixture
def answering_hub(home, folder, monkeypatch):
    """A hub that has the files of the folder. Returns the place in the cache, which is empty."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    snapshot = home / "snapshot"

    def fetch(name, file, local_files_only=False):
        if not (snapshot / file).is_file():
            if local_files_only:
                raise LocalEntryNotFoundError("not in the cache")
            if not (folder / file).is_file():
                raise EntryNotFoundError("404")
            (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / file, snapshot / file)
        return str(snapshot / file)

    def list_files(name):
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return sorted(path.relative_to(folder).as_posix() for path in paths)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    monkeypatch.setattr(huggingface_hub, "list_repo_files", list_files)
    return snapshot


def test_hub_name_is_found_in_the_cache(home, folder, model):
    snapshot = make_cache(home, folder)
    assert resolve("acme/tiny-bert") == snapshot
    assert_loads("acme/tiny-bert", model)


def test_the_hub_is_asked_only_for_what_the_cache_lacks(home, folder, monkeypatch):
    """Without a network asking takes half a minute, also for a model that is there."""
    from huggingface_hub import constants, file_download

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def ask(*_, **__):
        raise OSError("the hub was asked")

    monkeypatch.setattr(file_download, "get_hf_file_metadata", ask)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    snapshot = make_cache(home, folder)
    assert resolve("acme/tiny-bert") == snapshot
    # Without tokenizer_config.json a cased model would be lower-cased.
    for file in ("tokenizer_config.json", "vocab.txt"):
        (snapshot / file).unlink()
        with pytest.raises(ValueError, match="acme/tiny-bert: .*the hub was asked.* the spelling"):
            resolve("acme/tiny-bert")


@pytest.mark.parametrize("opened", [BertModel, BertTokenizer, BertConfig])
def test_local_files_only_never_asks_the_hub(home, folder, monkeypatch, opened):
    """Neither for a model that is in the cache, nor for one that is not."""
    from huggingface_hub import constants, file_download

    def ask(*_, **__):
        pytest.fail("the hub was asked")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(file_download, "get_hf_file_metadata", ask)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    make_cache(home, folder)
    opened.from_pretrained("acme/tiny-bert", local_files_only=True)
    with pytest.raises(ValueError, match="acme/other: .*local_files_only forbids to ask the hub"):
        opened.from_pretrained("acme/other", local_files_only=True)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_name_without_an_owner_gets_a_hint(home, is_local):
    """sentence-transformers finds all-MiniLM-L6-v2 under its own name on the hub."""
    hint = "needs its owner's name: sentence-transformers/all-MiniLM-L6-v2.$"
    with pytest.raises(ValueError, match=hint):
        resolve("all-MiniLM-L6-v2", local_files_only=is_local)
    with pytest.raises(ValueError) as error:
        resolve("acme/all-MiniLM-L6-v2", local_files_only=is_local)
    assert "owner" not in str(error.value)


def test_a_config_is_found_by_every_name_of_its_model(home, folder):
    make_cache(home, folder)
    for name in ("acme/tiny-bert", str(folder), folder):
        assert BertConfig.from_pretrained(name) == TINY
    assert BertConfig.from_pretrained("minbert-mini").hidden_size == 192


def test_a_hub_that_fails_on_one_file_is_no_answer(home, folder, monkeypatch):
    """Without tokenizer_config.json a cased model would be lower-cased.

    A model that has none is another matter.
    """
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    snapshot = make_cache(home, folder, files=("config.json", "vocab.txt"))

    def fetch(name, file, local_files_only=False):
        if file == "tokenizer_config.json":
            if fails or local_files_only:
                raise LocalEntryNotFoundError("the hub did not answer")
            raise EntryNotFoundError("404")
        if not (snapshot / file).is_file():
            if local_files_only:
                raise LocalEntryNotFoundError("not in the cache")
            if not (folder / file).is_file():
                raise EntryNotFoundError("404")
            shutil.copy(folder / file, snapshot)
        return str(snapshot / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    fails = True
    with pytest.raises(ValueError, match=r"acme/tiny-bert: .*the hub did not answer"):
        resolve("acme/tiny-bert")
    assert not (snapshot / "model.safetensors").exists()
    fails = False
    assert resolve("acme/tiny-bert") == snapshot and (snapshot / "model.safetensors").exists()
    # It has answered before, or the weights would not be here.
    fails = True
    assert resolve("acme/tiny-bert") == snapshot


def test_tokenizer_modules_and_shards_are_fetched(answering_hub, folder):
    """A model saved by transformers 5 has no vocab.txt; sentence-transformers adds modules."""
    (folder / "vocab.txt").unlink()
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = {"weight_map": {"pooler.dense.bias": "model-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    modules = [{"path": ""}, {"path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    for name in ("tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        (folder / name).write_text("{}")
    assert resolve("acme/tiny-bert") == answering_hub
    for path in folder.rglob("*.*"):
        assert (answering_hub / path.relative_to(folder)).exists(), path


@pytest.mark.parametrize(
    ("names", "fetched"),
    [
        (["vocab.json", "merges.txt"], ["vocab.json", "merges.txt"]),
        (["tokenizer.json", "vocab.json", "merges.txt"], ["tokenizer.json"]),
        (["sentencepiece.bpe.model"], ["sentencepiece.bpe.model"]),
        (["vocab.txt"], ["vocab.txt"]),
    ],
)
def test_the_vocabulary_of_each_family_is_fetched(answering_hub, folder, names, fetched):
    """RoBERTa has two files, XLM-R a sentencepiece model. tokenizer.json alone is enough."""
    (folder / "vocab.txt").unlink()
    for name in names:
        (folder / name).write_text("{}")
    assert resolve("acme/tiny-bert") == answering_hub
    assert {path.name for path in answering_hub.iterdir()} == {
        "config.json",
        "model.safetensors",
        *fetched,
    }


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_beside_its_base_on_the_hub_is_fetched(answering_hub, folder, name):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / name).write_bytes(b"")
    assert resolve("acme/tiny-bert") == answering_hub
    fetched = {path.name for path in answering_hub.iterdir()}
    assert {"adapter_config.json", name, "model.safetensors", "config.json"} <= fetched


@pytest.mark.parametrize("vocabulary", ["vocab.txt", "tokenizer.json", None])
def test_an_adapter_alone_on_the_hub_is_fetched(answering_hub, folder, tmp_path, vocabulary):
    """Its base is a folder here. It needs no config.json, no weights and no vocabulary."""
    base = tmp_path / "base"
    shutil.copytree(folder, base)
    for name in ("config.json", "model.safetensors", "vocab.txt", "SHA256SUMS"):
        (folder / name).unlink()
    config = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    if vocabulary is not None:
        (folder / vocabulary).write_text("{}")
    for _ in range(2):
        # The second time it is complete in the cache.
        assert resolve("acme/tiny-lora") == answering_hub
    kept = {path.name for path in folder.iterdir()}
    assert {path.name for path in answering_hub.iterdir()} == kept


def test_a_variant_on_the_hub(answering_hub, folder, model):
    (folder / "model.safetensors").rename(folder / "model.fp16.safetensors")
    assert_loads("acme/tiny-bert", model)


def test_weights_on_the_hub_that_are_not_read_are_named(answering_hub, folder):
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"the hub has neither .*onnx.model.onnx \(ONNX\), tf_mod"):
        resolve("acme/tiny-bert")


def test_hub_name_with_the_older_weights_format(home, folder, model):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    make_cache(home, folder, "tiny-bert")
    assert_loads("tiny-bert", model)


def test_hub_name_whose_cache_lacks_the_weights(home, folder):
    make_cache(home, folder, files=("config.json", "vocab.txt"))
    with pytest.raises(ValueError, match="acme/tiny-bert: .*HF_HUB_OFFLINE is set.* minilm"):
        resolve("acme/tiny-bert")


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_an_unknown_hub_name_names_the_offline_switch(home, monkeypatch, switch):
    """Neither the spelling nor the network is to blame."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(switch, "1")
    with pytest.raises(ValueError, match=f"acme/no-such-bert: .*because {switch} is set") as error:
        resolve("acme/no-such-bert")
    assert "spelling" not in str(error.value) and "network" not in str(error.value)


def test_offline_switch_and_cache_place_are_the_librarys_own(folder, tmp_path):
    """In its own process: HF_HOME and HF_HUB_OFFLINE as a user sets them, no constants touched."""
    make_cache(tmp_path / "home", folder)
    program = "import sys; from minbert.hub import resolve; print(resolve(sys.argv[1]))"

    def ask(name: str) -> subprocess.CompletedProcess:
        environment = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
        for key, value in os.environ.items():
            if not key.startswith(("HF_", "HUGGINGFACE_")):
                environment[key] = value
        return subprocess.run(
            [sys.executable, "-c", program, name],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    answer = ask("acme/tiny-bert")
    assert answer.returncode == 0, answer.stderr
    config = Path(answer.stdout.strip()) / "config.json"
    assert json.loads(config.read_text())["hidden_size"] == 8
    assert "not complete in the Hugging Face cache" in ask("acme/other").stderr
