"""Contrastive formulas as pure functions on embeddings. Next: methods.py, which makes the embeddings.

B batch, H hidden.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def info_nce(anchors: Tensor, positives: Tensor, temperature: float = 0.05) -> Tensor:
    """Each anchor must find its own positive among all positives of the batch.

    l_i = -log( exp(cos(a_i, p_i) / t) / sum_j exp(cos(a_i, p_j) / t) ), mean over i (SimCSE, Gao et al. 2021, eq. 4).
    Others call it multiple negatives ranking with cosine and scale 1 / t, NT-Xent over rows only, or in-batch softmax.

    anchors, positives (B, H), any floating dtype, scored in float32, or in float64 where both are; temperature > 0.
    Returns a scalar of that dtype, at least 0; log B is what unrelated vectors give. Raises ValueError for a
    temperature that is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0.")
    dtype = torch.float64 if anchors.dtype == positives.dtype == torch.float64 else torch.float32
    anchors, positives = (F.normalize(vectors.to(dtype), dim=-1) for vectors in (anchors, positives))  # (B, H)
    with torch.autocast(anchors.device.type, enabled=False):  # bfloat16's cosines are 0.002 off, 0.04 after / 0.05
        logits = anchors @ positives.T / temperature  # (B, B)
    return F.cross_entropy(logits, torch.arange(len(anchors), device=logits.device))
