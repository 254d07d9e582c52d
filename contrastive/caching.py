"""Gradient caching: the loss of a large batch with the memory of a small one.

R rows of the encoder.

A softmax over the batch needs the vectors of all rows at once. It does not need the intermediate
results that the encoder kept to compute them. So the encoder takes the rows a piece at a time, and
only the vectors stay. The loss gives the gradient of the vectors. Then each piece is encoded again,
and its part of that gradient goes through it before the next piece's turn (GradCache, Gao, Zhang et
al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def in_pieces(encode: Callable[..., Tensor], chunk: int, *rows: Tensor) -> Tensor:
    """encode(*rows) with the intermediate results of at most `chunk` rows in memory.

    encode: makes (R, ...) of its arguments, each row by itself.
    chunk: rows in a piece; 0 means all rows at once.
    rows: tensors (R, ...). A piece is cut from the padded batch.

    Returns (R, ...). The gradients are those of the same pieces with everything kept. The price is
    one more forward pass. The gradients go to the weights' .grad in `backward()`.
    torch.autograd.grad does not see them.

    The second encoding meets the dropout masks and the precision of the first: `checkpoint` keeps
    and restores the random state, also that of a GPU. The masks of a batch in pieces are not those
    of the batch as a whole, because the generator is asked in another order.

    Raises ValueError on Apple's GPU, where `checkpoint` keeps no random state.

    Compare with `checkpoint` around each layer. That saves less, and it also helps when one row
    fills the memory.
    """
    if chunk == 0 or len(rows[0]) <= chunk:
        return encode(*rows)
    if rows[0].device.type == "mps":  # pytorch issue 127676
        raise ValueError(
            "--contrastive_chunk: on Apple's GPU the second pass would draw other dropout masks, "
            "and the gradient would be wrong. Pass --contrastive_chunk 0 with a smaller batch, or "
            "--device cpu."
        )

    # The reentrant kind keeps no graph of the first pass, whose small nodes would break up the heap
    # between the pieces. It asks for an input and an output with a gradient. Token ids have none,
    # nor has the output of a frozen encoder. So a zero goes in and is added.
    zero = torch.zeros((), requires_grad=True, device=rows[0].device)

    def encode_piece(zero: Tensor, *piece: Tensor) -> Tensor:
        return encode(*piece) + zero

    split_rows = [tensor.split(chunk) for tensor in rows]
    vectors = []
    for piece in zip(*split_rows, strict=True):
        vectors.append(checkpoint(encode_piece, zero, *piece, use_reentrant=True))
    return torch.cat(vectors)  # (R, ...)
