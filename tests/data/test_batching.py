"""data/batching.py: the token cache, padding, pair encodings and the two ways to order batches."""

import numpy
import pytest
import torch

from data.batching import EncodedExamples, length_grouped_batches, sorted_batches
from data.readers import Example

CLS, SEP, PAD = 1, 2, 9


class FakeTokenizer:
    """A letter is a token; the longer sentence loses letters first, as WordPiece truncation does."""

    pad_token_id = PAD
    cache = None

    def encode(self, sentences, second_sentences=None, max_length=128):
        input_ids, token_type_ids = [], []
        for position, sentence in enumerate(sentences):
            second = None if second_sentences is None else second_sentences[position]
            first = [10 + ord(letter) - ord("a") for letter in sentence]
            other = None if second is None else [10 + ord(letter) - ord("a") for letter in second]
            while len(first) + len(other or []) + (2 if other is None else 3) > max_length:
                max(first, other or [], key=len).pop()
            tail = [] if other is None else [*other, SEP]
            input_ids.append([CLS, *first, SEP, *tail])
            token_type_ids.append([0] * (len(first) + 2) + [1] * len(tail))
        return input_ids, token_type_ids


SINGLES = [
    Example("one", "abc", None, 3.0),
    Example("two", "", None, 0.0),
    Example("three", "abcdefgh", None, 4.0),
]
PAIRS = [
    Example("one", "a", "bcd", 2.75),
    Example("two", "abcde", "b", 0.0),
    Example("three", "ab", "ab", 5.0),
]


def test_single_sentences_by_hand():
    batch = EncodedExamples(SINGLES, FakeTokenizer()).batch([0, 1])
    assert batch.input_ids.tolist() == [[CLS, 10, 11, 12, SEP], [CLS, SEP, PAD, PAD, PAD]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert batch.token_type_ids.eq(0).all()
    assert batch.labels.tolist() == [3.0, 0.0] and batch.labels.dtype == torch.float32
    assert batch.ids == ("one", "two")
    assert {batch.input_ids.dtype, batch.attention_mask.dtype, batch.token_type_ids.dtype} == {
        torch.int64
    }


def test_cross_encoding_puts_a_pair_in_one_row_with_segment_1():
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="cross")
    batch = encoded.batch([0])
    assert batch.input_ids.tolist() == [[CLS, 10, SEP, 11, 12, 13, SEP]]
    assert batch.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 1, 1]]
    assert batch.labels.tolist() == [2.75]  # no integer cast on the way
    assert encoded.lengths.tolist() == [7, 9, 7]


def test_dual_encoding_gives_each_pair_in_both_orders():
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="dual")
    batch = encoded.batch([0, 2])
    assert batch.input_ids[0].tolist() == [CLS, 10, SEP, 11, 12, 13, SEP]
    assert batch.input_ids[2].tolist() == [CLS, 11, 12, 13, SEP, 10, SEP]
    assert batch.token_type_ids[2].tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert (
        batch.input_ids.shape == (4, 7)
        and batch.labels.shape == (2,)
        and encoded.lengths.tolist() == [7, 9, 7]
    )


def test_bi_encoding_gives_first_sentences_then_second_ones():
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="bi")
    batch = encoded.batch([0, 2])
    assert batch.input_ids.tolist() == [
        [CLS, 10, SEP, PAD, PAD],
        [CLS, 10, 11, SEP, PAD],
        [CLS, 11, 12, 13, SEP],
        [CLS, 10, 11, SEP, PAD],
    ]
    assert batch.attention_mask.sum(1).tolist() == [3, 4, 5, 4]
    assert batch.token_type_ids.eq(0).all()
    assert batch.labels.shape == (2,) and batch.ids == ("one", "three")
    assert encoded.lengths.tolist() == [5, 7, 4]  # the longer of the two sides


def test_truncation_is_counted_and_a_row_that_just_fits_is_not():
    encoded = EncodedExamples(SINGLES, FakeTokenizer(), max_length=5)  # rows of 5, 2 and 10 tokens
    assert encoded.num_truncated == 1
    assert encoded.lengths.tolist() == [5, 2, 5]
    assert EncodedExamples(SINGLES, FakeTokenizer()).num_truncated == 0


def test_batch_is_the_tokenizers_rows_for_any_choice_and_any_chunk(monkeypatch):
    monkeypatch.setattr("data.token_cache.CHUNK", 2)
    random = numpy.random.default_rng(0)
    words = ["".join(random.choice(list("abcdef"), random.integers(0, 9))) for _ in range(14)]
    examples = [Example(str(n), words[2 * n], words[2 * n + 1], float(n % 2)) for n in range(7)]
    encoded = EncodedExamples(examples, FakeTokenizer())
    expected, _ = FakeTokenizer().encode(words[::2], words[1::2])
    batch = encoded.batch([6, 0, 3])
    rows = [
        ids[mask.bool()].tolist()
        for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True)
    ]
    assert rows == [expected[6], expected[0], expected[3]]


@pytest.mark.parametrize("pair_encoding", ["cross", "bi", "dual"])
def test_a_part_has_all_rows_of_its_examples(pair_encoding):
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding=pair_encoding)
    part, alone = encoded.batch([0, 1, 2]).part([2, 0]), encoded.batch([2, 0])
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        found, expected = getattr(part, name), getattr(alone, name)
        assert torch.equal(found[:, : expected.size(1)], expected) and found.size(
            1
        ) >= expected.size(1)
    assert part.ids == alone.ids and torch.equal(part.labels, alone.labels)


def test_without_labels_and_on_another_device():
    unlabelled = [Example("one", "abc", None, None)]
    batch = EncodedExamples(unlabelled, FakeTokenizer()).batch([0])
    assert batch.labels is None and batch.to("meta").labels is None
    moved = EncodedExamples(SINGLES, FakeTokenizer()).batch([0]).to("meta")
    assert {moved.input_ids.device.type, moved.labels.device.type} == {"meta"} and moved.ids == (
        "one",
    )


def test_unknown_pair_encoding_and_no_examples():
    with pytest.raises(
        ValueError, match="pair_encoding is 'both'; needed is 'cross', 'bi' or 'dual'"
    ):
        EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="both")
    with pytest.raises(ValueError, match="no examples to encode"):
        EncodedExamples([], FakeTokenizer())


@pytest.mark.parametrize("num_examples", [1, 7, 8, 333])
def test_length_grouped_batches_hold_each_index_once(num_examples):
    lengths = numpy.random.default_rng(0).integers(3, 90, num_examples)
    batches = length_grouped_batches(lengths, 8, torch.Generator().manual_seed(0), window=4)
    assert sorted(index for batch in batches for index in batch) == list(range(num_examples))
    assert len(batches) == -(-num_examples // 8)  # only one batch may be short
    assert max(len(batch) for batch in batches) <= 8


def test_length_grouped_batches_waste_little_and_differ_by_generator_state():
    lengths = numpy.random.default_rng(0).integers(3, 90, 2000)

    def padded_tokens(batches):
        return sum(len(batch) * lengths[batch].max() for batch in batches)

    generator = torch.Generator().manual_seed(0)
    first, second = (length_grouped_batches(lengths, 16, generator) for _ in range(2))
    again = length_grouped_batches(lengths, 16, torch.Generator().manual_seed(0))
    assert first == again and first != second
    in_file_order = [list(range(start, start + 16)) for start in range(0, 2000, 16)]
    assert padded_tokens(first) < 1.1 * lengths.sum()
    assert padded_tokens(in_file_order) > 1.5 * lengths.sum()  # negative control: without grouping
    widest = [lengths[batch].max() for batch in first[:50]]  # as many as a window has
    assert widest != sorted(widest), (
        "the batches must be shuffled, or short rows would come first in every window"
    )


@pytest.mark.parametrize("max_tokens", [100, 200, 10_000])
def test_batches_keep_to_their_tokens(max_tokens):
    sizes = numpy.random.default_rng(0).integers(3, 90, 500)
    batches = length_grouped_batches(
        sizes, 16, torch.Generator().manual_seed(0), max_tokens=max_tokens
    )
    padded = [len(batch) * sizes[batch].max() for batch in batches]
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    assert max(padded) <= max_tokens and max(map(len, batches)) <= 16
    without = length_grouped_batches(sizes, 16, torch.Generator().manual_seed(0))
    assert (batches == without) == (max_tokens == 10_000) and max(
        len(batch) * sizes[batch].max() for batch in without
    ) > 1000  # the negative control


def test_a_batch_is_closed_only_when_the_next_example_would_not_fit():
    assert cut([4, 3, 2, 1, 0], [9, 5, 4, 4, 2], 3, 12) == [
        [4, 3, 2],
        [1],
        [0],
    ]  # 3 x 4; 2 x 9 is too much
    assert cut([2, 1, 0], [30, 20, 1], 3, 12) == [[2], [1], [0]]  # larger than the limit: alone


def test_both_sentences_of_a_pair_count():
    """As rows of their own both are padded to the longer one."""
    found = {
        encoding: EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding=encoding)
        for encoding in ("cross", "bi")
    }
    assert found["cross"].sizes.tolist() == found["cross"].lengths.tolist()
    batch = found["bi"].batch([0])
    assert found["bi"].sizes[0] == batch.input_ids.numel() > found["bi"].lengths[0]


def test_sorted_batches_start_with_the_longest():
    assert sorted_batches([3, 9, 5, 9, 1], 2) == [[1, 3], [2, 0], [4]]
