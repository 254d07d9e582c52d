"""Pretrained weights: how they are named, how they are read, and a report of what was loaded.

One table translates our parameter names to Hugging Face's. It is used in both directions.
Next: pooling.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from minbert import adapters, hub
from minbert.adapters import StoredTensor, check_type
from minbert.commands.digests import check_recorded, recording
from minbert.commands.files import read_json, write_tensors
from minbert.config import BertConfig
from minbert.families import FAMILIES
from minbert.hub import first_line
from minbert.weight_files import (
    choose_weights,
    describe_weights,
    find_adapter,
    list_weights,
    names_in,
    unread_files,
)

# A layer's number in Hugging Face's names, and in ours.
THEIR_LAYER = re.compile(r"(?:encoder|transformer)\.layer\.(\d+)\.")
OUR_LAYER = re.compile(r"layers\.(\d+)\.")

# Ours -> Hugging Face's for a BERT. {i} is the layer's number.
NAME_TABLE = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.segment": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "layers.{i}.attention.query": "encoder.layer.{i}.attention.self.query",
    "layers.{i}.attention.key": "encoder.layer.{i}.attention.self.key",
    "layers.{i}.attention.value": "encoder.layer.{i}.attention.self.value",
    "layers.{i}.attention.output": "encoder.layer.{i}.attention.output.dense",
    "layers.{i}.attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
    "layers.{i}.feed_forward.up": "encoder.layer.{i}.intermediate.dense",
    "layers.{i}.feed_forward.down": "encoder.layer.{i}.output.dense",
    "layers.{i}.feed_forward_norm": "encoder.layer.{i}.output.LayerNorm",
    "pooler": "pooler.dense",
}

# Each family's names: BERT's, with its own in their place.
NAME_TABLES = {key: NAME_TABLE | family.names for key, family in FAMILIES.items()}

# Wrappers put these before each name: DataParallel, peft, torch.compile, a model with a head.
WRAPPERS = ("module.", "base_model.", "model.", "_orig_mod.")
PREFIXES = tuple(dict.fromkeys([*WRAPPERS, *(family.prefix for family in FAMILIES.values())]))

# Training scripts often store the weights under one of these, beside the optimizer's state.
NESTED_KEYS = ("state_dict", "model_state_dict", "model")

# A large file's stand-in, which git leaves where Git LFS is not installed.
LFS_POINTER = b"version https://git-lfs"

# What an encoder may have beyond twice its stored numbers: a pooler, and mistakes that are told
# more exactly later.
MARGIN = 10_000_000
MARGIN_OF_LAYERS = 100


class Encoder(Protocol):
    """The part of a BertModel that this file reads. bert.py imports this file, not the reverse."""

    config: BertConfig

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Give each parameter with its name."""


@dataclass(frozen=True)
class LoadReport:
    """The result of `load`, by Hugging Face's names."""

    # The folder that was read.
    source: str

    # The number of parameters that were copied.
    num_loaded: int

    # Parameters that the file lacks.
    missing: tuple[str, ...]

    # Tensors of the file that belong to no parameter.
    ignored: tuple[str, ...]

    # The base of an adapter that was merged into the parameters.
    adapter_base: str | None = None

    # Files of weights in the folder that were not read.
    unread: tuple[str, ...] = ()

    # Modules that the config of the adapter names, and that it leaves as they are.
    unchanged: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.describe()

    def describe(self, pooling: str = "") -> str:
        """Say in one line what was read. pooling: of the sentence vector, "" if it is not known.

        `load` lets only the pooler be missing, and only --pooling pooler reads it.
        """
        missing = ""
        about_pooler = ""
        if not self.missing:
            missing = ", 0 missing"
        elif pooling in ("", "pooler"):
            about_pooler = "; it holds no pooler, so the pooler starts with random weights"
        else:
            about_pooler = f"; it holds no pooler, which --pooling {pooling} does not need"
        ignored = f" ({', '.join(self.ignored)})" if self.ignored else ""
        text = (
            f"{self.source}: {self.num_loaded} tensors loaded{missing}, "
            f"{len(self.ignored)} ignored{ignored}{about_pooler}"
        )
        if self.adapter_base is not None:
            place = "in" if self.adapter_base == self.source else f"into {self.adapter_base}"
            text += f"; its LoRA adapter is merged {place}"
        if self.unchanged:
            text += (
                f"; it holds nothing for {len(self.unchanged)} of the matrices that its config "
                f"names, which stay as they are (the first: {self.unchanged[0]})"
            )
        if self.unread:
            text += f"; not read: {', '.join(self.unread)}"
        return text


# --- names ----------------------------------------------------------------------------------------


def to_hugging_face(name: str, model_type: str = "bert") -> str:
    """Translate our parameter name to Hugging Face's; KeyError for a name not in the table.

    model_type: a key of config.FAMILIES.
    """
    table = NAME_TABLES[model_type]
    module, _, kind = name.rpartition(".")
    layer = OUR_LAYER.match(module)
    if layer is None:
        return f"{table[module]}.{kind}"
    template = module.replace(layer.group(), "layers.{i}.", 1)
    return f"{table[template]}.{kind}".replace("{i}", layer.group(1))


def modernise(name: str) -> str:
    """Translate a stored name to today's form.

    TensorFlow's gamma and beta become weight and bias. All of PREFIXES are removed.
    """
    prefix = _prefix_of(name)
    while prefix:
        name = name.removeprefix(prefix)
        prefix = _prefix_of(name)
    name = re.sub(r"\.beta$", ".bias", name)
    return re.sub(r"\.gamma$", ".weight", name)


def _prefix_of(name: str) -> str:
    """Find the one of PREFIXES with which a name begins, or an empty text."""
    return next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")


# --- files ----------------------------------------------------------------------------------------


def read_tensors(folder: str | Path) -> dict[str, Tensor]:
    """Read all tensors of a folder by their stored names, those of an adapter apart.

    They are in model.safetensors, in shards that model.safetensors.index.json lists, or else in
    pytorch_model.bin or its shards. Where only a variant is there, such as model.fp16.safetensors,
    it is read. Objects are never unpickled, since that can run code. Raises ValueError for a file
    that is missing, damaged, or holds other things than tensors.
    """
    folder = Path(folder)
    source = choose_weights(names_in(folder))
    if source is None:
        raise ValueError(
            f"{folder}: neither model.safetensors nor pytorch_model.bin in it (nor an index of "
            f"shards); one must hold the weights. {describe_weights(list_weights(folder))}"
        )
    if not source.endswith(".json"):
        return _read_table(folder / source)
    tensors = {}
    for shard in _shards_of(folder / source):
        tensors.update(_read_table(shard))
    return tensors


def _shards_of(index: Path) -> list[Path]:
    """List the files that an index names; ValueError if it is damaged or a file is missing."""
    try:
        weight_map = read_json(index)["weight_map"]
        names = sorted(set(weight_map.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{index}: not an index of shards with a weight_map ({error}). Fetch it again."
        ) from error
    for name in names:
        # A shard lies beside its index, never elsewhere on the disk.
        is_plain_name = isinstance(name, str) and Path(name).name == name
        if not is_plain_name or not (index.parent / name).is_file():
            raise ValueError(
                f"{index}: names the shard '{name}', which is not beside it. Fetch all shards of "
                "the model."
            )
    return [index.parent / name for name in names]


def _read_table(path: Path) -> dict[str, Tensor]:
    """Read one file of weights; ValueError if it is not a table from names to tensors."""
    content = _open_weights(path)
    for key in NESTED_KEYS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    is_table = isinstance(content, dict)
    if not is_table or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise ValueError(
            f"{path}: not a table from names to tensors. Store what model.state_dict() returns."
        )
    return content


def _open_weights(path: Path) -> Any:
    """Read a file of weights as it is; ValueError if it is damaged or holds objects."""
    check_recorded(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        _check_no_pointer(path)
        raise ValueError(
            f"{path}: cannot be read ({first_line(error)}): cut short or damaged. Fetch it again."
        ) from error
    except Exception as error:
        # The name is compared, so that nothing here imports pickle.
        if type(error).__name__ != "UnpicklingError":
            raise
        _check_no_pointer(path)
        raise ValueError(
            f"{path}: holds more than tensors, or is damaged; it is not unpickled, since that "
            "could run code. Convert it to model.safetensors."
        ) from error


def _check_no_pointer(path: Path) -> None:
    """Raise ValueError if a file that cannot be read is a pointer of Git LFS."""
    try:
        with open(path, "rb") as file:
            is_pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return
    if is_pointer:
        raise ValueError(
            f"{path}: holds no weights, but a pointer of Git LFS to them. Run `git lfs pull` where "
            "the model was cloned."
        )


def read_by_name(folder: str | Path) -> dict[str, StoredTensor]:
    """Read all tensors of a folder by their names in today's form, as `modernise` makes it.

    An adapter in the folder is merged into its base, which may stand elsewhere. Raises ValueError
    as `read_tensors` and `adapters.merge`, and if two different tensors have the same name.
    """
    folder = Path(folder)
    path = find_adapter(folder)
    if path is None:
        return _by_name(read_tensors(folder), folder)
    base = hub.base_of(folder)
    stored = _by_name(read_tensors(folder), folder) if base == folder else read_by_name(base)
    config = adapters.read_adapter(folder)
    return adapters.merge(stored, _by_name(_read_table(path), folder), config, path)


def _by_name(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, StoredTensor]:
    """Give each tensor today's name; ValueError if two different ones have the same."""
    stored: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        entry = StoredTensor(name, tensor)
        first = stored.setdefault(modernise(name), entry)
        if first is not entry and not _are_equal(first.tensor, tensor):
            raise ValueError(
                f"{folder}: the weights hold '{first.name}' and '{name}', which are two names for "
                "one tensor, with different values. Delete the one that is not meant."
            )
    return stored


def _are_equal(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors have one type, one shape and equal values."""
    return first.dtype == second.dtype and torch.equal(first, second)


def check_size(config: BertConfig, stored: Mapping[str, StoredTensor], folder: str | Path) -> None:
    """Raise ValueError if config.json describes a far larger encoder than the weights hold.

    A damaged number there would otherwise take all memory, or hours, before `load` compares the
    shapes.
    """
    num_stored = sum(entry.tensor.numel() for entry in stored.values())
    too_many = config.num_parameters > 2 * num_stored + MARGIN
    if not too_many and config.num_hidden_layers <= len(stored) + MARGIN_OF_LAYERS:
        return
    raise ValueError(
        f"{folder}: config.json describes {config.num_hidden_layers:,} layers and "
        f"{config.num_parameters:,} parameters, and the weights hold {num_stored:,} numbers in "
        f"{len(stored)} tensors. The two do not belong together, or one of them is damaged."
    )


def load(
    model: Encoder, folder: str | Path, stored: Mapping[str, StoredTensor] | None = None
) -> LoadReport:
    """Copy stored tensors into the parameters of `model`, whatever their floating dtype.

    Only the pooler may be missing, because a masked language model has none. Any other gap is a
    ValueError, and so is a tensor of another shape. The model then stays as it was.
    stored: what `read_by_name` returned for the folder, if it was called before.
    """
    if stored is None:
        stored = read_by_name(folder)
    family = model.config.model_type
    parameters = {to_hugging_face(name, family): p for name, p in model.named_parameters()}

    missing = tuple(name for name in parameters if name not in stored)
    ignored = tuple(entry.name for name, entry in stored.items() if name not in parameters)
    _check_layers(list(stored), model.config.num_hidden_layers, folder)
    if len(missing) == len(parameters):
        first_names = ", ".join(f"'{entry.name}'" for entry in list(stored.values())[:3])
        raise ValueError(
            f"{folder}: none of the {len(parameters)} tensors of a {family} is in its weights. "
            f"Their names begin with {first_names or 'nothing: there are none'}; expected are "
            f"names such as '{missing[0]}', alone or behind {', '.join(PREFIXES)}."
        )
    if any(not name.startswith("pooler.") for name in missing):
        raise ValueError(
            f"{folder}: {len(missing)} of {len(parameters)} tensors are missing, first "
            f"'{missing[0]}'; config.json and the weights do not belong together, or this is not "
            f"a {family}."
        )

    present = {name: p for name, p in parameters.items() if name in stored}
    tensors = {name: entry.tensor for name, entry in stored.items()}
    copy_tensors(present, tensors, folder)
    folder = Path(folder)
    base = hub.base_of(folder)
    unread = unread_files(folder, is_base_elsewhere=base != folder)
    report = LoadReport(str(folder), len(present), missing, ignored, unread=unread)
    if find_adapter(folder) is None:
        return report
    unchanged = adapters.unchanged_targets(adapters.read_adapter(folder), stored)
    return replace(report, adapter_base=str(base), unchanged=tuple(unchanged))


def _check_layers(names: Sequence[str], num_layers: int, folder: str | Path) -> None:
    """Raise ValueError if weights hold more layers than config.json says.

    The layers beyond would be ignored in silence, and the model would be another one.
    """
    for name in names:
        layer = THEIR_LAYER.match(name)
        if layer and int(layer[1]) >= num_layers:
            raise ValueError(
                f"{folder}: the weights hold '{name}', and config.json says {num_layers} layers. "
                "The two do not belong together."
            )


@torch.no_grad()
def copy_tensors(
    parameters: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: str | Path
) -> None:
    """Copy the stored tensors into the parameters of the same names.

    folder: for the message. Raises ValueError if a shape differs, or if the stored numbers are not
    of PLAIN_TYPES. All parameters then stay as they were.
    """
    for name, parameter in parameters.items():
        check_type(name, stored[name], folder)
        if stored[name].shape != parameter.shape:
            raise ValueError(
                f"{folder}: '{name}' has shape {tuple(stored[name].shape)}; config.json asks for "
                f"{tuple(parameter.shape)}. config.json and the weights do not belong together."
            )
    for name, parameter in parameters.items():
        parameter.copy_(stored[name])


def save(model: Encoder, folder: str | Path, left_out: Sequence[str] = ()) -> None:
    """Write `folder`/model.safetensors in float32 under Hugging Face's names.

    left_out: Hugging Face's names of parameters that are not written. Raises ValueError for a
    folder with an adapter, which would be merged once more when the folder is opened.
    """
    if find_adapter(Path(folder)) is not None:
        raise ValueError(
            f"{folder}: holds an adapter, which would change the saved weights once more when "
            "they are opened. Save them into another folder."
        )
    tensors = {}
    for name, parameter in model.named_parameters():
        their_name = to_hugging_face(name, model.config.model_type)
        if their_name not in left_out:
            tensors[their_name] = parameter.detach().float()
    path = Path(folder) / "model.safetensors"
    with recording(path.parent) as digests:
        digests[path.name] = write_tensors(path, tensors)
