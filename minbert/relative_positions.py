"""Relative positions: how far two tokens are apart, as a bias of the attention (MPNet).

Song et al. 2020 (MPNet) took them from T5 (Raffel et al. 2020, section 2.1). Near distances have a
number each, far ones share theirs. A table holds one bias for each number and each head.

N heads, T tokens. The bias is added in bert.py.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minbert.families import NUM_BUCKETS

# From this distance on, all tokens share one number.
MAX_DISTANCE = 128


def distance_numbers(num_tokens: int, device: torch.device) -> Tensor:
    """The number of each distance, (T, T) int64 in [0, NUM_BUCKETS).

    Row t holds those from token t to each token. A side has 16 numbers: 0 to 7 are the distances
    themselves, and 8 to 15 grow with the logarithm of the distance. Those of tokens on the right
    follow behind those of the left. Compare with MPNetEncoder.relative_position_bucket of
    transformers.
    """
    places = torch.arange(num_tokens, device=device)  # (T,)
    offsets = places[None, :] - places[:, None]  # (T, T): positive on the right
    distances = offsets.abs()
    num_of_side = NUM_BUCKETS // 2
    num_exact = num_of_side // 2

    # 0 where a distance is near: the logarithm is then not used.
    ratios = distances.clamp(min=num_exact).float() / num_exact
    growth = ratios.log() / math.log(MAX_DISTANCE / num_exact)  # 0 to 1 at MAX_DISTANCE
    far = num_exact + (growth * (num_of_side - num_exact)).long()
    numbers = torch.where(distances < num_exact, distances, far.clamp(max=num_of_side - 1))
    return numbers + (offsets > 0) * num_of_side


def relative_bias(table: Tensor, num_tokens: int) -> Tensor:
    """The bias of each pair of tokens: table (NUM_BUCKETS, N) -> (1, N, T, T)."""
    numbers = distance_numbers(num_tokens, table.device)  # (T, T)
    return table[numbers].permute(2, 0, 1).unsqueeze(0)  # (1, N, T, T)
