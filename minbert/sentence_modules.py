"""A folder that sentence_transformers.SentenceTransformer opens: its list of modules.

Beside the encoder's files, the folder holds a list of modules (modules.json) and a folder for each
module after the encoder. Names and keys are the oldest ones of sentence-transformers. Old and new
releases read them.

H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from minbert.commands.digests import recording
from minbert.commands.files import write_json, write_tensors

ACTIVATIONS = {
    "Tanh": "torch.nn.modules.activation.Tanh",
    "ReLU": "torch.nn.modules.activation.ReLU",
    "Identity": "torch.nn.modules.linear.Identity",
}


class DenseLayer(NamedTuple):
    """A linear layer on the sentence vector, and the name in ACTIVATIONS of what follows it."""

    linear: nn.Linear
    activation: str


def write_modules(
    folder: Path,
    hidden_size: int,
    max_length: int,
    is_mean: bool,
    layers: Sequence[DenseLayer] = (),
    is_normalised: bool = False,
) -> None:
    """Write what becomes of the encoder's output into its folder.

    hidden_size: H of the encoder. max_length: tokens of a text at most. is_mean: the sentence
    vector is the mean over the tokens, and otherwise the vector of [CLS]. layers: those that
    follow, in their order. is_normalised: the last vectors are brought to length 1.
    """
    files = module_files(hidden_size, max_length, is_mean, layers, is_normalised)
    with recording(folder) as digests:
        for name, content in files.items():
            digests[name] = write_json(folder / name, content)
        for place, layer in enumerate(layers, start=2):
            name = f"{place}_Dense/model.safetensors"
            linear = layer.linear
            tensors = {"linear.weight": linear.weight, "linear.bias": linear.bias}
            stored = {key: tensor.detach().cpu().float() for key, tensor in tensors.items()}
            digests[name] = write_tensors(folder / name, stored)


def module_files(
    hidden_size: int,
    max_length: int,
    is_mean: bool,
    layers: Sequence[DenseLayer] = (),
    is_normalised: bool = False,
) -> dict[str, Any]:
    """The JSON files of `write_modules` by their path inside the folder. Arguments as there."""
    files: dict[str, Any] = {
        # do_lower_case: the tokenizer does that.
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_cls_token": not is_mean,
            "pooling_mode_mean_tokens": is_mean,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }

    # The modules that follow one another.
    modules = ["Transformer", "Pooling"]
    for layer in layers:
        files[f"{len(modules)}_Dense/config.json"] = {
            "in_features": layer.linear.in_features,
            "out_features": layer.linear.out_features,
            "bias": True,
            "activation_function": ACTIVATIONS[layer.activation],
        }
        modules.append("Dense")
    if is_normalised:
        modules.append("Normalize")  # has no settings, so no file
    files["modules.json"] = list_modules(modules)
    return files


def list_modules(names: list[str]) -> list[dict[str, Any]]:
    """The content of modules.json: the modules in order. The encoder has no folder of its own."""
    modules = []
    for place, name in enumerate(names):
        path = "" if place == 0 else f"{place}_{name}"
        module_type = f"sentence_transformers.models.{name}"
        modules.append({"idx": place, "name": str(place), "path": path, "type": module_type})
    return modules
