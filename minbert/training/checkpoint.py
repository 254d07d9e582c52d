"""Save a training job, and load it: tensors in safetensors, everything else in one JSON.

A checkpoint is two files. The JSON names its tensor file and is written last, so only the JSON
decides which checkpoint is the last complete one. Both files are written atomically: a reader finds
the old file or the new one, and never half of one.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minbert.commands.files import check_digest, read_json, write_json, write_tensors

STATE_FILE = "state.json"


class Checkpoint(NamedTuple):
    """The content of a checkpoint's two files."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


class OptimizerState(NamedTuple):
    """The state of an optimizer, in the form in which a checkpoint holds it."""

    tensors: dict[str, Tensor]  # by "number of the parameter.name", such as "0.first_moment"
    content: dict[str, Any]  # all that is no tensor, for the JSON


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint of step state["step"], and remove the one before.

    Files in `folder` that state["keep"] lists (the best model so far) stay. state["digests"] holds
    the SHA-256 of each.
    """
    file_name = f"step-{state['step']:08d}.safetensors"
    # A step may be saved twice, before and after its evaluation. The second file must not replace
    # the first one before the JSON names it.
    if named_file(folder) == file_name:
        file_name = file_name.replace(".safetensors", "-again.safetensors")
    digest = write_tensors(folder / file_name, tensors)
    digests = {**state.get("digests", {}), file_name: digest}
    content = {**state, "tensors": file_name, "digests": digests}
    write_json(folder / STATE_FILE, content, has_checksum=True)

    # Older checkpoints, and half-written files that a kill has left.
    leftovers = [*folder.glob("*.safetensors"), *folder.glob(".*.writing")]
    kept = {file_name, *state.get("keep", ())}
    for path in leftovers:
        if path.name not in kept:
            path.unlink()


def named_file(folder: Path) -> str:
    """The tensor file that the JSON in `folder` names; "" where there is none or it is damaged."""
    try:
        state = read_json(folder / STATE_FILE)
        return state["tensors"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The last complete checkpoint in `folder`, or None where there is none yet.

    ValueError for one that is damaged.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        state = read_json(path)
        # Older checkpoints have no digests.
        for name, digest in state.get("digests", {}).items():
            check_digest(path.with_name(name), digest)
        views = load_file(path.with_name(state["tensors"]))
        # Copies: the moments of an optimizer would go on as views of the file, and hold its space
        # on the disk after it is removed.
        tensors = {name: tensor.clone() for name, tensor in views.items()}
        for name in state.get("keep", ()):
            path.with_name(name).stat()  # raises where the best model is missing
        return Checkpoint(tensors, state)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, SafetensorError) as error:
        raise ValueError(
            f"{folder}: the checkpoint cannot be read ({error}). Delete that folder to start this "
            "stage anew."
        ) from error


def group_of(group: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors stored as "group.name", by name: several groups share one file."""
    prefix = group + "."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def pack_optimizer(optimizer: torch.optim.Optimizer) -> OptimizerState:
    """The state of an optimizer, such as its moments, and its parameter groups."""
    stored = optimizer.state_dict()
    tensors = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in stored["state"].items():
        numbers[str(index)] = {}
        for key, value in values.items():
            if torch.is_tensor(value):
                tensors[f"{index}.{key}"] = value
            else:
                numbers[str(index)][key] = value
    return OptimizerState(tensors, {"numbers": numbers, "groups": stored["param_groups"]})


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], content: dict[str, Any]
) -> None:
    """Put back what `pack_optimizer` returned. ValueError where a number is none any more."""
    for group, stored in zip(optimizer.param_groups, content["groups"], strict=True):
        for name, value in group.items():
            is_number = type(value) in (int, float)
            if is_number and not math.isfinite(stored[name]):
                raise ValueError(f"{name} of the optimizer is {stored[name]}")
    state: dict[int, dict[str, Any]] = {}
    for index, numbers in content["numbers"].items():
        state[int(index)] = dict(numbers)
    for name, tensor in tensors.items():
        index, key = name.split(".")
        state[int(index)][key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": content["groups"]})
