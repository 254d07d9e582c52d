"""From token vectors to one vector per row, and the note of which vector a model was trained for.

Both training stages pool, and a saved model remembers how.

B rows, T tokens, H hidden.
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
    """Take the mean over real tokens (Reimers and Gurevych 2019, section 3).

    hidden_states (B, T, H). attention_mask (B, T) of 1 and 0, with a 1 in each row. Returns (B, H)
    float32. Compare with sentence_transformers.models.Pooling.
    """
    weights = attention_mask.unsqueeze(-1).float()  # (B, T, 1)
    summed = (hidden_states.float() * weights).sum(dim=1)  # (B, H)
    return summed / weights.sum(dim=1)  # (B, H)


def maximum(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Take the greatest value of each unit over real tokens.

    hidden_states (B, T, H). attention_mask (B, T) of 1 and 0. Returns (B, H) float32.
    """
    is_padding = (attention_mask == 0).unsqueeze(-1)  # (B, T, 1)
    real = hidden_states.float().masked_fill(is_padding, -torch.inf)  # (B, T, H)
    return real.amax(dim=1)  # (B, H)


def pool(output: BertOutput, attention_mask: Tensor, pooling: str) -> Tensor:
    """Take the sentence vectors out of an encoder's output.

    Reimers and Gurevych 2019, table 6, compare mean and [CLS].

    output: hidden states (B, T, H). For "cls" and "pooler" they may be (B, 1, H), computed at
        fast.positions_read alone.
    attention_mask: (B, T), 1 for tokens and 0 for padding. Only "mean" reads it.
    pooling: "mean", "cls" (the last layer's first token), or "pooler" (a linear layer and tanh on
        top of that).

    Returns (B, H) float32. Raises ValueError for another name.
    """
    if pooling == "mean":
        return mean(output.last_hidden_state, attention_mask)
    if pooling == "cls":
        return output.last_hidden_state[:, 0].float()
    if pooling == "pooler":
        return output.pooler_output.float()
    raise ValueError(f"pooling is '{pooling}'; it is one of {', '.join(POOLINGS)}.")


# --- the note beside a model ----------------------------------------------------------------------


def save_pooling(folder: str | Path, pooling: str) -> None:
    """Note beside a trained encoder which sentence vector it was trained for."""
    write_json(Path(folder) / FILE_NAME, {"pooling": pooling})


def stored_pooling(folder: str | Path) -> str | None:
    """Read the sentence vector that `save_pooling` noted in `folder`, or None without a note.

    Raises ValueError if the note names no pooling of ours.
    """
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["pooling"]
        if stored not in POOLINGS:
            raise ValueError(f"it is none of {', '.join(POOLINGS)}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f'{path}: names no pooling ({error}). Expected is {{"pooling": "mean"}} or one of the '
            "other names. Delete the file to use the model with any pooling."
        ) from error
    return stored


def check_pooling(folder: str | Path, pooling: str) -> None:
    """Raise ValueError if the encoder in `folder` was trained for another sentence vector.

    A folder without a note passes.
    """
    stored = stored_pooling(folder)
    if stored not in (None, pooling):
        raise ValueError(
            f"{folder}: this encoder was trained with --pooling {stored}; asked for is {pooling}, "
            f"for which it was not trained. Pass --pooling {stored}, or start from another model."
        )
