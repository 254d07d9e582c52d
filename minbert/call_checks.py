"""What a call of the encoder must look like. bert.py asks before it computes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from minbert.config import BertConfig


def check_ids(config: BertConfig, input_ids: object, token_type_ids: Tensor | None) -> None:
    """Raise ValueError for ids that this encoder cannot embed, with what to do instead.

    The arguments are those of BertModel.embed. config: of the encoder.
    """
    check_shape(config, input_ids)
    check_segments(config, token_type_ids)


def check_outputs(config: BertConfig, output_attentions: bool, return_dict: bool) -> None:
    """Raise ValueError for outputs that this encoder cannot give, with what to do instead.

    The arguments are those of BertModel.forward. config: of the encoder.
    """
    if output_attentions and config.attention_implementation == "fused":
        raise ValueError(
            "output_attentions is True, and the fused attention never stores its probabilities. "
            "Open the model with "
            "BertModel.from_pretrained(..., attention_implementation='eager')."
        )
    if not return_dict:
        raise ValueError(
            "return_dict is False; the output is always a BertOutput. It can be taken apart and "
            "indexed as a tuple, and output.to_tuple() makes one. Leave out return_dict."
        )


def check_shape(config: BertConfig, input_ids: object) -> None:
    """Raise ValueError for ids that are no tensor (B, T), and for rows that are too long."""
    if not isinstance(input_ids, Tensor):
        kind = type(input_ids).__name__
        advice = "Pass model(**batch)" if isinstance(input_ids, Mapping) else "Pass a tensor"
        raise ValueError(
            f"input_ids is a {kind}; expected is a tensor (rows, tokens) of int64. {advice}."
        )
    if input_ids.dim() != 2:
        advice = "" if input_ids.dim() != 1 else " For one row pass input_ids.unsqueeze(0)."
        raise ValueError(
            f"input_ids has the shape {tuple(input_ids.shape)}; expected is (rows, tokens).{advice}"
        )
    num_tokens = input_ids.size(1)
    if num_tokens > config.num_positions:
        raise ValueError(
            f"input_ids has {num_tokens} tokens a row; this model has {config.num_positions} "
            "positions. Truncate to that (max_length)."
        )


def check_mask(config: BertConfig, attention_mask: object, hidden_states: Tensor) -> None:
    """Raise ValueError for a mask that does not fit hidden states (B, T, H).

    The masks that fit are those of BertModel.bias_of. config: of the encoder.
    """
    # A graph that is exported has sizes that are not known yet.
    if torch.compiler.is_compiling():
        return
    if not isinstance(attention_mask, Tensor):
        kind = type(attention_mask).__name__
        raise ValueError(f"attention_mask is a {kind}; expected is a tensor (rows, tokens).")
    rows, tokens = hidden_states.shape[:2]
    shape = tuple(attention_mask.shape)
    sizes = [(1, rows), (1, config.num_attention_heads), (1, tokens), (tokens,)]
    if len(shape) == 2:
        sizes = [(1, rows), (tokens,)]
    fits = len(shape) == len(sizes)
    if not fits or any(size not in known for size, known in zip(shape, sizes, strict=True)):
        raise ValueError(
            f"attention_mask has the shape {shape}; expected is (rows, tokens), here ({rows}, "
            f"{tokens}), or a prepared mask (rows, 1, 1, tokens) or (rows, 1, tokens, tokens)."
        )
    is_bias = len(shape) == 4 and attention_mask.is_floating_point()
    if is_bias and (attention_mask > 0).any():
        raise ValueError(
            f"attention_mask has the shape {shape}, floating point and positive numbers. A "
            "prepared mask of floating point is a bias: 0 where a token may be attended to, and "
            "a very large negative number where not. Pass (mask == 1) for a mask of 1 and 0."
        )


def check_segments(config: BertConfig, token_type_ids: Tensor | None) -> None:
    """Raise ValueError for a second segment where the model has one."""
    # Only models with one segment are asked, since reading a tensor makes a GPU wait. A graph that
    # is exported cannot ask.
    has_one_segment = config.type_vocab_size == 1 and not torch.compiler.is_compiling()
    if has_one_segment and token_type_ids is not None and token_type_ids.any():
        raise ValueError(
            "token_type_ids holds a 1, for the second sentence of a pair; this model has one "
            "segment (type_vocab_size 1 in config.json). Encode the two sentences apart, as "
            "--pair_encoding bi does, or use a model with two segments."
        )
