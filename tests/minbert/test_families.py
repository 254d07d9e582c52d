"""The families beside BERT: the numbers and token ids of transformers."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from minbert import BertConfig, BertModel, BertTokenizer
from minbert.pretraining.mlm import BertForMaskedLM, Masking
from tests.small_models import FAMILIES, LIKE_ROBERTA, SENTENCES, make_model

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

PAIRS = (list(SENTENCES), list(SENTENCES[::-1]))
TEXTS = [
    *SENTENCES,
    "",
    "  two  spaces ",
    "a <mask> and [MASK], </s> <pad> x",
    "unknown ☃ Ω",
    "tab\tand\nline",
]


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def folder(family, tmp_path):
    """A folder with a model and a tokenizer as transformers wrote them."""
    return tmp_path / family


def assert_near(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def encode(tokenizer, *texts):
    """Padded inputs of transformers' tokenizer."""
    return tokenizer(*texts, padding=True, return_tensors="pt")


# --- the encoder ----------------------------------------------------------------------------------


def assert_equal_states(folder, theirs, *texts):
    """All hidden states at real tokens, for rows of different lengths in one batch."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = BertModel.from_pretrained(folder)
    inputs = BertTokenizer.from_pretrained(folder)(*texts)
    with torch.no_grad():
        expected = theirs(**encode(tokenizer, *texts), output_hidden_states=True)
        output = ours(**inputs, output_hidden_states=True)
    is_token = inputs["attention_mask"].bool()
    for state, expected_state in zip(output.hidden_states, expected.hidden_states, strict=True):
        assert_near(state[is_token], expected_state[is_token])
    if getattr(expected, "pooler_output", None) is not None:
        assert_near(output.pooler_output, expected.pooler_output)


def test_hidden_states_of_sentences_and_pairs(family, folder):
    theirs = make_model(family, folder)
    assert_equal_states(folder, theirs, list(SENTENCES))
    assert_equal_states(folder, theirs, *PAIRS)


def test_saved_and_opened_again_by_both(family, folder, tmp_path):
    theirs = make_model(family, folder)
    ours = BertModel.from_pretrained(folder)
    ours.save_pretrained(tmp_path / "again", pooling=None)
    BertTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "again")

    again = transformers.AutoModel.from_pretrained(tmp_path / "again")
    assert type(again).__name__ == f"{FAMILIES[family][0]}Model"
    assert_equal_states(tmp_path / "again", theirs, *PAIRS)
    assert_equal_states(tmp_path / "again", again, *PAIRS)
    assert BertConfig.from_pretrained(tmp_path / "again") == ours.config


@pytest.mark.parametrize("kind", ["ForMaskedLM", "ForSequenceClassification"])
def test_an_encoder_inside_a_model_with_a_head(family, folder, kind):
    """Its tensors stand behind a prefix, and its pooler may be missing."""
    whole = make_model(family, folder, kind)
    inner = getattr(whole, whole.base_model_prefix)
    ours = BertModel.from_pretrained(folder)
    missing = set(ours.load_report.missing)
    assert missing <= {"pooler.dense.weight", "pooler.dense.bias"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = encode(tokenizer, list(SENTENCES))
    mask = inputs["attention_mask"].bool()
    with torch.no_grad():
        state = ours(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
        assert_near(state[mask], inner(**inputs).last_hidden_state[mask])


def test_the_most_tokens_of_a_row(family, folder):
    """RoBERTa's table has two rows more than a text may have tokens."""
    theirs = make_model(family, folder)
    ours = BertModel.from_pretrained(folder)
    num_rows = theirs.config.max_position_embeddings
    limit = num_rows - 2 if family in LIKE_ROBERTA else num_rows
    assert ours.config.num_positions == limit
    longest = torch.full((1, limit), 5)
    with torch.no_grad():
        assert_near(ours(longest).last_hidden_state, theirs(longest).last_hidden_state)
    with pytest.raises(ValueError, match=f"{limit + 1} tokens a row.*{limit} positions"):
        ours(torch.full((1, limit + 1), 5))


@pytest.mark.parametrize("name", LIKE_ROBERTA)
def test_positions_skip_padding_wherever_it_stands(tmp_path, name):
    """As in fairseq: padding takes no position, also between and before tokens."""
    theirs = make_model(name, tmp_path / name)
    ours = BertModel.from_pretrained(tmp_path / name)
    for row in ([0, 7, 8, 2, 1, 1], [1, 1, 0, 7, 8, 2], [0, 7, 1, 8, 1, 2]):
        ids = torch.tensor([row])
        mask = (ids != 1).long()
        with torch.no_grad():
            state = ours(ids, mask).last_hidden_state
            assert_near(state[mask == 1], theirs(ids, mask).last_hidden_state[mask == 1])


def test_two_segments_of_a_roberta_are_read_only_where_they_are_given(tmp_path):
    """transformers' tokenizer gives none, so a pair has segment 0 throughout."""
    theirs = make_model("roberta", tmp_path / "roberta", type_vocab_size=2)
    assert_equal_states(tmp_path / "roberta", theirs, *PAIRS)
    ours = BertModel.from_pretrained(tmp_path / "roberta")
    ids = torch.tensor([[0, 7, 2, 2, 8, 2]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        given = ours(ids, token_type_ids=segments).last_hidden_state
        assert_near(given, theirs(ids, token_type_ids=segments).last_hidden_state)
        assert (given - ours(ids).last_hidden_state).abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("distilbert", {"sinusoidal_pos_embds": True}),
        ("distilbert", {"activation": "relu"}),
        ("distilbert", {"dropout": 0, "attention_dropout": 0.3}),
        ("roberta", {"pad_token_id": 3}),
        ("roberta", {"hidden_act": "gelu_new"}),
        ("xlm-roberta", {"layer_norm_eps": 1e-12}),
        ("camembert", {"type_vocab_size": 2}),
        ("electra", {"embedding_size": 32}),
        ("electra", {"type_vocab_size": 1}),
        ("mpnet", {"hidden_act": "relu"}),
        ("mpnet", {"pad_token_id": 0}),
    ],
)
def test_settings_of_a_config(tmp_path, name, values):
    theirs = make_model(name, tmp_path / name, **values)
    ids = torch.tensor([[0, 7, 8, 9, 2]])
    with torch.no_grad():
        ours = BertModel.from_pretrained(tmp_path / name)
        assert_near(ours(ids).last_hidden_state, theirs(ids).last_hidden_state)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("distilbert", {"n_heads": 3}),
        ("distilbert", {"activation": "mish"}),
        ("roberta", {"is_decoder": True}),
        ("roberta", {"max_position_embeddings": 2}),
        ("xlm-roberta", {"position_embedding_type": "relative_key"}),
        ("xlm-roberta", {"model_type": "xlm-roberta-xl"}),
        ("mpnet", {"relative_attention_num_buckets": 16}),
        ("bert", {"model_type": "modernbert"}),
    ],
)
def test_what_is_not_computed_is_refused_by_name(tmp_path, name, values):
    make_model(name, tmp_path / name)
    path = tmp_path / name / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    key, value = next(iter(values.items()))
    key = {"n_heads": "num_attention_heads", "activation": "hidden_act"}.get(key, key)
    with pytest.raises(ValueError, match=rf"{key}.*{str(value).lower()}|{key} is {value}"):
        BertModel.from_pretrained(tmp_path / name)


def test_a_config_with_few_keys_has_the_defaults_of_its_family(tmp_path):
    for model_type, class_name in (
        ("bert", "BertConfig"),
        ("distilbert", "DistilBertConfig"),
        ("roberta", "RobertaConfig"),
        ("xlm-roberta", "XLMRobertaConfig"),
        ("camembert", "CamembertConfig"),
        ("electra", "ElectraConfig"),
        ("mpnet", "MPNetConfig"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        ours = BertConfig.from_pretrained(tmp_path)
        theirs = getattr(transformers, class_name)()
        names = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
        names += ["intermediate_size", "max_position_embeddings", "pad_token_id"]
        for name in names:
            if name == "intermediate_size" and model_type == "distilbert":
                continue
            assert getattr(ours, name) == getattr(theirs, name), (model_type, name)


# --- tokens ---------------------------------------------------------------------------------------


def assert_equal_ids(ours, theirs):
    assert ours.encode(TEXTS)[0] == theirs(TEXTS)["input_ids"]
    ids, _ = ours.encode(TEXTS, TEXTS[::-1])
    assert ids == theirs(TEXTS, TEXTS[::-1])["input_ids"]
    cut, _ = ours.encode(TEXTS, TEXTS[::-1], max_length=11)
    settings = {"truncation": True, "max_length": 11}
    assert cut == theirs(TEXTS, TEXTS[::-1], **settings)["input_ids"]


def test_token_ids(family, folder, tmp_path):
    make_model(family, folder)
    ours = BertTokenizer.from_pretrained(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert_equal_ids(ours, theirs)
    for name in ("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id", "unk_token_id"):
        assert getattr(ours, name) == getattr(theirs, name)

    ours.save_pretrained(tmp_path / "again")
    shutil.copy(folder / "config.json", tmp_path / "again")
    assert_equal_ids(BertTokenizer.from_pretrained(tmp_path / "again"), theirs)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert_equal_ids(ours, again)

    theirs.save_pretrained(tmp_path / "saved")
    shutil.copy(folder / "config.json", tmp_path / "saved")
    assert_equal_ids(BertTokenizer.from_pretrained(tmp_path / "saved"), theirs)


def test_segments_of_a_pair(family, folder):
    """The ids that the encoder reads are transformers', where its tokenizer gives any."""
    make_model(family, folder)
    ours = BertTokenizer.from_pretrained(folder)
    theirs = encode(transformers.AutoTokenizer.from_pretrained(folder), *PAIRS)
    segments = ours(*PAIRS)["token_type_ids"]
    assert ours.has_segments == (family not in LIKE_ROBERTA)
    if "token_type_ids" in theirs:
        assert torch.equal(segments, theirs["token_type_ids"])
    elif family != "distilbert":
        # DistilBERT reads no segments, whatever its tokenizer says.
        assert not segments.any()


@pytest.mark.parametrize("name", LIKE_ROBERTA)
def test_sentences_of_a_pair_without_segments(tmp_path, name):
    """`<s> a </s>` is the first sentence, `</s> b </s>` the second."""
    make_model(name, tmp_path / name)
    tokenizer = BertTokenizer.from_pretrained(tmp_path / name)
    for first, second in (
        ("the girl", "a man"),
        ("", "a man"),
        ("the", ""),
        ("", ""),
        ("</s>", "a"),
    ):
        (ids,), (sentences,) = tokenizer.encode([first], [second])
        num_first = len(tokenizer.encode([first])[0][0])
        num_second = len(tokenizer.encode([second])[0][0])
        assert len(ids) == num_first + num_second
        assert sentences == [0] * num_first + [1] * num_second, (first, second)


@pytest.mark.parametrize("space", [True, False, None])
@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.json and merges.txt"])
def test_byte_level_bpe_from_either_form(tmp_path, space, form):
    folder = tmp_path / "roberta"
    make_model("roberta", folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    if space is not None:
        settings["add_prefix_space"] = space
    path.write_text(json.dumps(settings))
    if form != "tokenizer.json":
        (folder / "tokenizer.json").unlink()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert_equal_ids(BertTokenizer.from_pretrained(folder), theirs)


@pytest.mark.parametrize("name", [*LIKE_ROBERTA, "distilbert", "electra"])
def test_a_tokenizer_class_that_only_the_model_type_tells(tmp_path, name):
    folder = tmp_path / name
    make_model(name, folder)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 128}')
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert_equal_ids(BertTokenizer.from_pretrained(folder), theirs)


def test_a_multilingual_bert_with_the_tokenizer_of_xlm_r(tmp_path):
    """As paraphrase-multilingual-MiniLM-L12-v2: a BertModel of two segments."""
    folder = tmp_path / "xlm-roberta"
    make_model("xlm-roberta", folder)
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    other = tmp_path / "bert"
    theirs = make_model("bert", other, vocab_size=size)
    (other / "vocab.txt").unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, other)
    for class_name in ("XLMRobertaTokenizer", "PreTrainedTokenizerFast"):
        path = other / "tokenizer_config.json"
        settings = json.loads(path.read_text()) | {"tokenizer_class": class_name}
        path.write_text(json.dumps(settings))
        assert_equal_states(other, theirs, *PAIRS)


@pytest.mark.parametrize("lstrip", [True, False])
def test_the_properties_of_a_special_token_are_kept(tmp_path, lstrip):
    """RoBERTa's <mask> takes the space before it."""
    folder = tmp_path / "roberta"
    make_model("roberta", folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    for token in content["added_tokens"]:
        if token["content"] == "<mask>":
            token["lstrip"] = lstrip
    path.write_text(json.dumps(content))
    for class_name in ("RobertaTokenizer", "PreTrainedTokenizerFast"):
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text()) | {"tokenizer_class": class_name}
        path.write_text(json.dumps(settings))
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        assert_equal_ids(BertTokenizer.from_pretrained(folder), theirs)


def test_sentencepiece_alone_is_refused_with_advice(tmp_path):
    folder = tmp_path / "xlm-roberta"
    make_model("xlm-roberta", folder)
    (folder / "tokenizer.json").rename(folder / "sentencepiece.bpe.model")
    with pytest.raises(ValueError, match=r"sentencepiece.bpe.model is not read.*AutoTokenizer"):
        BertTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", None, r"no merges.txt in it, and no tokenizer.json"),
        ("vocab.json", None, r"no vocab.json in it, and no tokenizer.json"),
        ("vocab.json", "{", r"cannot be read"),
        ("vocab.json", '{"a": 0}', r"lacks the token '</s>'|cannot be read"),
    ],
)
def test_a_damaged_roberta_tokenizer_is_named(tmp_path, name, content, message):
    folder = tmp_path / "roberta"
    make_model("roberta", folder)
    (folder / "tokenizer.json").unlink()
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        BertTokenizer.from_pretrained(folder)


# --- masked language modelling --------------------------------------------------------------------


def test_the_head_gives_the_logits_of_transformers(family, folder, tmp_path):
    theirs = make_model(family, folder, "ForMaskedLM")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = encode(tokenizer, list(SENTENCES))
    mask = inputs["attention_mask"].bool()
    BertForMaskedLM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "again")
    assert type(again) is type(theirs)
    with torch.no_grad():
        expected = theirs(**inputs).logits[mask]
        assert_near(again(**inputs).logits[mask], expected)
        for place in (folder, tmp_path / "again"):
            ours = BertForMaskedLM.from_pretrained(place).eval()
            states = ours.bert(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
            assert_near(ours(states)[mask], expected)


def test_roberta_s_head_has_gelu_whatever_the_encoder_has(tmp_path):
    theirs = make_model("roberta", tmp_path / "roberta", "ForMaskedLM", hidden_act="relu")
    ours = BertForMaskedLM.from_pretrained(tmp_path / "roberta").eval()
    ids = torch.tensor([[0, 7, 8, 2]])
    with torch.no_grad():
        assert_near(ours(ours.bert(ids).last_hidden_state), theirs(ids).logits)


def test_special_tokens_are_never_masked(family, folder):
    make_model(family, folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    masking = Masking.of(tokenizer)
    special = {tokenizer.vocabulary[name] for name in tokenizer.special_tokens.values()}
    assert set(masking.is_special.nonzero().flatten().tolist()) == special
    assert masking.mask_token_id == tokenizer.mask_token_id
    assert len(masking.is_special) == max(tokenizer.vocabulary.values()) + 1


def test_whole_words_of_each_tokenizer(family, folder):
    """Every piece of a word is masked together, and no piece of another word."""
    make_model(family, folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    continues = Masking.of(tokenizer, whole_word=True).continues
    assert continues is not None
    (ids,), _ = tokenizer.encode(["the hotels near old men"])
    starts = [number for number in ids[1:-1] if not continues[number]]
    num_words = 5
    # The first word of a byte-level BPE has no space before it, so no mark either.
    assert len(starts) == num_words - (family == "roberta")


def test_a_trained_pooler_of_a_distilbert_is_kept(tmp_path):
    """DistilBERT has none. transformers ignores it, and we read it again."""
    make_model("distilbert", tmp_path / "start")
    ours = BertModel.from_pretrained(tmp_path / "start")
    assert ours.load_report.missing == ("pooler.dense.weight", "pooler.dense.bias")
    ours.save_pretrained(tmp_path / "trained", pooling="pooler")
    again = BertModel.from_pretrained(tmp_path / "trained")
    assert not again.load_report.missing
    assert torch.equal(again.pooler.weight, ours.pooler.weight)
    transformers.AutoModel.from_pretrained(tmp_path / "trained")


# --- files in other forms -------------------------------------------------------------------------

IDS = torch.tensor([[0, 7, 8, 9, 2]])


def assert_equal_on_ids(folder, theirs):
    with torch.no_grad():
        state = BertModel.from_pretrained(folder)(IDS).last_hidden_state
        assert_near(state, theirs(IDS).last_hidden_state)


def change(folder, edit):
    """Rewrite model.safetensors by a function from a table of tensors to another one."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in edit(load_file(path)).items()}
    save_file(tensors, path)


def test_shards(family, folder, tmp_path):
    theirs = make_model(family, folder)
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    assert_equal_on_ids(tmp_path / "shards", theirs)


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "model."])
def test_prefixes_of_wrappers_and_of_the_family(family, folder, wrapper):
    theirs = make_model(family, folder)
    prefix = wrapper + theirs.base_model_prefix + "."
    change(folder, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})
    assert_equal_on_ids(folder, theirs)


@pytest.mark.parametrize("stored_type", [torch.bfloat16, torch.float16, torch.float64])
def test_floating_types(family, folder, stored_type):
    theirs = make_model(family, folder)
    change(folder, lambda tensors: {name: t.to(stored_type) for name, t in tensors.items()})
    assert_equal_on_ids(folder, theirs.to(stored_type).float())


def test_a_pickled_file_beside_an_optimizer(family, folder):
    theirs = make_model(family, folder)
    path = folder / "model.safetensors"
    torch.save({"state_dict": load_file(path), "epoch": 3}, folder / "pytorch_model.bin")
    path.unlink()
    assert_equal_on_ids(folder, theirs)


def test_weights_and_config_of_different_sizes_are_refused(family, folder):
    make_model(family, folder)
    path = folder / "config.json"
    content = json.loads(path.read_text())
    key = "n_layers" if family == "distilbert" else "num_hidden_layers"
    for number, message in ((1, "config.json says 1 layers"), (3, "tensors are missing")):
        path.write_text(json.dumps(content | {key: number}))
        with pytest.raises(ValueError, match=message):
            BertModel.from_pretrained(folder)


@pytest.mark.parametrize(
    ("weights_of", "config_of"),
    [("bert", "distilbert"), ("distilbert", "bert"), ("distilbert", "roberta")],
)
def test_the_weights_of_another_family_are_refused(tmp_path, weights_of, config_of):
    for name in (weights_of, config_of):
        make_model(name, tmp_path / name)
    source = tmp_path / weights_of / "model.safetensors"
    shutil.copy(source, tmp_path / config_of / "model.safetensors")
    with pytest.raises(ValueError, match=f"tensors are missing.*not a {config_of}"):
        BertModel.from_pretrained(tmp_path / config_of)
