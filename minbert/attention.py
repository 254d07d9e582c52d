"""Multi-head self-attention written out, and its fused twin beside it.

B batch, T tokens, H hidden, N heads, D head size (H = N x D). Stands inside each layer of bert.py; read that next.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert.config import BertConfig
from minbert.dropout import dropout


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_bias: Tensor | None,
    dropout_probability: float,
    training: bool,
) -> Tensor:
    """Scaled dot-product attention, softmax(Q K^T / sqrt(D)) V (Vaswani et al. 2017, eq. 1), step by step.

    query, key, value (B, N, T, D) floating point; mask_bias broadcastable to (B, N, T, T), added to the scores: 0 where
    a token may be attended to, a very large negative number where not; None masks nothing. Returns (B, N, T, D).
    Compare with `fused_attention`, which computes the same without storing the (T, T) scores.
    """
    query = query / math.sqrt(
        query.size(-1)
    )  # before the product: T x D numbers to divide instead of T x T
    scores = query @ key.transpose(-2, -1)  # (B, N, T, T)
    if mask_bias is not None:
        scores = scores + mask_bias  # before the softmax, so that what is left still sums to 1
    probabilities = scores.softmax(dim=-1).to(
        value.dtype
    )  # (B, N, T, T); torch sums bf16 rows in float32
    # Dropout on the weights: a link that is dropped is not attended to at all, and a row no longer sums to 1.
    probabilities = dropout(probabilities, dropout_probability, training)
    return probabilities @ value  # (B, N, T, D)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_bias: Tensor | None,
    dropout_probability: float,
    training: bool,
) -> Tensor:
    """The same function through torch's fused kernel; arguments, shapes and result as in `attention`."""
    if mask_bias is not None:
        mask_bias = mask_bias.clamp(min=torch.finfo(query.dtype).min).to(
            query.dtype
        )  # finite in bf16 too
    probability = dropout_probability if training else 0.0
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask_bias, dropout_p=probability
    )


class MultiHeadAttention(nn.Module):
    """Self-attention with N heads and its output projection; hidden states (B, T, H) -> (B, T, H).

    `forward` uses the weights of query, key and value without calling these modules, so hooks on them never run.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads, self.head_size = config.num_attention_heads, config.head_size
        self.dropout_probability = config.attention_probs_dropout_prob
        self.attend = fused_attention if config.attention_implementation == "fused" else attention
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def split_heads(self, projected: Tensor) -> Tensor:
        """(B, T, H) -> (B, N, T, D): each head sees its own D of the H units."""
        return projected.unflatten(-1, (self.num_heads, self.head_size)).transpose(1, 2)

    def forward(self, hidden_states: Tensor, mask_bias: Tensor | None = None) -> Tensor:
        parts = (self.query, self.key, self.value)
        weight = torch.cat(
            [part.weight for part in parts]
        )  # (3 H, H): one matrix product is faster than three
        projected = F.linear(
            hidden_states, weight, torch.cat([part.bias for part in parts])
        )  # (B, T, 3 H)
        query, key, value = (
            self.split_heads(part) for part in projected.chunk(3, dim=-1)
        )  # (B, N, T, D) each
        context = self.attend(
            query, key, value, mask_bias, self.dropout_probability, self.training
        )  # (B, N, T, D)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, T, H)


def mask_to_bias(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """attention_mask (B, T), 1 for real tokens and 0 for padding -> additive bias (B, 1, 1, T) of `dtype`.

    The most negative finite number rather than -inf: a softmax over a row of only -inf would be nan.
    """
    is_padding = attention_mask[:, None, None, :] == 0  # (B, 1, 1, T)
    return torch.zeros_like(is_padding, dtype=dtype).masked_fill(is_padding, torch.finfo(dtype).min)
