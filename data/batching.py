"""Examples and a tokenizer (passed in) -> batches: pair encodings, padding, similar lengths.

B examples, R rows for the encoder (B, or 2B where a pair has two rows), T tokens.
Next: minbert/bert.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
import torch

from data.examples import Example
from data.token_cache import Tokenizer, TokenRows, tokenize_once

PAIR_ENCODINGS = ("cross", "bi", "dual")

# tokenize_once, or what does the same in another way: tokenizer, first and second sentences of the
# rows, maximum length -> token ids.
Tokenize = Callable[[Tokenizer, Sequence[str], Sequence[str] | None, int], TokenRows]

# Number of batches that are sorted by length together.
WINDOW = 50

# The share of unknown tokens from which most words of short texts are unknown.
MOSTLY_UNKNOWN = 0.3

# Characters of a text that a message shows.
EXCERPT = 60


@dataclass(frozen=True)
class Batch:
    """Padded rows for one forward pass.

    With pair encoding "bi" the first B rows are the first sentences, and the next B rows the second
    ones. With "dual" the first B rows are the pairs in their order, and the next B rows the same
    pairs the other way round.

    input_ids: (R, T) int64.
    attention_mask: (R, T) int64, 1 for tokens and 0 for padding.
    sentence_ids: (R, T) int64, 1 for the second sentence of a row.
    labels: (B,) float32, or None where the file has no labels. (B, C) of rows with several labels.
    ids: the ids of the B examples.
    has_segments: whether the encoder reads the sentence ids, as BERT does and RoBERTa does not.
    texts: the texts of the B examples.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    sentence_ids: torch.Tensor
    labels: torch.Tensor | None
    ids: tuple[str, ...]
    has_segments: bool = True
    texts: tuple[tuple[str, ...], ...] = ()

    @property
    def token_type_ids(self) -> torch.Tensor:
        """The segments that the encoder reads, (R, T) int64."""
        return self.sentence_ids if self.has_segments else torch.zeros_like(self.sentence_ids)

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch with its tensors on `device`."""
        return Batch(
            self.input_ids.to(device),
            self.attention_mask.to(device),
            self.sentence_ids.to(device),
            None if self.labels is None else self.labels.to(device),
            self.ids,
            self.has_segments,
            self.texts,
        )

    def part(self, examples: Sequence[int]) -> Batch:
        """Return the examples at these positions, with all their rows. Padding stays as it is."""
        num_examples = len(self.ids)
        num_sides = len(self.input_ids) // num_examples
        rows = rows_of(examples, num_examples, num_sides)
        return Batch(
            self.input_ids[rows],
            self.attention_mask[rows],
            self.sentence_ids[rows],
            None if self.labels is None else self.labels[list(examples)],
            tuple(self.ids[example] for example in examples),
            self.has_segments,
            tuple(self.texts[example] for example in examples) if self.texts else (),
        )


def rows_of(examples: Sequence[int], num_examples: int, num_sides: int) -> list[int]:
    """Return the rows of some examples: all their first sides, then all their second sides.

    num_sides: rows of an example. Row r belongs to example r % num_examples.
    """
    rows = []
    for side in range(num_sides):
        for example in examples:
            rows.append(side * num_examples + example)
    return rows


class EncodedExamples:
    """Examples that are tokenized once. Any choice of them becomes a padded batch.

    tokenizer: see token_cache.Tokenizer.
    max_length: tokens of a row at most, special tokens counted.
    pair_encoding: "cross" puts both sentences of a pair into one row. "bi" gives each of them its
        own row. "dual" makes a row of the pair in each order.

    tokenize: makes the token ids of the rows.

    lengths: (examples,), the tokens of an example's longest row.
    sizes: (examples,), the tokens of all its rows, padded to one length.
    num_truncated: rows that max_length has cut.

    Raises ValueError for another pair encoding, and where there are no examples.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        max_length: int = 128,
        pair_encoding: str = "cross",
        tokenize: Tokenize = tokenize_once,
    ) -> None:
        if pair_encoding not in PAIR_ENCODINGS:
            raise ValueError(
                f"pair_encoding is '{pair_encoding}'; it must be 'cross', 'bi' or 'dual'."
            )
        if not examples:
            raise ValueError(
                "there are no examples to encode; at least one is expected. Check the file that "
                "they come from."
            )
        self.examples = tuple(examples)
        self.pad_token_id = tokenizer.pad_token_id
        self.unk_token_id = tokenizer.unk_token_id
        self.unk_token = tokenizer.unk_token
        self.has_segments = tokenizer.has_segments
        self.pair_encoding = pair_encoding

        first, second = arrange_sentences(self.examples, pair_encoding)
        rows = tokenize(tokenizer, first, second, max_length)
        self.num_truncated = rows.num_truncated

        # The tokens of row r are self._tokens[:, self._starts[r] : self._starts[r + 1]].
        self._tokens = rows.tokens  # (2, N)
        self._starts = [0, *numpy.cumsum(rows.lengths).tolist()]

        self._num_sides = len(first) // len(self.examples)
        row_lengths = rows.lengths.reshape(self._num_sides, len(self.examples))
        self.lengths = row_lengths.max(axis=0)  # (examples,)
        self.sizes = self.lengths * self._num_sides  # (examples,)

    def __len__(self) -> int:
        return len(self.examples)

    def warn_of_unknown(self, source: str) -> str | None:
        """Return a warning if the model does not know most of the text, or None.

        source: the name of the text, such as its file. The warning says the share of unknown
        tokens, of all tokens with [CLS] and [SEP], and shows the example with the highest share.
        """
        is_unknown = self._tokens[0] == self.unk_token_id  # (N,)
        share = float(is_unknown.mean())
        if share <= MOSTLY_UNKNOWN:
            return None
        counts = numpy.add.reduceat(is_unknown.astype(numpy.int64), self._starts[:-1])  # (rows,)
        lengths = numpy.diff(self._starts)  # (rows,)
        worst = self.examples[int((counts / lengths).argmax()) % len(self.examples)]
        text = " | ".join(sentence for sentence in worst.texts)
        excerpt = text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."
        return (
            f"warning: {source}: {share:.0%} of all tokens are {self.unk_token}, words that the "
            f"model does not know, as in {excerpt!r}. What it says of them means little. Use a "
            "model of this language and script."
        )

    def num_tokens(self, indices: Sequence[int]) -> int:
        """The tokens of `batch(indices)`, with padding."""
        return len(indices) * int(self.sizes[list(indices)].max())

    def batch(self, indices: Sequence[int]) -> Batch:
        """Return the examples at `indices`, in that order, padded to the longest row among them."""
        rows = rows_of(indices, len(self), self._num_sides)
        lengths = [self._starts[row + 1] - self._starts[row] for row in rows]
        shape = (len(rows), max(lengths))
        input_ids = numpy.full(shape, self.pad_token_id, dtype=numpy.int64)  # (R, T)
        attention_mask = numpy.zeros(shape, dtype=numpy.int64)  # (R, T)
        sentence_ids = numpy.zeros(shape, dtype=numpy.int64)  # (R, T)

        # Copy each row over the padding. Over arrays of numpy this loop takes no longer than one
        # copy of all rows at once. Over tensors it takes much longer.
        for position, row in enumerate(rows):
            start = self._starts[row]
            end = self._starts[row + 1]
            length = end - start
            input_ids[position, :length] = self._tokens[0, start:end]
            sentence_ids[position, :length] = self._tokens[1, start:end]
            attention_mask[position, :length] = 1

        chosen = [self.examples[index] for index in indices]
        return Batch(
            torch.from_numpy(input_ids),
            torch.from_numpy(attention_mask),
            torch.from_numpy(sentence_ids),
            labels_of(chosen),
            tuple(example.id for example in chosen),
            self.has_segments,
            tuple(example.texts for example in chosen),
        )


def arrange_sentences(
    examples: Sequence[Example], pair_encoding: str
) -> tuple[list[str], list[str] | None]:
    """Return the first and the second sentence of each row. Rows of one sentence have no second.

    The rows of a second side follow the rows of all examples.
    """
    first = [example.sentence_1 for example in examples]
    second = [example.sentence_2 for example in examples if example.sentence_2 is not None]
    if not second:
        return first, None

    assert len(second) == len(first), "pairs and single sentences mixed"
    if pair_encoding == "bi":
        return first + second, None
    if pair_encoding == "dual":
        return first + second, second + first
    return first, second


def labels_of(examples: Sequence[Example]) -> torch.Tensor | None:
    """Return the labels (B,) float32, or None where an example has none.

    Rows that may have several labels give (B, C), 1 for each class that a row has.
    """
    labels = [example.answer for example in examples]
    if None in labels:
        return None
    return torch.tensor(labels, dtype=torch.float32)  # (B,) or (B, C)


def length_grouped_batches(
    sizes: Sequence[int] | numpy.ndarray,
    batch_size: int,
    generator: torch.Generator,
    window: int = WINDOW,
    max_tokens: int = 0,
) -> list[list[int]]:
    """Return shuffled batches of similar size, so that little of a batch is padding.

    Every index comes once. The examples are shuffled and cut into windows of `window` batches, and
    only a window is sorted. So the batches differ from epoch to epoch.

    sizes: (examples,), the tokens of each example.
    batch_size: examples of a batch at most. One batch may have fewer: what is left over.
    max_tokens: tokens of a batch at most, padding counted; 0 means no limit. A batch then has fewer
        examples. An example that is larger than the limit gets its own batch.
    """
    order = torch.randperm(len(sizes), generator=generator).numpy()  # (examples,)
    all_sizes = numpy.asarray(sizes)  # (examples,)

    batches = []
    window_size = window * batch_size
    for start in range(0, len(order), window_size):
        indices = order[start : start + window_size]
        by_size = numpy.argsort(all_sizes[indices], kind="stable")
        batches += split_into_batches(indices[by_size].tolist(), sizes, batch_size, max_tokens)

    # Without this, every window would begin with its shortest rows.
    batch_order = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[position] for position in batch_order]


def split_into_batches(
    order: Sequence[int],
    sizes: Sequence[int] | numpy.ndarray,
    batch_size: int,
    max_tokens: int,
) -> list[list[int]]:
    """Return consecutive parts of an order, each with at most `batch_size` examples.

    order: indices by growing size, so the example that comes next is the longest of its batch.
    max_tokens: padded tokens of a part at most; 0 means no limit.
    """
    batches: list[list[int]] = []
    for index in order:
        is_full = not batches or len(batches[-1]) == batch_size
        if not is_full and max_tokens:
            padded_size = (len(batches[-1]) + 1) * sizes[index]
            is_full = padded_size > max_tokens
        if is_full:
            batches.append([])
        batches[-1].append(index)
    return batches


def sorted_batches(
    lengths: Sequence[int] | numpy.ndarray, batch_size: int, block_size: int = 0
) -> list[list[int]]:
    """Return batches in which every index comes once, the longest examples first.

    So a memory shortage shows in the first batch and not in the last.

    block_size: examples in a row that are sorted together, 0 for all. A batch lies in one block, so
    the batches of a block do not depend on the other examples.
    """
    batches = []
    for start in range(0, len(lengths), block_size or len(lengths)):
        block = numpy.asarray(lengths[start : start + (block_size or len(lengths))])
        order = (start + numpy.argsort(-block, kind="stable")).tolist()
        batches += [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
    return batches
