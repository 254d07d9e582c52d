"""A task as a folder for sentence-transformers: the encoder, its pooling, and linear layers.

SentenceTransformer(folder).encode(texts) then gives the raw outputs of the task, (N, C). This holds
each task whose head reads one vector through linear layers: of single texts all heads of ours, with
any --pooling and any --common_layer. Of pairs, it holds --pooling cls and pooler with
--pair_encoding cross.

B batch, H hidden, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from data.batching import Batch
from minbert import BertModel
from minbert.pooling import pool
from minbert.sentence_modules import DenseLayer, write_modules
from minbert.weights import read_tensors
from multitask.export.classifier import as_columns, output_rows, reason_against_layers, write_config
from multitask.heads import DenseHead, MlpHead
from multitask.model import MultitaskBert
from multitask.tasks import Task

FORWARD = {"Tanh": torch.tanh, "ReLU": torch.relu, "Identity": lambda values: values}


# --- which models can be written ------------------------------------------------------------------


def layers_of(model: MultitaskBert, task: Task) -> list[DenseLayer]:
    """The layers from the pooled vector to the outputs of a task, each with its activation.

    Raises ValueError, with the reason, where other mathematics stands between the two.
    """
    reason = reason_against_layers(model, task)
    if reason is not None:
        raise ValueError(
            f"{task.title} of this model cannot be a model of transformers or "
            f"sentence-transformers: {reason}. Pass --format onnx, which writes any model."
        )
    layers = []
    if model.pooling == "pooler":
        layers.append(DenseLayer(model.encoder.pooler, "Tanh"))
    if model.shared is not None:
        layers.append(DenseLayer(model.shared, "Tanh"))

    head = model.head_of(task.name)
    if isinstance(head, MlpHead):
        layers.append(DenseLayer(head.first, "ReLU"))
        return [*layers, DenseLayer(with_all_rows(task, head.second), "Identity")]
    assert isinstance(head, DenseHead)
    return [*layers, DenseLayer(with_all_rows(task, head.dense), "Identity")]


def with_all_rows(task: Task, layer: nn.Linear) -> nn.Linear:
    """The last layer with an output for each class. A binary task has one output here."""
    weight, bias = output_rows(task, layer)  # (C, H), (C,)
    whole = nn.Linear(weight.size(1), weight.size(0))
    with torch.no_grad():
        whole.weight.copy_(weight)
        whole.bias.copy_(bias)
    return whole


# --- the folder -----------------------------------------------------------------------------------


def write_sentence_classifier(
    model: MultitaskBert, task: Task, max_length: int, folder: Path
) -> None:
    """Write the encoder and its modules. config.json has the names of the classes.

    max_length: tokens of a text at most. Raises ValueError as `layers_of`.
    """
    layers = layers_of(model, task)
    encoder = model.encoder
    encoder.save_pretrained(folder, model.pooling)
    write_config(encoder.config, task, folder, kind="Model")
    is_mean = model.pooling == "mean"
    write_modules(folder, encoder.config.hidden_size, max_length, is_mean, layers)


@torch.no_grad()
def largest_difference_of_layers(
    model: MultitaskBert, task: Task, folder: Path, batches: Sequence[Batch]
) -> float:
    """The largest difference of any output between the folder and the model.

    It computes the modules from the tensors of the folder.
    """
    encoder = BertModel.from_pretrained(folder)
    layers = layers_of(model, task)
    pooling = "mean" if model.pooling == "mean" else "cls"
    largest = 0.0
    for batch in batches:
        output = encoder(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        values: Tensor = pool(output, batch.attention_mask, pooling)  # (B, H)
        for place, layer in enumerate(layers, start=2):
            stored = read_tensors(folder / f"{place}_Dense")
            linear = values @ stored["linear.weight"].T + stored["linear.bias"]
            values = FORWARD[layer.activation](linear)  # (B, H), at last (B, C)
        expected = as_columns(model(task.name, batch), task)  # (B, C)
        largest = max(largest, float((values - expected).abs().max()))
    return largest
