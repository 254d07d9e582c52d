"""Token vectors -> one vector a row. Both stages pool, and a model remembers how, so it stands in this room.

B rows, T tokens, H hidden. Next: contrastive/methods.py and multitask/model.py, which call it.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from minbert.bert import BertOutput
from minbert.commands.files import write_json

POOLINGS = ("mean", "cls", "pooler")
FILE_NAME = "sentence.json"


def mean(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """(B, T, H) and (B, T) of 1 and 0 -> (B, H): the mean over real tokens, in float32 (Reimers and Gurevych 2019)."""
    weights = attention_mask.unsqueeze(-1).float()  # (B, T, 1)
    return (hidden_states.float() * weights).sum(dim=1) / weights.sum(dim=1)  # (B, H)


def positions_read(attention_mask: Tensor, pooling: str) -> Tensor | None:
    """BertModel's `positions` (B,), each row's [CLS], where `pool` reads nothing else; None where it reads all."""
    if pooling == "mean":
        return None
    return torch.arange(
        0, attention_mask.numel(), attention_mask.size(1), device=attention_mask.device
    )


def pool(output: BertOutput, attention_mask: Tensor, pooling: str) -> Tensor:
    """The sentence vector (B, H), float32: "mean", "cls" (the last layer's first token), "pooler" (linear, tanh of it).

    output: of B rows, hidden states (B, T, H), for "cls" and "pooler" also (B, 1, H) at `positions_read`;
    attention_mask (B, T), 1 for tokens and 0 for padding, is read by "mean" alone and holds a 1 in each row. ValueError
    for another name. Reimers and Gurevych 2019 compare mean and [CLS].
    """
    if pooling == "mean":
        return mean(output.last_hidden_state, attention_mask)
    if pooling == "cls":
        return output.last_hidden_state[:, 0].float()
    if pooling == "pooler":
        return output.pooler_output.float()
    raise ValueError(f"pooling is '{pooling}'; it is one of {', '.join(POOLINGS)}.")


def save_pooling(folder: str | Path, pooling: str) -> None:
    """Note beside a trained encoder which sentence vector it was trained for."""
    write_json(Path(folder) / FILE_NAME, {"pooling": pooling})


def stored_pooling(folder: str | Path) -> str | None:
    """The sentence vector that `save_pooling` noted in `folder`, or None; ValueError where the note is none of ours."""
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["pooling"]
        if stored not in POOLINGS:
            raise ValueError(f"it is none of {', '.join(POOLINGS)}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'{path}: names no pooling ({error}); it holds {{"pooling": "mean"}} or such. Delete it '
            "to use the model with any."
        ) from error
    return stored


def check_pooling(folder: str | Path, pooling: str) -> None:
    """ValueError where the encoder in `folder` was trained for another sentence vector; silent where none is noted."""
    stored = stored_pooling(folder)
    if stored not in (None, pooling):
        raise ValueError(
            f"{folder}: this encoder was trained with --pooling {stored}; asked for is {pooling}, "
            f"whose vectors it never learned. Pass --pooling {stored}, or start from another model."
        )


def maximum(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """(R, T, H), (R, T) of 1 and 0 -> (R, H) float32: the greatest value of each unit over real tokens."""
    is_padding = (attention_mask == 0).unsqueeze(-1)  # (R, T, 1)
    return hidden_states.float().masked_fill(is_padding, -torch.inf).amax(dim=1)
