"""A model as a folder that sentence_transformers.SentenceTransformer opens, with the same vectors.

H hidden.

No pooling module of sentence-transformers knows BERT's pooler. It is written as two modules: the
first token, then a linear layer with tanh.
"""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.embedder import Embedder
from minbert import BertModel, BertTokenizer, onnx_files
from minbert.pooling import pool, save_pooling
from minbert.sentence_modules import DenseLayer, write_modules

# Where sentence-transformers looks for a graph.
GRAPH = "onnx/model.onnx"
TOKENIZER = "onnx/tokenizer.json"  # for tokenizers.Tokenizer.from_file


def export(
    encoder: BertModel,
    tokenizer: BertTokenizer,
    folder: Path,
    pooling: str,
    max_length: int,
    is_normalised: bool,
) -> None:
    """Write all files into a folder that is being made. `--model` opens it, too.

    pooling: the sentence vector. max_length: tokens of a sentence at most. is_normalised: whether
    vectors are brought to length 1. ValueError or OSError where the folder cannot be written.
    """
    encoder.save_pretrained(folder, pooling)
    tokenizer.save_pretrained(folder)
    save_pooling(folder, pooling)
    layers = [DenseLayer(encoder.pooler, "Tanh")] if pooling == "pooler" else []
    hidden_size = encoder.config.hidden_size
    write_modules(folder, hidden_size, max_length, pooling == "mean", layers, is_normalised)


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
    """Write GRAPH and TOKENIZER into an exported folder.

    The outputs of the graph are last_hidden_state and sentence_embedding.

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
    (folder / TOKENIZER).parent.mkdir()
    onnx_files.write_tokenizer(tokenizer, embedder.max_length, folder / TOKENIZER)
    try:
        onnx_files.write_onnx(graph, batches[0], ["last_hidden_state", "sentence_embedding"], path)
        return onnx_files.largest_difference(graph, batches, path)
    finally:
        encoder.to(device)
