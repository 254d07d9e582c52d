"""LoRA adapters: merged with the numbers of an unmerged forward pass, or refused by name.

The reference never merges: a hook on each changed layer of transformers' model adds s B (A x) to
the layer's output, as Hu et al. 2021 write it in equation 3.
"""

from __future__ import annotations

import json
import math
import re
import shutil

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from contrastive.embedder import open_embedder
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.adapters import read_adapter
from minbert.pretraining.mlm import BertForMaskedLM
from tests.minbert.test_hub import make_cache
from tests.small_models import SENTENCES, make_model

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 11, 12, 3, 3]])
QUERY = "encoder.layer.1.attention.self.query"
VALUE = "encoder.layer.0.attention.self.value"
UP = "encoder.layer.0.intermediate.dense"
WORDS = "embeddings.word_embeddings"


@pytest.fixture
def base(tmp_path):
    """The folder of a base model, as transformers wrote it."""
    make_model("bert", tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def theirs(base):
    return transformers.AutoModel.from_pretrained(base).eval()


def config_of(base, **values):
    """The content of adapter_config.json, as peft writes it."""
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": str(base),
        "r": 4,
        "lora_alpha": 8,
        "use_rslora": False,
        "use_dora": False,
        "bias": "none",
        "modules_to_save": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "target_modules": ["query", "value"],
        "init_lora_weights": True,
        "megatron_core": "megatron.core",
        "qalora_group_size": 16,
        **values,
    }


def random_pair(model, name, rank):
    """A (r, I) and B (O, r) for a module of transformers' model. Embeddings have tokens as I."""
    weight = model.get_submodule(name).weight
    rows, columns = weight.shape
    if isinstance(model.get_submodule(name), torch.nn.Embedding):
        rows, columns = columns, rows
    return torch.randn(rank, columns) * 0.3, torch.randn(rows, rank) * 0.3


def names_of(model, name):
    """The stored names of A and B."""
    if isinstance(model.get_submodule(name), torch.nn.Embedding):
        return f"{name}.lora_embedding_A", f"{name}.lora_embedding_B"
    return f"{name}.lora_A.weight", f"{name}.lora_B.weight"


def add_change(model, name, down, up, scale):
    """Let a module of transformers' model add s B (A x) to its output. Nothing is merged."""
    module = model.get_submodule(name)

    def hook(_, inputs, output):
        if isinstance(module, torch.nn.Embedding):
            return output + scale * F.embedding(inputs[0], down.T) @ up.T
        return output + scale * (inputs[0] @ down.T) @ up.T

    module.register_forward_hook(hook)


def write_adapter(folder, config, tensors, prefix="base_model.model."):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    stored = {prefix + name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(stored, folder / "adapter_model.safetensors")


def make_adapter(folder, base, model, targets, prefix="base_model.model.", **values):
    """Write a random adapter for some modules, and change transformers' model alike.

    targets: from a module's name to its rank and its alpha.
    """
    torch.manual_seed(1)
    config = config_of(base, **{"target_modules": list(targets), **values})
    tensors = {}
    for name, (rank, alpha) in targets.items():
        down, up = random_pair(model, name, rank)
        first, second = names_of(model, name)
        tensors |= {first: down, second: up}
        scale = alpha / math.sqrt(rank) if config["use_rslora"] else alpha / rank
        add_change(model, name, down, up, scale)
    write_adapter(folder, config, tensors, prefix)
    return tensors


def assert_equal_outputs(folder, theirs):
    ours = BertModel.from_pretrained(folder)
    with torch.no_grad():
        output, expected = ours(IDS), theirs(IDS)
        torch.testing.assert_close(
            output.last_hidden_state, expected.last_hidden_state, atol=1e-5, rtol=0
        )
        torch.testing.assert_close(output.pooler_output, expected.pooler_output, atol=1e-5, rtol=0)
    return ours


# --- the formula ----------------------------------------------------------------------------------


def test_a_matrix_by_hand(base, tmp_path):
    """r = 1, alpha = 3: W' = W + 3 B A."""
    down, up = torch.zeros(1, 32), torch.zeros(32, 1)
    down[0, 5], up[7, 0] = 2.0, 0.5
    tensors = {f"{QUERY}.lora_A.weight": down, f"{QUERY}.lora_B.weight": up}
    write_adapter(tmp_path / "adapter", config_of(base, r=1, lora_alpha=3), tensors)
    before = BertModel.from_pretrained(base).layers[1].attention.query.weight
    after = BertModel.from_pretrained(tmp_path / "adapter").layers[1].attention.query.weight
    expected = before.detach().clone()
    expected[7, 5] += 3.0
    torch.testing.assert_close(after, expected)


@pytest.mark.parametrize("use_rslora", [False, True])
def test_ranks(base, tmp_path, use_rslora):
    plain = BertModel.from_pretrained(base)(IDS).last_hidden_state
    names = (QUERY, VALUE, UP, "pooler.dense", WORDS)
    for rank in range(1, 17):
        theirs = transformers.AutoModel.from_pretrained(base).eval()
        targets = dict.fromkeys(names[rank % 2 :], (rank, 8))
        values = {"r": rank, "use_rslora": use_rslora}
        make_adapter(tmp_path / "adapter", base, theirs, targets, **values)
        ours = assert_equal_outputs(tmp_path / "adapter", theirs)
        assert (ours(IDS).last_hidden_state - plain).abs().max() > 0.01


def test_embeddings(base, theirs, tmp_path):
    targets = {WORDS: (4, 8), "embeddings.position_embeddings": (4, 8), QUERY: (4, 8)}
    make_adapter(tmp_path / "adapter", base, theirs, targets)
    assert_equal_outputs(tmp_path / "adapter", theirs)


@pytest.mark.parametrize(
    ("ranks", "alphas", "of_query", "of_value"),
    [
        ({"query": 2}, {"value": 5}, (2, 8), (4, 5)),
        ({"layer.1.attention.self.query": 2}, {}, (2, 8), (4, 8)),
        ({"^encoder.layer.0.attention.self.value": 3}, {r".*\.0\..*": 1}, (4, 8), (3, 1)),
        ({"uery": 2}, {"layer.1": 3}, (4, 8), (4, 8)),
        ({"query": 2, r"encoder\..*": 3}, {}, (2, 8), (3, 8)),
    ],
)
def test_patterns(base, theirs, tmp_path, ranks, alphas, of_query, of_value):
    """The first pattern that is the end of a module's name, from a dot on, counts."""
    values = {"rank_pattern": ranks, "alpha_pattern": alphas}
    make_adapter(tmp_path / "adapter", base, theirs, {QUERY: of_query, VALUE: of_value}, **values)
    assert_equal_outputs(tmp_path / "adapter", theirs)


def test_dora_by_hand(base, theirs, tmp_path):
    """Each row of W + s B A gets the stored length. For embeddings it is each column."""
    torch.manual_seed(1)
    tensors = {}
    for name in (QUERY, WORDS):
        down, up = random_pair(theirs, name, 4)
        weight = theirs.get_submodule(name).weight.data
        matrix = weight.T if name == WORDS else weight
        lengths = torch.rand(len(matrix)) + 0.5
        first, second = names_of(theirs, name)
        tensors |= {first: down, second: up, f"{name}.lora_magnitude_vector": lengths}
        rows = []
        for row, length in zip(matrix + 2 * up @ down, lengths, strict=True):
            rows.append(length * row / row.square().sum().sqrt())
        new = torch.stack(rows)
        weight.copy_(new.T if name == WORDS else new)
    write_adapter(
        tmp_path / "adapter",
        config_of(base, use_dora=True, target_modules=["query", WORDS]),
        tensors,
    )
    assert_equal_outputs(tmp_path / "adapter", theirs)


# --- whole tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("infix", ["", "modules_to_save.", "modules_to_save.default."])
def test_modules_to_save(base, theirs, tmp_path, infix):
    """They stand in place of the base's. The original that older files hold, too, does not."""
    tensors = make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)})
    norm = theirs.encoder.layer[1].output.LayerNorm
    for module, name in ((theirs.pooler, "pooler"), (norm, "encoder.layer.1.output.LayerNorm")):
        for inner, parameter in module.named_parameters():
            tensors[f"{name}.original_module.{inner}"] = parameter.data.clone()
            parameter.data = torch.randn_like(parameter)
            tensors[f"{name}.{infix}{inner}"] = parameter.data
    config = config_of(base, modules_to_save=["pooler", "LayerNorm"])
    write_adapter(tmp_path / "adapter", config, tensors)
    assert_equal_outputs(tmp_path / "adapter", theirs)


@pytest.mark.parametrize("bias", ["all", "lora_only"])
def test_biases(base, theirs, tmp_path, bias):
    """Those of changed layers stand behind base_layer."""
    tensors = make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8), UP: (4, 8)})
    for name, parameter in theirs.named_parameters():
        module, _, kind = name.rpartition(".")
        is_changed = module in (QUERY, UP)
        if kind == "bias" and (is_changed or bias == "all"):
            parameter.data = torch.randn_like(parameter)
            stored = f"{module}.base_layer.bias" if is_changed else name
            tensors[stored] = parameter.data
    write_adapter(
        tmp_path / "adapter", config_of(base, bias=bias, target_modules=[QUERY, UP]), tensors
    )
    assert_equal_outputs(tmp_path / "adapter", theirs)


def test_a_bias_of_the_change_itself(base, theirs, tmp_path):
    tensors = make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)})
    added = torch.randn(32)
    tensors[f"{QUERY}.lora_B.bias"] = added
    write_adapter(tmp_path / "adapter", config_of(base, lora_bias=True), tensors)
    theirs.get_submodule(QUERY).bias.data += 2 * added
    assert_equal_outputs(tmp_path / "adapter", theirs)


@pytest.mark.parametrize("prefix", ["base_model.model.", "base_model.model.bert.", ""])
def test_an_adapter_of_a_model_with_a_head(base, theirs, tmp_path, prefix):
    """The head's own layers are not read, and the report names them."""
    tensors = make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)}, prefix=prefix)
    stored = {prefix + name: tensor for name, tensor in tensors.items()}
    stored["base_model.model.classifier.weight"] = torch.randn(3, 32)
    config = config_of(base, task_type="SEQ_CLS", modules_to_save=["classifier"])
    write_adapter(tmp_path / "adapter", config, stored, prefix="")
    ours = assert_equal_outputs(tmp_path / "adapter", theirs)
    assert ours.load_report.ignored == ("base_model.model.classifier.weight",)


def test_the_head_of_masked_language_modelling(tmp_path):
    theirs = make_model("bert", tmp_path / "base", "ForMaskedLM")
    name = "cls.predictions.transform.dense"
    targets = {f"bert.{QUERY}": (4, 8), name: (4, 8)}
    make_adapter(tmp_path / "adapter", tmp_path / "base", theirs, targets)
    ours = BertForMaskedLM.from_pretrained(tmp_path / "adapter").eval()
    with torch.no_grad():
        logits = ours(ours.bert(IDS).last_hidden_state)
        torch.testing.assert_close(logits, theirs(IDS).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["distilbert", "roberta"])
def test_other_families(tmp_path, family):
    theirs = make_model(family, tmp_path / "base")
    name = "encoder.layer.0.attention.self.key" if family == "roberta" else "transformer.layer.0"
    name = name if family == "roberta" else f"{name}.attention.k_lin"
    make_adapter(tmp_path / "adapter", tmp_path / "base", theirs, {name: (4, 8)})
    ours = BertModel.from_pretrained(tmp_path / "adapter")
    ids = torch.tensor([[0, 7, 8, 9, 2]])
    with torch.no_grad():
        expected = theirs(ids).last_hidden_state
        torch.testing.assert_close(ours(ids).last_hidden_state, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("stored_type", [torch.float16, torch.bfloat16, torch.float64])
def test_floating_types(base, theirs, tmp_path, stored_type):
    """They are merged in float32."""
    torch.manual_seed(1)
    down, up = (tensor.to(stored_type) for tensor in random_pair(theirs, QUERY, 4))
    add_change(theirs, QUERY, down.float(), up.float(), 2)
    tensors = {f"{QUERY}.lora_A.weight": down, f"{QUERY}.lora_B.weight": up}
    write_adapter(tmp_path / "adapter", config_of(base), tensors)
    assert_equal_outputs(tmp_path / "adapter", theirs)


# --- where the parts lie --------------------------------------------------------------------------


def test_beside_the_weights(base, theirs):
    """As peft leaves it when one saves into the model's folder."""
    make_adapter(base, ".", theirs, {QUERY: (4, 8)})
    ours = assert_equal_outputs(base, theirs)
    assert str(ours.load_report).endswith("0 ignored; its LoRA adapter is merged in")


def test_the_older_file(base, theirs):
    tensors = make_adapter(base, base, theirs, {QUERY: (4, 8)})
    (base / "adapter_model.safetensors").unlink()
    stored = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
    torch.save(stored, base / "adapter_model.bin")
    assert_equal_outputs(base, theirs)


@pytest.mark.parametrize("name", ["{base}", "base", "../base"])
def test_the_base_in_another_folder(base, theirs, tmp_path, monkeypatch, name):
    """As peft reads the name, from the working directory on, or else beside the adapter."""
    monkeypatch.chdir(tmp_path if name == "base" else tmp_path / "base")
    make_adapter(tmp_path / "adapter", name.format(base=base), theirs, {QUERY: (4, 8)})
    ours = assert_equal_outputs(tmp_path / "adapter", theirs)
    assert "its LoRA adapter is merged into" in str(ours.load_report)
    assert BertConfig.from_pretrained(tmp_path / "adapter") == BertConfig.from_pretrained(base)
    tokenizer = BertTokenizer.from_pretrained(tmp_path / "adapter")
    assert tokenizer.vocabulary == BertTokenizer.from_pretrained(base).vocabulary


def test_adapter_and_base_on_the_hub(base, theirs, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    make_adapter(tmp_path / "adapter", "acme/base", theirs, {QUERY: (4, 8)})
    make_cache(home, base, "acme/base")
    make_cache(home, tmp_path / "adapter", "acme/adapter")
    assert_equal_outputs("acme/adapter", theirs)
    assert len(BertTokenizer.from_pretrained("acme/adapter")) > 10
    ours = BertModel.from_pretrained("acme/adapter", local_files_only=True)
    assert "models--acme--base" in str(ours.load_report)
    shutil.rmtree(home / "hub" / "models--acme--base")
    with pytest.raises(ValueError, match="names the base 'acme/base'.*HF_HUB_OFFLINE is set"):
        BertModel.from_pretrained("acme/adapter")


def test_a_folder_of_sentence_transformers(base, theirs, tmp_path):
    """It holds modules and tokenizer beside the adapter, and neither config.json nor weights."""
    folder = tmp_path / "sentences"
    make_adapter(folder, base, theirs, {QUERY: (4, 8)})
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(base / name, folder)
    modules = []
    for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling")):
        modules.append({"path": path, "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))

    embedder, notes = open_embedder(folder)
    assert "its LoRA adapter is merged into" in notes[0]
    vectors, _ = embedder.encode(list(SENTENCES[:2]))
    inputs = transformers.AutoTokenizer.from_pretrained(base)(
        list(SENTENCES[:2]), padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        expected = theirs(**inputs).last_hidden_state[:, 0]
    torch.testing.assert_close(torch.as_tensor(vectors), expected, atol=1e-5, rtol=0)


def test_trained_saved_and_opened_by_transformers(base, theirs, tmp_path):
    make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8), UP: (4, 8)})
    ours = BertModel.from_pretrained(tmp_path / "adapter").train()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    start = ours.layers[1].attention.query.weight.detach().clone()
    ours(IDS).pooler_output.sum().backward()
    optimizer.step()
    assert not torch.equal(start, ours.layers[1].attention.query.weight)

    with pytest.raises(ValueError, match="holds an adapter.*Save them into another folder"):
        ours.save_pretrained(tmp_path / "adapter")
    ours.eval().save_pretrained(tmp_path / "merged")
    again = transformers.AutoModel.from_pretrained(tmp_path / "merged").eval()
    assert_equal_outputs(tmp_path / "merged", again)
    with torch.no_grad():
        torch.testing.assert_close(ours(IDS).pooler_output, again(IDS).pooler_output)


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 8}, "peft_type is 'PROMPT_TUNING'"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"peft_type": "ADALORA"}, "peft_type is 'ADALORA'"),
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
        ({"peft_type": None, "config": {"architecture": "pfeiffer"}}, "has no peft_type"),
        ({"init_lora_weights": "pissa_niter_4"}, 'init_lora_weights is "pissa_niter_4"'),
        ({"init_lora_weights": "olora"}, 'init_lora_weights is "olora".*merge_and_unload'),
        ({"layer_replication": [[0, 2]]}, "layer_replication is"),
        ({"trainable_token_indices": [1, 2]}, r"trainable_token_indices is \[1, 2\]"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens is"),
        ({"use_qalora": True}, "use_qalora is true"),
        ({"use_dora": True}, "holds no lora_magnitude_vector of '.*query', which use_dora in"),
        ({"use_dora": "yes"}, "use_dora is 'yes'; expected is true or false"),
        # The config and the tensors contradict each other. peft would leave such tensors out.
        (
            {"target_modules": ["value"]},
            r"changes '.*query', which .* target_modules is .\"value\"\]",
        ),
        ({"target_modules": "query"}, 'target_modules is "query"'),
        ({"layers_to_transform": [0]}, "layer.1.*layers_to_transform is .0"),
        ({"layers_to_transform": 0, "layers_pattern": "layer"}, "layers_pattern is"),
        ({"exclude_modules": ["self.query"]}, "exclude_modules is"),
        ({"exclude_modules": r".*1.*\.query"}, "exclude_modules is"),
        ({"modules_to_save": ["pooler"]}, "holds no tensors of 'pooler', which modules_to_save"),
        ({"modules_to_save": "pooler"}, "modules_to_save is 'pooler'; expected are names"),
        ({"target_modules": 3}, "target_modules is 3; expected are names"),
        ({"layers_to_transform": ["a"]}, "layers_to_transform is"),
        ({"r": 0}, "r is 0"),
        ({"r": "4"}, "r is '4'"),
        ({"r": None}, r"expected is \(8, 32\)"),
        ({"r": 8}, r"lora_A of '.*query' has the shape \(4, 32\); expected is \(8, 32\)"),
        ({"lora_alpha": math.nan}, "lora_alpha is nan"),
        ({"rank_pattern": {"query": 2}}, r"expected is \(2, 32\)"),
        ({"alpha_pattern": {"(": 2}}, r"no regular expression"),
        ({"alpha_pattern": {"(a+)+$": 2}}, r"repeats a group"),
        ({"alpha_pattern": [1]}, "adapter_config.json"),
    ],
)
def test_what_cannot_be_merged_is_named(base, theirs, values, message):
    make_adapter(base, base, theirs, {QUERY: (4, 8)})
    (base / "adapter_config.json").write_text(json.dumps(config_of(base) | values))
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(base)


@pytest.mark.parametrize(
    ("added", "removed", "message"),
    [
        ({}, "lora_B", "lora_B of .* has the shape None"),
        ({f"{QUERY}.lora_B.weight": torch.zeros(31, 4)}, "", r"shape \(31, 4\).*\(32, 4\)"),
        ({"prompt_embeddings": torch.zeros(2, 32)}, "", None),
        ({f"{QUERY}.hada_w1_a": torch.zeros(2, 32)}, "", "hada_w1_a' is neither a tensor"),
        ({"encoder.layer.7.output.dense.lora_A.weight": torch.zeros(4, 48)}, "", "no such matrix"),
        ({f"{QUERY}.lora_magnitude_vector": torch.ones(32)}, "", "and use_dora in .* is not true"),
        ({f"{QUERY}.lora_B.bias": torch.ones(32)}, "", "and lora_bias in .* is not true"),
        ({f"{VALUE}.bias": torch.zeros(32, dtype=torch.int8)}, "", "stored as int8.*quantised"),
        ({f"{WORDS}.weight": torch.zeros(7, 32)}, "", r"shape \(7, 32\); config.json asks"),
    ],
)
def test_tensors_that_do_not_fit_are_named(base, theirs, added, removed, message):
    tensors = make_adapter(base, base, theirs, {QUERY: (4, 8)})
    kept = {name: t for name, t in tensors.items() if not removed or removed not in name}
    write_adapter(base, config_of(base), kept | added)
    if message is None:
        assert "prompt_embeddings" in str(BertModel.from_pretrained(base).load_report)
        return
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(base)


@pytest.mark.parametrize(
    "values",
    [
        {"target_modules": "all-linear"},
        {"target_modules": r".*\.(query|key)", "exclude_modules": ["key"]},
        # Too many quantifiers: hours, if it is compared.
        {"target_modules": r"(a*)*(.*a)*b|.*query.*.*.*"},
        {"target_modules": ["dense", "query"], "exclude_modules": "(a+)+|.*dense"},
        {"target_modules": ["query"], "layers_to_transform": [1]},
        {"target_modules": ["query"], "layers_to_transform": 1, "layers_pattern": ["layer"]},
        {"target_modules": ["query"], "layers_to_transform": []},
        {"target_modules": ["query"], "modules_to_save": ["classifier"]},
    ],
)
def test_settings_that_fit_the_tensors(base, theirs, tmp_path, values):
    make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)}, **values)
    assert_equal_outputs(tmp_path / "adapter", theirs)


def test_matrices_that_are_named_and_not_stored(base, theirs, tmp_path):
    """peft 0.21 leaves them as they are, too, and warns."""
    values = {"target_modules": ["query", "value"]}
    make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)}, **values)
    report = str(assert_equal_outputs(tmp_path / "adapter", theirs).load_report)
    assert "holds nothing for 3 of the matrices" in report
    assert "the first: encoder.layer.0.attention.self.query" in report


def test_an_adapter_without_tensors_is_refused(base, theirs):
    """Some ways to train in parts save such files. They would change nothing."""
    make_adapter(base, base, theirs, {})
    with pytest.raises(ValueError, match="holds no tensors, so it would change nothing"):
        BertModel.from_pretrained(base)


def test_weights_beside_an_adapter_whose_base_is_elsewhere(base, theirs, tmp_path):
    """Without config.json they cannot be the base, so a line names them."""
    make_adapter(tmp_path / "adapter", base, theirs, {QUERY: (4, 8)})
    shutil.copy(base / "model.safetensors", tmp_path / "adapter" / "model.safetensors")
    ours = assert_equal_outputs(tmp_path / "adapter", theirs)
    assert str(ours.load_report).endswith(f"into {base}; not read: model.safetensors")


def test_another_library_s_adapter_is_named(base):
    (base / "adapter_config.json").write_text('{"config": {"architecture": "pfeiffer"}}')
    (base / "pytorch_adapter.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="has no peft_type, so it is no adapter of peft"):
        BertModel.from_pretrained(base)


def test_half_an_adapter_is_no_model(base, theirs, tmp_path):
    make_adapter(base, base, theirs, {QUERY: (4, 8)})
    config, weights = base / "adapter_config.json", base / "adapter_model.safetensors"
    content = config.read_text()
    config.unlink()
    with pytest.raises(ValueError, match=r"adapter_model.safetensors seems.*no adapter_config"):
        BertModel.from_pretrained(base)
    weights.rename(base / "pytorch_lora_weights.safetensors")
    with pytest.raises(ValueError, match="pytorch_lora_weights.safetensors seems"):
        BertModel.from_pretrained(base)
    (base / "pytorch_lora_weights.safetensors").unlink()
    config.write_text(content)
    with pytest.raises(ValueError, match="neither of its weights .adapter_model.safetensors"):
        BertModel.from_pretrained(base)
    config.write_text("{")
    with pytest.raises(ValueError, match="adapter_config.json: not JSON"):
        BertModel.from_pretrained(base)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_model_name_or_path": None}, "names no base_model_name_or_path"),
        ({"base_model_name_or_path": "./nowhere"}, r"the base './nowhere', which cannot be opened"),
        ({"base_model_name_or_path": "{adapter}"}, "which holds no config.json"),
        ({"base_model_name_or_path": "minbert-mini", "revision": "v2"}, "the revision 'v2'"),
        ({"base_model_name_or_path": "minbert-mini"}, "shape|no such matrix"),
        ({"peft_type": None, "model_name": "bert-base-uncased"}, "has no peft_type"),
        ({"peft_type": "PREFIX_TUNING"}, "peft_type is 'PREFIX_TUNING'"),
    ],
)
def test_a_base_that_is_not_there(base, theirs, tmp_path, values, message):
    folder = tmp_path / "adapter"
    make_adapter(folder, base, theirs, {QUERY: (4, 8)})
    content = json.dumps(config_of(base) | values).replace("{adapter}", str(folder))
    (folder / "adapter_config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        BertModel.from_pretrained(folder)


def test_an_adapter_one_level_below_is_reported(base, theirs):
    make_adapter(base / "french", base, theirs, {})
    report = str(BertModel.from_pretrained(base).load_report)
    assert report.endswith("; not read: french/adapter_model.safetensors")
    (base / "config.json").unlink()
    with pytest.raises(ValueError, match=f"Did you mean {re.escape(str(base / 'french'))}"):
        BertModel.from_pretrained(base)


@pytest.mark.parametrize(
    "values",
    [
        {"r": 4, "target_modules": ["query", "dense"], "bias": "all", "use_rslora": True},
        {"r": 3, "target_modules": "all-linear", "bias": "lora_only"},
        {"r": 5, "target_modules": ["query"], "modules_to_save": ["pooler", "LayerNorm"]},
        {"r": 2, "target_modules": ["word_embeddings", "key"], "rank_pattern": {"key": 7}},
        {"r": 6, "target_modules": r".*\.(query|value)", "lora_bias": True},
        {"r": 4, "target_modules": ["dense"], "exclude_modules": ["output.dense"]},
        {"r": 4, "target_modules": ["query", "dense"], "layers_to_transform": [1]},
        {"r": 4, "target_modules": ["query"], "use_dora": True, "lora_alpha": 2.5},
    ],
)
def test_peft_s_values(tmp_path, values):
    """Where peft is installed: its own merge."""
    peft = pytest.importorskip("peft", reason="peft is another reference; pip install peft")
    theirs = make_model("bert", tmp_path / "base")
    config = peft.LoraConfig(**values)
    changed = peft.get_peft_model(theirs, config)
    for parameter in changed.parameters():
        if parameter.requires_grad:
            parameter.data = torch.randn_like(parameter) * 0.2
    changed.save_pretrained(tmp_path / "adapter")
    content = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    content["base_model_name_or_path"] = str(tmp_path / "base")
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(content))
    assert read_adapter(tmp_path / "adapter").r == values["r"]
    assert load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert_equal_outputs(tmp_path / "adapter", changed.merge_and_unload())
