"""`tokenizer(...)`, `decode` and the look-ups of tokens: the values of transformers."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import torch

from minbert import BertModel, BertTokenizer
from minbert.token_batch import NO_LIMIT, TokenBatch
from tests.minbert.test_tokenizer import PIECES, SENTENCES, SPECIAL
from tests.small_models import FAMILIES, make_model
from tests.small_models import SENTENCES as FAMILY_SENTENCES

transformers = pytest.importorskip("transformers", reason="run setup.sh --dev")

LIMIT = 24
TEXTS = ["hello world", "", "unplayable, the café!", "the 日 world " * 20, "[MASK] x [SEP]"]
PAIRS = ["the world", "hello", "", "playing " * 30, "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a limit of 24 tokens, which tokenizer_config.json names."""
    folder = tmp_path_factory.mktemp("call")
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + PIECES) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": LIMIT}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def ours(folder):
    return BertTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def theirs(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def as_lists(batch):
    """The values of a batch by key, as lists."""
    lists = {}
    for key in batch:
        lists[key] = batch[key] if isinstance(batch[key], list) else batch[key].tolist()
    return lists


def assert_equal(ours, theirs, *texts, **arguments):
    """Ours and theirs give the same values of the same kind under the same arguments."""
    found = ours(*texts, **arguments)
    expected = theirs(*texts, **arguments)
    where = f"{texts} with {arguments}"
    assert as_lists(found) == as_lists(expected), where
    assert set(found) == set(expected)
    for key in found:
        assert type(found[key]) is type(expected[key]), where
        if not isinstance(found[key], list):
            assert found[key].dtype == expected[key].dtype, where


# --- padding, truncation, length ------------------------------------------------------------------

PADDINGS = [True, "longest", "max_length", False, "do_not_pad"]
TRUNCATIONS = [True, "longest_first", "only_first", "only_second", False, "do_not_truncate"]
LENGTHS = [None, 3, 5, 12, 40]


def is_meaningful(padding, truncation, max_length) -> bool:
    """Whether a max_length has an effect. transformers warns otherwise, and we refuse."""
    is_ignored = truncation in (False, "do_not_truncate") and padding != "max_length"
    return max_length is None or not is_ignored


@pytest.mark.parametrize("with_pairs", [False, True])
@pytest.mark.parametrize(("padding", "truncation"), list(product(PADDINGS, TRUNCATIONS)))
def test_lists_of_every_padding_truncation_and_length(
    ours, theirs, padding, truncation, with_pairs
):
    """Where transformers cannot cut a row, we say so."""
    texts = (TEXTS, PAIRS) if with_pairs else (TEXTS,)
    for max_length in LENGTHS:
        if not is_meaningful(padding, truncation, max_length):
            continue
        arguments = {"padding": padding, "truncation": truncation, "max_length": max_length}
        try:
            theirs(*texts, **arguments)
        except Exception:  # the library raises plain Exception
            with pytest.raises(ValueError, match="cannot be cut to max_length"):
                ours(*texts, **arguments, return_tensors=None)
            continue
        assert_equal(ours, theirs, *texts, **arguments, return_tensors=None)


@pytest.mark.parametrize("return_tensors", ["pt", "np"])
@pytest.mark.parametrize("padding", [True, "max_length"])
def test_tensors_and_arrays(ours, theirs, padding, return_tensors):
    for max_length in (None, 9):
        arguments = {"padding": padding, "truncation": True, "max_length": max_length}
        assert_equal(ours, theirs, TEXTS, **arguments, return_tensors=return_tensors)
        assert_equal(ours, theirs, TEXTS, PAIRS, **arguments, return_tensors=return_tensors)
        assert_equal(ours, theirs, "hello", **arguments, return_tensors=return_tensors)
        assert_equal(ours, theirs, "hello", "the", **arguments, return_tensors=return_tensors)


@pytest.mark.parametrize("text", ["hello world", "", "x" * 300, "日 😀", "a " * 300])
def test_one_text(ours, theirs, text):
    assert_equal(ours, theirs, text, truncation=True, padding=False, return_tensors=None)
    assert_equal(ours, theirs, [text], truncation=True, padding=False, return_tensors=None)
    assert_equal(ours, theirs, text, "the", truncation=True, padding=False, return_tensors=None)
    assert_equal(ours, theirs, text, truncation=True, padding="max_length", return_tensors="pt")


def test_pairs_as_tuples(ours, theirs):
    pairs = list(zip(TEXTS, PAIRS, strict=True))
    assert_equal(ours, theirs, pairs, padding=True, truncation=True, return_tensors="pt")
    found = ours([list(pair) for pair in pairs])
    assert as_lists(found) == as_lists(ours(TEXTS, PAIRS))


@pytest.mark.parametrize(
    "arguments",
    [
        {"add_special_tokens": False},
        {"pad_to_multiple_of": 8},
        {"padding_side": "left"},
        {"return_token_type_ids": False},
        {"return_attention_mask": False},
        {"return_token_type_ids": True, "return_attention_mask": True, "verbose": False},
        {"stride": 0, "is_split_into_words": False, "return_length": False},
    ],
)
def test_rare_arguments(ours, theirs, arguments):
    settings = {"padding": True, "truncation": True, "return_tensors": "pt"}
    assert_equal(ours, theirs, TEXTS, PAIRS, **settings, **arguments)
    assert_equal(ours, theirs, TEXTS[:1], **settings, **arguments)


@pytest.mark.parametrize("side", ["padding_side", "truncation_side"])
def test_a_side_that_the_folder_names(folder, tmp_path, side, ours):
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    settings = {"tokenizer_class": "BertTokenizer", side: "left", "model_max_length": 9}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    left = BertTokenizer.from_pretrained(tmp_path)
    arguments = {"padding": True, "truncation": True, "return_tensors": "pt"}
    assert_equal(left, theirs, TEXTS, **arguments)
    assert as_lists(left(TEXTS)) != as_lists(ours(TEXTS, max_length=9))
    left.save_pretrained(tmp_path / "again")
    again = BertTokenizer.from_pretrained(tmp_path / "again")
    assert_equal(again, theirs, TEXTS, **arguments)
    is_cut_elsewhere = side == "truncation_side"
    assert (left.fingerprint != ours.fingerprint) == is_cut_elsewhere
    assert (
        again.encode(TEXTS, None, 6)[0] == theirs(TEXTS, truncation=True, max_length=6)["input_ids"]
    )


def test_a_side_that_is_none_is_refused(folder, tmp_path):
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    (tmp_path / "tokenizer_config.json").write_text('{"padding_side": "up"}')
    with pytest.raises(ValueError, match=r"tokenizer_config.json: padding_side is 'up'"):
        BertTokenizer.from_pretrained(tmp_path)


# --- what a call returns --------------------------------------------------------------------------


def test_the_batch_by_key_and_attribute(ours):
    batch = ours(["hello world", "the"])
    assert isinstance(batch, TokenBatch) and isinstance(batch, dict)
    assert batch.input_ids is batch["input_ids"] and batch.input_ids.dtype == torch.int64
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch.to("cpu") is batch
    with pytest.raises(AttributeError, match="it has no 'labels'"):
        assert batch.labels


def test_to_moves_tensors_and_leaves_lists(ours):
    moved = ours(["hello"]).to("meta")
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}
    lists = ours(["hello"], return_tensors=None).to("meta")
    assert isinstance(lists.input_ids, list)


def test_the_defaults_are_ready_for_the_model():
    """Also a text that is longer than the model: it is cut to the positions of config.json."""
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    assert tokenizer.model_max_length == 128
    batch = tokenizer(["a film " * 300, "A lovely film."])
    assert batch.input_ids.shape == (2, 128)
    model = BertModel.from_pretrained("minbert-mini")
    assert model(**batch).last_hidden_state.shape == (2, 128, 192)
    assert model(**tokenizer("A lovely film.")).pooler_output.shape == (1, 192)


def test_without_a_limit_nothing_is_cut(ours):
    free = BertTokenizer(ours.vocabulary)
    assert free.model_max_length == NO_LIMIT
    assert free(["the " * 2000]).input_ids.shape == (1, 2002)
    with pytest.raises(ValueError, match="padding is 'max_length', and the tokenizer's folder"):
        free(["the"], padding="max_length")


def test_a_call_leaves_no_setting_for_the_next(ours):
    before = ours.encode(SENTENCES)
    ours(SENTENCES, max_length=4)
    ours(SENTENCES, truncation=False)
    assert ours.encode(SENTENCES) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": False},
        {"strip_accents": False},
        {"do_lower_case": False, "model_max_length": 7},
        {"padding_side": "left"},
        {"truncation_side": "left", "clean_up_tokenization_spaces": True},
    ],
)
def test_settings_in_place_of_the_stored_ones(folder, settings):
    ours = BertTokenizer.from_pretrained(folder, **settings)
    theirs = transformers.BertTokenizer.from_pretrained(folder, **settings)
    texts = ["Hello the Café", "a ' s . don't " * 9]
    assert_equal(ours, theirs, texts, padding=True, truncation=True, return_tensors="pt")
    assert ours.model_max_length == theirs.model_max_length
    ids = ours(texts).input_ids
    assert ours.batch_decode(ids) == theirs.batch_decode(ids)
    plain = BertTokenizer.from_pretrained(folder)
    assert as_lists(ours(texts)) != as_lists(plain(texts)) or ours.fingerprint != plain.fingerprint


@pytest.mark.parametrize("texts", [(None,), (3,), ("a", 3)])
def test_something_that_is_no_text(ours, texts):
    name = "text" if len(texts) == 1 else "text_pair"
    with pytest.raises(ValueError, match=f"^{name} is {texts[-1]!r}; expected is a str, or one"):
        ours(*texts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_fast": True}, "takes no setting 'use_fast'"),
        ({"do_lower_case": "no"}, "do_lower_case is 'no'; pass True or False"),
        ({"padding_side": "top"}, "padding_side is 'top'"),
    ],
)
def test_settings_that_are_refused(folder, settings, message):
    with pytest.raises(ValueError, match=message):
        BertTokenizer.from_pretrained(folder, **settings)


def test_a_setting_without_effect_is_refused(tmp_path):
    make_model("roberta", tmp_path / "roberta")
    with pytest.raises(ValueError, match="do_lower_case has no effect.*Leave do_lower_case out"):
        BertTokenizer.from_pretrained(tmp_path / "roberta", do_lower_case=True)
    BertTokenizer.from_pretrained(tmp_path / "roberta")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"padding": "longer"}, "padding is 'longer'; it is one of longest"),
        ({"truncation": "first"}, "truncation is 'first'; it is one of longest_first"),
        ({"return_tensors": "tf"}, "return_tensors is 'tf'; it is one of pt, np"),
        ({"padding_side": "top"}, "padding_side is 'top'"),
        ({"max_length": 0}, "max_length is 0"),
        ({"max_length": 1}, "max_length is 1, and a row has 2 special tokens alone"),
        ({"max_length": 8.0}, "max_length is 8.0"),
        ({"max_length": 8, "truncation": False}, "max_length is 8 and has no effect"),
        ({"max_length": 9, "pad_to_multiple_of": 8}, "no multiple of 8"),
        ({"return_offsets_mapping": True}, "return_offsets_mapping is not computed here"),
        ({"stride": 4}, "stride is not computed here"),
        ({"is_split_into_words": True}, "is_split_into_words is not computed here"),
        ({"pad_to_max_length": True}, "takes no argument 'pad_to_max_length'"),
        ({"padding": False}, "rows of 3 to 4 tokens make no tensor"),
    ],
)
def test_arguments_that_are_refused(ours, arguments, message):
    with pytest.raises(ValueError, match=message):
        ours(["hello world", "the"], **arguments)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((["hello", None],), "row 1 of the text is None"),
        ((["hello", float("nan")],), "row 1 of the text is nan"),
        (([b"hello"],), "row 0 of the text is b'hello'"),
        ((["hello"], ["a", "b"]), "text has 1 rows and text_pair 2"),
        ((["hello"], [None]), r"row 0 of the text is \('hello', None\)"),
        ((["hello"], "the"), "a single text and the other a list"),
        (([],), "there is no text"),
    ],
)
def test_texts_that_are_refused(ours, texts, message):
    with pytest.raises(ValueError, match=message):
        ours(*texts)


# --- from ids to text -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def id_rows(ours):
    return ours(SENTENCES, SENTENCES[::-1], truncation=False, return_tensors=None).input_ids


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("clean_up", [None, False, True])
def test_decode(ours, theirs, id_rows, skip, clean_up):
    arguments = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": clean_up}
    for ids in [*id_rows, [], [0], [1, 1, 0, 0]]:
        expected = theirs.decode(ids, **arguments)
        assert ours.decode(ids, **arguments) == expected
        assert ours.decode(torch.tensor(ids, dtype=torch.int64), **arguments) == expected
        assert ours.decode(np.array(ids, dtype=np.int64), **arguments) == expected
    expected = theirs.batch_decode(id_rows, **arguments)
    assert ours.batch_decode(id_rows, **arguments) == expected
    assert ours.decode(id_rows, **arguments) == expected
    padded = ours(TEXTS).input_ids
    assert ours.batch_decode(padded, **arguments) == theirs.batch_decode(padded, **arguments)
    assert ours.batch_decode(list(padded), **arguments) == ours.decode(list(padded), **arguments)


def test_decode_by_hand(ours):
    ids = ours("Unplayable, the café!").input_ids
    assert ours.decode(ids[0]) == "[CLS] unplayable, the cafe! [SEP]"
    assert ours.decode(ids, skip_special_tokens=True) == ["unplayable, the cafe!"]
    assert ours.decode(5) == "play" == ours.decode(np.int64(5))


def test_a_folder_that_asks_for_clean_up(folder, tmp_path):
    (tmp_path / "vocab.txt").write_text((folder / "vocab.txt").read_text())
    settings = {"tokenizer_class": "BertTokenizer", "clean_up_tokenization_spaces": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    cleaning = BertTokenizer.from_pretrained(tmp_path)
    ids = cleaning("a ' s . don't").input_ids[0]
    assert cleaning.decode(ids) == theirs.decode(ids)
    assert cleaning.decode(ids, clean_up_tokenization_spaces=False) == theirs.decode(
        ids, clean_up_tokenization_spaces=False
    )


def test_a_label_that_is_no_token_is_named(ours):
    with pytest.raises(ValueError, match="token id -100 is negative"):
        ours.decode([2, -100, 3])


# --- single tokens --------------------------------------------------------------------------------


def test_tokens_and_ids(ours, theirs, id_rows):
    for ids in id_rows:
        assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
        assert ours.convert_ids_to_tokens(ids, skip_special_tokens=True) == (
            theirs.convert_ids_to_tokens(ids, skip_special_tokens=True)
        )
        assert ours.convert_ids_to_tokens(torch.tensor(ids)) == theirs.convert_ids_to_tokens(ids)
    assert ours.convert_ids_to_tokens(5) == "play" == theirs.convert_ids_to_tokens(5)
    assert ours.convert_ids_to_tokens([10_000]) == theirs.convert_ids_to_tokens([10_000])
    tokens = ["play", "##ing", "unheard", "[SEP]"]
    assert (
        ours.convert_tokens_to_ids(tokens) == theirs.convert_tokens_to_ids(tokens) == [5, 6, 1, 3]
    )
    assert ours.convert_tokens_to_ids("the") == theirs.convert_tokens_to_ids("the")
    assert ours.convert_tokens_to_string(tokens) == theirs.convert_tokens_to_string(tokens)
    for text in SENTENCES:
        assert ours.tokenize(text) == theirs.tokenize(text)
    assert ours.tokenize("the", "a", add_special_tokens=True) == (
        theirs.tokenize("the", "a", add_special_tokens=True)
    )


def test_the_named_tokens(ours, theirs):
    for name in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(ours, f"{name}_token") == getattr(theirs, f"{name}_token")
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")
    assert len(ours) == len(theirs) and ours.vocab_size == theirs.vocab_size
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.all_special_tokens == theirs.all_special_tokens
    assert ours.all_special_ids == theirs.all_special_ids
    assert ours.model_max_length == theirs.model_max_length == LIMIT


def test_added_tokens(folder, tmp_path):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.add_tokens(["newword"])
    theirs.add_special_tokens({"additional_special_tokens": ["[E1]"]})
    theirs.save_pretrained(tmp_path)
    added = BertTokenizer.from_pretrained(tmp_path)
    text = "newword [E1] the"
    assert_equal(added, theirs, text, truncation=True, padding=False, return_tensors=None)
    ids = added(text).input_ids[0]
    for skip in (False, True):
        assert added.decode(ids, skip) == theirs.decode(ids, skip)
        assert added.convert_ids_to_tokens(ids, skip) == theirs.convert_ids_to_tokens(ids, skip)
    assert len(added) == len(theirs) and added.vocab_size == theirs.vocab_size
    assert added.all_special_tokens == theirs.all_special_tokens


# --- other families -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_other_families(family, tmp_path):
    """Their tokenizers add other special tokens, and bytes or marks for blanks."""
    make_model(family, tmp_path / family)
    ours = BertTokenizer.from_pretrained(tmp_path / family)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / family)
    texts = [*FAMILY_SENTENCES, "", "  two  blanks , here", "unknown ☃ Ω", "<mask> [MASK]"]
    for arguments in (
        {"padding": True, "truncation": True, "max_length": 9},
        {"padding": "max_length", "truncation": "only_first", "max_length": 20},
        {"padding": False, "truncation": False, "add_special_tokens": False},
    ):
        for rows in ((texts,), (texts, texts[::-1])):
            if len(rows) == 2 and arguments["truncation"] == "only_first":
                continue  # some first text is too short for it
            found = ours(*rows, **arguments, return_tensors=None)
            expected = theirs(*rows, **arguments)
            for key in expected:
                assert found[key] == expected[key], (family, key, arguments)
    for ids in theirs(texts)["input_ids"]:
        for skip in (False, True):
            assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
            cleaned = theirs.decode(
                ids, skip_special_tokens=skip, clean_up_tokenization_spaces=True
            )
            assert ours.decode(ids, skip, clean_up_tokenization_spaces=True) == cleaned
            tokens = theirs.convert_ids_to_tokens(ids, skip_special_tokens=skip)
            assert ours.convert_ids_to_tokens(ids, skip) == tokens
            assert ours.convert_tokens_to_ids(tokens) == theirs.convert_tokens_to_ids(tokens)
    assert set(ours.all_special_ids) == set(theirs.all_special_ids)
    assert len(ours) == len(theirs)
    states = BertModel.from_pretrained(tmp_path / family)(**ours(texts)).last_hidden_state
    assert states.isfinite().all()


# --- negative control -----------------------------------------------------------------------------


def test_negative_control_the_arguments_are_told_apart(ours):
    """Calls that differ in one argument must differ in their values."""
    plain = as_lists(ours(TEXTS, PAIRS))
    for arguments in (
        {"max_length": 12},
        {"truncation": "only_first", "max_length": 70},
        {"padding": "max_length", "max_length": 40},
        {"add_special_tokens": False},
        {"padding_side": "left", "max_length": 12},
    ):
        assert as_lists(ours(TEXTS, PAIRS, **arguments)) != plain, arguments


# --- names of special tokens in a text ------------------------------------------------------------

INJECTED = "[MASK] hello [SEP] world [CLS] <mask> the </s> world <s>[PAD]"


@pytest.mark.parametrize("family", FAMILIES)
def test_split_special_tokens(tmp_path, family):
    """With it, a text injects no separator. transformers gives the same ids."""
    make_model(family, tmp_path / family)
    path = tmp_path / family / "tokenizer_config.json"
    plain = BertTokenizer.from_pretrained(tmp_path / family)
    content = json.loads(path.read_text()) | {"split_special_tokens": True}
    path.write_text(json.dumps(content))
    ours = BertTokenizer.from_pretrained(tmp_path / family)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / family)
    ids, _ = ours.encode([INJECTED])
    assert ids == theirs([INJECTED])["input_ids"]
    assert ours(INJECTED, return_tensors=None)["input_ids"] == ids[0]
    # </s> is also a piece of a Unigram vocabulary, in transformers as here.
    assert ids[0].count(ours.sep_token_id) == (2 if family in ("xlm-roberta", "camembert") else 1)
    assert ours.tokenize(INJECTED) == theirs.tokenize(INJECTED)
    pair, _ = ours.encode([INJECTED], ["[SEP] world"])
    assert pair == theirs([INJECTED], ["[SEP] world"])["input_ids"]

    # It is another tokenizer: its token ids are never taken from the cache of the plain one.
    assert ids != plain.encode([INJECTED])[0]
    assert ours.fingerprint != plain.fingerprint
    ours.save_pretrained(tmp_path / "again")
    assert BertTokenizer.from_pretrained(tmp_path / "again").encode([INJECTED])[0] == ids


def test_split_special_tokens_as_an_argument(folder):
    ours = BertTokenizer.from_pretrained(folder, split_special_tokens=True)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    assert ours.encode([INJECTED])[0] == theirs([INJECTED])["input_ids"]
    with pytest.raises(ValueError, match="split_special_tokens is 'yes'; it is true or false"):
        BertTokenizer.from_pretrained(folder, split_special_tokens="yes")
