"""Folders of sentence-transformers: the modules between an encoder's output and a sentence vector.

modules.json lists them. The first is the encoder, and the next one pools. Linear layers (Dense) and
Normalize may follow. What cannot be computed here is refused by its name.

B rows, T tokens, H hidden, V size of a vector.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minbert import weights
from minbert.bert import BertOutput
from minbert.commands.digests import check_recorded
from minbert.commands.files import read_json
from minbert.config import BertConfig
from minbert.pooling import POOLINGS, SENTENCE_POOLINGS, pooling_modes, stored_pooling


def keep(vectors: Tensor) -> Tensor:
    """Give the vectors as they are."""
    return vectors


ENCODERS = ("Transformer", "BERT")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Tanh": torch.tanh,
    "Identity": keep,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "Sigmoid": torch.sigmoid,
}


@dataclass(frozen=True)
class SentenceFolder:
    """A folder of sentence-transformers, read by `read_sentence_folder`."""

    # The folder that holds the encoder and its tokenizer.
    encoder: Path

    # Keys of SENTENCE_POOLINGS. The vectors of several are joined.
    poolings: tuple[str, ...]

    # The modules after the pooling, each from (B, V) to (B, V'), and their names.
    steps: tuple[Callable[[Tensor], Tensor], ...]
    step_names: tuple[str, ...]

    # The most tokens of a row, or None where the folder does not say.
    max_length: int | None

    # Whether text is lower-cased before the tokenizer's own rules.
    lowercases: bool

    # Put before each sentence. Often empty.
    prompt: str

    # How many units of a vector are kept, or None for all.
    truncate_dim: int | None

    # Other texts that may be put before a sentence, by name, such as "query".
    prompts: dict[str, str]

    # Whether the tokens of a prompt take part in the pooling.
    includes_prompt: bool

    # How two vectors are compared: "cosine", "dot", "euclidean" or "manhattan".
    similarity: str

    @property
    def pooling(self) -> str:
        """The name of the pooling. Several are joined by a plus sign."""
        return "+".join(self.poolings)

    @property
    def is_plain(self) -> bool:
        """Whether a pooling of ours gives its vectors, their length apart."""
        is_simple = self.pooling in POOLINGS and not self.prompt and self.truncate_dim is None
        return is_simple and all(name == "Normalize" for name in self.step_names)

    @property
    def digest(self) -> str:
        """SHA-256 of everything here that changes a vector, weights of modules included."""
        settings = [self.poolings, self.step_names, self.lowercases, self.prompt, self.truncate_dim]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for step in self.steps:
            for value in getattr(step, "keywords", {}).values():
                if isinstance(value, Tensor):
                    digest.update(value.numpy().tobytes())
                else:
                    digest.update(getattr(value, "__name__", str(value)).encode())
        return digest.hexdigest()

    def read(self, output: BertOutput, attention_mask: Tensor) -> dict[str, Tensor]:
        """Make the sentence vectors: hidden states (B, T, H) and the mask (B, T) -> (B, V)."""
        hidden_states = output.last_hidden_state
        parts = [SENTENCE_POOLINGS[name](hidden_states, attention_mask) for name in self.poolings]
        vectors = torch.cat(parts, dim=-1)  # (B, V)
        for step in self.steps:
            vectors = step(vectors)
        return {"vectors": vectors[:, : self.truncate_dim]}


def read_sentence_folder(folder: Path) -> SentenceFolder | None:
    """Read the modules of a folder, or None if it has no modules.json.

    Raises ValueError for a damaged file, and for a module or a setting that is not computed here.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return None
    modules = _read_json(path)
    if not isinstance(modules, list) or len(modules) < 2:
        raise ValueError(f"{path}: not a list of an encoder and a pooling. Fetch the model again.")
    kinds = [_kind_of(path, module) for module in modules]
    folders = [folder / str(module.get("path", "")) for module in modules]
    if kinds[0] not in ENCODERS or kinds[1] != "Pooling":
        raise ValueError(
            f"{path}: its first modules are {kinds[0]} and {kinds[1]}; expected are Transformer "
            "and Pooling, the only ones that are computed here."
        )

    settings = _read_json(folder / "config_sentence_transformers.json")
    prompt = _prompt_of(folder, settings)
    pooling_settings = _read_json(folders[1] / "config.json")
    includes_prompt = bool(pooling_settings.get("include_prompt", True))
    if prompt and not includes_prompt:
        raise ValueError(
            f"{folders[1] / 'config.json'}: include_prompt is false, so the tokens of the prompt "
            "are left out of the pooling. This is not computed here."
        )
    steps = []
    for kind, module_folder in zip(kinds[2:], folders[2:], strict=True):
        steps.append(_step_of(kind, module_folder))
    encoder_settings = _read_json(folders[0] / "sentence_bert_config.json")
    return SentenceFolder(
        encoder=folders[0],
        poolings=pooling_modes(folders[1] / "config.json"),
        steps=tuple(steps),
        step_names=tuple(kinds[2:]),
        max_length=_max_length_of(folders[0], encoder_settings),
        lowercases=bool(encoder_settings.get("do_lower_case")),
        prompt=prompt,
        truncate_dim=settings.get("truncate_dim"),
        prompts=settings.get("prompts") or {},
        includes_prompt=includes_prompt,
        similarity=settings.get("similarity_fn_name") or "cosine",
    )


def unused_parts(folder: Path) -> list[str]:
    """What a sentence-transformers folder adds to its encoder and pooling, for a message.

    Whoever takes the encoder alone, as training does, leaves these out. Normalize is not named,
    because it changes no cosine. The list is empty for a folder of another kind, and for one with
    sentence.json, whose modules belong to an export of ours.
    """
    path = folder / "modules.json"
    if not path.is_file() or stored_pooling(folder) is not None:
        return []
    kinds = [str(module.get("type")).rpartition(".")[2] for module in _read_json(path)]
    parts = [f"the module {kind}" for kind in kinds[2:] if kind not in ("Normalize", "Dropout")]
    settings = _read_json(folder / "config_sentence_transformers.json")
    if settings.get("default_prompt_name") is not None:
        parts.append(f"the prompt '{settings['default_prompt_name']}'")
    if settings.get("truncate_dim") is not None:
        parts.append(f"truncate_dim {settings['truncate_dim']}")
    if _read_json(folder / "sentence_bert_config.json").get("do_lower_case"):
        parts.append("do_lower_case of sentence_bert_config.json")
    return parts


def note_for_training(folder: Path) -> str | None:
    """Say which parts of a sentence-transformers folder a training leaves out, or None."""
    parts = unused_parts(folder)
    if not parts:
        return None
    return (
        f"note: {folder} is a model of sentence-transformers. This run trains its encoder alone "
        f"and leaves out {', '.join(parts)}, so it does not start from the vectors of the whole "
        "model"
    )


def _read_json(path: Path) -> Any:
    """Read a JSON file, or an empty table where there is none."""
    if not path.is_file():
        return {}
    check_recorded(path)
    try:
        return read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}). Fetch the model again.") from error


def _kind_of(path: Path, module: Any) -> str:
    """The last part of a module's type; ValueError for one that is not of sentence-transformers."""
    name = module.get("type") if isinstance(module, dict) else None
    if not isinstance(name, str) or not name.startswith("sentence_transformers."):
        raise ValueError(
            f"{path}: the module {name!r} is not one of sentence-transformers; its code is never "
            "run here. Use a model without it."
        )
    return name.rpartition(".")[2]


def _prompt_of(folder: Path, settings: dict[str, Any]) -> str:
    """The text that stands before each sentence by default."""
    name = settings.get("default_prompt_name")
    if name is None:
        return ""
    prompts = settings.get("prompts") or {}
    if name not in prompts:
        raise ValueError(
            f"{folder / 'config_sentence_transformers.json'}: default_prompt_name is '{name}'; "
            f"the prompts are {', '.join(prompts) or 'none'}. Correct the file."
        )
    return prompts[name]


def _max_length_of(encoder: Path, settings: dict[str, Any]) -> int | None:
    """The most tokens of a row: that of the folder, or of its tokenizer."""
    length = settings.get("max_seq_length")
    if length is None:
        length = _read_json(encoder / "tokenizer_config.json").get("model_max_length")
    if length is None:
        return None
    # Without a limit, transformers writes a huge number.
    return int(min(length, BertConfig.from_pretrained(encoder).num_positions))


# --- the modules after the pooling ----------------------------------------------------------------


def _step_of(kind: str, folder: Path) -> Callable[[Tensor], Tensor]:
    """The function of a module after the pooling; ValueError for one that is not known here."""
    if kind == "Dense":
        return _dense_of(folder)
    if kind == "Normalize":
        return partial(F.normalize, p=2, dim=-1)
    if kind == "Dropout":
        return keep  # these models are only read
    raise ValueError(
        f"{folder}: the module {kind} is not computed here; known are Dense and Normalize. Use "
        "sentence-transformers for this model."
    )


def _dense_of(folder: Path) -> Callable[[Tensor], Tensor]:
    """A linear layer with its activation."""
    settings = _read_json(folder / "config.json")
    name = str(settings.get("activation_function", "Tanh")).rpartition(".")[2]
    has_own_names = settings.get("module_input_name", "sentence_embedding") != "sentence_embedding"
    if name not in ACTIVATIONS or settings.get("use_residual") or has_own_names:
        raise ValueError(
            f"{folder}: this Dense module has the activation {name}, use_residual "
            f"{settings.get('use_residual', False)} and the input "
            f"{settings.get('module_input_name', 'sentence_embedding')}. Computed here are "
            f"{', '.join(ACTIVATIONS)}, without a residual, on sentence_embedding."
        )
    tensors = weights.read_tensors(folder)
    if "linear.weight" not in tensors:
        raise ValueError(f"{folder}: no linear.weight in this Dense module. Fetch it again.")
    weight = tensors["linear.weight"].float()  # (V', V)
    bias = tensors.get("linear.bias")  # (V',)
    return partial(_dense, weight=weight, bias=bias, activation=ACTIVATIONS[name])


def _dense(
    vectors: Tensor, weight: Tensor, bias: Tensor | None, activation: Callable[[Tensor], Tensor]
) -> Tensor:
    """Transform vectors: (B, V) -> (B, V')."""
    bias = None if bias is None else bias.float().to(vectors.device)
    return activation(F.linear(vectors, weight.to(vectors.device), bias))  # (B, V')
