"""Examples + a tokenizer (passed in) -> Batch: token cache, padding and batches of similar length.

B examples, R rows for the encoder (B, or 2B for pairs encoded apart), T tokens. Read next: minbert/bert.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch

from data.readers import Example

ENCODE_CHUNK = 8192
NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Batch:
    """Padded rows for one forward pass. In "bi" encoding the first B rows are first sentences, the next B second."""

    input_ids: torch.Tensor  # (R, T) int64
    attention_mask: torch.Tensor  # (R, T) int64, 1 for tokens and 0 for padding
    token_type_ids: torch.Tensor  # (R, T) int64, 1 for the second sentence of a cross-encoded pair
    labels: torch.Tensor | None  # (B,) float32, None where the file has no labels
    ids: tuple[str, ...]  # B of them

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        labels = None if self.labels is None else self.labels.to(device)
        tensors = (tensor.to(device) for tensor in (self.input_ids, self.attention_mask, self.token_type_ids))
        return Batch(*tensors, labels, self.ids)


class EncodedExamples:
    """Examples tokenized once (the token cache); any choice of them becomes a padded batch without the tokenizer.

    tokenizer: offers `pad_token_id` and `encode(sentences, second_sentences, max_length)`: unpadded id and type rows.
    max_length: tokens of a row at most, special tokens counted.
    pair_encoding: "cross" puts both sentences of a pair in one row, "bi" gives each a row of its own.
    """

    def __init__(self, examples: Sequence[Example], tokenizer, max_length: int = 128, pair_encoding: str = "cross"):
        if pair_encoding not in ("cross", "bi"):
            raise ValueError(f"pair_encoding is '{pair_encoding}'; needed is 'cross' or 'bi'.")
        if not examples:
            raise ValueError("there are no examples to encode; needed is at least one. Check the file they come from.")
        self.examples = tuple(examples)
        self.pad_token_id = tokenizer.pad_token_id
        first = [example.sentence_1 for example in self.examples]
        second = [example.sentence_2 for example in self.examples]
        assert (None in second) == (set(second) == {None}), "pairs and single sentences mixed"
        if pair_encoding == "bi" and None not in second:
            first, second = first + second, [None] * 2 * len(self)  # row r belongs to example r % len(self)

        def encode(rows, limit):
            seconds = None if second[0] is None else [second[row] for row in rows]
            return tokenizer.encode([first[row] for row in rows], seconds, max_length=limit)

        # In chunks, because Python lists of all the ids would take ten times the memory of the arrays.
        chunks, row_lengths = [], []
        for start in range(0, len(first), ENCODE_CHUNK):
            encoded = encode(range(start, min(start + ENCODE_CHUNK, len(first))), max_length)
            chunks.append(numpy.array([[token for row in kind for token in row] for kind in encoded], numpy.int32))
            row_lengths += [len(row) for row in encoded[0]]
        # A full row may have been cut or may just fit; a second look without a limit tells.
        full = [row for row, length in enumerate(row_lengths) if length >= max_length]
        self.num_truncated = sum(len(row) > max_length for row in encode(full, NO_LIMIT)[0]) if full else 0
        self._tokens = numpy.concatenate(chunks, axis=1)  # (2, all tokens): input_ids and token_type_ids
        self._offsets = numpy.concatenate([[0], numpy.cumsum(row_lengths)])
        self._num_sides = len(first) // len(self.examples)
        self.lengths = numpy.array(row_lengths).reshape(self._num_sides, -1).max(axis=0)  # (examples,)

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples at `indices`, in that order, padded to the longest row among them."""
        rows = [index + side * len(self) for side in range(self._num_sides) for index in indices]
        num_tokens = int(max(self.lengths[index] for index in indices))
        tokens = torch.zeros(3, len(rows), num_tokens, dtype=torch.int64)  # (3, R, T): ids, types, mask
        tokens[0] = self.pad_token_id
        for position, row in enumerate(rows):
            start, end = self._offsets[row], self._offsets[row + 1]
            tokens[:2, position, :end - start] = torch.from_numpy(self._tokens[:, start:end])
            tokens[2, position, :end - start] = 1
        chosen = [self.examples[index] for index in indices]
        values = [example.label for example in chosen]
        labels = None if None in values else torch.tensor(values, dtype=torch.float32)  # (B,)
        return Batch(tokens[0], tokens[2], tokens[1], labels, tuple(example.id for example in chosen))


def length_grouped_batches(lengths, batch_size: int, generator: torch.Generator, window: int = 50) -> list[list[int]]:
    """Every index once, in shuffled batches of similar length, so that little of a batch is padding.

    Sorting only inside shuffled windows of `window` batches keeps batches different each epoch. A short one is kept.
    """
    order = torch.randperm(len(lengths), generator=generator).numpy()
    batches = []
    for start in range(0, len(order), window * batch_size):
        block = order[start:start + window * batch_size]
        block = block[numpy.argsort(numpy.asarray(lengths)[block], kind="stable")].tolist()
        batches += [block[first:first + batch_size] for first in range(0, len(block), batch_size)]
    return [batches[position] for position in torch.randperm(len(batches), generator=generator).tolist()]


def sorted_batches(lengths, batch_size: int) -> list[list[int]]:
    """Every index once, longest first, so that a memory shortage shows in the first batch and not in the last."""
    order = numpy.argsort(-numpy.asarray(lengths), kind="stable").tolist()
    return [order[first:first + batch_size] for first in range(0, len(order), batch_size)]
