"""Multi-head self-attention, written out step by step. It is a part of each layer in bert.py.

B batch, T tokens, H hidden, N heads, D head size (H = N x D). Next: bert.py.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minbert import fast
from minbert.config import BertConfig
from minbert.dropout import dropout
from minbert.linear import Linear


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_bias: Tensor | None,
    dropout_probability: float,
    training: bool,
    is_fused: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention, softmax(Q K^T / sqrt(D)) V.

    Vaswani et al. 2017, equation 1. Each token takes a weighted mean of the values of all tokens.
    Compare with torch.nn.functional.scaled_dot_product_attention, which is_fused calls.

    query, key, value: (B, N, T, D), floating point. They are not changed. The values may have
        another last size than D, which is that of queries and keys.
    mask_bias: broadcastable to (B, N, T, T), added to the scores Q K^T / sqrt(D). It is 0 where a
        token may be attended to, and a very large negative number where not. In a model with
        relative positions it holds other numbers, too. None masks nothing.
    dropout_probability: in [0, 1), of the weights, which the softmax gives. training: whether to
        drop at all.
    is_fused: whether torch's kernel computes it, with dropout masks of its own. It does only while
        `fast.is_on()`, and where `fast.takes_kernel` says so.
    Returns (B, N, T, D).
    """
    # The kernel never stores the (T, T) scores. That saves time on a GPU. On a CPU its backward
    # pass is slow, and in bf16 so are short rows.
    if is_fused and fast.is_on() and fast.takes_kernel(query):
        if mask_bias is not None:
            # The most negative float32 is -inf in bfloat16, so it is limited before it is
            # converted.
            lowest = torch.finfo(query.dtype).min
            mask_bias = mask_bias.clamp(min=lowest).to(query.dtype)
        probability = dropout_probability if training else 0.0
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask_bias, dropout_p=probability
        )

    # Dividing Q gives the same scores as dividing Q K^T, and Q holds fewer numbers.
    head_size = query.size(-1)
    query = query / math.sqrt(head_size)
    scores = query @ key.transpose(-2, -1)  # (B, N, T, T)

    # The mask acts before the softmax, so that the other probabilities still sum to 1.
    if mask_bias is not None:
        scores = scores + mask_bias

    # softmax may return float32. The product below needs the dtype of value.
    probabilities = scores.softmax(dim=-1).to(value.dtype)  # (B, N, T, T)

    # Dropout sets single probabilities to 0 and enlarges the others. A row then sums to 1 only on
    # average.
    probabilities = dropout(probabilities, dropout_probability, training)
    return probabilities @ value  # (B, N, T, D)


class MultiHeadAttention(nn.Module):
    """Self-attention with N heads and an output projection (Vaswani et al. 2017, section 3.2.2).

    Compare with torch.nn.MultiheadAttention.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_size = config.head_size
        self.dropout_probability = config.attention_probs_dropout_prob
        self.is_fused = config.attention_implementation == "fused"

        self.query = Linear(config.hidden_size, config.hidden_size)
        self.key = Linear(config.hidden_size, config.hidden_size)
        self.value = Linear(config.hidden_size, config.hidden_size)
        self.output = Linear(config.hidden_size, config.hidden_size)

    def project(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute query, key and value of all heads: (B, T, H) -> three times (B, T, H)."""
        return self.query(hidden_states), self.key(hidden_states), self.value(hidden_states)

    def split_heads(self, projected: Tensor) -> Tensor:
        """Give each head its own D of the H units: (B, T, H) -> (B, N, T, D)."""
        heads = projected.unflatten(-1, (self.num_heads, self.head_size))  # (B, T, N, D)
        return heads.transpose(1, 2)  # (B, N, T, D)

    def forward(self, hidden_states: Tensor, mask_bias: Tensor | None = None) -> Tensor:
        """Let the tokens of each row attend to each other.

        hidden_states (B, T, H); mask_bias as in `attention`. Returns (B, T, H).
        """
        query, key, value = self.project(hidden_states)  # (B, T, H) each
        query = self.split_heads(query)  # (B, N, T, D)
        key = self.split_heads(key)  # (B, N, T, D)
        value = self.split_heads(value)  # (B, N, T, D)

        context = attention(
            query,
            key,
            value,
            mask_bias,
            self.dropout_probability,
            self.training,
            self.is_fused,
        )  # (B, N, T, D)

        # The heads stand side by side again.
        joined = context.transpose(1, 2).flatten(2)  # (B, T, H)
        return self.output(joined)  # (B, T, H)

    def probabilities(self, hidden_states: Tensor, mask_bias: Tensor | None = None) -> Tensor:
        """Compute how much each token attends to each other token, without dropout.

        hidden_states (B, T, H); mask_bias as in `attention`. Returns (B, N, T, T) in [0, 1]. Each
        row sums to 1. The result is for looking at: `forward` does not need it.
        """
        query, key, _ = self.project(hidden_states)  # (B, T, H) each
        query = self.split_heads(query)  # (B, N, T, D)
        key = self.split_heads(key)  # (B, N, T, D)

        # If token t has the t-th unit vector as its value, the weighted mean of the values is the
        # weights themselves.
        num_tokens = hidden_states.size(1)
        units = torch.eye(num_tokens, dtype=query.dtype, device=query.device)  # (T, T)
        values = units.expand(*query.shape[:2], -1, -1)  # (B, N, T, T)
        return attention(query, key, values, mask_bias, 0.0, False, self.is_fused)  # (B, N, T, T)


def mask_to_bias(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask of tokens into the bias that `attention` adds to its scores.

    attention_mask (B, T) of any dtype, 1 for real tokens and 0 for padding. Returns (B, 1, 1, T) of
    `dtype`: 0 for real tokens, the most negative finite number for padding. Any finite number of
    -10000 or less does, too. It is not -inf, because a softmax over a row of only -inf is nan.
    """
    is_padding = attention_mask[:, None, None, :] == 0  # (B, 1, 1, T)
    zeros = torch.zeros_like(is_padding, dtype=dtype)  # (B, 1, 1, T)
    return zeros.masked_fill(is_padding, torch.finfo(dtype).min)
