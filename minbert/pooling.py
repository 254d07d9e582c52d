"""From token vectors to one vector per row, and the note of which vector a model was trained for.

Both training stages pool, and a saved model remembers how.

B rows, T tokens, H hidden.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from minbert.bert import BertOutput
from minbert.commands.digests import check_recorded, recording
from minbert.commands.files import read_json, write_json

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


def mean_sqrt_len(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Sum over the real tokens, divided by the square root of their number.

    Arguments and result as of `mean`.
    """
    num_tokens = attention_mask.sum(dim=1, keepdim=True).float()  # (B, 1)
    return mean(hidden_states, attention_mask) * num_tokens.sqrt()  # (B, H)


def weighted_mean(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Take the mean over real tokens, where token t has the weight t + 1 (Muennighoff 2022).

    Arguments and result as of `mean`. Padding stands on the right.
    """
    places = torch.arange(1, attention_mask.size(1) + 1, device=attention_mask.device)  # (T,)
    return mean(hidden_states, attention_mask * places)  # (B, H)


def last_token(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Take the last real token. Arguments and result as of `mean`; padding stands on the right."""
    rows = torch.arange(len(attention_mask), device=attention_mask.device)  # (B,)
    last = attention_mask.sum(dim=1) - 1  # (B,)
    return hidden_states[rows, last].float()  # (B, H)


def first_token(hidden_states: Tensor, attention_mask: Tensor) -> Tensor:
    """Take [CLS], the first token. Arguments and result as of `mean`."""
    return hidden_states[:, 0].float()  # (B, H)


# The poolings of sentence-transformers by their names there, in the order in which several are
# joined.
SENTENCE_POOLINGS = {
    "cls": first_token,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt_len,
    "weightedmean": weighted_mean,
    "lasttoken": last_token,
}


def pool(output: BertOutput, attention_mask: Tensor, pooling: str) -> Tensor:
    """Take the sentence vectors out of an encoder's output.

    Reimers and Gurevych 2019, table 6, compare mean and [CLS].

    output: hidden states (B, T, H). For "cls" and "pooler" they may be (B, 1, H), computed at
        positions_read alone.
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


def positions_read(attention_mask: Tensor, pooling: str) -> Tensor | None:
    """Find the positions that `pool` reads: each row's [CLS], or None for all.

    attention_mask (B, T). Returns (B,) int64, the `positions` of BertModel.forward. "mean" reads
    every token.
    """
    if pooling == "mean":
        return None
    num_tokens = attention_mask.size(1)
    return torch.arange(0, attention_mask.numel(), num_tokens, device=attention_mask.device)


# --- the note beside a model ----------------------------------------------------------------------


def save_pooling(folder: str | Path, pooling: str) -> None:
    """Note beside a trained encoder which sentence vector it was trained for."""
    path = Path(folder) / FILE_NAME
    with recording(path.parent) as digests:
        digests[path.name] = write_json(path, {"pooling": pooling})


def stored_pooling(folder: str | Path) -> str | None:
    """Read the sentence vector that `save_pooling` noted in `folder`, or None without a note.

    Raises ValueError if the note names no pooling of ours.
    """
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        return None
    check_recorded(path)
    try:
        stored = read_json(path)["pooling"]
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


def pooling_modes(path: Path) -> tuple[str, ...]:
    """Read which poolings a 1_Pooling/config.json of sentence-transformers names.

    Version 6 writes names, and older ones a switch for each. Raises ValueError for an unknown one.
    """
    if path.is_file():
        check_recorded(path)
    try:
        settings = read_json(path)
        switches = [name for name in settings if name.startswith("pooling_mode_")]
        names = settings.get("pooling_mode")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: names no pooling ({error}). Fetch the model again.") from error
    if names is None:
        chosen = [_mode_of(name) for name in switches if settings[name]]
        order = list(SENTENCE_POOLINGS)
        names = sorted(chosen, key=lambda name: order.index(name) if name in order else 0)
    modes = (names,) if isinstance(names, str) else tuple(names) or ("mean",)
    for name in modes:
        if name not in SENTENCE_POOLINGS:
            raise ValueError(
                f"{path}: the pooling '{name}' is not computed here; known are "
                f"{', '.join(SENTENCE_POOLINGS)}."
            )
    return modes


def _mode_of(switch: str) -> str:
    """Translate a switch such as pooling_mode_cls_token to the name that version 6 uses."""
    name = switch.removeprefix("pooling_mode_")
    short = name.removesuffix("_tokens").removesuffix("_token")
    return short if short in SENTENCE_POOLINGS else name


def note_on_pooling(folder: str | Path, pooling: str) -> str | None:
    """Say that a folder of sentence-transformers pools otherwise than `pooling`, or None.

    Training may go on with another pooling, but begins from vectors that were not trained for it.
    """
    path = Path(folder) / "1_Pooling" / "config.json"
    if not path.is_file() or (Path(folder) / FILE_NAME).is_file():
        return None
    stored = "+".join(pooling_modes(path))
    if stored == pooling:
        return None
    return (
        f"note: {path} says that this model was trained with the pooling {stored}; this run uses "
        f"--pooling {pooling}"
    )
