"""LoRA adapters of peft, merged into the matrices of their base model (Hu et al. 2021).

An adapter leaves a trained matrix W (O, I) as it is and stores a small change beside it:

    W' = W + s B A,   s = alpha / r

with A (r, I) and B (O, r). rsLoRA has s = alpha / sqrt(r) (Kalajdzievski 2023). DoRA gives each row
of W' a stored length (Liu et al. 2024). Whole tensors, such as biases, may be stored, too. They
replace those of the base. Compare with merge_and_unload of peft.

O outputs, I inputs, r rank. Next: weights.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minbert.weight_files import ADAPTER_CONFIG, read_adapter_config

# Other types hold quantised numbers, which mean nothing without their scales.
PLAIN_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

# Keys of adapter_config.json that say how the matrices are merged, and which.
READ_KEYS = (
    "r",
    "lora_alpha",
    "use_rslora",
    "use_dora",
    "rank_pattern",
    "alpha_pattern",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "lora_bias",
    "modules_to_save",
)

# Keys that change nothing here, because they are about training or because the tensors say it.
OTHER_KEYS = (
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    # For layers whose matrices are stored the other way round. A BERT has none.
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
)

# Values of init_lora_weights that leave the base as it is. Others, such as pissa, change it.
NEUTRAL_STARTS = (None, True, False, "gaussian", "eva", "orthogonal", "lora_ga")

# The tensors of a changed module, behind its name. A name of the adapter may stand between.
PART = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_embedding_A|lora_embedding_B"
    r"|lora_magnitude_vector)(\.default)?(\.weight|(?P<bias>\.bias))?"
)

# The beginnings of names that belong to an encoder, and not to a head.
ENCODER_NAMES = ("embeddings", "encoder.", "transformer.", "pooler.")

# The most quantifiers in a pattern of adapter_config.json. More could take hours to compare.
MOST_QUANTIFIERS = 3

MERGE_ADVICE = (
    "Merge it once with peft, where that is installed: "
    "PeftModel.from_pretrained(AutoModel.from_pretrained(BASE), FOLDER)"
    ".merge_and_unload().save_pretrained(NEW)"
)


class StoredTensor(NamedTuple):
    """A tensor of a file, and the name under which the file holds it.

    is_merged: whether a LoRA adapter has changed it.
    """

    name: str
    tensor: Tensor
    is_merged: bool = False


@dataclass(frozen=True)
class AdapterConfig:
    """What adapter_config.json says about the merge. Raises ValueError for other values."""

    # The defaults are peft's.
    r: int = 8
    lora_alpha: float = 8
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False

    # Values of single modules, by a regular expression for their names.
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)

    # Which modules are changed: ends of their names, or a regular expression. None: all.
    target_modules: str | list[str] | None = None
    exclude_modules: str | list[str] | None = None
    layers_to_transform: int | list[int] | None = None
    layers_pattern: str | list[str] | None = None

    # Modules whose whole tensors are stored.
    modules_to_save: list[str] | None = None

    def __post_init__(self) -> None:
        for rank in (self.r, *self.rank_pattern.values()):
            if type(rank) is not int or rank < 1:
                raise ValueError(f"r is {rank!r}; a rank is a whole number from 1 on.")
        for alpha in (self.lora_alpha, *self.alpha_pattern.values()):
            if type(alpha) not in (int, float) or not math.isfinite(alpha):
                raise ValueError(f"lora_alpha is {alpha!r}; expected is a number.")
        for key in ("use_rslora", "use_dora", "lora_bias"):
            if type(getattr(self, key)) is not bool:
                raise ValueError(f"{key} is {getattr(self, key)!r}; expected is true or false.")
        for key in (*self.rank_pattern, *self.alpha_pattern):
            _check_pattern(key)
        self._check_targets()

    def _check_targets(self) -> None:
        """Raise ValueError if the settings that is_target reads have other types."""
        for key in ("target_modules", "exclude_modules", "layers_pattern", "modules_to_save"):
            names = getattr(self, key)
            is_list = isinstance(names, list) and all(type(name) is str for name in names)
            is_pattern = type(names) is str and key != "modules_to_save"
            if not (names is None or is_pattern or is_list):
                raise ValueError(f"{key} is {names!r}; expected are names of modules.")
        layers = self.layers_to_transform
        numbers = layers if isinstance(layers, list) else [layers or 0]
        if any(type(number) is not int for number in numbers):
            raise ValueError(f"layers_to_transform is {layers!r}; expected are whole numbers.")

    def rank_of(self, module: str) -> int:
        """The rank r of a module."""
        return _value_of(self.rank_pattern, module, self.r)

    def scale_of(self, module: str) -> float:
        """The factor s of a module."""
        alpha = _value_of(self.alpha_pattern, module, self.lora_alpha)
        rank = self.rank_of(module)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank

    def is_target(self, module: str) -> bool:
        """Whether the config says that a module is changed.

        module: its name in the adapter. Compare with check_target_module_exists of peft. A pattern
        that may take long is not compared: then every module is.
        """
        targets, excluded = self.target_modules, self.exclude_modules
        if excluded and _names(excluded, module, unknown=False):
            return False
        if targets is None or targets == "all-linear":
            return True
        if isinstance(targets, str) or module in targets or self.layers_to_transform is None:
            return _names(targets, module, unknown=True)
        return _names(targets, module, unknown=True) and self._is_in_layers(module)

    @property
    def shown_targets(self) -> str:
        """The settings that is_target reads, for a message."""
        settings = []
        for key in ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"):
            value = getattr(self, key)
            if value is not None:
                settings.append(f"{key} is {json.dumps(value)[:80]}")
        return ", ".join(settings)

    def _is_in_layers(self, module: str) -> bool:
        """Whether a module is in one of layers_to_transform."""
        layers = self.layers_to_transform
        numbers = layers if isinstance(layers, list) else [layers]
        patterns = self.layers_pattern or [r"[^.]*"]
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            match = re.match(rf"(?:^|.*?\.){pattern}\.(\d+)\.", module)
            if match is not None:
                return not numbers or int(match[1]) in numbers
        return not numbers


def _names(names: str | Sequence[str], module: str, unknown: bool) -> bool:
    """Whether a regular expression fits a module's name, or one of several names is its end.

    unknown: the answer for a regular expression that may take long.
    """
    if not isinstance(names, str):
        return any(module == name or module.endswith(f".{name}") for name in names)
    try:
        _check_pattern(names)
    except ValueError:
        return unknown
    return re.fullmatch(names, module) is not None


def _check_pattern(pattern: str) -> None:
    """Raise ValueError for a regular expression that is wrong, or may take long."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern '{pattern}' is no regular expression ({error}).") from error
    num_quantifiers = len(re.findall(r"[*+{]", pattern))
    if num_quantifiers > MOST_QUANTIFIERS or re.search(r"\)[*+{]", pattern):
        raise ValueError(
            f"the pattern '{pattern}' repeats a group or has more than {MOST_QUANTIFIERS} "
            "quantifiers, which may take hours to compare. Write the names of the modules."
        )


def _value_of(patterns: Mapping[str, Any], module: str, default: Any) -> Any:
    """The value of the first pattern that is the end of a module's name, as peft compares it."""
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return value
    return default


def read_adapter(folder: Path) -> AdapterConfig:
    """Read adapter_config.json.

    Raises ValueError for another kind of adapter than LoRA, and for a setting that changes the
    formula. The message names it.
    """
    path = folder / ADAPTER_CONFIG
    content = read_adapter_config(folder)
    for key, value in content.items():
        # A falsy value, such as null or {}, switches a key off.
        if value and key not in READ_KEYS and key not in OTHER_KEYS:
            raise ValueError(
                f"{path}: {key} is {json.dumps(value)[:80]}, which is not computed here. "
                f"{MERGE_ADVICE}"
            )
    if content.get("init_lora_weights") not in NEUTRAL_STARTS:
        raise ValueError(
            f"{path}: init_lora_weights is {json.dumps(content['init_lora_weights'])}, which "
            f"changes the base's own matrices before the merge. {MERGE_ADVICE}"
        )
    values = {key: content[key] for key in READ_KEYS if content.get(key) is not None}
    try:
        return AdapterConfig(**values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {error} Fetch the adapter again.") from error


def merge(
    base: Mapping[str, StoredTensor],
    adapter: Mapping[str, StoredTensor],
    config: AdapterConfig,
    path: Path,
) -> dict[str, StoredTensor]:
    """Merge the tensors of an adapter into those of its base, both by their names of today.

    path: of the adapter's weights, for messages. Raises ValueError for a tensor that belongs to
    another method, that the base lacks, or whose shape does not fit.
    """
    if not adapter:
        raise ValueError(
            f"{path}: holds no tensors, so it would change nothing. It was not saved whole. Fetch "
            "or save the adapter again."
        )
    check_saved(base, adapter, config, path)
    merged = dict(base)
    changes: dict[str, dict[str, StoredTensor]] = {}
    for name, entry in adapter.items():
        check_type(entry.name, entry.tensor, path)
        match = PART.fullmatch(name)
        if match is not None:
            changes.setdefault(match["module"], {})[match["part"] + (match["bias"] or "")] = entry
            continue
        target = _saved_name(name)
        if target not in base and target.startswith(ENCODER_NAMES):
            raise ValueError(
                f"{path}: '{entry.name}' is neither a tensor of the base model nor a part of a "
                f"LoRA adapter. {MERGE_ADVICE}"
            )
        # A whole tensor. It stands in place of the base's before anything is added to it.
        if "original_module" not in name:
            merged[target] = entry
    for module, parts in changes.items():
        if f"{module}.weight" in merged:
            merged.update(_changed(module, parts, merged, config, path))
        elif module.startswith(ENCODER_NAMES):
            raise ValueError(
                f"{path}: it changes '{module}', and the base has no such matrix. The adapter and "
                "the base do not belong together."
            )
        else:
            # A head that the base lacks. Nothing reads it, and the report names it.
            merged.update({entry.name: entry for entry in parts.values()})
    return merged


def check_saved(
    base: Mapping[str, StoredTensor],
    adapter: Mapping[str, StoredTensor],
    config: AdapterConfig,
    path: Path,
) -> None:
    """Raise ValueError for a module of modules_to_save that the base has and the adapter lacks."""
    for name in config.modules_to_save or ():
        part = f".{name}."
        is_in_base = any(part in f".{key}" for key in base)
        if is_in_base and not any(part in f".{_saved_name(key)}" for key in adapter):
            raise ValueError(
                f"{path}: holds no tensors of '{name}', which modules_to_save in {ADAPTER_CONFIG} "
                "names. The adapter was not saved whole. Fetch it again."
            )


def unchanged_targets(config: AdapterConfig, stored: Mapping[str, StoredTensor]) -> list[str]:
    """The modules of an encoder that the config names, and for which the adapter holds nothing.

    stored: what `merge` returned.
    """
    if config.target_modules in (None, "all-linear"):
        return []
    modules = []
    for name, entry in stored.items():
        is_matrix = name.endswith(".weight") and entry.tensor.dim() == 2
        is_of_encoder = name.startswith(("embeddings", "encoder.", "transformer."))
        module = entry.name.removesuffix(".weight")
        if is_matrix and is_of_encoder and not entry.is_merged and config.is_target(module):
            modules.append(module)
    return modules


def _saved_name(name: str) -> str:
    """The name in the base of a tensor that an adapter holds as a whole."""
    return re.sub(r"\.(base_layer|modules_to_save(\.default)?|original_module)\.", ".", name)


def _changed(
    module: str,
    parts: Mapping[str, StoredTensor],
    tensors: Mapping[str, StoredTensor],
    config: AdapterConfig,
    path: Path,
) -> dict[str, StoredTensor]:
    """The matrix of a module with its change, and its bias where that changes, too.

    module: its name in the base. parts: the tensors of the adapter. tensors: those of the base.
    """
    # Embeddings are a matrix from token numbers, stored the other way round: (I, O).
    is_embedding = "lora_embedding_A" in parts
    infix = "embedding_" if is_embedding else ""
    first = next(iter(parts.values())).name.removeprefix("base_model.model.")
    match = PART.fullmatch(first)
    full_name = module if match is None else match["module"]
    if not config.is_target(full_name):
        raise ValueError(
            f"{path}: it changes '{full_name}', which {ADAPTER_CONFIG} does not name: "
            f"{config.shown_targets}. The two files do not belong together. Fetch both again."
        )
    rank = config.rank_of(full_name)
    scale = config.scale_of(full_name)

    stored = tensors[f"{module}.weight"]
    check_type(stored.name, stored.tensor, path)
    weight = stored.tensor.float()
    if is_embedding:
        weight = weight.T  # (O, I)
    shapes = {f"lora_{infix}A": (rank, weight.size(-1)), f"lora_{infix}B": (weight.size(0), rank)}
    for part, shape in shapes.items():
        stored_shape = tuple(parts[part].tensor.shape) if part in parts else None
        if stored_shape != shape:
            raise ValueError(
                f"{path}: {part} of '{module}' has the shape {stored_shape}; expected is {shape}, "
                f"for rank {rank} and the base's matrix. The adapter, its config and the base do "
                "not belong together, or the file is damaged."
            )
    check_parts(module, parts, config, path)
    down = parts[f"lora_{infix}A"].tensor.float()  # (r, I)
    up = parts[f"lora_{infix}B"].tensor.float()  # (O, r)
    weight = weight + scale * (up @ down)  # (O, I)
    if "lora_magnitude_vector" in parts:
        lengths = parts["lora_magnitude_vector"].tensor.float().view(-1, 1)  # (O, 1)
        weight = lengths * weight / weight.norm(dim=1, keepdim=True)  # (O, I)
    if is_embedding:
        weight = weight.T.contiguous()
    changed = {f"{module}.weight": StoredTensor(stored.name, weight, is_merged=True)}
    if f"lora_{infix}B.bias" in parts:
        bias = tensors[f"{module}.bias"]
        added = scale * parts[f"lora_{infix}B.bias"].tensor.float()  # (O,)
        changed[f"{module}.bias"] = StoredTensor(bias.name, bias.tensor.float() + added)
    return changed


def check_parts(
    module: str, parts: Mapping[str, StoredTensor], config: AdapterConfig, path: Path
) -> None:
    """Raise ValueError where the config and the tensors disagree on DoRA, or on changed biases."""
    has_bias = any(part.endswith(".bias") for part in parts)
    kinds = {
        "use_dora": ("lora_magnitude_vector" in parts, "lora_magnitude_vector"),
        "lora_bias": (has_bias, "lora_B.bias"),
    }
    for key, (is_stored, part) in kinds.items():
        if is_stored and not getattr(config, key):
            raise ValueError(
                f"{path}: holds {part} of '{module}', and {key} in {ADAPTER_CONFIG} is not true. "
                "The two files do not belong together. Fetch both again."
            )
    if config.use_dora and "lora_magnitude_vector" not in parts:
        raise ValueError(
            f"{path}: holds no lora_magnitude_vector of '{module}', which use_dora in "
            f"{ADAPTER_CONFIG} asks for. The adapter was not saved whole. Fetch it again."
        )


def check_type(name: str, tensor: Tensor, place: str | Path) -> None:
    """Raise ValueError for a stored tensor that is not of PLAIN_TYPES. place: for the message."""
    if tensor.dtype not in PLAIN_TYPES:
        raise ValueError(
            f"{place}: '{name}' is stored as {str(tensor.dtype).removeprefix('torch.')}. These are "
            "quantised weights, whose numbers mean nothing without their scales. Use the float32, "
            "float16 or bfloat16 weights of the model."
        )
