"""Atomic save, load, resume: tensors in safetensors, everything else in one JSON.

A file is written beside its place, flushed to the disk and renamed, so a reader finds the old file or the new one and
never half of one. A checkpoint is two files; the JSON names its tensor file and is written last, so it is what counts.
Next: runtime.py, then loop.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minbert.commands.files import write_json, write_tensors

STATE_FILE = "state.json"


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], state: dict) -> None:
    """Write a checkpoint of step state["step"] and drop the one before.

    Files in `folder` that state["keep"] lists (the best model so far) stay.
    """
    folder = Path(folder)
    stem = f"step-{state['step']:08d}"
    standing = (
        (folder / STATE_FILE).read_text(encoding="utf-8") if (folder / STATE_FILE).is_file() else ""
    )
    # The same step may be saved twice, before and after its evaluation: never over the file that counts until then.
    file_name = (
        f"{stem}-again.safetensors"
        if f'"{stem}.safetensors"' in standing
        else f"{stem}.safetensors"
    )
    write_tensors(folder / file_name, tensors)
    write_json(folder / STATE_FILE, {**state, "tensors": file_name})
    for old in (
        *folder.glob("*.safetensors"),
        *folder.glob(".*.writing"),
    ):  # what a kill left half-written too
        if old.name not in (file_name, *state.get("keep", ())):
            old.unlink()


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict] | None:
    """The tensors and the state of the last complete checkpoint in `folder`, or None where there is none yet."""
    path = Path(folder) / STATE_FILE
    if not path.is_file():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        # copies: what goes on with a view of the file, as moments do, would hold its place on the disk
        tensors = {
            name: tensor.clone()
            for name, tensor in load_file(path.with_name(state["tensors"])).items()
        }
        for name in state.get("keep", ()):
            path.with_name(name).stat()
        return tensors, state
    except (ValueError, KeyError, TypeError, OSError, SafetensorError) as error:
        raise ValueError(
            f"{folder}: the checkpoint cannot be read ({error}). Delete that folder to start this stage "
            "anew."
        ) from error


def group_of(group: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors stored as "group.name", by name: several groups share one file."""
    return {
        name.removeprefix(group + "."): t
        for name, t in tensors.items()
        if name.startswith(group + ".")
    }


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict]:
    """An optimizer's state as (tensors, JSON content)."""
    stored = optimizer.state_dict()
    tensors, numbers = {}, {}
    for index, values in stored["state"].items():
        tensors |= {
            f"{index}.{key}": value for key, value in values.items() if torch.is_tensor(value)
        }
        numbers[str(index)] = {
            key: value for key, value in values.items() if not torch.is_tensor(value)
        }
    return tensors, {"numbers": numbers, "groups": stored["param_groups"]}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], content: dict
) -> None:
    """Put back what `pack_optimizer` returned."""
    state: dict[int, dict] = {
        int(index): dict(values) for index, values in content["numbers"].items()
    }
    for name, tensor in tensors.items():
        index, key = name.split(".")
        state[int(index)][key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": content["groups"]})
