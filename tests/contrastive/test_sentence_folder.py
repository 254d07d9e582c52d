"""Folders of sentence-transformers: the vectors of SentenceTransformer, or a refusal by name.

Each model is random and tiny, and is made and saved by sentence-transformers itself.
"""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from contrastive.embed import SentenceEncoder
from contrastive.embed.work import check_modules
from contrastive.embedder import open_embedder
from contrastive.sentence_folder import note_for_training
from minbert.pooling import SENTENCE_POOLINGS, note_on_pooling

sentence_transformers = pytest.importorskip("sentence_transformers", reason="setup.sh --dev")
modules = pytest.importorskip("sentence_transformers.models")

SENTENCES = [
    "a doctor is helping The Girl",
    "the girl",
    "a short man is in the hotel near the street and the tall soldier is in the hotel",
    "two men walk.",
]
SIZE = 32


@pytest.fixture
def encoder(tiny_model):
    """The first module: a tiny BERT, whose vectors are far from those of another pooling."""
    return modules.Transformer(str(tiny_model), max_seq_length=64)


def save(folder, parts, **values):
    """Write a folder with a SentenceTransformer; return the vectors that it gives when reopened."""
    model = sentence_transformers.SentenceTransformer(modules=parts, device="cpu", **values)
    model.save(str(folder))
    return reopen(folder)


def reopen(folder, **values):
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", **values)
    return model.encode(SENTENCES, convert_to_tensor=True)


def assert_equal_vectors(folder, expected, **values):
    embedder, notes = open_embedder(folder, device="cpu", batch_size=3, **values)
    vectors, _ = embedder.encode(SENTENCES)
    torch.testing.assert_close(vectors, expected.float().cpu(), rtol=0, atol=1e-5)
    return notes


def change(path, **values):
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


# --- pooling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [*SENTENCE_POOLINGS, ("cls", "mean"), ("max", "lasttoken", "mean")]
)
def test_poolings(tmp_path, encoder, mode):
    expected = save(tmp_path / "st", [encoder, modules.Pooling(SIZE, mode)])
    notes = assert_equal_vectors(tmp_path / "st", expected)
    name = mode if isinstance(mode, str) else "+".join(mode)
    assert f"pooling: {name} (the model was trained for it)" in notes


@pytest.mark.parametrize(
    "switches",
    [
        {"cls_token": True},
        {"mean_sqrt_len_tokens": True},
        {"weightedmean_tokens": True, "lasttoken": True},
        {"mean_tokens": True, "max_tokens": True, "cls_token": True},
        {},
    ],
)
def test_switches_of_older_releases(tmp_path, encoder, switches):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "mean")])
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    values = {f"pooling_mode_{name}": False for name in names}
    values |= {f"pooling_mode_{name}": value for name, value in switches.items()}
    config = {"word_embedding_dimension": SIZE, **values}
    (tmp_path / "st" / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert_equal_vectors(tmp_path / "st", reopen(tmp_path / "st"))


def test_an_unknown_pooling_is_refused_by_name(tmp_path, encoder):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "mean")])
    change(tmp_path / "st" / "1_Pooling" / "config.json", pooling_mode="attention")
    with pytest.raises(ValueError, match="the pooling 'attention' is not computed here"):
        open_embedder(tmp_path / "st")


# --- modules after the pooling --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "has_bias", "activation"),
    [
        (SIZE, True, torch.nn.Tanh()),
        (7, False, torch.nn.Identity()),
        (50, True, torch.nn.GELU()),
        (9, True, torch.nn.ReLU()),
    ],
)
def test_dense_and_normalize(tmp_path, encoder, size, has_bias, activation):
    dense = modules.Dense(SIZE, size, has_bias, activation)
    parts = [encoder, modules.Pooling(SIZE, "cls"), dense]
    assert_equal_vectors(tmp_path / "a", save(tmp_path / "a", parts))
    expected = save(tmp_path / "b", [*parts, modules.Normalize()])
    notes = assert_equal_vectors(tmp_path / "b", expected)
    assert "modules: Dense, Normalize after the pooling" in notes
    again = modules.Dense(size, 5, activation_function=torch.nn.Sigmoid())
    expected = save(tmp_path / "c", [*parts[:2], modules.Normalize(), dense, again])
    assert_equal_vectors(tmp_path / "c", expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Softplus"}, "activation Softplus"),
        ({"use_residual": True}, "use_residual True"),
        ({"module_input_name": "token_embeddings"}, "the input token_embeddings"),
    ],
)
def test_a_dense_module_with_other_mathematics_is_refused(tmp_path, encoder, values, message):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "cls"), modules.Dense(SIZE, SIZE)])
    change(tmp_path / "st" / "2_Dense" / "config.json", **values)
    with pytest.raises(ValueError, match=message):
        open_embedder(tmp_path / "st")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("sentence_transformers.models.LayerNorm", "the module LayerNorm is not computed"),
        ("sentence_transformers.models.CNN", "the module CNN is not computed"),
        ("own_code.Whitening", "'own_code.Whitening' is not one of sentence-transformers"),
    ],
)
def test_other_modules_are_refused_by_name(tmp_path, encoder, kind, message):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "cls")])
    path = tmp_path / "st" / "modules.json"
    extra = {"idx": 2, "name": "2", "path": "2_Extra", "type": kind}
    path.write_text(json.dumps([*json.loads(path.read_text()), extra]))
    with pytest.raises(ValueError, match=message):
        open_embedder(tmp_path / "st")


# --- length, lower-casing, prompts, truncate_dim --------------------------------------------------


@pytest.mark.parametrize("length", [5, 8, 17])
def test_the_maximum_length_is_that_of_the_folder_unless_another_is_passed(
    tmp_path, tiny_model, length
):
    encoder = modules.Transformer(str(tiny_model), max_seq_length=length)
    expected = save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "mean")])
    assert_equal_vectors(tmp_path / "st", expected)
    assert open_embedder(tmp_path / "st", max_length=4)[0].max_length == 4
    assert open_embedder(tiny_model)[0].max_length == 128


@pytest.mark.parametrize("is_cased", [True, False])
@pytest.mark.parametrize("lowercases", [True, False])
def test_text_is_lower_cased_first(tmp_path, model_copy, is_cased, lowercases):
    change(model_copy / "tokenizer_config.json", do_lower_case=not is_cased)
    encoder = modules.Transformer(str(model_copy), max_seq_length=64)
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "mean")])
    change(tmp_path / "st" / "sentence_bert_config.json", do_lower_case=lowercases)
    assert_equal_vectors(tmp_path / "st", reopen(tmp_path / "st"))


@pytest.mark.parametrize("prompt", ["the girl is ", "query: ", "a"])
def test_the_default_prompt_stands_before_each_sentence(tmp_path, encoder, prompt):
    parts = [encoder, modules.Pooling(SIZE, "mean")]
    prompts = {"q": prompt, "other": "two"}
    expected = save(tmp_path / "st", parts, prompts=prompts, default_prompt_name="q")
    notes = assert_equal_vectors(tmp_path / "st", expected)
    assert f"prompt: {prompt!r} before each sentence" in notes
    expected = save(tmp_path / "none", parts, prompts=prompts)
    assert_equal_vectors(tmp_path / "none", expected)

    change(tmp_path / "st" / "config_sentence_transformers.json", default_prompt_name="question")
    with pytest.raises(ValueError, match="the prompts are .*. Correct the file"):
        open_embedder(tmp_path / "st")
    change(tmp_path / "st" / "config_sentence_transformers.json", default_prompt_name="q")
    open_embedder(tmp_path / "st")


def test_a_prompt_that_is_left_out_of_the_pooling_is_refused(tmp_path, encoder):
    pooling = modules.Pooling(SIZE, "mean", include_prompt=False)
    save(tmp_path / "st", [encoder, pooling], prompts={"q": "a"}, default_prompt_name="q")
    with pytest.raises(ValueError, match="include_prompt is false"):
        open_embedder(tmp_path / "st")


@pytest.mark.parametrize("size", [3, 16, SIZE])
def test_vectors_are_cut_to_truncate_dim(tmp_path, encoder, size):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "mean"), modules.Normalize()])
    change(tmp_path / "st" / "config_sentence_transformers.json", truncate_dim=size)
    expected = reopen(tmp_path / "st", truncate_dim=size)
    assert_equal_vectors(tmp_path / "st", expected)


# --- layouts and uses -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["cls", "mean", "max"])
def test_the_layout_with_the_encoder_in_a_folder(tmp_path, tiny_model, encoder, mode):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, mode)])
    (tmp_path / "old").mkdir()
    shutil.copytree(tiny_model, tmp_path / "old" / "0_BERT")
    shutil.copytree(tmp_path / "st" / "1_Pooling", tmp_path / "old" / "1_Pooling")
    (tmp_path / "old" / "config.json").write_text('{"__version__": "0.2.5.1"}')
    kinds = ["sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"]
    parts = []
    for number, kind in enumerate(kinds):
        path = ("0_BERT", "1_Pooling")[number]
        parts.append({"idx": number, "name": str(number), "path": path, "type": kind})
    (tmp_path / "old" / "modules.json").write_text(json.dumps(parts))
    assert_equal_vectors(tmp_path / "old", reopen(tmp_path / "old"))

    from minbert import BertModel

    with pytest.raises(ValueError, match=r"whose encoder stands in .*0_BERT"):
        BertModel.from_pretrained(tmp_path / "old")


@pytest.mark.parametrize("mode", ["cls", "mean"])
@pytest.mark.parametrize("last", ["nothing", "Dense", "Normalize"])
def test_another_pooling_is_refused_or_measured_by_its_name(
    tmp_path, tiny_model, encoder, mode, last
):
    """Only a measurement takes the encoder alone, and it says what it leaves out."""
    parts = [encoder, modules.Pooling(SIZE, mode)]
    parts += {
        "nothing": [],
        "Dense": [modules.Dense(SIZE, 5)],
        "Normalize": [modules.Normalize()],
    }[last]
    expected = save(tmp_path / "st", parts)
    other = "mean" if mode == "cls" else "cls"
    for pooling in (other, "pooler"):
        message = f"by the pooling {mode}; asked for is --pooling {pooling}"
        with pytest.raises(ValueError, match=message):
            open_embedder(tmp_path / "st", pooling)
        with pytest.raises(ValueError, match=message):
            SentenceEncoder(tmp_path / "st", pooling=pooling)
    notes = assert_equal_vectors(tmp_path / "st", expected, pooling=mode)
    assert f"pooling: {mode} (the model was trained for it)" in notes

    alone = open_embedder(tiny_model, other, device="cpu")[0].encode(SENTENCES)[0]
    notes = assert_equal_vectors(tmp_path / "st", alone, pooling=other, is_bound=False)
    assert f"pooling: {other} (the model was trained for {mode})" in notes
    left_out = [note for note in notes if note.startswith("left out of the vectors")]
    assert len(left_out) == (last == "Dense")
    if last == "Dense":
        assert "the module Dense" in left_out[0]
        with pytest.raises(ValueError, match=f"pooling {mode}, Dense. Only the encoder's own vec"):
            open_embedder(tmp_path / "st", is_bound=False)


def test_training_notes_what_it_leaves_out(tmp_path, tiny_model, encoder):
    assert note_for_training(tiny_model) is None
    plain = [encoder, modules.Pooling(SIZE, "mean"), modules.Normalize()]
    save(tmp_path / "plain", plain)
    assert note_for_training(tmp_path / "plain") is None

    whole = [*plain[:2], modules.Dense(SIZE, 5), modules.Normalize()]
    prompts = {"prompts": {"query": "a "}, "default_prompt_name": "query", "truncate_dim": 4}
    save(tmp_path / "whole", whole, **prompts)
    change(tmp_path / "whole" / "sentence_bert_config.json", do_lower_case=True)
    note = note_for_training(tmp_path / "whole")
    assert note is not None and "Normalize" not in note
    for part in ("the module Dense", "the prompt 'query'", "truncate_dim 4", "do_lower_case"):
        assert part in note
    # An export would lose them, and a copy loses nothing.
    with pytest.raises(ValueError, match="a folder of sentence-transformers already: copy it"):
        check_modules(open_embedder(tmp_path / "whole")[0])
    shutil.copytree(tmp_path / "whole", tmp_path / "copy")
    vectors = [open_embedder(tmp_path / name)[0].encode(["a"])[0] for name in ("whole", "copy")]
    assert torch.equal(*vectors)


def test_training_notes_another_pooling(tmp_path, tiny_model, encoder):
    save(tmp_path / "st", [encoder, modules.Pooling(SIZE, "cls")])
    assert note_on_pooling(tiny_model, "mean") is None
    assert note_on_pooling(tmp_path / "st", "cls") is None
    note = note_on_pooling(tmp_path / "st", "mean")
    assert note is not None and "trained with the pooling cls; this run uses --pooling mean" in note
