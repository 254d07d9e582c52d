"""Gradient caching: the loss of a large batch with the memory of a small one. Called by methods.py.

A softmax over the batch needs the vectors of all rows at once, but not what the encoder kept to compute them. Every row
is encoded, a piece at a time, and only the vectors stay; the loss gives their gradient; then each piece is encoded
again, and its part of that gradient goes through it before the next piece's turn (Gao, Zhang et al. 2021, GradCache).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def in_pieces(encode: Callable[..., Tensor], chunk: int, *rows: Tensor) -> Tensor:
    """encode(*rows) with the intermediate results of at most `chunk` rows in memory; 0: of all at once.

    rows: tensors (R, ...) of which `encode` makes (R, ...), each row for itself. A piece is cut from the padded batch.
    The second time it meets the dropout masks and the precision of the first: `checkpoint` keeps and restores the
    random state, also that of a GPU. Gradients are those of the same pieces with everything kept, at the price of one
    more forward pass; they go to the weights' .grad in `backward()`, and torch.autograd.grad does not see them.

    The masks of a batch in pieces are not those of the batch as a whole: the generator is asked in another order.
    Compare with `checkpoint` around each layer, which saves less and serves batches that one row fills.
    """
    if not chunk or len(rows[0]) <= chunk:
        return encode(*rows)
    pieces = zip(*(tensor.split(chunk) for tensor in rows), strict=True)
    if (
        rows[0].device.type == "mps"
    ):  # where checkpoint keeps no random state (pytorch issue 127676)
        raise ValueError(
            "--contrastive_chunk: on Apple's GPU the second pass would draw other dropout masks, and the "
            "gradient would be wrong. Pass --contrastive_chunk 0 with a smaller batch, or --device cpu."
        )
    # The reentrant kind keeps no graph of the first pass, whose small nodes would break up the heap between the pieces.
    # It asks for an input and an output with a gradient; token ids have none, nor has what a frozen encoder makes.
    zero = torch.zeros((), requires_grad=True, device=rows[0].device)
    return torch.cat(
        [
            checkpoint(lambda zero, *piece: encode(*piece) + zero, zero, *piece, use_reentrant=True)
            for piece in pieces
        ]
    )  # (R, ...)
