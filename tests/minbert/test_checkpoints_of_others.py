"""Checkpoints and configs that other libraries wrote: loaded with equal values, or refused by name.

The expected hidden states and logits are those of transformers on the same folder.
"""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert import BertConfig, BertModel
from minbert.config import OTHER_ACTIVATIONS
from minbert.pretraining.mlm import BertForMaskedLM

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

IDS = torch.tensor([[2, 7, 8, 3, 21]])
SHAPE = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 10,
    "initializer_range": 0.5,
}
WORDS = "embeddings.word_embeddings.weight"


def make_folder(folder, architecture="BertModel", **config):
    """Save a random model of transformers; return it."""
    torch.manual_seed(0)
    settings = transformers.BertConfig(**SHAPE | config)
    model = getattr(transformers, architecture)(settings).eval()
    # A head's biases start at 0, where a lost one would not show.
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    model.save_pretrained(folder)
    return model


@pytest.fixture
def theirs(tmp_path):
    """A BertModel of transformers, saved in tmp_path."""
    return make_folder(tmp_path)


def assert_equal_outputs(folder, theirs):
    with torch.no_grad():
        output = BertModel.from_pretrained(folder)(IDS)
        expected = theirs(IDS)
    hidden, pooled = expected.last_hidden_state, expected.pooler_output
    torch.testing.assert_close(output.last_hidden_state, hidden, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.pooler_output, pooled, atol=1e-5, rtol=0)


def change(folder, edit):
    """Rewrite model.safetensors by a function from the table of tensors to another one."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in edit(load_file(path)).items()}
    save_file(tensors, path)


def write_bin(folder, wrap):
    path = folder / "model.safetensors"
    torch.save(wrap(load_file(path)), folder / "pytorch_model.bin")
    path.unlink()


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


# --- shards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["1KB", "2KB", "5KB"])
def test_shards_of_transformers(tmp_path, size):
    theirs = make_folder(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size=size)
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    assert_equal_outputs(tmp_path / "shards", theirs)


def test_shards_of_torch_files(tmp_path, theirs):
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    weight_map = {}
    for number, name in enumerate(tensors):
        shard = f"pytorch_model-{number % 2}.bin"
        weight_map[name] = shard
    for shard in set(weight_map.values()):
        content = {name: tensors[name] for name in tensors if weight_map[name] == shard}
        torch.save(content, tmp_path / shard)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert_equal_outputs(tmp_path, theirs)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weight_map": {WORDS: "model-2.safetensors"}}, "the shard 'model-2.safetensors'"),
        ({"weight_map": {WORDS: "../model.safetensors"}}, "the shard '../model.safetensors'"),
        ({"weights": {}}, "not an index of shards"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, theirs, content, message):
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(tmp_path)


# --- files of other names -------------------------------------------------------------------------


def rename(folder, name):
    """Give the weights another name, and return the message of the refusal."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(
        ValueError, match="neither model.safetensors nor pytorch_model.bin"
    ) as error:
        BertModel.from_pretrained(folder)
    return str(error.value)


@pytest.mark.parametrize("kind", ["fp16", "fp32", "non_ema"])
def test_the_only_variant_is_opened(tmp_path, kind):
    theirs = make_folder(tmp_path)
    theirs.save_pretrained(tmp_path, variant=kind)
    (tmp_path / "model.safetensors").unlink()
    assert (tmp_path / f"model.{kind}.safetensors").exists()
    assert_equal_outputs(tmp_path, theirs)


def test_shards_of_a_variant(tmp_path):
    theirs = make_folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path, variant="fp16", max_shard_size="2KB")
    assert (tmp_path / "model.safetensors.index.fp16.json").exists()
    assert_equal_outputs(tmp_path, theirs)


def test_a_variant_of_torch(tmp_path, theirs):
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.fp16.bin")
    (tmp_path / "model.safetensors").unlink()
    assert_equal_outputs(tmp_path, theirs)


def test_of_two_variants_the_reader_chooses(tmp_path, theirs):
    (tmp_path / "model.int8.safetensors").write_bytes(b"")
    message = rename(tmp_path, "model.fp16.safetensors")
    assert "model.fp16.safetensors (PyTorch), model.int8.safetensors (PyTorch)" in message
    assert "Rename the one that is meant to model.safetensors" in message


def test_the_usual_name_comes_before_a_variant(tmp_path, theirs):
    (tmp_path / "model.fp16.safetensors").write_bytes(b"damaged")
    (tmp_path / "tf_model.h5").write_bytes(b"damaged")
    (tmp_path / "optimizer.pt").write_bytes(b"damaged")
    assert_equal_outputs(tmp_path, theirs)
    report = str(BertModel.from_pretrained(tmp_path).load_report)
    assert report.endswith("; not read: model.fp16.safetensors, tf_model.h5")


@pytest.mark.parametrize(
    ("name", "program", "advice"),
    [
        ("tf_model.h5", "TensorFlow", "transformers 4 and TensorFlow.*from_tf=True"),
        ("flax_model.msgpack", "Flax", "transformers 4 and Flax.*from_flax=True"),
        ("model.onnx", "ONNX", "This format is not read. Fetch model.safetensors"),
        ("onnx/model.onnx", "ONNX", "This format is not read. Fetch model.safetensors"),
        ("bert-q8_0.gguf", "GGUF", "This format is not read. Fetch model.safetensors"),
        ("openvino_model.bin", "OpenVINO", "This format is not read. Fetch model.safetensors"),
        ("rust_model.ot", "Rust", "This format is not read. Fetch model.safetensors"),
        ("bert_model.ckpt.index", "TensorFlow 1", "This format is not read. Fetch"),
        ("weights.safetensors", "PyTorch", "If this is the whole model, rename it to model.saf"),
        ("bert.bin", "PyTorch", "If this is the whole model, rename it to pytorch_model.bin"),
        ("model-00001-of-00002.safetensors", "PyTorch", r"Fetch .*model.safetensors.index.json"),
        ("0_Transformer/model.safetensors", "PyTorch", "Give the folder 0_Transformer in it"),
    ],
)
def test_weights_of_another_name_are_named(tmp_path, theirs, name, program, advice):
    message = rename(tmp_path, name)
    assert f"It holds {name} ({program})" in message
    assert re.search(advice, message)


def test_a_folder_without_any_weights(tmp_path, theirs):
    assert "It holds no weights of any kind" in rename(tmp_path, "notes.txt")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_pointer_of_git_lfs_is_named(tmp_path, theirs, name):
    """Git leaves it in place of a large file where Git LFS is not installed."""
    (tmp_path / "model.safetensors").unlink()
    lines = ["version https://git-lfs.github.com/spec/v1", "oid sha256:" + "0" * 64, "size 4096"]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=f"{name}: holds no weights, but a pointer of Git LFS"):
        BertModel.from_pretrained(tmp_path)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["module.", "model.", "_orig_mod.", "module.bert.", "_orig_mod.model.bert."]
)
def test_prefixes_of_wrappers(tmp_path, theirs, prefix):
    change(tmp_path, lambda tensors: {prefix + name: t for name, t in tensors.items()})
    assert_equal_outputs(tmp_path, theirs)


def test_an_unknown_prefix_is_shown(tmp_path, theirs):
    change(tmp_path, lambda tensors: {f"tower.{name}": t for name, t in tensors.items()})
    with pytest.raises(ValueError, match=r"Their names begin with 'tower\.embeddings\."):
        BertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_weights_beside_an_optimizer(tmp_path, theirs, key):
    write_bin(tmp_path, lambda tensors: {key: tensors, "epoch": 3, "optimizer": {"lr": 0.1}})
    assert_equal_outputs(tmp_path, theirs)


@pytest.mark.parametrize("prefix", ["bert.", "module.", "model.bert."])
def test_two_names_for_one_tensor(tmp_path, theirs, prefix):
    """Equal tensors are one tensor. Of different ones nobody knows which is meant."""
    change(tmp_path, lambda tensors: {**tensors, prefix + WORDS: tensors[WORDS]})
    assert_equal_outputs(tmp_path, theirs)
    change(tmp_path, lambda tensors: {**tensors, prefix + WORDS: tensors[WORDS] + 1})
    with pytest.raises(ValueError, match="two names for one tensor"):
        BertModel.from_pretrained(tmp_path)


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stored_type", [torch.int8, torch.uint8, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_quantised_weights_are_never_copied_as_numbers(tmp_path, theirs, stored_type):
    name = "encoder.layer.1.output.dense.weight"
    change(tmp_path, lambda tensors: tensors | {name: tensors[name].to(stored_type)})
    with pytest.raises(ValueError, match=f"'{name}' is stored as .*quantised"):
        BertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("stored_type", [torch.float64, torch.bfloat16, torch.float16])
def test_floating_types_are_widened_or_rounded(tmp_path, theirs, stored_type):
    change(tmp_path, lambda tensors: {name: t.to(stored_type) for name, t in tensors.items()})
    assert_equal_outputs(tmp_path, theirs.to(stored_type).float())


# --- the head of masked language modelling --------------------------------------------------------


@pytest.mark.parametrize("names", [("bias",), ("decoder.bias",), ("bias", "decoder.bias")])
def test_the_bias_of_the_head_has_two_names(tmp_path, names):
    theirs = make_folder(tmp_path, "BertForMaskedLM")
    bias = theirs.cls.predictions.bias.detach()

    def edit(tensors):
        kept = {
            name: t for name, t in tensors.items() if "predictions" not in name or "tran" in name
        }
        return kept | {f"cls.predictions.{name}": bias for name in names}

    change(tmp_path, edit)
    ours = BertForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        logits = ours(ours.bert(IDS).last_hidden_state)
        torch.testing.assert_close(logits, theirs(IDS).logits, atol=1e-5, rtol=0)


def test_two_different_biases_are_refused(tmp_path):
    make_folder(tmp_path, "BertForMaskedLM")
    both = {"cls.predictions.bias": torch.zeros(30), "cls.predictions.decoder.bias": torch.ones(30)}
    change(tmp_path, lambda tensors: tensors | both)
    with pytest.raises(ValueError, match="two different biases.*Delete the one that is not meant"):
        BertForMaskedLM.from_pretrained(tmp_path)

    def without_one(tensors):
        return {name: tensors[name] for name in tensors if name != "cls.predictions.bias"}

    change(tmp_path, without_one)
    opened = BertForMaskedLM.from_pretrained(tmp_path).state_dict()
    assert any(torch.equal(tensor, torch.ones(30)) for tensor in opened.values())


# --- one segment ----------------------------------------------------------------------------------


def test_a_model_of_one_segment_reads_sentences_and_refuses_pairs(tmp_path):
    theirs = make_folder(tmp_path, type_vocab_size=1)
    assert_equal_outputs(tmp_path, theirs)
    with pytest.raises(ValueError, match=r"one segment \(type_vocab_size 1.*--pair_encoding bi"):
        BertModel.from_pretrained(tmp_path)(IDS, token_type_ids=torch.tensor([[0, 0, 0, 1, 1]]))


# --- keys of config.json that change the mathematics ----------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"is_decoder": True}, "is_decoder is true: its attention masks the future"),
        ({"is_decoder": True, "add_cross_attention": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention is true"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantization_config.*gptq"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type is 'alibi'"),
        ({"model_type": "albert"}, "model_type is 'albert'"),
        ({"model_type": "deberta-v2"}, "model_type is 'deberta-v2'"),
        ({"auto_map": {"AutoModel": "modeling_own.OwnModel"}}, "auto_map.*modeling_own.OwnModel"),
        ({"hidden_act": "gelu_10"}, "hidden_act is 'gelu_10', which is not computed here"),
        ({"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu'"),
        ({"hidden_act": "tanh"}, "hidden_act is 'tanh'"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
    ],
)
def test_other_mathematics_is_refused_by_name(tmp_path, theirs, values, message):
    change_config(tmp_path, **values)
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(tmp_path)


def test_a_config_without_model_type_that_names_another_class_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["RobertaModel"]}')
    with pytest.raises(ValueError, match="RobertaModel.*no model_type"):
        BertConfig.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": ["BertForCL"]}')
    assert BertConfig.from_pretrained(tmp_path) == BertConfig()


@pytest.mark.parametrize("name", ["gelu", "gelu_python", *OTHER_ACTIVATIONS])
def test_activations(tmp_path, name):
    """Also in the head of masked language modelling, and after saving."""
    theirs = make_folder(tmp_path, "BertForMaskedLM", hidden_act=name)
    BertForMaskedLM.from_pretrained(tmp_path).save_pretrained(tmp_path)
    ours = BertForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        logits = ours(ours.bert(IDS).last_hidden_state)
        torch.testing.assert_close(logits, theirs(IDS).logits, atol=1e-5, rtol=0)


def test_the_two_forms_of_gelu_differ(tmp_path, theirs):
    """0.0002 at most. A test with a wider tolerance would not see which one is computed."""
    with torch.no_grad():
        exact = BertModel.from_pretrained(tmp_path)(IDS).last_hidden_state
        change_config(tmp_path, hidden_act="gelu_new")
        approximate = BertModel.from_pretrained(tmp_path)(IDS).last_hidden_state
    assert (exact - approximate).abs().max() > 5e-5


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_act": "gelu_python"},
        {"is_decoder": False, "add_cross_attention": False, "pruned_heads": {}},
        {"quantization_config": None, "position_embedding_type": "absolute", "auto_map": None},
    ],
)
def test_keys_that_change_nothing_are_read(tmp_path, values):
    theirs = make_folder(tmp_path, hidden_act=values.get("hidden_act", "gelu"))
    change_config(tmp_path, **values)
    assert_equal_outputs(tmp_path, theirs)
