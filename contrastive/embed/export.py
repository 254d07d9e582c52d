"""A model as a folder that sentence_transformers.SentenceTransformer opens, with the same vectors.

H hidden.

Beside the encoder's files, the folder holds a list of modules (modules.json) and a folder for each
module after the encoder. Names and keys are the oldest ones of sentence-transformers. Old and new
releases read them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.embedder import Embedder
from minbert import BertModel, BertTokenizer, onnx_files
from minbert.commands.digests import recording
from minbert.commands.files import write_json, write_tensors
from minbert.pooling import pool, save_pooling

DENSE = "2_Dense"

# Where sentence-transformers looks for a graph.
GRAPH = "onnx/model.onnx"


def export_layout(
    hidden_size: int, max_length: int, pooling: str, is_normalised: bool
) -> dict[str, Any]:
    """The JSON files that say what becomes of the encoder's output, by path inside the folder.

    No pooling module of sentence-transformers knows BERT's pooler. It is written as two modules:
    the first token, then a linear layer with tanh. The layer's weights belong into DENSE.
    """
    files: dict[str, Any] = {
        # do_lower_case: the tokenizer does that.
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_cls_token": pooling != "mean",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    }

    # The modules that follow one another.
    modules = ["Transformer", "Pooling"]
    if pooling == "pooler":
        modules.append("Dense")
        files[f"{DENSE}/config.json"] = {
            "in_features": hidden_size,
            "out_features": hidden_size,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
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


def export(
    encoder: BertModel,
    tokenizer: BertTokenizer,
    folder: Path,
    pooling: str,
    max_length: int,
    is_normalised: bool,
) -> None:
    """Write the new folder with all its files, or nothing. `--model` opens it, too.

    pooling: the sentence vector. max_length: tokens of a sentence at most. is_normalised: whether
    vectors are brought to length 1. ValueError or OSError where the folder cannot be written.
    """
    # The folder is made beside its place and renamed when it is complete.
    beside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed
    try:
        beside.mkdir(parents=True)
        write_folder(beside, encoder, tokenizer, pooling, max_length, is_normalised)
        os.replace(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_folder(
    folder: Path,
    encoder: BertModel,
    tokenizer: BertTokenizer,
    pooling: str,
    max_length: int,
    is_normalised: bool,
) -> None:
    """Write all files into an existing folder. Arguments as of `export`."""
    encoder.save_pretrained(folder, pooling)
    tokenizer.save_pretrained(folder)
    save_pooling(folder, pooling)
    layout = export_layout(encoder.config.hidden_size, max_length, pooling, is_normalised)
    with recording(folder) as digests:
        for name, content in layout.items():
            digests[name] = write_json(folder / name, content)
        if pooling == "pooler":
            pooler = encoder.pooler
            tensors = {"linear.weight": pooler.weight, "linear.bias": pooler.bias}
            name = f"{DENSE}/model.safetensors"
            digests[name] = write_tensors(folder / name, tensors)


# --- ONNX -----------------------------------------------------------------------------------------


class SentenceGraph(nn.Module):
    """An encoder and its sentence vector, from tensors alone."""

    def __init__(self, encoder: BertModel, pooling: str, is_normalised: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.is_normalised = is_normalised

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute hidden states (B, T, H) and sentence vectors (B, H) of inputs (B, T)."""
        output = self.encoder(input_ids, attention_mask, token_type_ids)
        vectors = pool(output, attention_mask, self.pooling)  # (B, H)
        if self.is_normalised:
            vectors = F.normalize(vectors, dim=-1)
        return output.last_hidden_state, vectors


def export_graph(embedder: Embedder, folder: Path, is_normalised: bool) -> float:
    """Write GRAPH into an exported folder.

    Its outputs are last_hidden_state and sentence_embedding.

    Returns the largest difference from torch. Raises ValueError where it is too large.
    """
    encoder = embedder.encoder
    device = next(encoder.parameters()).device
    tokenizer = embedder.tokenizer
    texts = list(onnx_files.CHECKED_TEXTS)
    batches = []
    for chosen in (texts, texts[1:2], texts[3:]):
        inputs = dict(tokenizer(chosen, max_length=embedder.max_length))
        if not (tokenizer.has_segments and encoder.config.has_segments):
            inputs.pop("token_type_ids", None)
        batches.append(inputs)
    graph = SentenceGraph(encoder.cpu(), embedder.pooling, is_normalised).eval()
    path = folder / GRAPH
    try:
        onnx_files.write_onnx(graph, batches[0], ["last_hidden_state", "sentence_embedding"], path)
        return onnx_files.largest_difference(graph, batches, path)
    finally:
        encoder.to(device)
