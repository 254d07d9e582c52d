"""Encoders of other families through the commands: trained, saved, opened again and predicted.

The models are small and random. The course's files are cut to a few rows.
"""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import run_multitask
from contrastive.embed.__main__ import main as embed
from contrastive.embedder import open_embedder
from data.batching import EncodedExamples
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.pretraining import __main__ as pretraining
from multitask import predict
from multitask.model import MultitaskBert
from tests.small_models import SENTENCES, make_model
from tests.toy_text import LINES

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

FAMILIES = ("distilbert", "roberta", "xlm-roberta", "multilingual", "electra", "mpnet")


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def folder(family, tmp_path):
    make_model(family, tmp_path / family, "ForMaskedLM")
    return tmp_path / family


def model_type_of(folder):
    return json.loads((folder / "config.json").read_text())["model_type"]


def call(model, data, out, *flags):
    arguments = ["--model", model, "--data-dir", data, "--output-dir", out, "--name", "run"]
    arguments += ["--epochs", 1, "--batch-size", 8, "--lr", 1e-3, "--precision", "fp32"]
    return run_multitask.main(list(map(str, [*arguments, *flags])))


@pytest.mark.parametrize(
    "flags",
    [
        ["--pair-encoding", "cross", "--pooling", "cls", "--pretrain", "mlm"],
        ["--pair-encoding", "bi", "--pretrain", "simcse"],
    ],
)
def test_a_run(family, folder, sample_data, tmp_path, flags, capsys):
    """It trains, and its model opens here and in transformers with the same hidden states."""
    assert call(folder, sample_data, tmp_path / "runs", *flags) == 0
    model = tmp_path / "runs" / "run" / "model"
    before = load_file(folder / "model.safetensors")
    name = next(name for name in before if name.endswith("embeddings.word_embeddings.weight"))
    after = load_file(model / "model.safetensors")
    assert not torch.equal(before[name], after["embeddings.word_embeddings.weight"])

    ours = MultitaskBert.from_pretrained(model)
    theirs = transformers.AutoModel.from_pretrained(model).eval()
    assert (
        theirs.config.model_type == json.loads((folder / "config.json").read_text())["model_type"]
    )
    inputs = BertTokenizer.from_pretrained(model)(list(SENTENCES))
    ids = transformers.AutoTokenizer.from_pretrained(model)(list(SENTENCES))["input_ids"]
    mask = inputs["attention_mask"].bool()
    lengths = mask.sum(dim=1).tolist()
    rows = inputs["input_ids"].tolist()
    assert [row[:length] for row, length in zip(rows, lengths, strict=True)] == ids
    with torch.no_grad():
        state = ours.encoder(**inputs).last_hidden_state
        expected = theirs(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
    torch.testing.assert_close(state[mask], expected[mask], atol=1e-5, rtol=0)

    capsys.readouterr()
    text = tmp_path / "rows.txt"
    text.write_text("the girl\ta man\na dog\tdogs\n")
    run = str(tmp_path / "runs" / "run")
    assert predict.main([run, "--task", "sts", "--input", str(text)]) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_a_run_from_an_adapter_alone(sample_data, tmp_path, capsys):
    """Its base stands elsewhere. The run saves a whole model, into which the adapter is merged."""
    base, folder = tmp_path / "base", tmp_path / "adapter"
    make_model("bert", base, "ForMaskedLM")
    config = {"peft_type": "LORA", "r": 2, "base_model_name_or_path": str(base)}
    name = "base_model.model.bert.encoder.layer.1.attention.self.value"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    pair = {
        f"{name}.lora_A.weight": torch.randn(2, 32),
        f"{name}.lora_B.weight": torch.randn(32, 2),
    }
    save_file(pair, folder / "adapter_model.safetensors")

    flags = ["--pretrain", "mlm", "--tasks", "sst"]
    assert call(folder, sample_data, tmp_path / "runs", *flags) == 0
    assert "its LoRA adapter is merged into" in " ".join(capsys.readouterr().out.split())
    model = tmp_path / "runs" / "run" / "model"
    assert not (model / "adapter_config.json").exists()
    theirs = transformers.AutoModel.from_pretrained(model).eval()
    merged = BertModel.from_pretrained(folder).layers[1].attention.value.weight
    plain = BertModel.from_pretrained(base).layers[1].attention.value.weight
    trained = theirs.encoder.layer[1].attention.self.value.weight
    assert (trained - merged).norm() < 0.2 * (trained - plain).norm()


def test_mean_pooling_of_a_pair_reads_each_sentence_by_itself(family, folder):
    """In one row, the first vector is the mean of `<s> a </s>`, the second that of `</s> b </s>`.

    transformers' hidden states, cut by hand, are the reference.
    """
    from multitask.options import HeadOptions

    encoder = BertModel.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    heads = HeadOptions(pair_encoding="cross")
    model = MultitaskBert(encoder, "mean", heads, seed=0).eval()
    first, second = "the girl is helping", "a man"
    examples = [Example("1", first, second, 1.0), Example("2", "a longer row of words", "two", 0.0)]
    batch = EncodedExamples(examples, tokenizer, 128, "cross").batch([0, 1])

    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = their_tokenizer(first, second, return_tensors="pt")
    length = len(their_tokenizer(first)["input_ids"])
    with torch.no_grad():
        vectors = model.sentence_vectors(batch, is_pair=True)
        states = theirs(**inputs).last_hidden_state[0]
    expected = (states[:length].mean(dim=0), states[length:].mean(dim=0))
    for vector, value in zip(vectors, expected, strict=True):
        torch.testing.assert_close(vector[0], value, atol=1e-5, rtol=0)


def test_vectors_and_an_export_for_sentence_transformers(family, folder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(SENTENCES), encoding="utf-8")
    for pooling in ("mean", "cls", "pooler"):
        is_random = "pooler" not in load_keys(folder) and pooling == "pooler"
        out = tmp_path / pooling
        flags = [str(folder), "--pooling", pooling, "--export", str(out)]
        assert embed(flags) == (2 if is_random else 0)
        if is_random:
            continue
        ours, _ = open_embedder(folder, pooling)[0].encode(SENTENCES)
        again, _ = open_embedder(out)[0].encode(SENTENCES)
        theirs = library.SentenceTransformer(str(out), device="cpu")
        expected = theirs.encode(list(SENTENCES), convert_to_tensor=True)
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(again, expected, atol=1e-5, rtol=0)


def load_keys(folder):
    return " ".join(load_file(folder / "model.safetensors"))


def test_more_pretraining_on_plain_text(family, folder, tmp_path, capsys):
    """--init goes on from the model, whose head is read and written under its own names."""
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    flags = ["--corpus", corpus, "--out", tmp_path / "out", "--init", folder, "--batch-size", 4]
    flags += ["--block-size", 16, "--tokens", 4 * 16 * 4, "--precision", "fp32", "--whole-word"]
    assert pretraining.main(list(map(str, flags))) == 0
    whole = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert whole.config.model_type == model_type_of(folder)
    if "roberta" in family:
        shutil.rmtree(tmp_path / "out")
        assert pretraining.main([*map(str, flags), "--pairs", "0.5"]) == 2
        assert "--pairs is 0.5; pairs have two segments" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta"])
def test_a_new_encoder_with_the_vocabulary_of_another_family(tmp_path, name):
    """A BERT whose id of padding is that of the vocabulary, 1."""
    make_model(name, tmp_path / "start")
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    flags = ["--corpus", corpus, "--out", tmp_path / "out", "--size", "tiny", "--batch-size", 4]
    flags += ["--vocabulary", tmp_path / "start", "--block-size", 16, "--tokens", 4 * 16 * 4]
    assert pretraining.main(list(map(str, [*flags, "--precision", "fp32"]))) == 0
    ours = BertModel.from_pretrained(tmp_path / "out")
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "out")
    assert ours.config.pad_token_id == tokenizer.pad_token_id == 1
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    inputs = their_tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    assert torch.equal(inputs["input_ids"], tokenizer(list(SENTENCES))["input_ids"])
    mask = inputs["attention_mask"].bool()
    with torch.no_grad():
        state = ours(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
        expected = theirs(**inputs).last_hidden_state
    torch.testing.assert_close(state[mask], expected[mask], atol=1e-5, rtol=0)


# --- folders that others saved, and ours that others read -----------------------------------------


def saved_by(library, source, folder):
    """A folder as transformers 5 or sentence-transformers 6 leaves it: without vocab.txt."""
    if library == "transformers":
        transformers.AutoModel.from_pretrained(source).save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    else:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        sentence_transformers.SentenceTransformer(str(source), device="cpu").save(str(folder))
    assert not list(folder.rglob("vocab.txt")) and list(folder.rglob("tokenizer.json"))
    return folder


def vectors_of(folder):
    vectors, _ = open_embedder(folder, "mean", device="cpu")[0].encode(SENTENCES)
    return vectors


@pytest.mark.parametrize("library", ["transformers", "sentence-transformers"])
@pytest.mark.parametrize("name", ["bert", "cased", "distilbert"])
def test_a_folder_that_another_library_saved_is_trained(tmp_path, sample_data, library, name):
    """Opened, trained, saved and opened again, by us and by them."""
    make_model(name, tmp_path / "start")
    folder = saved_by(library, tmp_path / "start", tmp_path / "saved")
    torch.testing.assert_close(
        vectors_of(folder), vectors_of(tmp_path / "start"), atol=1e-5, rtol=0
    )
    assert call(folder, sample_data, tmp_path / "runs", "--pair-encoding", "bi") == 0
    trained = tmp_path / "runs" / "run" / "model"
    ours = vectors_of(trained)
    assert (ours - vectors_of(folder)).abs().max() > 1e-4, "it was not trained"
    again = saved_by(library, trained, tmp_path / "again")
    torch.testing.assert_close(vectors_of(again), ours, atol=1e-5, rtol=0)


@pytest.mark.parametrize("library", ["transformers", "sentence-transformers"])
@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta"])
def test_a_trained_encoder_comes_back_from_another_library(tmp_path, sample_data, library, name):
    """runs/NAME/encoder, from a stage of --pretrain. transformers' mean is the reference."""
    make_model(name, tmp_path / "start")
    flags = ["--pretrain", "simcse", "--pair-encoding", "bi"]
    assert call(tmp_path / "start", sample_data, tmp_path / "runs", *flags) == 0
    encoder = tmp_path / "runs" / "run" / "encoder"
    ours = vectors_of(encoder)
    torch.testing.assert_close(
        vectors_of(saved_by(library, encoder, tmp_path / "again")), ours, atol=1e-5, rtol=0
    )
    theirs = transformers.AutoModel.from_pretrained(encoder).eval()
    inputs = transformers.AutoTokenizer.from_pretrained(encoder)(
        list(SENTENCES), padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = theirs(**inputs).last_hidden_state
    weights = inputs["attention_mask"].unsqueeze(-1)
    expected = (states * weights).sum(dim=1) / weights.sum(dim=1)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
