"""data/batching.py: padding, pair encodings, and the two ways to order batches."""

import numpy
import pytest
import torch

from data.batching import (
    EncodedExamples,
    length_grouped_batches,
    sorted_batches,
    split_into_batches,
)
from data.examples import Example

CLS, SEP, PAD = 1, 2, 9


class FakeTokenizer:
    """A letter is a token. The longer sentence loses letters first, as in WordPiece truncation."""

    pad_token_id = PAD
    cache = None
    unk_token_id = 3
    unk_token = "[UNK]"
    has_segments = True
    fingerprint = "fake"

    def encode(self, sentences, second_sentences=None, max_length=128):
        input_ids = []
        token_type_ids = []
        for position, sentence in enumerate(sentences):
            second = None if second_sentences is None else second_sentences[position]
            ids, types = self.encode_row(sentence, second, max_length)
            input_ids.append(ids)
            token_type_ids.append(types)
        return input_ids, token_type_ids

    def encode_row(self, sentence, second_sentence, max_length):
        first = list(sentence)
        second = list(second_sentence or "")
        num_special = 2 if second_sentence is None else 3
        while len(first) + len(second) + num_special > max_length:
            longer = max(first, second, key=len)
            longer.pop()

        ids = [CLS, *map(token_of, first), SEP]
        types = [0] * len(ids)
        if second_sentence is not None:
            tail = [*map(token_of, second), SEP]
            ids += tail
            types += [1] * len(tail)
        return ids, types


def token_of(letter: str) -> int:
    """a is 10, b is 11, ..."""
    return 10 + ord(letter) - ord("a")


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
    assert batch.labels.tolist() == [3.0, 0.0]
    assert batch.labels.dtype == torch.float32
    assert batch.ids == ("one", "two")
    for tensor in (batch.input_ids, batch.attention_mask, batch.token_type_ids):
        assert tensor.dtype == torch.int64


def test_cross_encoding_puts_a_pair_in_one_row_with_segment_1():
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="cross")
    batch = encoded.batch([0])
    assert batch.input_ids.tolist() == [[CLS, 10, SEP, 11, 12, 13, SEP]]
    assert batch.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 1, 1]]
    assert batch.labels.tolist() == [2.75], "a label of 2 was cast to an integer on the way"
    assert encoded.lengths.tolist() == [7, 9, 7]


def test_dual_encoding_gives_each_pair_in_both_orders():
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="dual")
    batch = encoded.batch([0, 2])
    assert batch.input_ids[0].tolist() == [CLS, 10, SEP, 11, 12, 13, SEP]
    assert batch.input_ids[2].tolist() == [CLS, 11, 12, 13, SEP, 10, SEP]
    assert batch.token_type_ids[2].tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert batch.input_ids.shape == (4, 7)
    assert batch.labels.shape == (2,)
    assert encoded.lengths.tolist() == [7, 9, 7]


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
    assert batch.labels.shape == (2,)
    assert batch.ids == ("one", "three")
    assert encoded.lengths.tolist() == [5, 7, 4], "the length is that of the longer side"


def test_truncation_is_counted_and_a_row_that_just_fits_is_not():
    # The rows have 5, 2 and 10 tokens.
    encoded = EncodedExamples(SINGLES, FakeTokenizer(), max_length=5)
    assert encoded.num_truncated == 1
    assert encoded.lengths.tolist() == [5, 2, 5]
    assert EncodedExamples(SINGLES, FakeTokenizer()).num_truncated == 0


def test_batch_is_the_tokenizers_rows_for_any_choice_and_any_chunk(monkeypatch):
    monkeypatch.setattr("data.token_cache.CHUNK", 2)
    random = numpy.random.default_rng(0)
    words = ["".join(random.choice(list("abcdef"), random.integers(0, 9))) for _ in range(14)]
    first = words[::2]
    second = words[1::2]
    examples = [Example(str(n), first[n], second[n], float(n % 2)) for n in range(7)]

    encoded = EncodedExamples(examples, FakeTokenizer())
    batch = encoded.batch([6, 0, 3])
    rows = []
    for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True):
        rows.append(ids[mask.bool()].tolist())
    expected, _ = FakeTokenizer().encode(first, second)
    assert rows == [expected[6], expected[0], expected[3]]


@pytest.mark.parametrize("pair_encoding", ["cross", "bi", "dual"])
def test_the_tokens_of_a_batch_count_its_padding(pair_encoding):
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding=pair_encoding)
    for indices in ([0], [2, 0], [0, 1, 2]):
        assert encoded.num_tokens(indices) == encoded.batch(indices).input_ids.numel()


@pytest.mark.parametrize("pair_encoding", ["cross", "bi", "dual"])
def test_a_part_has_all_rows_of_its_examples(pair_encoding):
    encoded = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding=pair_encoding)
    part = encoded.batch([0, 1, 2]).part([2, 0])
    alone = encoded.batch([2, 0])
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        tensor = getattr(part, name)
        expected = getattr(alone, name)
        # The part keeps the padding of its batch.
        assert tensor.size(1) >= expected.size(1)
        assert torch.equal(tensor[:, : expected.size(1)], expected)
    assert part.ids == alone.ids
    assert torch.equal(part.labels, alone.labels)


def test_a_batch_has_labels_only_if_all_of_its_examples_have():
    examples = [Example("1", "a", None, 2.0), Example("2", "b", None, None)]
    encoded = EncodedExamples(examples, FakeTokenizer())
    assert encoded.batch([0]).labels.tolist() == [2.0]
    assert encoded.batch([0, 1]).labels is None


def test_without_labels_and_on_another_device():
    unlabelled = [Example("one", "abc", None, None)]
    batch = EncodedExamples(unlabelled, FakeTokenizer()).batch([0])
    assert batch.labels is None
    assert batch.to("meta").labels is None

    moved = EncodedExamples(SINGLES, FakeTokenizer()).batch([0]).to("meta")
    assert moved.input_ids.device.type == "meta"
    assert moved.labels.device.type == "meta"
    assert moved.ids == ("one",)


def test_unknown_pair_encoding_and_no_examples():
    with pytest.raises(
        ValueError, match="pair_encoding is 'both'; it must be 'cross', 'bi' or 'dual'"
    ):
        EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="both")
    with pytest.raises(ValueError, match="no examples to encode"):
        EncodedExamples([], FakeTokenizer())


@pytest.mark.parametrize("num_examples", [1, 7, 8, 333])
def test_length_grouped_batches_hold_each_index_once(num_examples):
    lengths = numpy.random.default_rng(0).integers(3, 90, num_examples)
    batches = length_grouped_batches(lengths, 8, torch.Generator().manual_seed(0), window=4)
    indices = [index for batch in batches for index in batch]
    assert sorted(indices) == list(range(num_examples))
    assert max(len(batch) for batch in batches) <= 8
    assert len(batches) == -(-num_examples // 8), "only one batch may be short"


def test_length_grouped_batches_have_little_padding_and_differ_from_epoch_to_epoch():
    lengths = numpy.random.default_rng(0).integers(3, 90, 2000)

    def padded_tokens(batches):
        return sum(len(batch) * lengths[batch].max() for batch in batches)

    generator = torch.Generator().manual_seed(0)
    first = length_grouped_batches(lengths, 16, generator)
    second = length_grouped_batches(lengths, 16, generator)
    again = length_grouped_batches(lengths, 16, torch.Generator().manual_seed(0))
    assert first == again
    assert first != second

    # Batches in the order of the file are the control.
    in_file_order = [list(range(start, start + 16)) for start in range(0, 2000, 16)]
    assert padded_tokens(first) < 1.1 * lengths.sum()
    assert padded_tokens(in_file_order) > 1.5 * lengths.sum()

    # As many batches as a window has.
    widest = [lengths[batch].max() for batch in first[:50]]
    assert widest != sorted(widest), (
        "the batches must be shuffled, or short rows would come first in every window"
    )


@pytest.mark.parametrize("max_tokens", [100, 200, 10_000])
def test_batches_keep_to_their_tokens(max_tokens):
    sizes = numpy.random.default_rng(0).integers(3, 90, 500)

    def make_batches(limit):
        generator = torch.Generator().manual_seed(0)
        return length_grouped_batches(sizes, 16, generator, max_tokens=limit)

    def padded_sizes(batches):
        return [len(batch) * sizes[batch].max() for batch in batches]

    batches = make_batches(max_tokens)
    indices = [index for batch in batches for index in batch]
    assert sorted(indices) == list(range(500))
    assert max(padded_sizes(batches)) <= max_tokens
    assert max(len(batch) for batch in batches) <= 16

    # Without a limit there are larger batches, so the limit is what keeps them small.
    without = make_batches(0)
    assert max(padded_sizes(without)) > 1000
    assert (batches == without) == (max_tokens == 10_000)


def test_a_batch_is_closed_only_when_the_next_example_would_not_fit():
    # 3 x 4 tokens fit into 12, and 2 x 9 do not.
    sizes = [9, 5, 4, 4, 2]
    assert split_into_batches([4, 3, 2, 1, 0], sizes, 3, 12) == [[4, 3, 2], [1], [0]]
    # An example that is larger than the limit stands alone.
    assert split_into_batches([2, 1, 0], [30, 20, 1], 3, 12) == [[2], [1], [0]]


def test_both_sentences_of_a_pair_count():
    """As rows of their own, both are padded to the longer one."""
    cross = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="cross")
    assert cross.sizes.tolist() == cross.lengths.tolist()

    bi = EncodedExamples(PAIRS, FakeTokenizer(), pair_encoding="bi")
    assert bi.sizes[0] == bi.batch([0]).input_ids.numel()
    assert bi.sizes[0] > bi.lengths[0]


def test_sorted_batches_start_with_the_longest():
    assert sorted_batches([3, 9, 5, 9, 1], 2) == [[1, 3], [2, 0], [4]]
    # Of blocks of three, the second one has the same batches whatever stands in the first.
    assert sorted_batches([3, 9, 5, 9, 1], 2, block_size=3) == [[1, 2], [0], [3, 4]]


# --- text that the model does not know ------------------------------------------------------------


class SpellingTokenizer(FakeTokenizer):
    """As FakeTokenizer, but a capital letter is unknown."""

    def encode_row(self, sentence, second_sentence, max_length):
        ids, types = super().encode_row(sentence, second_sentence, max_length)
        letters = "".join(["-", sentence, "-", *(f"{second_sentence}-" if second_sentence else "")])
        for place, letter in enumerate(letters[: len(ids)]):
            if letter.isupper():
                ids[place] = self.unk_token_id
        return ids, types


def warn(*sentences, **options):
    examples = [Example(str(row), *texts, None) for row, texts in enumerate(sentences)]
    return EncodedExamples(examples, SpellingTokenizer(), **options).warn_of_unknown("file.csv")


def test_a_warning_says_file_share_and_worst_example():
    """2 + 3 + 0 unknown of 4 + 5 + 4 tokens; the second row has the highest share, 3 of 5."""
    warning = warn(("AB", None), ("ABC", None), ("ab", None))
    assert warning.startswith("warning: file.csv: 38% of all tokens are [UNK]")
    assert "as in 'ABC'" in warning


@pytest.mark.parametrize("encoding", ["cross", "bi", "dual"])
def test_the_worst_pair_is_shown_whole(encoding):
    """Rows of second sentences, or of the other order, belong to the same pairs."""
    warning = warn(("ABCD", "xY"), ("abcd", "XYZW"), pair_encoding=encoding)
    assert "as in 'ABCD | xY'" in warning


def test_a_long_example_is_cut():
    assert f"as in '{'A' * 60}...'" in warn(("A" * 100, None))


@pytest.mark.parametrize("rows", [[("abc", None)], [("ABa", None), ("abcdefgh", None)]])
def test_few_unknown_tokens_give_no_warning(rows):
    """In the second case 2 of 15, although in one row 2 of 5."""
    assert warn(*rows) is None


# --- tokenizers without segments ------------------------------------------------------------------


class SegmentlessTokenizer(FakeTokenizer):
    """As RoBERTa's: the encoder reads no segments, but a pair still has two sentences."""

    has_segments = False


@pytest.mark.parametrize("encoding", ["cross", "bi", "dual"])
def test_without_segments_the_sentences_of_a_pair_are_still_known(encoding):
    examples = [Example("a", "abc", "de", 1.0), Example("b", "f", "ghij", 0.0)]
    expected = EncodedExamples(examples, FakeTokenizer(), pair_encoding=encoding).batch([0, 1])
    batch = EncodedExamples(examples, SegmentlessTokenizer(), pair_encoding=encoding).batch([0, 1])
    for same in (batch, batch.to("cpu"), batch.part([0, 1])):
        assert torch.equal(same.sentence_ids, expected.token_type_ids)
        assert torch.equal(same.input_ids, expected.input_ids)
        assert not same.token_type_ids.any()
    assert expected.token_type_ids.any() == (encoding != "bi")
