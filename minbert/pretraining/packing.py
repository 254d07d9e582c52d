"""Paragraphs -> a vocabulary and full blocks of token ids, without padding. Next: mlm.py, which hides some of them.

T tokens a block, N blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data.corpus import read_lines
from minbert.tokenizer import SPECIAL_TOKENS, BertTokenizer
from minbert.training.job import Step

HELD_OUT = 200  # one paragraph in so many is kept for evaluation
MAX_HELD_OUT = 0.05  # of all blocks; where long paragraphs make it more, the blocks at the end are held out instead
SEED_STRIDE = 1_000_003  # between the orders of two seeds, so that they share none
CHUNK = 2_000_000  # characters that are tokenized at a time, about 50 MB of the library's encodings


def train_tokenizer(lines: Iterator[str], vocab_size: int) -> BertTokenizer:
    """A lower-casing WordPiece vocabulary of `vocab_size` tokens, the special ones first.

    Fewer where the text has no more, and more where its characters alone are more.
    The library breaks ties between equally frequent pieces in no fixed order, so two vocabularies of the same text can
    differ in a few pieces and in the order of their ids.
    """
    from tokenizers import trainers

    untrained = BertTokenizer({token: number for number, token in enumerate(SPECIAL_TOKENS)})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        continuing_subword_prefix="##",
        show_progress=False,
    )
    untrained.backend.train_from_iterator(lines, trainer)
    return BertTokenizer(untrained.backend.get_vocab())


def pack(lines: Iterator[str], tokenizer: BertTokenizer, block_size: int) -> np.ndarray:
    """Token ids (N, T): [CLS], then text with a [SEP] after each line, cut every T - 2 tokens, then [SEP].

    uint16, or uint32 where the vocabulary needs it.
    """
    dtype = np.uint16 if max(tokenizer.vocabulary.values()) < 2**16 else np.uint32
    parts, chunk, num_characters = [np.empty(0, dtype)], [], 0

    def encode_chunk() -> None:
        encodings = tokenizer.backend.encode_batch_fast(chunk, add_special_tokens=False)
        parts.append(
            np.array(
                [token for each in encodings for token in (*each.ids, tokenizer.sep_token_id)],
                dtype,
            )
        )
        chunk.clear()

    tokenizer.backend.no_truncation()
    for line in lines:
        chunk.append(line)
        num_characters += len(line)
        if num_characters > CHUNK:
            encode_chunk()
            num_characters = 0
    encode_chunk()
    stream = np.concatenate(parts)
    num_blocks = len(stream) // (block_size - 2)
    blocks = np.full((num_blocks, block_size), tokenizer.sep_token_id, dtype)
    blocks[:, 0] = tokenizer.cls_token_id
    blocks[:, 1:-1] = stream[: num_blocks * (block_size - 2)].reshape(num_blocks, block_size - 2)
    return blocks


def split_and_pack(
    paths: list[Path], tokenizer: BertTokenizer, block_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks for training and held-out ones, each (N, T): of every HELD_OUT paragraphs the first is held out.

    Where that leaves nothing held out, or more than MAX_HELD_OUT (one long line; a title and few paragraphs), as large
    a share of the blocks at the end is held out instead, at least one.
    """

    def part(is_held_out: bool) -> np.ndarray:
        lines = (
            line
            for number, line in enumerate(read_lines(paths))
            if (number % HELD_OUT == 0) == is_held_out
        )
        return pack(lines, tokenizer, block_size)

    train, held_out = part(False), part(True)
    if not 0 < len(held_out) <= MAX_HELD_OUT * (len(train) + len(held_out)):
        blocks = pack(read_lines(paths), tokenizer, block_size)
        train, held_out = np.split(
            blocks, [min(len(blocks) - 1, len(blocks) * (HELD_OUT - 1) // HELD_OUT)]
        )
    return train, held_out


def plan_blocks(
    num_blocks: int, batch_size: int, num_steps: int, epoch: int, seed: int
) -> list[Step]:
    """Steps of evaluation round `epoch`: a slice of an endless stream of shuffled passes over the blocks.

    The order of pass n depends on the seed and n alone, so a resumed run needs no state.
    """
    steps_per_pass = num_blocks // batch_size
    steps: list[Step] = []
    orders: dict[int, Tensor] = {}
    for number in range(epoch * num_steps, (epoch + 1) * num_steps):
        one_pass, place = divmod(number, steps_per_pass)
        if one_pass not in orders:
            generator = torch.Generator().manual_seed(seed * SEED_STRIDE + one_pass)
            orders[one_pass] = torch.randperm(num_blocks, generator=generator)
        steps.append(
            [("mlm", orders[one_pass][place * batch_size : (place + 1) * batch_size].tolist())]
        )
    return steps


def pair_up(
    input_ids: Tensor, share: float, sep_token_id: int, max_shift: int = 16
) -> tuple[Tensor, Tensor]:
    """Turn the first `share` of plain blocks (B, T) into pairs `[CLS] a [SEP] b [SEP]`; returns ids and token types.

    a and b are passages of the block's text that overlap but for a shift of 0 to max_shift tokens, in either order. To
    predict a masked token the model has to find its twin in the other segment, which is what comparing two sentences
    takes (the idea of translation language modelling, Lample and Conneau 2019, with one language).
    """
    token_type_ids, paired = torch.zeros_like(input_ids), input_ids.clone()
    num_pairs, half = round(share * len(input_ids)), (input_ids.size(1) - 3) // 2
    text = input_ids[:num_pairs, 1:-1]  # (P, T - 2)
    is_moved = torch.nn.functional.one_hot(
        torch.randint(2, (num_pairs,)), 2
    )  # (P, 2): which of the two starts later
    shifts = torch.randint(min(max_shift, half - 1) + 1, (num_pairs, 1)) * is_moved  # (P, 2)
    for side, length in enumerate((half, input_ids.size(1) - 3 - half)):
        passage = text.gather(1, shifts[:, side : side + 1] + torch.arange(length))  # (P, length)
        start = 1 + side * (half + 1)
        paired[:num_pairs, start : start + length] = passage
    paired[:num_pairs, half + 1] = sep_token_id
    token_type_ids[:num_pairs, half + 2 :] = 1
    return paired, token_type_ids
