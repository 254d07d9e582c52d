"""Which files of a folder hold its weights, by their names.

The names are those of transformers and peft. Of a folder without weights that can be read here, a
message names those that lie in it. hub.py asks for the files of a hub model, weights.py for those
of a folder. Next: hub.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minbert.commands.digests import check_recorded
from minbert.commands.files import read_json

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")

# In the order in which transformers looks for them. An index names the shards of a large model.
INDEX = ".index.json"
WEIGHT_SOURCES = (
    "model.safetensors",
    f"model.safetensors{INDEX}",
    "pytorch_model.bin",
    f"pytorch_model.bin{INDEX}",
)

# Only a part of the numbers is kept in full precision, or none. model.fp16.safetensors is one.
VARIANT = re.compile(
    r"(?:model|pytorch_model)\.(\w+)\.(?:safetensors|bin)"
    r"|(?:model\.safetensors|pytorch_model\.bin)\.index\.(\w+)\.json"
)

# The files of an adapter, as peft names them.
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")

# Endings of files of weights, and the program that reads each.
FORMATS = {
    ".safetensors": "PyTorch",
    ".bin": "PyTorch",
    ".pt": "PyTorch",
    ".pth": "PyTorch",
    ".ckpt": "PyTorch Lightning",
    ".h5": "TensorFlow",
    ".keras": "TensorFlow",
    ".index": "TensorFlow 1",
    ".tflite": "TensorFlow Lite",
    ".msgpack": "Flax",
    ".onnx": "ONNX",
    ".gguf": "GGUF",
    ".ot": "Rust",
    ".xml": "OpenVINO",
    ".mlmodel": "Core ML",
}

# Files of a training run with these endings, which hold no weights of a model.
NO_WEIGHTS = re.compile(r"(optimizer|scheduler|scaler|training_args|rng_state.*)\.(bin|pt|pth)")

# A part of a large model, and the names that adapters have.
SHARD = re.compile(r".+-\d+-of-(\d+)\.(safetensors|bin)")
ADAPTER = re.compile(r"(.*_)?(adapter|lora)([_.-].*)?\.(safetensors|bin|pt|pth)", re.IGNORECASE)


def choose_weights(names: Iterable[str]) -> str | None:
    """Choose the file of weights, or the index of shards, of a folder with these names.

    A variant, such as model.fp16.safetensors, is chosen where it is the only one and no usual name
    is there. None where nothing can be chosen.
    """
    names = set(names)
    for source in WEIGHT_SOURCES:
        if source in names:
            return source
    variants: dict[str, list[str]] = {}
    for name in names:
        match = VARIANT.fullmatch(name)
        if match:
            variants.setdefault(match[1] or match[2], []).append(name)
    if len(variants) != 1:
        return None
    (only,) = variants.values()
    return min(only, key=lambda name: (".bin" in name, name))


def names_in(folder: Path) -> list[str]:
    """The names of the files in a folder. Empty where there is no folder."""
    return sorted(path.name for path in folder.glob("*") if path.is_file())


def weights_among(names: Iterable[str]) -> list[str]:
    """Those names that are files of weights, of any format."""
    chosen = []
    for name in names:
        path = Path(name)
        if path.suffix.lower() in FORMATS and not NO_WEIGHTS.fullmatch(path.name):
            chosen.append(name)
    return chosen


def list_weights(folder: Path) -> list[str]:
    """The files of weights in a folder and one level below it, of any format, by their names."""
    inner = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
    return weights_among([*names_in(folder), *inner])


def unread_files(folder: Path, is_base_elsewhere: bool = False) -> tuple[str, ...]:
    """Files of weights in a folder that `read_tensors` and the adapter beside it leave alone.

    is_base_elsewhere: whether the adapter alone is read, and the weights of another folder.
    Adapters one level below count, too. Other folders hold the weights of other modules.
    """
    source = None if is_base_elsewhere else choose_weights(names_in(folder))
    adapter = find_adapter(folder)
    read = {source, None if adapter is None else adapter.name}
    names = []
    for name in list_weights(folder):
        is_shard = source is not None and source.endswith(".json") and SHARD.fullmatch(name)
        is_near = "/" not in name or Path(name).name in ADAPTER_WEIGHTS
        if name not in read and is_near and not is_shard:
            names.append(name)
    return tuple(names)


def read_adapter_config(folder: Path) -> dict[str, Any]:
    """Read adapter_config.json of a folder.

    Raises ValueError if it is no table of named values, and for another kind of adapter than LoRA,
    which the message names.
    """
    path = folder / ADAPTER_CONFIG
    check_recorded(path)
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: not JSON ({error}). Fetch the adapter again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a table of named values. Fetch the adapter again.")
    kind = content.get("peft_type")
    # An adapter that stands alone leaves no model behind.
    has_model = choose_weights(names_in(folder)) is not None
    advice = "Move it and its weights elsewhere to open the model without it." if has_model else ""
    if kind is None:
        raise ValueError(
            f"{path}: has no peft_type, so it is no adapter of peft. Other adapters are not "
            f"applied here. {advice}".rstrip()
        )
    if kind != "LORA":
        raise ValueError(
            f"{path}: peft_type is '{kind}'. Only LoRA adapters can be merged into the weights "
            f"here, and peft applies this one. {advice}".rstrip()
        )
    return content


def find_adapter(folder: Path) -> Path | None:
    """Find the weights of an adapter in a folder, or None where there is no adapter.

    Raises ValueError for weights without the adapter_config.json that explains them, for the
    reverse, and for another kind of adapter than LoRA.
    """
    has_config = (folder / ADAPTER_CONFIG).is_file()
    if not has_config:
        names = [name for name in names_in(folder) if ADAPTER.fullmatch(name)]
        if names:
            raise ValueError(
                f"{folder}: {names[0]} seems to be an adapter, and there is no {ADAPTER_CONFIG}, "
                "which says how it changes the model. Fetch that file, too, or move the adapter "
                "elsewhere to open the model without it."
            )
        return None
    read_adapter_config(folder)
    for name in ADAPTER_WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise ValueError(
        f"{folder}: {ADAPTER_CONFIG} describes an adapter, and neither of its weights "
        f"({' or '.join(ADAPTER_WEIGHTS)}) is there. Fetch them, too, or move {ADAPTER_CONFIG} "
        "elsewhere to open the model without the adapter."
    )


def describe_weights(names: Sequence[str]) -> str:
    """Say which files of weights are there instead of readable ones, and what to do.

    names: of files of weights, as `list_weights` gives them.
    """
    if not names:
        return "It holds no weights of any kind. Fetch model.safetensors of this model."
    return f"It holds {listed(names)}. {_advice_on(names)}"


def listed(names: Sequence[str]) -> str:
    """The first names of files of weights, with the programs that read them."""
    shown = []
    for name in names[:6]:
        shown.append(f"{name} ({_format_of(name)})")
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _format_of(name: str) -> str:
    """The program that reads a file of weights. OpenVINO's have PyTorch's ending."""
    if Path(name).name.startswith("openvino_"):
        return "OpenVINO"
    return FORMATS[Path(name).suffix.lower()]


def _advice_on(names: Sequence[str]) -> str:
    """What to do with files of weights that are not read."""
    outer = [name for name in names if "/" not in name]
    pytorch = [name for name in outer if _format_of(name) == "PyTorch"]
    readable = [name for name in pytorch if name.endswith((".safetensors", ".bin"))]
    shards = [name for name in readable if SHARD.fullmatch(name)]
    if shards:
        index = f"{'model.safetensors' if shards[0].endswith('s') else 'pytorch_model.bin'}{INDEX}"
        return f"These are shards. Fetch the index that lists them, too: {index}."
    if len(readable) > 1:
        return f"Rename the one that is meant to {WEIGHT_SOURCES[0]} or {WEIGHT_SOURCES[2]}."
    if readable:
        new_name = "model.safetensors" if readable[0].endswith("s") else "pytorch_model.bin"
        return f"If this is the whole model, rename it to {new_name}."
    inner = [name for name in names if name.endswith(WEIGHT_SOURCES)]
    if inner:
        return f"Give the folder {inner[0].rpartition('/')[0]} in it, if that is the model."
    formats = {_format_of(name) for name in outer}
    for library, switch in (("TensorFlow", "from_tf"), ("Flax", "from_flax")):
        if library in formats:
            return (
                f"Fetch model.safetensors of this model, or write it with transformers 4 and "
                f"{library}: AutoModel.from_pretrained(FOLDER, {switch}=True)"
                ".save_pretrained(FOLDER)."
            )
    return "This format is not read. Fetch model.safetensors of this model."
