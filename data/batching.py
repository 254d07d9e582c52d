"""Examples + a tokenizer (passed in) -> Batch: token cache, padding and batches of similar length.

B examples, R rows for the encoder (B, or 2B for pairs apart or in both orders), T tokens. Next: minbert/bert.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch

from data.readers import Example
from data.token_cache import tokenize_once

WINDOW = 50  # batches that are sorted by length together


@dataclass(frozen=True)
class Batch:
    """Padded rows for one forward pass.

    In "bi" encoding the first B rows are first sentences, the next B second; in "dual" the pairs in their order, then
    the other way round.
    """

    input_ids: torch.Tensor  # (R, T) int64
    attention_mask: torch.Tensor  # (R, T) int64, 1 for tokens and 0 for padding
    token_type_ids: torch.Tensor  # (R, T) int64, 1 for the second sentence of a row
    labels: torch.Tensor | None  # (B,) float32, None where the file has no labels
    ids: tuple[str, ...]  # B of them

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        labels = None if self.labels is None else self.labels.to(device)
        tensors = (
            tensor.to(device)
            for tensor in (self.input_ids, self.attention_mask, self.token_type_ids)
        )
        return Batch(*tensors, labels, self.ids)

    def part(self, examples: Sequence[int]) -> "Batch":
        """The examples at these places, with all their rows; padding stays as it is."""
        num_sides = len(self.input_ids) // len(self.ids)
        rows = [example + side * len(self.ids) for side in range(num_sides) for example in examples]
        tensors = (
            tensor[rows] for tensor in (self.input_ids, self.attention_mask, self.token_type_ids)
        )
        labels = None if self.labels is None else self.labels[list(examples)]
        return Batch(*tensors, labels, tuple(self.ids[example] for example in examples))


class EncodedExamples:
    """Examples tokenized once; any choice of them becomes a padded batch without the tokenizer.

    tokenizer: offers `pad_token_id`, `encode(sentences, second_sentences, max_length)`: unpadded id and type rows; and
    `cache`, a folder or None, see token_cache.py.
    max_length: tokens of a row at most, special tokens counted.
    pair_encoding: "cross" puts both sentences of a pair in one row, "bi" gives each a row of its own, "dual" makes a
    row of the pair in each order.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer,
        max_length: int = 128,
        pair_encoding: str = "cross",
    ):
        if pair_encoding not in ("cross", "bi", "dual"):
            raise ValueError(
                f"pair_encoding is '{pair_encoding}'; needed is 'cross', 'bi' or 'dual'."
            )
        if not examples:
            raise ValueError(
                "there are no examples to encode; needed is at least one. Check the file they come from."
            )
        self.examples = tuple(examples)
        self.pad_token_id, self.pair_encoding = tokenizer.pad_token_id, pair_encoding
        first = [example.sentence_1 for example in self.examples]
        second = [example.sentence_2 for example in self.examples]
        assert (None in second) == (set(second) == {None}), "pairs and single sentences mixed"
        if None in second:
            second = None
        elif pair_encoding == "bi":
            first, second = first + second, None  # row r belongs to example r % len(self)
        elif pair_encoding == "dual":
            first, second = first + second, second + first
        rows = tokenize_once(tokenizer, first, second, max_length)
        self.num_truncated = rows.num_truncated
        self._tokens, self._offsets = (
            rows.tokens,
            numpy.concatenate([[0], numpy.cumsum(rows.lengths)]),
        )
        self._num_sides = len(first) // len(self.examples)
        self.lengths = rows.lengths.reshape(self._num_sides, -1).max(
            axis=0
        )  # (examples,), of the longest row of each
        self.sizes = (
            self.lengths * self._num_sides
        )  # (examples,), tokens of all its rows, padded to one length

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples at `indices`, in that order, padded to the longest row among them."""
        rows = numpy.array(
            [index + side * len(self) for side in range(self._num_sides) for index in indices]
        )  # (R,)
        starts, ends = self._offsets[rows, None], self._offsets[rows + 1, None]  # (R, 1) each
        places = starts + numpy.arange((ends - starts).max())  # (R, T)
        is_token = places < ends
        padded = numpy.zeros((3, *places.shape), dtype=numpy.int64)  # (3, R, T): ids, types, mask
        padded[0] = self.pad_token_id
        padded[:2, is_token], padded[2] = self._tokens[:, places[is_token]], is_token
        tokens = torch.from_numpy(padded)
        chosen = [self.examples[index] for index in indices]
        values = [example.label for example in chosen]
        labels = None if None in values else torch.tensor(values, dtype=torch.float32)  # (B,)
        return Batch(
            tokens[0], tokens[2], tokens[1], labels, tuple(example.id for example in chosen)
        )


def length_grouped_batches(
    sizes, batch_size: int, generator: torch.Generator, window: int = WINDOW, max_tokens: int = 0
) -> list[list[int]]:
    """Every index once, in shuffled batches of similar size, so that little of a batch is padding.

    sizes: tokens of each example. Sorting only inside shuffled windows of `window` batches keeps batches different each
    epoch. A batch has `batch_size` examples, or fewer: what is left over, and where they would have more than
    `max_tokens` tokens, padding counted (0: no such limit; an example that is larger stands alone).
    """
    order = torch.randperm(len(sizes), generator=generator).numpy()
    batches = []
    for start in range(0, len(order), window * batch_size):
        block = order[start : start + window * batch_size]
        block = block[numpy.argsort(numpy.asarray(sizes)[block], kind="stable")].tolist()
        batches += cut(block, sizes, batch_size, max_tokens)
    return [
        batches[position] for position in torch.randperm(len(batches), generator=generator).tolist()
    ]


def cut(order: list[int], sizes, batch_size: int, max_tokens: int) -> list[list[int]]:
    """An order by growing size, cut into batches of at most `batch_size` examples and, padded, `max_tokens` tokens."""
    batches: list[list[int]] = []
    for index in order:
        is_full = not batches or len(batches[-1]) == batch_size
        if is_full or 0 < max_tokens < (len(batches[-1]) + 1) * sizes[index]:
            batches.append([])
        batches[-1].append(index)
    return batches


def sorted_batches(lengths, batch_size: int) -> list[list[int]]:
    """Every index once, longest first, so that a memory shortage shows in the first batch and not in the last."""
    order = numpy.argsort(-numpy.asarray(lengths), kind="stable").tolist()
    return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
