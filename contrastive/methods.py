"""What each contrastive method encodes, and which loss it calls. Next: quality.py.

B batch, T tokens, H hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from contrastive.losses import info_nce
from data.batching import Batch
from minbert import BertModel
from minbert.pooling import pool


class SimCSE(nn.Module):
    """Unsupervised SimCSE (Gao et al. 2021, section 3): a sentence seen twice under two dropout masks is its own
    positive.

    The projection, linear and tanh, is used in training and dropped afterwards (released code: "MLP only in training").
    """

    def __init__(self, encoder: BertModel, pooling: str, temperature: float) -> None:
        super().__init__()
        self.encoder, self.pooling, self.temperature = encoder, pooling, temperature
        self.projection = nn.Linear(encoder.config.hidden_size, encoder.config.hidden_size)
        encoder.initialise(self.projection)

    def forward(self, batch: Batch) -> Tensor:
        """The loss of a batch of B sentences. Both views go through the encoder in one pass of 2B rows."""
        input_ids = batch.input_ids.repeat(2, 1)  # (2B, T): dropout differs between the halves
        attention_mask = batch.attention_mask.repeat(2, 1)  # (2B, T)
        vectors = pool(self.encoder(input_ids, attention_mask), attention_mask, self.pooling)  # (2B, H)
        first_view, second_view = torch.tanh(self.projection(vectors)).chunk(2)  # (B, H) each
        return info_nce(first_view, second_view, self.temperature)
