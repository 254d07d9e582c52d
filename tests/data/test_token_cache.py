"""data/token_cache.py: the same ids with and without the folder; what a file belongs to; damaged and useless ones."""

import numpy
import pytest

from data import token_cache
from data.batching import EncodedExamples
from data.readers import Example
from data.token_cache import tokenize, tokenize_once
from minbert import BertTokenizer

TEXTS = [
    "a doctor is helping",
    "the girl",
    "",
    "a man with a very long story to tell to everyone who is there",
]
OTHERS = ["the child", "it is good", "the hotel", "one"]


@pytest.fixture
def tokenizer(tiny_model, tmp_path):
    return BertTokenizer.from_pretrained(tiny_model, tmp_path / "cache")


@pytest.fixture
def no_tokenizing(monkeypatch):
    """A function after whose call nothing may be tokenized any more."""

    def forbid() -> None:
        def refuse(*arguments):
            raise AssertionError("tokenized again")

        monkeypatch.setattr(token_cache, "tokenize", refuse)

    return forbid


def equal(one, other) -> bool:
    return (
        numpy.array_equal(one.tokens, other.tokens)
        and numpy.array_equal(one.lengths, other.lengths)
        and one.num_truncated == other.num_truncated
        and one.tokens.dtype == other.tokens.dtype
    )


@pytest.mark.parametrize(("second", "num_truncated"), [(None, 1), (OTHERS, 2)])
def test_a_second_run_reads_what_the_first_one_made(
    tokenizer, no_tokenizing, second, num_truncated
):
    expected = tokenize(tokenizer, TEXTS, second, 12)
    assert expected.num_truncated == num_truncated and expected.lengths.max() == 12
    assert equal(tokenize_once(tokenizer, TEXTS, second, 12), expected)
    no_tokenizing()
    assert equal(tokenize_once(tokenizer, TEXTS, second, 12), expected)


def test_examples_come_out_alike(tokenizer, tiny_model, no_tokenizing):
    examples = [
        Example(str(number), *pair, 1.0)
        for number, pair in enumerate(zip(TEXTS, OTHERS, strict=True))
    ]
    kinds = ("cross", "bi", "dual")
    plain = [
        EncodedExamples(examples, BertTokenizer.from_pretrained(tiny_model), 12, kind)
        for kind in kinds
    ]
    for kind in kinds:
        EncodedExamples(examples, tokenizer, 12, kind)
    no_tokenizing()
    for kind, expected in zip(kinds, plain, strict=True):
        found = EncodedExamples(examples, tokenizer, 12, kind)
        assert found.lengths.tolist() == expected.lengths.tolist()
        assert found.batch([3, 0]).input_ids.equal(expected.batch([3, 0]).input_ids)
        assert found.batch([3, 0]).token_type_ids.equal(expected.batch([3, 0]).token_type_ids)


def test_a_file_belongs_to_texts_length_and_tokenizer(tokenizer, tiny_model):
    cased = BertTokenizer(tokenizer.vocabulary, lowercase=False, cache=tokenizer.cache)
    smaller = {token: number for token, number in tokenizer.vocabulary.items() if token != "doctor"}
    requests = [
        (tokenizer, TEXTS, None, 12),
        (tokenizer, TEXTS, None, 13),
        (tokenizer, TEXTS[::-1], None, 12),
        (tokenizer, TEXTS, OTHERS, 12),
        (tokenizer, TEXTS + OTHERS, None, 12),
        (cased, TEXTS, None, 12),
        (tokenizer, ["ab", "c"], None, 12),
        (tokenizer, ["a", "bc"], None, 12),
        (BertTokenizer(smaller, cache=tokenizer.cache), TEXTS, None, 12),
    ]
    for request in requests:
        assert equal(tokenize_once(*request), tokenize(*request))
    assert len(list(tokenizer.cache.iterdir())) == len(requests)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_made_anew(tokenizer, damage):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    (path,) = tokenizer.cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] if damage is None else damage)
    assert equal(tokenize_once(tokenizer, TEXTS, None, 12), expected) and path.read_bytes() == whole


def test_a_file_of_the_right_size_with_a_wrong_number_is_damaged_too(tokenizer):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    (path,) = tokenizer.cache.iterdir()
    whole = path.read_bytes()
    place = whole.index(expected.tokens[0, -4:].tobytes())
    path.write_bytes(whole[:place] + bytes(4) + whole[place + 4 :])
    assert equal(tokenize_once(tokenizer, TEXTS, None, 12), expected) and path.read_bytes() == whole


@pytest.mark.parametrize(
    "flag", [(4, 0xFF), (6, 0x01)]
)  # of the entry: the version needed to read it, encryption
def test_a_file_that_zip_would_not_read_is_damaged_too(tokenizer, flag):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    (path,) = tokenizer.cache.iterdir()
    whole = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", flag[0]), (b"PK\x01\x02", flag[0] + 2)):
        whole[whole.index(signature) + offset] |= flag[1]
    path.write_bytes(whole)
    assert equal(tokenize_once(tokenizer, TEXTS, None, 12), expected) and path.read_bytes() != whole


def test_a_folder_that_cannot_be_written_is_no_error(tokenizer):
    tokenizer.cache.write_text("a file where the folder should be")
    assert equal(tokenize_once(tokenizer, TEXTS, None, 12), tokenize(tokenizer, TEXTS, None, 12))


def test_none_keeps_nothing(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenize_once(BertTokenizer.from_pretrained(tiny_model), TEXTS, None, 12)
    assert not list(tmp_path.iterdir())
