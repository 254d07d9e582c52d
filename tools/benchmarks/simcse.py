"""What does SimCSE gain by encoding both views in one pass of 2B rows, against two passes of B?

Both sides are ours: the same step (forward, backward, clip, AdamW) on the same batches of 64
sentences. B sentences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrastive import losses
from contrastive.methods import MethodSetup, SimCSE
from contrastive.negatives import same_text
from contrastive.registry import METHODS
from data.batching import Batch, EncodedExamples, length_grouped_batches
from minbert import AdamW, BertModel, BertTokenizer
from minbert.optimizer import parameter_groups
from minbert.training import runtime
from tools.benchmarks.comparison import Comparison, Goal, json_line, versions
from tools.benchmarks.inputs import layer_flops, sst_examples
from tools.benchmarks.limit import Limit, notes_without_bf16
from tools.benchmarks.settings import DEVICE, Settings
from tools.benchmarks.timing import Side, alternate

# Batches of 64 sentences, of at most 32 tokens.
PRESET = METHODS["simcse"].preset
WEIGHT_DECAY = 0.01
MAX_NORM = 1.0


class SimCSEData(NamedTuple):
    """SST sentences, and batches of similar length."""

    rows: EncodedExamples
    batches: list[list[int]]


class TwoPasses(SimCSE):
    """SimCSE with a forward pass for each view."""

    def forward(self, batch: Batch, task: str = "simcse") -> Tensor:
        """Return the loss of a batch of B sentences, a scalar."""
        first_view = self.projected(batch)  # (B, P)
        second_view = self.projected(batch)  # (B, P)
        # Sentences with equal text are no negatives of each other.
        same = same_text(batch.input_ids, batch.input_ids)
        return losses.info_nce(first_view, second_view, self.temperature, same=same)


def make_side(method: type[SimCSE], model: Path, data: SimCSEData, precision: str) -> Side:
    """Return a function that takes the training step of a batch."""
    encoder = BertModel.from_pretrained(model)
    setup = MethodSetup(encoder, "mean", PRESET.temperature, PRESET.projection)
    module = method(setup).train()
    # Encoder and projection are trained together, as in the stage.
    optimizer = AdamW(parameter_groups(module, WEIGHT_DECAY), lr=PRESET.lr, fused=True)

    def run_part(part: int) -> None:
        batch = data.rows.batch(data.batches[part])
        with runtime.autocast(DEVICE, precision):
            loss = module(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run_part


def read_data(settings: Settings, num_batches: int) -> SimCSEData:
    """Return the sentences of `num_batches` batches."""
    examples = sst_examples(settings.data_dir, num_batches * PRESET.batch_size)
    tokenizer = BertTokenizer.from_pretrained(settings.model)
    rows = EncodedExamples(examples, tokenizer, PRESET.max_length)
    generator = torch.Generator().manual_seed(0)
    batches = length_grouped_batches(rows.lengths, PRESET.batch_size, generator)
    return SimCSEData(rows, batches)


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 7 rounds of 10 steps; quick: 3 of 3."""
    runtime.settle_memory()
    precision = settings.precision
    data = read_data(settings, settings.size(10, 3))
    num_batches = len(data.batches)
    limit = Limit(precision)
    sides = {
        "ours": make_side(SimCSE, settings.model, data, precision),
        "peer": make_side(TwoPasses, settings.model, data, precision),
    }
    seconds = alternate(sides, settings.rounds(7, 3), num_batches, between=limit.measure)
    comparison = Comparison.of(
        f"step ({precision}), one pass of 2B rows : two passes",
        "ms",
        seconds["ours"],
        seconds["peer"],
        Goal("<=", 0.9),
        scale=1e3 / num_batches,
    )

    # Both views of every sentence go through the layers.
    tokens_per_step = 2 * int(data.rows.lengths.sum()) / num_batches
    seconds_per_step = comparison.ours / 1e3
    flops = layer_flops(settings.model, 6) * tokens_per_step
    notes = notes_without_bf16("Both sides are in fp32.")
    notes.append(f"{num_batches} batches of {PRESET.batch_size} SST sentences a round")
    return json_line(
        "simcse",
        [comparison],
        versions(),
        notes=notes,
        share_of_limit=flops / seconds_per_step / limit.median,
        limit=limit.median,
    )
