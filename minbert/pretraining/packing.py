"""Paragraphs -> a vocabulary, and packed sequences: full rows of token ids without padding.

The sequences lie in temporary files, which the system maps into memory. So a text may be larger
than the memory.

B batch, T tokens of a sequence, N sequences, P sequences that become pairs.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from data.corpus import read_lines
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer
from minbert.training.job import Step, TaskBatch

# Where Linux shows the open files of each process.
FILES_OF_PROCESSES = Path("/proc")

TASK = "mlm"  # the name of the only task
HELD_OUT = 200  # one paragraph in so many is held out for evaluation
# Of all sequences. Where long paragraphs make it more, sequences at the end are held out instead.
MAX_HELD_OUT = 0.05
SEED_STRIDE = 1_000_003  # between the orders of two seeds, so that they share none
CHUNK = 500_000  # characters that are tokenized at once, which bounds the library's encodings


class PackedText(NamedTuple):
    """Packed sequences of a text, each array (N, T)."""

    train: np.ndarray
    held_out: np.ndarray


class PairedBatch(NamedTuple):
    """Packed sequences of which some hold a pair, both (B, T) int64."""

    input_ids: Tensor
    token_type_ids: Tensor


def train_tokenizer(lines: Iterable[str], vocab_size: int) -> BertTokenizer:
    """A lower-casing WordPiece vocabulary of `vocab_size` tokens, the special ones first.

    It has fewer tokens where the text has no more, and more where its characters alone are more.
    The library breaks ties between equally frequent pieces in no fixed order. So two vocabularies
    of the same text can differ in a few pieces and in the order of their ids.
    """
    from tokenizers import trainers

    special = {token: number for number, token in enumerate(SPECIAL_TOKENS)}
    untrained = BertTokenizer(special)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        continuing_subword_prefix="##",
        show_progress=False,
    )
    untrained.backend.train_from_iterator(lines, trainer)
    return BertTokenizer(untrained.backend.get_vocab())


def pack(lines: Iterable[str], tokenizer: BertTokenizer, length: int) -> Iterator[np.ndarray]:
    """Yield token ids (N, T = length): [CLS], text with a [SEP] after each line, [SEP].

    The text is cut every T - 2 tokens. A last piece that is shorter is dropped. The ids are uint16,
    or uint32 where the vocabulary needs it.
    """
    dtype = dtype_of(tokenizer)
    tokenizer.backend.no_truncation()
    num_text = length - 2  # all but [CLS] and [SEP]
    rest = np.empty(0, dtype)  # of the chunk before: too short for a sequence
    for chunk in chunks_of(lines):
        encodings = tokenizer.backend.encode_batch_fast(chunk, add_special_tokens=False)
        ids: list[int] = []
        for encoding in encodings:
            ids += encoding.ids
            ids.append(tokenizer.sep_token_id)
        stream = np.concatenate([rest, np.array(ids, dtype)])

        num_sequences = len(stream) // num_text
        sequences = np.full((num_sequences, length), tokenizer.sep_token_id, dtype)  # (N, T)
        sequences[:, 0] = tokenizer.cls_token_id
        rest = stream[num_sequences * num_text :]
        sequences[:, 1:-1] = stream[: num_sequences * num_text].reshape(num_sequences, num_text)
        yield sequences


def dtype_of(tokenizer: BertTokenizer) -> np.dtype:
    """The type of packed token ids: uint16, or uint32 where the vocabulary needs it."""
    return np.dtype(np.uint16 if max(tokenizer.vocabulary.values()) < 2**16 else np.uint32)


class PackedFile(NamedTuple):
    """Packed sequences in a file that is open."""

    path: str
    shape: tuple[int, int]  # (N, T)
    dtype: np.dtype
    start: int = 0  # of them, in bytes

    def map(self) -> np.ndarray:
        """The sequences (N, T). They are read from the disk where they are used."""
        if not self.shape[0]:
            return np.empty(self.shape, self.dtype)
        return np.memmap(self.path, self.dtype, "r", self.start, self.shape)

    def split(self, num_first: int) -> tuple[PackedFile, PackedFile]:
        """The first sequences, and the others."""
        num_sequences, length = self.shape
        start = self.start + num_first * length * self.dtype.itemsize
        first = self._replace(shape=(num_first, length))
        return first, self._replace(shape=(num_sequences - num_first, length), start=start)


def release_pages(sequences: np.ndarray) -> None:
    """Let go of the pages of a mapped file that were read. The file is as it was.

    Otherwise the process would hold the whole file in its memory after one pass over it.
    """
    mapping: Any = sequences.base
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def write_packed(
    lines: Iterable[str], tokenizer: BertTokenizer, length: int, place: OpenFiles
) -> PackedFile:
    """Pack lines into a temporary file. length: T. ValueError where the file cannot be written."""
    num_sequences = 0
    file, path = place.open()
    for sequences in pack(lines, tokenizer, length):
        num_sequences += len(sequences)
        try:
            file.write(sequences.data)
            file.flush()
        except OSError as error:
            raise ValueError(
                f"{place.folder}: the packed text cannot be written ({error.strerror}). It takes "
                "about half as many bytes as the text. Free some space, or pass --out on another "
                "disk."
            ) from error
    return PackedFile(path, (num_sequences, length), dtype_of(tokenizer))


class OpenFiles:
    """Within it temporary files in a folder are open. The system removes them afterwards.

    On Linux they have no name, so that nothing is left of them where the process is killed. Other
    processes find them by their number. A file that was mapped can be read after its removal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = ExitStack()

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.files.close()

    def open(self) -> tuple[IO[bytes], str]:
        """A new file, and a path by which other processes of this machine find it."""
        own_files = FILES_OF_PROCESSES / f"{os.getpid()}/fd"
        if own_files.exists():
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115, closed at the end
            self.files.callback(file.close)
            return file, str(own_files / str(file.fileno()))
        named = tempfile.NamedTemporaryFile(dir=self.folder)  # noqa: SIM115, closed at the end
        self.files.callback(named.close)
        return named, named.name


def chunks_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines in lists of more than CHUNK characters, the last one with what is left."""
    chunk: list[str] = []
    num_characters = 0
    for line in lines:
        chunk.append(line)
        num_characters += len(line)
        if num_characters > CHUNK:
            yield chunk
            chunk = []
            num_characters = 0
    yield chunk


def split_and_pack(
    paths: list[Path], tokenizer: BertTokenizer, length: int, place: OpenFiles
) -> tuple[PackedFile, PackedFile]:
    """Packed sequences for training, and held-out ones. length: T.

    Of every HELD_OUT paragraphs the first is held out. Where this leaves nothing held out, or more
    than MAX_HELD_OUT (one long line; a title and few paragraphs), the sequences at the end are held
    out instead: the same share of them, at least one.
    """
    train = write_packed(paragraphs(paths, is_held_out=False), tokenizer, length, place)
    held_out = write_packed(paragraphs(paths, is_held_out=True), tokenizer, length, place)
    num_train, num_held_out = train.shape[0], held_out.shape[0]
    if 0 < num_held_out <= MAX_HELD_OUT * (num_train + num_held_out):
        return train, held_out

    # At least one is held out, and by rounding no less than 1 / HELD_OUT of them.
    sequences = write_packed(read_lines(paths), tokenizer, length, place)
    num_sequences = sequences.shape[0]
    return sequences.split(
        max(0, min(num_sequences - 1, num_sequences * (HELD_OUT - 1) // HELD_OUT))
    )


def paragraphs(paths: list[Path], is_held_out: bool) -> Iterator[str]:
    """The paragraphs that are held out, or all others, counted over all files."""
    for number, line in enumerate(read_lines(paths)):
        if (number % HELD_OUT == 0) == is_held_out:
            yield line


def plan_steps(
    num_sequences: int, batch_size: int, num_steps: int, epoch: int, seed: int
) -> list[Step]:
    """The steps of one epoch: a slice of an endless stream of shuffled passes over the sequences.

    num_steps: of an epoch, which may begin and end within a pass. The order of pass n depends on
    the seed and n alone, so a resumed run needs no state.
    """
    steps_per_pass = num_sequences // batch_size
    steps: list[Step] = []
    orders: dict[int, Tensor] = {}
    for number in range(epoch * num_steps, (epoch + 1) * num_steps):
        # A pass leaves out the few sequences that fill no batch. Another pass has other ones.
        pass_number, position = divmod(number, steps_per_pass)
        if pass_number not in orders:
            generator = torch.Generator().manual_seed(seed * SEED_STRIDE + pass_number)
            orders[pass_number] = torch.randperm(num_sequences, generator=generator)
        start = position * batch_size
        rows = orders[pass_number][start : start + batch_size].tolist()
        steps.append([TaskBatch(TASK, rows)])
    return steps


def pair_up(input_ids: Tensor, share: float, sep_token_id: int, max_shift: int = 16) -> PairedBatch:
    """Turn the first `share` of packed sequences into pairs `[CLS] a [SEP] b [SEP]`.

    input_ids: (B, T) int64. share: 0 to 1. Draws from torch's global generator, which checkpoints
    save.

    a and b are passages of the sequence's text that overlap, but for a shift of 0 to max_shift
    tokens, in either order. To predict a masked token, the model has to find its twin in the other
    segment. To compare two sentences takes the same. The idea is that of translation language
    modelling (Lample and Conneau 2019), here with one language.
    """
    length = input_ids.size(1)
    num_pairs = round(share * len(input_ids))
    num_first = (length - 3) // 2  # tokens of passage a, without [CLS] and two [SEP]
    num_second = length - 3 - num_first
    text = input_ids[:num_pairs, 1:-1]  # (P, T - 2)

    # Which of the two passages starts later, and by how many tokens.
    is_moved = torch.nn.functional.one_hot(torch.randint(2, (num_pairs,)), 2)  # (P, 2)
    max_shift = min(max_shift, num_first - 1)
    shifts = torch.randint(max_shift + 1, (num_pairs, 1)) * is_moved  # (P, 2)

    # [CLS] a [SEP] b [SEP]: the first and the last token stay.
    paired = input_ids.clone()
    first_places = shifts[:, :1] + torch.arange(num_first)  # (P, num_first)
    paired[:num_pairs, 1 : 1 + num_first] = text.gather(1, first_places)
    paired[:num_pairs, 1 + num_first] = sep_token_id
    second_places = shifts[:, 1:] + torch.arange(num_second)  # (P, num_second)
    paired[:num_pairs, 2 + num_first : -1] = text.gather(1, second_places)

    token_type_ids = torch.zeros_like(input_ids)
    token_type_ids[:num_pairs, 2 + num_first :] = 1
    return PairedBatch(paired, token_type_ids)
