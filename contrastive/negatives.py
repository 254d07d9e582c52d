"""Which sentences of a batch are no negatives of each other. Next: methods.py, which masks them; losses.py.

B pairs or triplets, T tokens.
"""

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor


def same_text(input_ids: Tensor, others: Tensor) -> Tensor:
    """Token ids (B, T), (C, T) of one batch -> (B, C) bool: which rows hold the same text."""
    return (input_ids.unsqueeze(1) == others.unsqueeze(0)).all(dim=-1)


def no_negatives(
    first: Tensor, second: Tensor, is_positive: Tensor, third: Tensor | None = None
) -> Tensor:
    """Which first sentence i and second sentence j of a batch of pairs must not be pushed apart: (B, B) bool.

    Those that are the same text, and those that pairs labelled as belonging together connect, over any number of
    texts. A labelled negative stays one. first, second (B, T) token ids; is_positive (B,) bool, of the pairs. With
    third (B, T), the contradictions of triplets, they are B more columns: (B, 2B).
    """
    columns = torch.cat([first, second] if third is None else [first, second, third]).cpu()
    _, text_of = torch.unique(columns, dim=0, return_inverse=True)  # (2B,): a number a text
    ends = text_of.view(-1, len(first))[
        :2, is_positive.cpu()
    ].numpy()  # (2, P): the two texts of each positive pair
    graph = coo_matrix((np.ones(ends.shape[1]), ends), shape=(len(text_of), len(text_of)))
    groups = torch.from_numpy(connected_components(graph, directed=False)[1])[text_of].to(
        first.device
    )  # (2B,)
    return groups[: len(first)].unsqueeze(1) == groups[len(first) :]
