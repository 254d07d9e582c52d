"""data/token_cache.py: the same ids with and without the folder, and damaged files."""

import numpy
import pytest

from data import token_cache
from data.batching import EncodedExamples
from data.examples import Example
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


def are_equal(rows, expected) -> bool:
    return (
        numpy.array_equal(rows.tokens, expected.tokens)
        and numpy.array_equal(rows.lengths, expected.lengths)
        and rows.num_truncated == expected.num_truncated
        and rows.tokens.dtype == expected.tokens.dtype
    )


def only_file(folder):
    """The one file that the folder holds."""
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize(("second", "num_truncated"), [(None, 1), (OTHERS, 2)])
def test_a_second_run_reads_what_the_first_one_made(
    tokenizer, no_tokenizing, second, num_truncated
):
    expected = tokenize(tokenizer, TEXTS, second, 12)
    assert expected.num_truncated == num_truncated
    assert expected.lengths.max() == 12
    assert are_equal(tokenize_once(tokenizer, TEXTS, second, 12), expected)
    no_tokenizing()
    assert are_equal(tokenize_once(tokenizer, TEXTS, second, 12), expected)


def test_examples_come_out_alike(tokenizer, tiny_model, no_tokenizing):
    examples = []
    for number, pair in enumerate(zip(TEXTS, OTHERS, strict=True)):
        examples.append(Example(str(number), *pair, 1.0))
    without_cache = BertTokenizer.from_pretrained(tiny_model)
    kinds = ("cross", "bi", "dual")
    expected = {kind: EncodedExamples(examples, without_cache, 12, kind) for kind in kinds}
    for kind in kinds:
        EncodedExamples(examples, tokenizer, 12, kind)

    no_tokenizing()
    for kind in kinds:
        encoded = EncodedExamples(examples, tokenizer, 12, kind)
        assert encoded.lengths.tolist() == expected[kind].lengths.tolist()
        batch = encoded.batch([3, 0])
        expected_batch = expected[kind].batch([3, 0])
        assert batch.input_ids.equal(expected_batch.input_ids)
        assert batch.token_type_ids.equal(expected_batch.token_type_ids)


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
        assert are_equal(tokenize_once(*request), tokenize(*request))
    assert len(list(tokenizer.cache.iterdir())) == len(requests)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_made_anew(tokenizer, damage):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    path = only_file(tokenizer.cache)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] if damage is None else damage)
    assert are_equal(tokenize_once(tokenizer, TEXTS, None, 12), expected)
    assert path.read_bytes() == whole


def test_a_file_of_the_right_size_with_a_wrong_number_is_damaged_too(tokenizer):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    path = only_file(tokenizer.cache)
    whole = path.read_bytes()
    place = whole.index(expected.tokens[0, -4:].tobytes())
    path.write_bytes(whole[:place] + bytes(4) + whole[place + 4 :])
    assert are_equal(tokenize_once(tokenizer, TEXTS, None, 12), expected)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("offset", "bits"),
    [pytest.param(4, 0xFF, id="version needed to read it"), pytest.param(6, 0x01, id="encryption")],
)
def test_a_file_that_zip_would_not_read_is_damaged_too(tokenizer, offset, bits):
    expected = tokenize_once(tokenizer, TEXTS, None, 12)
    path = only_file(tokenizer.cache)
    whole = bytearray(path.read_bytes())
    # An entry has two headers: before its content, and in the directory at the end of the file.
    local_header = whole.index(b"PK\x03\x04")
    whole[local_header + offset] |= bits
    directory_header = whole.index(b"PK\x01\x02")
    whole[directory_header + offset + 2] |= bits
    path.write_bytes(whole)
    assert are_equal(tokenize_once(tokenizer, TEXTS, None, 12), expected)
    assert path.read_bytes() != whole


def test_ids_that_are_not_those_of_the_file_are_damage_too(tokenizer):
    """Such as shifted ones: the checksums of the zip file are right."""
    tokenize_once(tokenizer, TEXTS, None, 16)
    path = only_file(tokenizer.cache)
    with numpy.load(path) as stored:
        fields = dict(stored)
    assert token_cache.read(path) is not None
    numpy.savez(path, **{**fields, "tokens": numpy.roll(fields["tokens"], 1, axis=1)})
    assert token_cache.read(path) is None
    numpy.savez(path, **{name: value for name, value in fields.items() if name != "digest"})
    assert token_cache.read(path) is None
    # The ids of other texts.
    numpy.savez(path.with_name("other.npz"), **fields)
    assert token_cache.read(path.with_name("other.npz")) is None


def test_a_folder_that_cannot_be_written_is_no_error(tokenizer):
    tokenizer.cache.write_text("a file where the folder should be")
    assert are_equal(
        tokenize_once(tokenizer, TEXTS, None, 12), tokenize(tokenizer, TEXTS, None, 12)
    )


def test_none_keeps_nothing(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenize_once(BertTokenizer.from_pretrained(tiny_model), TEXTS, None, 12)
    assert not list(tmp_path.iterdir())
