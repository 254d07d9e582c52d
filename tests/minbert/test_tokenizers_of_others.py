"""Tokenizer folders that other libraries wrote: the ids of transformers, or a refusal by name."""

from __future__ import annotations

import json
import shutil

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from minbert import BertTokenizer

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "a", "cat", "dog", "sat", "##s", "##ed", "Cat", "new", "##word", "e", ".", "中"]
TEXTS = [
    "The cats sat.",
    "A [E1] newword dog",
    "NEWWORD [E1]. [e1]",
    "[MASK] Cat new newwords 中中",
    "Café <m> <c> dog",
    "",
]


def write_lines(folder, lines, encoding="utf-8"):
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding=encoding)


def write_config(folder, **values):
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


def make_theirs(folder, **values):
    """A tokenizer of transformers, from a vocab.txt in `folder`."""
    folder.mkdir(exist_ok=True)
    write_lines(folder, SPECIAL + WORDS)
    write_config(folder, tokenizer_class="BertTokenizer", **values)
    return transformers.BertTokenizer.from_pretrained(folder)


def assert_equal_ids(ours, theirs):
    assert ours.encode(TEXTS)[0] == theirs(TEXTS)["input_ids"]
    ids, segments = ours.encode(TEXTS, TEXTS[::-1])
    expected = theirs(TEXTS, TEXTS[::-1])
    assert ids == expected["input_ids"] and segments == expected["token_type_ids"]


def assert_opens(folder, tmp_path):
    """Ours equals theirs, and so do both after saving."""
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = BertTokenizer.from_pretrained(folder)
    assert_equal_ids(ours, theirs)
    ours.save_pretrained(tmp_path / "again")
    again = BertTokenizer.from_pretrained(tmp_path / "again")
    assert_equal_ids(again, theirs)
    assert again.fingerprint == ours.fingerprint and again.vocabulary == ours.vocabulary
    assert_equal_ids(again, transformers.AutoTokenizer.from_pretrained(tmp_path / "again"))
    theirs.save_pretrained(tmp_path / "theirs")
    assert_equal_ids(BertTokenizer.from_pretrained(tmp_path / "theirs"), theirs)


# --- saved by transformers 5 ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": True, "tokenize_chinese_chars": False},
    ],
)
def test_saved_by_transformers_5_without_vocab_txt(tmp_path, values):
    theirs = make_theirs(tmp_path / "old", **values)
    theirs.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new" / "vocab.txt").exists()
    assert_opens(tmp_path / "new", tmp_path)

    # Without added tokens it is the tokenizer of vocab.txt, cached token ids included.
    new = BertTokenizer.from_pretrained(tmp_path / "new")
    assert new.fingerprint == BertTokenizer.from_pretrained(tmp_path / "old").fingerprint
    new.save_pretrained(tmp_path / "ours")
    assert (tmp_path / "ours" / "vocab.txt").exists()


def test_settings_of_the_config_win_over_tokenizer_json(tmp_path):
    make_theirs(tmp_path / "old", do_lower_case=True).save_pretrained(tmp_path / "new")
    write_config(tmp_path / "new", tokenizer_class="BertTokenizer", do_lower_case=False)
    assert_opens(tmp_path / "new", tmp_path)


# --- added tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("special", "plain"), [(["[E1]"], []), ([], ["newword"]), (["[E1]", "<c>"], ["newword", "<m>"])]
)
def test_added_tokens_of_transformers_5(tmp_path, special, plain):
    theirs = make_theirs(tmp_path / "old")
    theirs.add_special_tokens({"extra_special_tokens": special})
    theirs.add_tokens(plain)
    theirs.save_pretrained(tmp_path / "new")
    assert_opens(tmp_path / "new", tmp_path)


@pytest.mark.parametrize(
    "tokens", [{"[E1]": 18}, {"newword": 18, "[E1]": 19}, {"<m>": 19, "<c>": 18, "newword": 20}]
)
def test_added_tokens_json(tmp_path, tokens):
    make_theirs(tmp_path / "old")
    (tmp_path / "old" / "added_tokens.json").write_text(json.dumps(tokens))
    assert_opens(tmp_path / "old", tmp_path)
    assert len(BertTokenizer.from_pretrained(tmp_path / "old").vocabulary) == 18 + len(tokens)


def token(content, special, **properties):
    base = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": not special}
    return base | {"content": content, "special": special} | properties


@pytest.mark.parametrize(
    "tokens",
    [
        {"18": token("[E1]", True)},
        {"18": token("newword", False, single_word=True), "19": token("[E1]", True, lstrip=True)},
        {"8": token("dog", True), "18": token("<m>", False), "19": token("<c>", True, rstrip=True)},
    ],
)
def test_added_tokens_decoder_of_transformers_4(tmp_path, tokens):
    make_theirs(tmp_path / "old")
    decoder = {str(number): token(text, True) for number, text in enumerate(SPECIAL)} | tokens
    write_config(tmp_path / "old", tokenizer_class="BertTokenizer", added_tokens_decoder=decoder)
    assert_opens(tmp_path / "old", tmp_path)


@pytest.mark.parametrize("file_name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("form", ["text", "table"])
def test_special_tokens_of_other_names(tmp_path, file_name, form):
    make_theirs(tmp_path / "old")
    names = {"cls_token": "<c>", "mask_token": "<m>"}
    write_lines(tmp_path / "old", ["[PAD]", "[UNK]", "<c>", "[SEP]", "<m>", *WORDS])
    values = {key: name if form == "text" else token(name, True) for key, name in names.items()}
    write_config(tmp_path / "old", tokenizer_class="BertTokenizer")
    settings = json.loads((tmp_path / "old" / "tokenizer_config.json").read_text())
    if file_name == "special_tokens_map.json":
        settings = {}
    (tmp_path / "old" / file_name).write_text(json.dumps(settings | values))
    if form == "table" and file_name == "tokenizer_config.json":
        values = {key: value | {"__type": "AddedToken"} for key, value in values.items()}
        (tmp_path / "old" / file_name).write_text(json.dumps(settings | values))
    assert_opens(tmp_path / "old", tmp_path)
    ours = BertTokenizer.from_pretrained(tmp_path / "old")
    assert (ours.cls_token_id, ours.mask_token_id) == (2, 4)


def test_an_added_token_with_an_impossible_id_is_refused(tmp_path):
    make_theirs(tmp_path / "old")
    (tmp_path / "old" / "added_tokens.json").write_text('{"newword": 99}')
    with pytest.raises(ValueError, match="'newword' has id 99 in its file, and 18 behind"):
        BertTokenizer.from_pretrained(tmp_path / "old")


# --- tokenizer.json alone -------------------------------------------------------------------------


def make_generic(folder, is_framed=True, normalizer=None):
    """A PreTrainedTokenizerFast whose rules no vocab.txt can say."""
    folder.mkdir()
    vocabulary = {text: number for number, text in enumerate(SPECIAL + WORDS)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    if is_framed:
        backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.save(str(folder / "tokenizer.json"))
    # An older vocab.txt beside it means nothing.
    write_lines(folder, [*SPECIAL, "old"])
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    values = {f"{key}_token": name for key, name in names.items()}
    write_config(folder, tokenizer_class="PreTrainedTokenizerFast", **values)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.backend_tokenizer.no_truncation()
    theirs.backend_tokenizer.no_padding()
    return theirs


@pytest.mark.parametrize(
    "normalizer",
    [None, normalizers.Replace("dog", "cat"), normalizers.BertNormalizer(lowercase=False)],
)
def test_a_class_that_is_defined_by_its_file(tmp_path, normalizer):
    theirs = make_generic(tmp_path / "generic", normalizer=normalizer)
    ours = BertTokenizer.from_pretrained(tmp_path / "generic")
    expected = [theirs.backend_tokenizer.encode(text).ids for text in TEXTS]
    assert ours.encode(TEXTS)[0] == expected
    ours.save_pretrained(tmp_path / "again")
    again = BertTokenizer.from_pretrained(tmp_path / "again")
    assert again.encode(TEXTS)[0] == expected and again.fingerprint == ours.fingerprint
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert theirs(TEXTS)["input_ids"] == expected


def test_a_file_that_adds_no_cls_is_refused(tmp_path):
    make_generic(tmp_path / "generic", is_framed=False)
    with pytest.raises(ValueError, match=r"does not put \[CLS\] before a text"):
        BertTokenizer.from_pretrained(tmp_path / "generic")


def test_a_bert_tokenizer_of_another_model_is_refused(tmp_path):
    make_theirs(tmp_path / "old")
    Tokenizer(models.BPE()).save(str(tmp_path / "old" / "tokenizer.json"))
    with pytest.raises(ValueError, match="its model is 'BPE'.*WordPiece"):
        BertTokenizer.from_pretrained(tmp_path / "old")


# --- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_name", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize(
    "name", ["BertJapaneseTokenizer", "DebertaV2TokenizerFast", "AlbertTokenizer", "OwnTokenizer"]
)
def test_an_unknown_class_is_refused_by_name(tmp_path, name, file_name):
    make_theirs(tmp_path / "old")
    (tmp_path / "old" / "tokenizer_config.json").unlink()
    (tmp_path / "old" / file_name).write_text(json.dumps({"tokenizer_class": name}))
    with pytest.raises(ValueError, match=f"{file_name}: tokenizer_class is '{name}'"):
        BertTokenizer.from_pretrained(tmp_path / "old")


@pytest.mark.parametrize("name", ["BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizer"])
def test_classes_with_the_rules_of_bert(tmp_path, name):
    theirs = make_theirs(tmp_path / "old")
    write_config(tmp_path / "old", tokenizer_class=name)
    assert_equal_ids(BertTokenizer.from_pretrained(tmp_path / "old"), theirs)


def test_a_generic_class_without_its_file_is_refused(tmp_path):
    make_theirs(tmp_path / "old")
    write_config(tmp_path / "old", tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(ValueError, match=r"'PreTrainedTokenizerFast'.*tokenizer\.json"):
        BertTokenizer.from_pretrained(tmp_path / "old")


# --- vocab.txt ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "encoding"),
    [(" ", "utf-8"), ("\t", "utf-8"), ("  \r", "utf-8"), ("", "utf-8-sig"), ("\r", "utf-8-sig")],
)
def test_vocab_txt_that_an_editor_changed(tmp_path, ending, encoding):
    theirs = make_theirs(tmp_path / "old")
    write_lines(tmp_path / "old", [line + ending for line in SPECIAL + WORDS], encoding)
    assert_equal_ids(BertTokenizer.from_pretrained(tmp_path / "old"), theirs)


def test_a_damaged_tokenizer_json_is_named(tmp_path):
    make_generic(tmp_path / "generic")
    (tmp_path / "generic" / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ValueError, match=r"tokenizer\.json: cannot be read"):
        BertTokenizer.from_pretrained(tmp_path / "generic")
    shutil.rmtree(tmp_path / "generic")
