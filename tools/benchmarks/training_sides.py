"""The two sides that train on SST sentences: ours, and a loop around transformers' BertModel.

train_step.py, memory.py and profiles.py use them. B sentences, T tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from data.batching import EncodedExamples, length_grouped_batches
from data.examples import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import save_pooling, stored_pooling
from minbert.training import cost_estimate, runtime
from minbert.training.job import Job, Part
from minbert.training.options import TrainingOptions
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
from tools.benchmarks.inputs import MAX_LENGTH
from tools.benchmarks.jobs import build_task_job, make_loop, resolve_options
from tools.benchmarks.settings import Execution
from tools.benchmarks.timing import Side

PEER_LR = 5e-5
MAX_NORM = 1.0


@dataclass(frozen=True)
class TrainingData:
    """What both sides train: the model's folder, the sentences, and the size of a batch."""

    model: Path
    examples: Sequence[Example]
    batch_size: int


@dataclass(frozen=True)
class Tricks:
    """What the peer's loop does to be faster. Without tricks it is the loop that everyone writes.

    groups_by_length: it has our batches of similar length. Otherwise its batches are random.
    is_fused: torch.optim.AdamW(fused=True). keeps_memory: freed memory is kept, as ours does.
    """

    groups_by_length: bool = False
    is_fused: bool = False
    keeps_memory: bool = False


def group_by_length(data: TrainingData) -> list[list[int]]:
    """Return the batches of similar length that ours trains on."""
    tokenizer = BertTokenizer.from_pretrained(data.model)
    sentences = [example.sentence_1 for example in data.examples]
    input_ids, _ = tokenizer.encode(sentences, max_length=MAX_LENGTH)
    lengths = [len(row) for row in input_ids]
    return length_grouped_batches(lengths, data.batch_size, torch.Generator().manual_seed(0))


# --- ours -----------------------------------------------------------------------------------------


def build_our_job(data: TrainingData, folder: Path, execution: Execution) -> Job:
    """Return the multitask stage with SST alone and default options, but for the dropout.

    The dropout is that of config.json, as the peer has it. The sentence vector is the one that the
    model's folder notes, else the mean.
    """
    # Small encoders have no dropout in a run. The peer has it, so ours gets it.
    encoder = BertModel.from_pretrained(data.model).to(execution.device)
    runtime.compile_layers(encoder, execution.is_compiled)
    options = resolve_options(
        encoder.config.hidden_size,
        execution.device,
        execution.precision,
        tasks="sst",
        batch_size=data.batch_size,
        max_length=MAX_LENGTH,
        pooling=stored_pooling(data.model) or "mean",
        encoder_dropout=encoder.config.hidden_dropout_prob,
        attention_dropout=encoder.config.attention_probs_dropout_prob,
    )
    tokenizer = BertTokenizer.from_pretrained(data.model)
    rows = EncodedExamples(data.examples, tokenizer, MAX_LENGTH)
    # Nothing is evaluated here, so the other splits may be the same rows.
    splits = dict.fromkeys(("train", "dev", "test"), rows)
    return build_task_job(options, encoder, {"sst": splits}, folder)


def write_heads(data: TrainingData, folder: Path, pooling: str = "mean") -> None:
    """Write our model with its heads into the model's folder, so that the peer can have the same.

    pooling: the sentence vector of both sides, "mean" or "cls". It is noted there.
    """
    save_pooling(data.model, pooling)
    job = build_our_job(data, folder, Execution())
    assert isinstance(job.model, MultitaskBert)
    job.model.save_pretrained(data.model, BertTokenizer.from_pretrained(data.model))


def our_side(data: TrainingData, folder: Path, execution: Execution) -> Side:
    """Return a function that takes the training step of a part, a batch of similar length.

    The request "peak" returns the peak memory in bytes.
    """
    runtime.settle_memory()
    loop = make_loop(build_our_job(data, folder, execution))
    batches = group_by_length(data)

    def run_part(part: int | str) -> int | None:
        if part == "peak":
            return cost_estimate.peak_memory(execution.device)
        loop.train_step([Part("sst", batches[int(part)], 1.0)])
        execution.wait()
        return None

    return run_part


# --- the peer -------------------------------------------------------------------------------------


class Classifier(nn.Module):
    """transformers' BertModel with the weights of our heads.

    Mean or [CLS], linear layer and tanh, dropout, linear layer.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import BertModel as HuggingFaceBert
        from transformers.utils import logging

        super().__init__()
        logging.disable_progress_bar()
        self.bert = HuggingFaceBert.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        )
        tensors = load_file(folder / "heads.safetensors")
        self.shared = self.linear(tensors, "shared")
        self.dense = self.linear(tensors, "heads.sst.dense")
        self.dropout = nn.Dropout(HeadOptions().hidden_dropout_prob)
        self.pooling = stored_pooling(folder)

    @staticmethod
    def linear(tensors: dict[str, Tensor], name: str) -> nn.Linear:
        """Return a linear layer with stored weights."""
        weight = tensors[f"{name}.weight"]
        layer = nn.Linear(weight.size(1), weight.size(0))
        layer.load_state_dict({"weight": weight, "bias": tensors[f"{name}.bias"]})
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy, a scalar.

        input_ids, attention_mask: (B, T). labels: (B,) int64.
        """
        output = self.bert(input_ids=input_ids, attention_mask=attention_mask)
        hidden_states = output.last_hidden_state  # (B, T, H)
        if self.pooling == "mean":
            mask = attention_mask.unsqueeze(-1)  # (B, T, 1)
            vectors = (hidden_states * mask).sum(dim=1) / mask.sum(dim=1)  # (B, H)
        else:
            vectors = hidden_states[:, 0]  # (B, H)
        # The layers of MultitaskBert with --head features, for one task.
        shared = torch.tanh(self.shared(vectors))  # (B, H)
        logits = self.dense(self.dropout(shared))  # (B, 5)
        return F.cross_entropy(logits.float(), labels)


class HuggingFaceBatches:
    """Sentences that transformers tokenized once. Its collator pads them to the batch's longest."""

    def __init__(self, data: TrainingData) -> None:
        import transformers

        tokenizer_class: Any = transformers.BertTokenizerFast  # type: ignore[attr-defined]
        tokenizer = tokenizer_class.from_pretrained(data.model)
        encoded = tokenizer(
            [example.sentence_1 for example in data.examples],
            truncation=True,
            max_length=MAX_LENGTH,
            return_token_type_ids=False,
        )
        self.rows = []
        for ids, example in zip(encoded["input_ids"], data.examples, strict=True):
            assert example.label is not None
            self.rows.append({"input_ids": ids, "labels": int(example.label)})
        self.collate = transformers.DataCollatorWithPadding(tokenizer)

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return the padded batch of these sentences."""
        return dict(self.collate([self.rows[index] for index in indices]))


def peer_side(data: TrainingData, execution: Execution, tricks: Tricks) -> Side:
    """Return the peer's loop: collate, forward, backward, clip, torch.optim.AdamW.

    The request "peak" returns the peak memory in bytes.
    """
    # It must be set before the first large allocation.
    if tricks.keeps_memory:
        runtime.settle_memory()
    classifier = Classifier(data.model).train().to(execution.device)
    if execution.is_compiled:
        classifier.compile(dynamic=True)
    rows = HuggingFaceBatches(data)
    # None is torch's own choice, which is not the fused kernel on CPU.
    optimizer = torch.optim.AdamW(
        classifier.parameters(),
        lr=PEER_LR,
        weight_decay=TrainingOptions().weight_decay,
        fused=tricks.is_fused or None,
    )
    batches = group_by_length(data) if tricks.groups_by_length else random_batches(data)

    def run_part(part: int | str) -> int | None:
        if part == "peak":
            return cost_estimate.peak_memory(execution.device)
        batch = rows.batch(batches[int(part)])
        inputs = {name: tensor.to(execution.device) for name, tensor in batch.items()}
        with runtime.autocast(execution.device, execution.precision):
            loss = classifier(**inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(classifier.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad()
        execution.wait()
        return None

    return run_part


def random_batches(data: TrainingData) -> list[list[int]]:
    """Return the sentences in random batches."""
    # The loop that everyone writes shuffles the rows and cuts them.
    order = torch.randperm(len(data.examples), generator=torch.Generator().manual_seed(0))
    return [batch.tolist() for batch in order.split(data.batch_size)]
