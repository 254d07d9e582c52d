"""What a call of the tokenizer takes and returns, with the names and meanings of transformers.

`read_call` checks the arguments, `padded` brings rows to one length, and TokenBatch is the result.

B rows, T tokens. Next: tokenizer.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Row = str | tuple[str, str]

# transformers writes this number where a tokenizer has no limit of its own.
NO_LIMIT = int(1e30)

PADDINGS = ("longest", "max_length", "do_not_pad")
TRUNCATIONS = ("longest_first", "only_first", "only_second", "do_not_truncate")
TENSORS = ("pt", "np")

# Arguments of transformers that are rarely passed, and their defaults here.
RARE = {
    "pad_to_multiple_of": None,
    "padding_side": None,
    "return_token_type_ids": True,
    "return_attention_mask": True,
    "verbose": True,
}

# Arguments of transformers that change the result and are not computed here, and another way.
NOT_COMPUTED = {
    "return_offsets_mapping": "tokenizer.backend.encode(text).offsets has the offsets",
    "return_overflowing_tokens": "cut long texts into parts before",
    "return_special_tokens_mask": "compare the ids with tokenizer.all_special_ids",
    "return_length": "sum the attention_mask",
    "stride": "cut long texts into parts before",
    "is_split_into_words": "join the words with blanks",
    "text_target": "call the tokenizer once more for the targets",
    "text_pair_target": "call the tokenizer once more for the targets",
}


class TokenBatch(dict[str, Any]):
    """Encoded rows by key or attribute: input_ids, token_type_ids and attention_mask.

    Each is a tensor or an array (B, T) int64, or lists of int. `model(**batch)` encodes the batch.
    Compare with transformers.BatchEncoding.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this batch holds {', '.join(self)}; it has no '{name}'")

    def to(self, device: torch.device | str) -> TokenBatch:
        """Move the tensors to a device, in place. Returns the batch itself."""
        for key, value in self.items():
            if isinstance(value, Tensor):
                self[key] = value.to(device)
        return self


class Call(NamedTuple):
    """The checked arguments of a call."""

    # One of PADDINGS and of TRUNCATIONS.
    padding: str
    truncation: str

    # Of a truncated row, or of a row that is padded with "max_length". None where neither asks.
    max_length: int | None

    # A padded length is a multiple of it.
    multiple_of: int

    # "right" or "left": where padding stands.
    padding_side: str

    # The keys of the result.
    keys: tuple[str, ...]


def read_call(
    padding: bool | str | None,
    truncation: bool | str | None,
    max_length: int | None,
    limit: int,
    side: str,
    others: Mapping[str, Any],
) -> Call:
    """Check the arguments of a call, and fill in what they leave open.

    padding: True or "longest", "max_length", or False or "do_not_pad". truncation: True or
    "longest_first", "only_first", "only_second", or False or "do_not_truncate". limit: the most
    tokens that the model takes, or NO_LIMIT. side: of the padding, if the call names none.
    others: the rare arguments.

    Raises ValueError for an argument or a value that is not known or not computed here, and for a
    max_length that would have no effect.
    """
    check_names(others)
    rare = {**RARE, **others}
    padding = named(padding, {True: "longest", False: "do_not_pad", None: "do_not_pad"})
    if truncation is None:
        truncation = max_length is not None
    truncation = named(truncation, {True: "longest_first", False: "do_not_truncate"})
    check_choice("padding", padding, PADDINGS)
    check_choice("truncation", truncation, TRUNCATIONS)

    is_cut = truncation != "do_not_truncate"
    check_length(max_length, limit, is_cut, is_filled=padding == "max_length")
    if max_length is None and limit == NO_LIMIT:
        truncation = "do_not_truncate"
    elif max_length is None:
        max_length = limit

    multiple_of = rare["pad_to_multiple_of"] or 1
    if is_cut and padding != "do_not_pad" and (max_length or 0) % multiple_of:
        raise ValueError(
            f"max_length is {max_length}, no multiple of {multiple_of} (pad_to_multiple_of); rows "
            "would be padded beyond it. Pass a max_length that is one."
        )
    padding_side = rare["padding_side"] or side
    check_choice("padding_side", padding_side, ("right", "left"))
    keys = ["input_ids"]
    for key in ("token_type_ids", "attention_mask"):
        if rare[f"return_{key}"] is not False:
            keys.append(key)
    return Call(padding, truncation, max_length, multiple_of, padding_side, tuple(keys))


def check_length(max_length: int | None, limit: int, is_cut: bool, is_filled: bool) -> None:
    """Raise ValueError for a max_length that is no length or has no effect, or is missing.

    limit: the most tokens that the model takes, or NO_LIMIT. is_cut: whether rows are truncated.
    is_filled: whether they are padded to max_length.
    """
    if max_length is None:
        if is_filled and limit == NO_LIMIT:
            raise ValueError(
                "padding is 'max_length', and the tokenizer's folder names no length. Pass "
                "max_length, or padding=True."
            )
        return
    if type(max_length) is not int or max_length < 1:
        raise ValueError(f"max_length is {max_length!r}; pass a whole number of 1 or more.")
    if not is_cut and not is_filled:
        raise ValueError(
            f"max_length is {max_length} and has no effect: nothing is truncated, nor padded to "
            "it. Pass truncation=True or padding='max_length', or leave max_length out."
        )


def check_names(others: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument of a call that is not known or not computed here."""
    for name, value in others.items():
        # transformers' defaults ask for nothing.
        if name in RARE or (name in NOT_COMPUTED and not value):
            continue
        if name in NOT_COMPUTED:
            raise ValueError(f"{name} is not computed here; {NOT_COMPUTED[name]}.")
        raise ValueError(
            f"a tokenizer takes no argument '{name}'. It takes text, text_pair, padding, "
            f"truncation, max_length, return_tensors, add_special_tokens, {', '.join(RARE)}."
        )


def named(value: bool | str | None, names: Mapping[Any, str]) -> str:
    """The name of a strategy, which may be written as True, False or None."""
    return names.get(value, value)  # type: ignore[arg-type]


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError where a value is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it is one of {', '.join(choices)}.")


# --- rows in --------------------------------------------------------------------------------------


def rows_of(
    text: str | Iterable[str] | Iterable[tuple[str, str]], text_pair: str | Iterable[str] | None
) -> list[Row]:
    """Join texts and their second texts to rows.

    text: one text, or one for each row, or pairs. text_pair: as many second texts, or None.

    Raises ValueError for a text that is no str, and for lists of different lengths.
    """
    for name, value in (("text", text), ("text_pair", text_pair)):
        is_left_out = name == "text_pair" and value is None
        if not isinstance(value, Iterable) and not is_left_out:
            raise ValueError(f"{name} is {value!r}; expected is a str, or one for each row.")
    firsts = [text] if isinstance(text, str) else list(text)
    if text_pair is None:
        rows: list[Any] = [tuple(row) if isinstance(row, list) else row for row in firsts]
    else:
        if isinstance(text, str) != isinstance(text_pair, str):
            raise ValueError(
                "one of text and text_pair is a single text and the other a list; pass two texts, "
                "or two lists of equal length."
            )
        seconds = [text_pair] if isinstance(text_pair, str) else list(text_pair)
        if len(firsts) != len(seconds):
            raise ValueError(
                f"text has {len(firsts)} rows and text_pair {len(seconds)}; a pair needs both. "
                "Pass two lists of equal length."
            )
        rows = list(zip(firsts, seconds, strict=True))
    for place, row in enumerate(rows):
        parts = row if isinstance(row, tuple) and len(row) == 2 else (row,)
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f"row {place} of the text is {row!r}; expected is a str, or two for a pair. "
                "Replace or drop missing values first."
            )
    return rows


# --- rows out -------------------------------------------------------------------------------------


def padded(rows: list[list[int]], filler: int, call: Call) -> list[list[int]]:
    """Bring rows to one length, as `call` asks. Rows that are longer stay as they are."""
    if call.padding == "do_not_pad" or not rows:
        return rows
    length = max(map(len, rows))
    if call.padding == "max_length":
        assert call.max_length is not None
        length = call.max_length
    length = -(-length // call.multiple_of) * call.multiple_of

    filled = []
    for row in rows:
        filling = [filler] * (length - len(row))
        filled.append(row + filling if call.padding_side == "right" else filling + row)
    return filled


def converted(rows: list[list[int]], return_tensors: str) -> Tensor | np.ndarray:
    """Make a tensor ("pt") or an array ("np") (B, T) int64 of rows.

    Raises ValueError if there are none, or if their lengths differ.
    """
    lengths = [len(row) for row in rows]
    if not rows:
        raise ValueError("there is no text, so there is no tensor. Pass one or more texts.")
    if min(lengths) != max(lengths):
        raise ValueError(
            f"rows of {min(lengths)} to {max(lengths)} tokens make no tensor. Pass padding=True, "
            "truncation=True beside padding='max_length', or return_tensors=None for lists."
        )
    if return_tensors == "np":
        return np.array(rows, dtype=np.int64)  # (B, T)
    return torch.tensor(rows)  # (B, T)
