"""contrastive/embed/export.py: sentence-transformers opens the folder, with the same vectors."""

import importlib.util
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

from contrastive.embed.__main__ import main as embed_main
from contrastive.embed.export import GRAPH, TOKENIZER, export
from contrastive.embedder import open_embedder
from minbert import BertTokenizer
from minbert.commands.optional import ONNX_PACKAGES, install_command
from minbert.sentence_modules import DenseLayer, module_files
from tests.small_models import make_model

MAX_LENGTH = 16
# One of them is longer than 16 tokens.
SENTENCES = [
    "A doctor is helping the girl.",
    "the girl",
    "a short man is in the hotel near the street, the street and the hotel",
    "Two MEN walk",
    "a doctor",
    "?",
]

# --- the layout -----------------------------------------------------------------------------------


def test_the_layout_by_hand():
    files = module_files(24, MAX_LENGTH, is_mean=False)
    assert sorted(files) == ["1_Pooling/config.json", "modules.json", "sentence_bert_config.json"]
    modules = [(module["idx"], module["path"], module["type"]) for module in files["modules.json"]]
    assert modules == [
        (0, "", "sentence_transformers.models.Transformer"),
        (1, "1_Pooling", "sentence_transformers.models.Pooling"),
    ]
    assert files["sentence_bert_config.json"]["max_seq_length"] == MAX_LENGTH
    pooling = files["1_Pooling/config.json"]
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_cls_token"]
    assert pooling["word_embedding_dimension"] == 24


@pytest.mark.parametrize(
    ("pooling", "is_normalised", "paths"),
    [
        ("mean", False, ["", "1_Pooling"]),
        ("mean", True, ["", "1_Pooling", "2_Normalize"]),
        ("pooler", False, ["", "1_Pooling", "2_Dense"]),
        ("pooler", True, ["", "1_Pooling", "2_Dense", "3_Normalize"]),
    ],
)
def test_modules_follow_one_another(pooling, is_normalised, paths):
    layers = [DenseLayer(torch.nn.Linear(8, 8), "Tanh")] if pooling == "pooler" else []
    files = module_files(8, MAX_LENGTH, pooling == "mean", layers, is_normalised)
    modules = files["modules.json"]
    assert [module["path"] for module in modules] == paths
    assert [module["idx"] for module in modules] == list(range(len(paths)))


# --- sentence-transformers ------------------------------------------------------------------------


def exported(model, folder, pooling: str, is_normalised: bool = False) -> torch.Tensor:
    """Our vectors (N, H) of SENTENCES, after the model is written to `folder`."""
    embedder, _ = open_embedder(model, pooling, max_length=MAX_LENGTH, device="cpu")
    export(
        embedder.encoder,
        embedder.tokenizer,
        folder,
        embedder.pooling,
        MAX_LENGTH,
        is_normalised,
    )
    vectors, num_cut = embedder.encode(SENTENCES)
    assert 0 < num_cut < len(SENTENCES)
    return F.normalize(vectors, dim=-1) if is_normalised else vectors


def opened(folder):
    """The folder as a model of sentence-transformers, without the network."""
    library = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is the reference"
    )
    return library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def their_vectors(folder) -> torch.Tensor:
    model = opened(folder)
    return model.encode(SENTENCES, convert_to_tensor=True, show_progress_bar=False)


@pytest.mark.parametrize(
    ("pooling", "is_normalised"),
    [("mean", False), ("cls", False), ("pooler", False), ("mean", True), ("pooler", True)],
)
def test_sentence_transformers_gives_our_vectors(tiny_model, tmp_path, pooling, is_normalised):
    """fp32, 2 layers: measured 1e-7."""
    folder = tmp_path / "new" / "model"
    vectors = exported(tiny_model, folder, pooling, is_normalised)
    assert opened(folder).max_seq_length == MAX_LENGTH
    torch.testing.assert_close(their_vectors(folder), vectors, rtol=0, atol=1e-5)
    assert [*folder.parent.iterdir()] == [folder], "nothing half-written beside it"


def test_another_pooling_gives_other_vectors(tiny_model, tmp_path):
    """The negative control: the equality above comes from the layout."""
    vectors = exported(tiny_model, tmp_path / "model", "cls")
    layout = module_files(32, MAX_LENGTH, is_mean=True)
    wrong = json.dumps(layout["1_Pooling/config.json"])
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text(wrong, encoding="utf-8")
    assert (their_vectors(tmp_path / "model") - vectors).abs().max() > 0.1


def test_a_cased_vocabulary_stays_cased(tiny_model, tmp_path):
    embedder, _ = open_embedder(tiny_model, device="cpu")
    cased = BertTokenizer(embedder.tokenizer.vocabulary, lowercase=False)
    export(embedder.encoder, cased, tmp_path / "cased", "mean", MAX_LENGTH, False)
    ours, _ = open_embedder(tmp_path / "cased", max_length=MAX_LENGTH, device="cpu")
    expected, _ = ours.encode(SENTENCES)
    torch.testing.assert_close(their_vectors(tmp_path / "cased"), expected, rtol=0, atol=1e-5)
    lower, _ = embedder.encode(SENTENCES)
    assert (lower[0] - expected[0]).abs().max() > 1e-2, '"A" is no word of the vocabulary'


# --- our own reader -------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_we_open_it_as_well(tiny_model, tmp_path, pooling):
    """The pooling is noted in it."""
    vectors = exported(tiny_model, tmp_path / "model", pooling)
    embedder, _ = open_embedder(tmp_path / "model", max_length=MAX_LENGTH, device="cpu")
    assert embedder.pooling == pooling
    again, _ = embedder.encode(SENTENCES)
    assert torch.equal(again, vectors)


def test_an_export_that_fails_leaves_nothing(tiny_model, tmp_path, monkeypatch):
    def stop(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.sentence_modules.write_json", stop)
    assert embed_main([str(tiny_model), "--export", str(tmp_path / "model")]) == 130
    assert not [*tmp_path.iterdir()]


def test_a_model_that_normalises_still_does_after_the_export(model_copy, tmp_path):
    """As all-MiniLM-L6-v2, whose own modules bring vectors to length 1."""
    library = pytest.importorskip("sentence_transformers")
    parts = [
        library.models.Transformer(str(model_copy), max_seq_length=MAX_LENGTH),
        library.models.Pooling(32, "mean"),
        library.models.Normalize(),
    ]
    library.SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "st"))
    assert embed_main([str(tmp_path / "st"), "--export", str(tmp_path / "out")]) == 0
    expected = library.SentenceTransformer(str(tmp_path / "st"), device="cpu").encode(SENTENCES)
    vectors = opened(tmp_path / "out").encode(SENTENCES)
    torch.testing.assert_close(torch.tensor(vectors), torch.tensor(expected), atol=1e-5, rtol=0)
    ours, _ = open_embedder(tmp_path / "out", device="cpu")[0].encode(SENTENCES)
    torch.testing.assert_close(ours, torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_our_own_export_keeps_its_length_when_it_is_opened_here(tiny_model, tmp_path, pooling):
    """Rows are cut as sentence-transformers cuts them, unless another length is passed."""
    vectors = exported(tiny_model, tmp_path / "out", pooling)
    embedder, _ = open_embedder(tmp_path / "out", device="cpu")
    assert (embedder.max_length, embedder.pooling) == (MAX_LENGTH, pooling)
    torch.testing.assert_close(embedder.encode(SENTENCES)[0], vectors, atol=1e-5, rtol=0)
    assert open_embedder(tmp_path / "out", max_length=9)[0].max_length == 9


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_random_pooler_is_not_exported(tmp_path, pooling):
    """A masked language model has none. Written, it would look like a trained one."""
    exported("minbert-mini", tmp_path / "out", pooling)
    names = load_file(tmp_path / "out" / "model.safetensors").keys()
    assert not [name for name in names if "pooler" in name]
    opened(tmp_path / "out")


# --- ONNX -----------------------------------------------------------------------------------------

has_onnx = all(importlib.util.find_spec(name) for name in ONNX_PACKAGES)


@pytest.mark.skipif(not has_onnx, reason="run setup.sh --onnx")
@pytest.mark.parametrize(
    ("family", "pooling", "flags"),
    [("bert", "pooler", []), ("roberta", "mean", ["--normalise"])],
)
def test_a_graph_gives_the_vectors_of_embed(tmp_path, capsys, family, pooling, flags):
    import onnxruntime

    make_model(family, tmp_path / "start")
    out = tmp_path / "out"
    arguments = [str(tmp_path / "start"), "--pooling", pooling, "--export", str(out), "--onnx"]
    assert embed_main([*arguments, *flags]) == 0
    assert "largest difference from torch" in capsys.readouterr().err

    session = onnxruntime.InferenceSession(str(out / GRAPH), providers=["CPUExecutionProvider"])
    rows = Tokenizer.from_file(str(out / TOKENIZER)).encode_batch(SENTENCES)
    columns = {
        "input_ids": [row.ids for row in rows],
        "attention_mask": [row.attention_mask for row in rows],
        "token_type_ids": [row.type_ids for row in rows],
    }
    names = [entry.name for entry in session.get_inputs()]
    assert ("token_type_ids" in names) == (family == "bert")
    states, vectors = session.run(None, {name: np.array(columns[name]) for name in names})
    expected, _ = open_embedder(tmp_path / "start", pooling, device="cpu")[0].encode(SENTENCES)
    if flags:
        expected = F.normalize(expected, dim=-1)
    torch.testing.assert_close(torch.tensor(vectors), expected, atol=1e-5, rtol=0)
    assert states.shape[:2] == np.array(columns["input_ids"]).shape


def test_missing_packages_are_named_before_any_work(tiny_model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "out"
    assert embed_main([str(tiny_model), "--export", str(out), "--onnx"]) == 2
    assert install_command(ONNX_PACKAGES, "--onnx") in capsys.readouterr().err
    assert not out.exists()


def test_a_graph_without_an_export_is_refused(tiny_model, capsys):
    assert embed_main([str(tiny_model), "--onnx", "--nearest", "1"]) == 2
    assert "--onnx has no effect without --export" in capsys.readouterr().err
