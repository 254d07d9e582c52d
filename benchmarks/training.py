"""The two sides that train: ours as a run does it, and a loop around transformers' BertModel. SST sentences.

Used by train_step.py and memory.py, each side in a process of its own. B sentences, T tokens, H hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.material import MAX_LENGTH, Place
from command_line.options import Options
from data.batching import EncodedExamples, length_grouped_batches
from data.readers import Example
from minbert import BertModel, BertTokenizer
from minbert.pooling import save_pooling, stored_pooling
from minbert.training import cost_estimate as price
from minbert.training import runtime
from minbert.training.job import Job, Part
from minbert.training.loop import Loop
from multitask.stage import build_job

HEADS_DROPOUT, WEIGHT_DECAY = Options().hidden_dropout_prob, Options().weight_decay
MAX_NORM = 1.0


def make_loop(job: Job) -> Loop:
    """The job's loop with the bar switched off and no end in sight, for steps that are taken one by one."""
    loop = Loop(job, resume=False)
    loop.bar, loop.progress.num_steps = tqdm(disable=True), 10**6
    return loop


def grouped(
    examples: Sequence[Example], tokenizer: BertTokenizer, batch_size: int
) -> list[list[int]]:
    """The batches of similar length that ours trains on; the peer gets the same where it groups."""
    ids, _ = tokenizer.encode([example.sentence_1 for example in examples], max_length=MAX_LENGTH)
    return length_grouped_batches(list(map(len, ids)), batch_size, torch.Generator().manual_seed(0))


# --- ours -------------------------------------------------------------------------------------------------------------


def our_job(
    model: Path, folder: Path, examples: Sequence[Example], batch_size: int, place: Place
) -> Job:
    """The multitask stage with SST alone, its options the defaults, but dropout that of config.json, as the peer's.

    The sentence vector is what the model's folder notes, else the mean.
    """
    encoder = BertModel.from_pretrained(model).to(place.device)
    options = Options(
        tasks="sst",
        batch_size=batch_size,
        precision=place.precision,
        max_length=MAX_LENGTH,
        pooling=stored_pooling(model) or "mean",
        encoder_dropout=encoder.config.hidden_dropout_prob,
        attention_dropout=encoder.config.attention_probs_dropout_prob,
    )
    runtime.compile_layers(encoder, place.is_compiled)
    options, _ = options.for_encoder(encoder.config.hidden_size)
    rows = EncodedExamples(examples, BertTokenizer.from_pretrained(model), MAX_LENGTH)
    return build_job(
        options,
        encoder,
        {"sst": dict.fromkeys(("train", "dev", "test"), rows)},
        folder,
        place.device,
    )


def write_heads(
    model: Path, folder: Path, examples: Sequence[Example], pooling: str = "mean"
) -> None:
    """Put the model with the heads that `our_job` gives it into model/, so that the peer can have the same ones.

    pooling: the sentence vector of both, "mean" or "cls", which is noted there.
    """
    save_pooling(model, pooling)
    job = our_job(model, folder, examples, 1, Place())
    job.model.save_pretrained(model, BertTokenizer.from_pretrained(model))


def our_side(model: Path, folder: Path, examples: Sequence[Example], batch_size: int, place: Place):
    """A function that takes the training step of a part: batch `part` of similar length. "peak" gives bytes."""
    runtime.settle_memory()
    job = our_job(model, folder, examples, batch_size, place)
    loop, batches = (
        make_loop(job),
        grouped(examples, BertTokenizer.from_pretrained(model), batch_size),
    )

    def take(part: int | str) -> int | None:
        if part == "peak":
            return price.peak_memory(place.device)
        loop.train_step([Part("sst", batches[part], 1.0)])
        return place.wait()

    return take


# --- the peer ---------------------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    """transformers' BertModel with our heads' weights: mean or [CLS], linear and tanh, dropout, linear."""

    def __init__(self, folder: Path) -> None:
        from transformers import BertModel as HuggingFaceBert
        from transformers.utils import logging

        super().__init__()
        logging.disable_progress_bar()
        self.bert = HuggingFaceBert.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        )
        tensors = load_file(folder / "heads.safetensors")
        self.shared, self.dense = (
            self.linear(tensors, name) for name in ("shared", "heads.sst.dense")
        )
        self.dropout, self.pooling = nn.Dropout(HEADS_DROPOUT), stored_pooling(folder)

    @staticmethod
    def linear(tensors: dict[str, Tensor], name: str) -> nn.Linear:
        weight = tensors[f"{name}.weight"]
        layer = nn.Linear(weight.size(1), weight.size(0))
        layer.load_state_dict({"weight": weight, "bias": tensors[f"{name}.bias"]})
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        """Token ids and mask (B, T), labels (B,) int64 -> the mean cross-entropy, a scalar."""
        hidden_states = self.bert(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state  # (B, T, H)
        mask = attention_mask.unsqueeze(-1)  # (B, T, 1)
        vectors = (
            (hidden_states * mask).sum(dim=1) / mask.sum(dim=1)
            if self.pooling == "mean"
            else hidden_states[:, 0]
        )
        return F.cross_entropy(
            self.dense(self.dropout(torch.tanh(self.shared(vectors)))).float(), labels
        )


class HuggingFaceBatches:
    """Sentences tokenized once by transformers, padded by its collator to the longest of a batch."""

    def __init__(self, folder: Path, examples: Sequence[Example]) -> None:
        from transformers import BertTokenizerFast, DataCollatorWithPadding

        tokenizer = BertTokenizerFast.from_pretrained(folder)
        encoded = tokenizer(
            [example.sentence_1 for example in examples],
            truncation=True,
            max_length=MAX_LENGTH,
            return_token_type_ids=False,
        )["input_ids"]
        self.rows = [
            {"input_ids": ids, "labels": int(example.label)}
            for ids, example in zip(encoded, examples, strict=True)
        ]
        self.collate = DataCollatorWithPadding(tokenizer)

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        return dict(self.collate([self.rows[index] for index in indices]))


def peer_side(
    model: Path,
    examples: Sequence[Example],
    batch_size: int,
    place: Place,
    is_grouped: bool = False,
    is_fused: bool = False,
    keeps_memory: bool = False,
):
    """The loop that everyone writes: collate, forward, backward, clip, torch.optim.AdamW. "peak" gives bytes.

    As it is, batches are random; each flag is a trick. is_grouped: the batches of similar length that ours has;
    is_fused: torch.optim.AdamW(fused=True); keeps_memory: freed memory is kept, as ours does.
    """
    if keeps_memory:
        runtime.settle_memory()
    classifier, rows = (
        Classifier(model).train().to(place.device),
        HuggingFaceBatches(model, examples),
    )
    if place.is_compiled:
        classifier.compile(dynamic=True)
    optimizer = torch.optim.AdamW(
        classifier.parameters(), lr=5e-5, weight_decay=WEIGHT_DECAY, fused=is_fused or None
    )
    if is_grouped:
        batches = grouped(examples, BertTokenizer.from_pretrained(model), batch_size)
    else:
        batches = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0)).split(
            batch_size
        )

    def take(part: int | str) -> int | None:
        if part == "peak":
            return price.peak_memory(place.device)
        batch = rows.batch([int(index) for index in batches[part]])
        with runtime.autocast(place.device, place.precision):
            loss = classifier(**{name: tensor.to(place.device) for name, tensor in batch.items()})
        loss.backward()
        torch.nn.utils.clip_grad_norm_(classifier.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad()
        return place.wait()

    return take
