"""Which sentences of a batch are no negatives of each other.

B pairs or triplets, T tokens.

Two sentences that say the same must not be pushed apart. The losses leave them out of the softmax.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor


def same_text(input_ids: Tensor, other_ids: Tensor) -> Tensor:
    """Which rows hold the same text: token ids (B, T), (C, T) of one batch -> (B, C) bool."""
    is_equal = input_ids.unsqueeze(1) == other_ids.unsqueeze(0)  # (B, C, T)
    return is_equal.all(dim=-1)  # (B, C)


def no_negatives(
    first: Tensor, second: Tensor, is_positive: Tensor, hard: Tensor | None = None
) -> Tensor:
    """Which first sentence i and second sentence j of a batch of pairs must not be pushed apart.

    They are those with the same text, and those that positive pairs connect, over any number of
    texts. If a-b and b-c belong together, so do a and c. A labelled negative stays a negative.

    first, second: (B, T) token ids. is_positive: (B,) bool, whether a pair belongs together.
    hard: (K B, T), hard negatives, K of each first sentence. They are K B more columns.

    Returns (B, B) bool, with hard (B, (1 + K) B).
    """
    sides = [first, second] if hard is None else [first, second, hard]
    rows = torch.cat(sides).cpu()  # (R, T) with R = (2 + K) B

    # The texts are the nodes of a graph, and the positive pairs are its edges.
    _, text_of = torch.unique(rows, dim=0, return_inverse=True)  # (R,): a number for each text
    text_of_side = text_of.view(-1, len(first))  # (2 + K, B)
    edges = text_of_side[:2, is_positive.cpu()]  # (2, number of positive pairs)
    component_of = components(text_of, edges).to(first.device)  # (R,)
    first_component = component_of[: len(first)]  # (B,)
    other_components = component_of[len(first) :]  # ((1 + K) B,)
    return first_component.unsqueeze(1) == other_components


def components(text_of: Tensor, pairs: Tensor) -> Tensor:
    """A number for what each row says: rows that say the same have the same number.

    text_of: (R,) int64, a number for the text of each row, from 0 to R - 1. pairs: (2, N), texts of
    N positive pairs. Returns (R,).
    """
    edges = pairs.numpy()
    graph = coo_matrix((np.ones(edges.shape[1]), edges), shape=(len(text_of), len(text_of)))
    # Texts of one connected component say the same.
    _, component_of_text = connected_components(graph, directed=False)
    return torch.from_numpy(component_of_text)[text_of]  # (R,)
