"""A task's head and its encoder as an ONNX graph. It holds any pooling, pair encoding and head.

The folder also holds predict.py, a copy of onnx_predictor.py, which needs no torch.

R rows (B, or 2B where a pair has two rows), T tokens, B examples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from data.batching import Batch
from minbert import BertTokenizer, onnx_files
from minbert.commands.files import write_json, write_text
from multitask.export.classifier import as_columns, write_config
from multitask.model import MultitaskBert
from multitask.tasks import Task

FILE_NAME = "model.onnx"
SCRIPT = Path(__file__).parent / "onnx_predictor.py"

# What each input of a graph is, for whoever calls it.
MEANINGS = {
    "input_ids": "token ids, int64",
    "attention_mask": "1 for tokens and 0 for padding, int64",
    "token_type_ids": "1 for the second sentence of a pair, int64",
    "sentence_ids": "1 for the second sentence of a pair and the separator before it, int64",
}


class TaskGraph(nn.Module):
    """The raw outputs of one task, from tensors alone."""

    def __init__(self, model: MultitaskBert, task: Task) -> None:
        super().__init__()
        self.model = model
        self.task = task

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        sentence_ids: Tensor | None = None,
    ) -> tuple[Tensor]:
        """Compute logits, (R, T) each -> (B, C). transformers has the same columns.

        token_type_ids or sentence_ids: one of them, or neither where nothing reads them.
        """
        sentences = token_type_ids if sentence_ids is None else sentence_ids
        if sentences is None:
            sentences = torch.zeros_like(input_ids)  # (R, T)
        batch = Batch(
            input_ids,
            attention_mask,
            sentences,
            labels=None,
            ids=(),
            has_segments=token_type_ids is not None,
        )
        return (as_columns(self.model(self.task.name, batch), self.task),)


def inputs_of(model: MultitaskBert, task: Task, batch: Batch) -> dict[str, Tensor]:
    """The inputs that the graph of a task reads, by name."""
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    has_two_means = task.is_pair and model.pair_encoding == "cross" and model.pooling == "mean"
    if batch.has_segments and model.encoder.config.has_segments:
        inputs["token_type_ids"] = batch.sentence_ids
    elif has_two_means:
        inputs["sentence_ids"] = batch.sentence_ids
    return inputs


def write_graph(
    model: MultitaskBert,
    task: Task,
    tokenizer: BertTokenizer,
    max_length: int,
    folder: Path,
    batches: Sequence[Batch],
) -> float:
    """Write all that a prediction needs without our code.

    The files are model.onnx, config.json with the names of the classes, onnx.json, which describes
    inputs and outputs, tokenizer.json and predict.py.

    max_length: tokens of a row at most.

    batches: to check with, of different sizes and lengths. The largest one is the example from
        which the graph is made.

    Returns the largest difference from torch. Raises ValueError where it is too large.
    """
    graph = TaskGraph(model, task).eval()
    tables = [inputs_of(model, task, batch) for batch in batches]
    example = max(tables, key=lambda table: table["input_ids"].numel())
    rows_of_example = len(example["input_ids"]) // max(len(batch.ids) for batch in batches)
    path = folder / FILE_NAME
    onnx_files.write_onnx(graph, example, ["logits"], path, rows_of_example)
    difference = onnx_files.largest_difference(graph, tables, path)

    write_config(model.encoder.config, task, folder)
    onnx_files.write_tokenizer(tokenizer, max_length, folder / "tokenizer.json")
    write_text(folder / "predict.py", SCRIPT.read_text(encoding="utf-8"))
    rows = "(batch, tokens)"
    if rows_of_example == 2:
        order = "first sentences, then second ones"
        if model.pair_encoding == "dual":
            order = "pairs, then the same pairs the other way round"
        rows = f"(2 batch, tokens): {order}"
    write_json(
        folder / "onnx.json",
        {
            "inputs": {name: f"{MEANINGS[name]}, {rows}" for name in example},
            "outputs": {"logits": "float32, (batch, classes), or (batch, 1) for a number"},
            "pair_encoding": model.pair_encoding if task.is_pair else None,
            "max_length": max_length,
            "split_special_tokens": tokenizer.splits_special_tokens,
            "largest_difference": difference,
        },
    )
    return difference
