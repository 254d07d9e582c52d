"""A task's head and its encoder as a ForSequenceClassification of transformers.

transformers computes

    logits = C tanh(W h + b) + c

with h the last layer's vector of [CLS]. The linear layer W is BERT's pooler, or RoBERTa's first
layer of the head. Two of our models are exactly that: --pooling cls with the common layer, which is
W, and --pooling pooler without a common layer. What else is trained here cannot be said this way,
and is refused by name.

B batch, T tokens, H hidden, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from data.batching import Batch
from minbert import BertModel, BertTokenizer
from minbert.commands.digests import recording
from minbert.commands.files import read_json, write_json, write_tensors
from minbert.config import BertConfig
from minbert.families import ClassifierNames
from minbert.weights import read_tensors, to_hugging_face
from multitask.heads import DenseHead, MlpHead
from multitask.model import MultitaskBert
from multitask.tasks import Task

KIND = "ForSequenceClassification"


class Classifier(NamedTuple):
    """The two layers of transformers' formula."""

    dense: nn.Linear  # W and b, (H, H)
    output: nn.Linear  # C and c, (C, H), without the row that a binary task gets


# --- which models can be written ------------------------------------------------------------------


def classifier_of(model: MultitaskBert, task: Task) -> Classifier:
    """Find the two layers of a task; ValueError with the reason where transformers has others."""
    reason = reason_against(model, task)
    if reason is not None:
        others = "sentence-transformers or onnx"
        if reason_against_layers(model, task) is not None:
            others = "onnx"
        raise ValueError(
            f"{task.title} of this model cannot be a {KIND} of transformers: {reason}. That class "
            "reads [CLS] through a linear layer with tanh, and then a linear layer. Exactly this "
            "are --pooling cls with --common_layer tanh, and --pooling pooler with --common_layer "
            f"none. Pass --format {others}, or train with these."
        )
    head = model.head_of(task.name)
    assert isinstance(head, DenseHead)
    dense = model.encoder.pooler if model.shared is None else model.shared
    return Classifier(dense, head.dense)


def reason_against(model: MultitaskBert, task: Task) -> str | None:
    """Why transformers' formula is not that of the task, or None where it is."""
    config = model.encoder.config
    if config.family.classifier is None and config.word_size != config.hidden_size:
        return "its embeddings are projected, and the classifier of its family has no tanh"
    if task.is_pair and model.pair_encoding != "cross":
        return f"--pair_encoding {model.pair_encoding} reads a pair in two rows"
    if model.pooling == "mean":
        return "its sentence vector is the mean over all tokens (--pooling mean)"
    if not model.has_own_head(task.name) or not isinstance(model.head_of(task.name), DenseHead):
        return f"its head is no linear layer (--head {model.options.head_of(task.name)})"
    if model.pooling == "cls" and model.shared is None:
        return "no layer with tanh stands between [CLS] and the head (--common_layer none)"
    if model.pooling == "pooler" and model.shared is not None:
        return "two layers with tanh stand before the head, the pooler and the common layer"
    return None


def reason_against_layers(model: MultitaskBert, task: Task) -> str | None:
    """Why the task is more than linear layers on one vector, or None where it is not."""
    if task.is_pair and model.has_two_vectors:
        return "its pairs have two vectors"
    is_known = model.has_own_head(task.name)
    is_known = is_known and isinstance(model.head_of(task.name), DenseHead | MlpHead)
    if not is_known:
        return f"its head is more than linear layers (--head {model.options.head_of(task.name)})"
    return None


# --- the folder -----------------------------------------------------------------------------------


def write_classifier(model: MultitaskBert, task: Task, folder: Path) -> str:
    """Write config.json and model.safetensors into a folder.

    The own classes of DistilBERT and ELECTRA have a ReLU and a GELU where tanh is expected. Their
    encoders are therefore written as a BERT, which computes the same. Segment embeddings of 0 stand
    for none.

    Returns the name of the class of transformers. Raises ValueError as `classifier_of`.
    """
    classifier = classifier_of(model, task)
    config = model.encoder.config
    tensors: dict[str, Tensor] = {}
    if config.family.classifier is None:
        # Segment embeddings of 0 add nothing.
        if not config.has_segments:
            shape = (config.type_vocab_size, config.hidden_size)
            tensors["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(shape)
        config = replace(config, model_type="bert", embedding_size=0)
    family = config.family
    for name, parameter in model.encoder.named_parameters():
        if not name.startswith("pooler."):
            tensors[family.prefix + to_hugging_face(name, config.model_type)] = parameter

    names = names_of_layers(config)
    weight, bias = output_rows(task, classifier.output)
    tensors[f"{names.dense}.weight"] = classifier.dense.weight
    tensors[f"{names.dense}.bias"] = classifier.dense.bias
    tensors[f"{names.output}.weight"] = weight
    tensors[f"{names.output}.bias"] = bias
    # Kept in float32, whatever the run computed in.
    stored = {name: tensor.detach().cpu().float() for name, tensor in tensors.items()}
    path = folder / "model.safetensors"
    with recording(folder) as digests:
        digests[path.name] = write_tensors(path, stored)
    write_config(config, task, folder)
    return f"{family.class_name}{KIND}"


def names_of_layers(config: BertConfig) -> ClassifierNames:
    """The names of the two layers in the folder of a family that has such a classifier."""
    names = config.family.classifier
    assert names is not None
    return names


# The names of transformers for the kinds of tasks.
PROBLEM_TYPES = {
    "classes": "single_label_classification",
    "binary": "single_label_classification",
    "multilabel": "multi_label_classification",
    "score": "regression",
}


def output_rows(task: Task, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """The weight (C, H) and bias (C,) of the last layer.

    A binary task has one logit z here, with the probability sigmoid(z). In transformers it has two
    logits, 0 and z: their softmax is the same.
    """
    if not is_binary(task):
        return layer.weight, layer.bias
    weight = torch.cat([torch.zeros_like(layer.weight), layer.weight])  # (2, H)
    bias = torch.cat([torch.zeros_like(layer.bias), layer.bias])  # (2,)
    return weight, bias


def is_binary(task: Task) -> bool:
    """Whether a task has two classes and one logit."""
    return task.num_outputs == 1 and not task.is_regression


def as_columns(outputs: Tensor, task: Task) -> Tensor:
    """The raw outputs of a task, (B, C) or (B,), as transformers has them: (B, C)."""
    if outputs.dim() == 2:
        return outputs
    column = outputs.unsqueeze(-1)  # (B, 1)
    return torch.cat([torch.zeros_like(column), column], dim=-1) if is_binary(task) else column


def write_config(config: BertConfig, task: Task, folder: Path, kind: str = KIND) -> None:
    """Write config.json with the names of the classes and the kind of problem.

    kind: the end of the name of transformers' class that opens the folder.
    """
    config.save_pretrained(folder, kind)
    path = folder / "config.json"
    content: dict[str, Any] = read_json(path)
    # A regression has one output, whose name is that of the task.
    names = [task.name] if task.is_regression else list(task.label_names)
    content["id2label"] = {str(number): name for number, name in enumerate(names)}
    content["label2id"] = {name: number for number, name in enumerate(names)}
    content["problem_type"] = PROBLEM_TYPES[task.kind]
    with recording(folder) as digests:
        digests[path.name] = write_json(path, content)


def write_tokenizer(tokenizer: BertTokenizer, max_length: int, folder: Path) -> None:
    """Write the tokenizer, which then cuts rows to max_length by default."""
    tokenizer.call_settings["model_max_length"] = max_length
    tokenizer.save_pretrained(folder)


# --- the check ------------------------------------------------------------------------------------


@torch.no_grad()
def largest_difference(
    model: MultitaskBert, task: Task, folder: Path, batches: Sequence[Batch]
) -> float:
    """The largest difference of any logit between the folder and the model.

    It computes transformers' formula from the tensors of the folder.
    """
    encoder = BertModel.from_pretrained(folder)
    stored = read_tensors(folder)
    names = names_of_layers(encoder.config)
    largest = 0.0
    for batch in batches:
        inputs = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        first = encoder(*inputs).last_hidden_state[:, 0]  # (B, H)
        dense = first @ stored[f"{names.dense}.weight"].T + stored[f"{names.dense}.bias"]  # (B, H)
        weight = stored[f"{names.output}.weight"]  # (C, H)
        logits = dense.tanh() @ weight.T + stored[f"{names.output}.bias"]  # (B, C)
        expected = as_columns(model(task.name, batch), task)  # (B, C)
        largest = max(largest, float((logits - expected).abs().max()))
    return largest
