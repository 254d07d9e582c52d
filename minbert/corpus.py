"""Plain text -> a vocabulary and full blocks of token ids, without padding. Next: mlm.py, which hides some of them.

T tokens a block, N blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from torch import Tensor

from minbert.loop import Step
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer

HELD_OUT = 200  # one paragraph in so many is kept for evaluation
MAX_CHARACTERS = 20_000  # a longer line counts as several paragraphs, so that none has to fit into memory


def check_files(paths: list[Path]) -> None:
    """ValueError for the first file that is missing, a folder or not readable, before any work is done."""
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ValueError(
                f"{path}: {error.strerror}. Give plain-text files in UTF-8, a paragraph a line.") from error


def read_lines(paths: list[Path]) -> Iterator[str]:
    """Every paragraph of every file, in order: the lines that are not blank, those that have no end cut at a space.

    Raises ValueError with file and line where a byte is not UTF-8.
    """
    for path in paths:
        try:
            with open(path, encoding="utf-8-sig") as file:
                yield from (text for text in (piece.strip() for piece in pieces(file)) if text)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {undecodable_line(path)}: not UTF-8 ({error.reason}). Convert the file, "
                             "for instance with iconv -f latin1 -t utf-8, or leave it out.") from error


def pieces(file: TextIO) -> Iterator[str]:
    """The lines of `file`; one of more than MAX_CHARACTERS comes in parts that end at a space where there is one."""
    rest = ""
    while part := file.readline(MAX_CHARACTERS):
        text, rest = rest + part, ""
        if len(part) == MAX_CHARACTERS and not part.endswith("\n") and " " in text:
            text, _, rest = text.rpartition(" ")
        yield text
    yield rest


def undecodable_line(path: Path) -> int:
    """The number, from 1, of the first line that is not UTF-8."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    raise ValueError(f"{path} has changed while it was read; start again.")


def train_tokenizer(lines: Iterator[str], vocab_size: int) -> BertTokenizer:
    """A lower-casing WordPiece vocabulary of at most `vocab_size` tokens, the special ones first.

    The library breaks ties between equally frequent pieces in no fixed order, so two vocabularies of the same text can
    differ in a few pieces and in the order of their ids.
    """
    from tokenizers import trainers

    untrained = BertTokenizer({token: number for number, token in enumerate(SPECIAL_TOKENS)})
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS),
                                        continuing_subword_prefix="##", show_progress=False)
    untrained.backend.train_from_iterator(lines, trainer)
    return BertTokenizer(untrained.backend.get_vocab())


def pack(lines: Iterator[str], tokenizer: BertTokenizer, block_size: int) -> np.ndarray:
    """Token ids (N, T) uint16: [CLS], then text with a [SEP] after each line, cut every T - 2 tokens, then [SEP]."""
    parts, chunk = [np.empty(0, dtype=np.uint16)], []

    def encode_chunk() -> None:
        for encoding in tokenizer.backend.encode_batch_fast(chunk, add_special_tokens=False):
            parts.append(np.array([*encoding.ids, tokenizer.sep_token_id], dtype=np.uint16))
        chunk.clear()

    tokenizer.backend.no_truncation()
    for line in lines:
        chunk.append(line)
        if len(chunk) == 10_000:
            encode_chunk()
    encode_chunk()
    stream = np.concatenate(parts)
    num_blocks = len(stream) // (block_size - 2)
    blocks = np.full((num_blocks, block_size), tokenizer.sep_token_id, dtype=np.uint16)
    blocks[:, 0] = tokenizer.cls_token_id
    blocks[:, 1:-1] = stream[: num_blocks * (block_size - 2)].reshape(num_blocks, block_size - 2)
    return blocks


def split_and_pack(paths: list[Path], tokenizer: BertTokenizer, block_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks for training and held-out ones, each (N, T) uint16: of every HELD_OUT paragraphs the first is held out."""
    numbered = enumerate(read_lines(paths))
    train = pack((line for number, line in numbered if number % HELD_OUT), tokenizer, block_size)
    numbered = enumerate(read_lines(paths))
    return train, pack((line for number, line in numbered if number % HELD_OUT == 0), tokenizer, block_size)


def plan_blocks(num_blocks: int, batch_size: int, num_steps: int, epoch: int, seed: int) -> list[Step]:
    """Steps of evaluation round `epoch`: a slice of an endless stream of shuffled passes over the blocks.

    The order of pass n depends on the seed and n alone, so a resumed run needs no state.
    """
    steps_per_pass = num_blocks // batch_size
    steps: list[Step] = []
    orders: dict[int, Tensor] = {}
    for number in range(epoch * num_steps, (epoch + 1) * num_steps):
        one_pass, place = divmod(number, steps_per_pass)
        if one_pass not in orders:
            orders[one_pass] = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(seed + one_pass))
        steps.append([("mlm", orders[one_pass][place * batch_size : (place + 1) * batch_size].tolist())])
    return steps


def pair_up(input_ids: Tensor, share: float, sep_token_id: int, max_shift: int = 16) -> tuple[Tensor, Tensor]:
    """Turn the first `share` of plain blocks (B, T) into pairs `[CLS] a [SEP] b [SEP]`; returns ids and token types.

    a and b are passages of the block's text that overlap but for a shift of 0 to max_shift tokens, in either order. To
    predict a masked token the model has to find its twin in the other segment, which is what comparing two sentences
    takes (the idea of translation language modelling, Lample and Conneau 2019, with one language).
    """
    token_type_ids, paired = torch.zeros_like(input_ids), input_ids.clone()
    num_pairs, half = round(share * len(input_ids)), (input_ids.size(1) - 3) // 2
    text = input_ids[:num_pairs, 1:-1]  # (P, T - 2)
    is_moved = torch.nn.functional.one_hot(torch.randint(2, (num_pairs,)), 2)  # (P, 2): which of the two starts later
    shifts = torch.randint(min(max_shift, half - 1) + 1, (num_pairs, 1)) * is_moved  # (P, 2)
    for side, length in enumerate((half, input_ids.size(1) - 3 - half)):
        passage = text.gather(1, shifts[:, side : side + 1] + torch.arange(length))  # (P, length)
        start = 1 + side * (half + 1)
        paired[:num_pairs, start : start + length] = passage
    paired[:num_pairs, half + 1] = sep_token_id
    token_type_ids[:num_pairs, half + 2 :] = 1
    return paired, token_type_ids
