"""BertConfig: defaults, the round trip through config.json, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil

import pytest

from minbert import BertConfig


def write(folder, **content):
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def test_defaults_are_bert_base_uncased():
    config = BertConfig()
    assert config.vocab_size == 30522
    assert config.hidden_size == 768
    assert config.num_hidden_layers == 12
    assert config.num_attention_heads == 12
    assert config.head_size == 768 / 12 == 64
    assert config.intermediate_size == 3072
    assert config.max_position_embeddings == 512
    assert config.type_vocab_size == 2
    assert config.layer_norm_eps == 1e-12


def test_defaults_equal_transformers():
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    theirs = transformers.BertConfig()
    for field in dataclasses.fields(BertConfig):
        # The first is ours alone, the second ELECTRA's.
        if field.name not in ("attention_implementation", "embedding_size"):
            assert getattr(theirs, field.name) == field.default, field.name


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BertConfig().hidden_size = 3


def test_round_trip(tmp_path):
    config = BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_attention_heads=4,
        hidden_dropout_prob=0.25,
        pad_token_id=3,
    )
    config.save_pretrained(tmp_path)
    assert BertConfig.from_pretrained(tmp_path) == config


def test_how_attention_is_computed_is_not_a_property_of_the_weights(tmp_path):
    BertConfig(attention_implementation="fused").save_pretrained(tmp_path)
    assert "fused" not in (tmp_path / "config.json").read_text()
    assert BertConfig.from_pretrained(tmp_path).attention_implementation == "eager"
    overridden = BertConfig.from_pretrained(tmp_path, attention_implementation="fused")
    assert overridden.attention_implementation == "fused"


def test_reads_what_transformers_wrote_and_the_other_way_round(tmp_path):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is the reference; run setup.sh --dev"
    )
    transformers.BertConfig(vocab_size=77, hidden_size=24, num_attention_heads=3).save_pretrained(
        tmp_path
    )
    config = BertConfig.from_pretrained(tmp_path)
    assert (config.vocab_size, config.hidden_size, config.num_attention_heads) == (77, 24, 3)
    config.save_pretrained(tmp_path)
    theirs = transformers.AutoConfig.from_pretrained(tmp_path)
    assert (theirs.model_type, theirs.vocab_size, theirs.hidden_size) == ("bert", 77, 24)


def test_unknown_keys_are_ignored_and_absent_ones_are_defaults(tmp_path):
    write(tmp_path, hidden_size=24, num_attention_heads=2, gradient_checkpointing=False)
    assert BertConfig.from_pretrained(tmp_path) == BertConfig(hidden_size=24, num_attention_heads=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"hidden_size": 10, "num_attention_heads": 4},
            "hidden_size 10 is not divisible by num_attention_heads 4",
        ),
        ({"hidden_act": "tanh"}, "hidden_act is 'tanh'"),
        ({"hidden_act": "GELU"}, "Computed are gelu, gelu_new"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0"),
        ({"attention_probs_dropout_prob": -0.1}, "attention_probs_dropout_prob is -0.1"),
        ({"hidden_size": "768"}, "hidden_size is '768'; it must be of type int"),
        ({"hidden_size": None}, "hidden_size is None"),
        ({"vocab_size": 1.5}, "vocab_size is 1.5"),
        ({"hidden_dropout_prob": "0.1"}, "must be of type float"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0; it must be at least 1"),
        ({"pad_token_id": -1}, "pad_token_id is -1; it must be at least 0"),
        ({"layer_norm_eps": math.nan}, "layer_norm_eps is nan; it is at least 0 and below 1"),
        ({"layer_norm_eps": -1e-12}, "layer_norm_eps is -1e-12; it is at least 0"),
        ({"pad_token_id": 10**9}, "pad_token_id is 1000000000; it must be below vocab_size"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"model_type": "albert"}, "model_type is 'albert'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
    ],
)
def test_what_is_refused_names_the_file_and_the_value(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        BertConfig.from_pretrained(write(tmp_path, **content))
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[1, 2]"])
def test_file_that_is_no_json_object(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match="config.json: .*fetch"):
        BertConfig.from_pretrained(tmp_path)


def test_folder_without_config(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}: no config.json"):
        BertConfig.from_pretrained(tmp_path)


def test_unknown_attention_implementation():
    with pytest.raises(ValueError, match="'flash'.*'eager' or 'fused'"):
        BertConfig(attention_implementation="flash")


def test_the_folder_of_a_run_names_the_models_in_it(tiny_model, tmp_path):
    for name in ("model", "encoder"):
        shutil.copytree(tiny_model, tmp_path / "run" / name)
    with pytest.raises(
        ValueError, match=r"run: no config.json in it.* Did you mean .*run/encoder or .*run/model\?"
    ):
        BertConfig.from_pretrained(tmp_path / "run")
