"""What does SimCSE gain by encoding both views in one pass of 2B rows, against two passes of B rows?

Both sides are ours: the same step (forward, backward, clip, AdamW) on the same batches of 64 sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.comparison import Comparison, json_line, versions
from benchmarks.material import DEVICE, Limit, Settings, layer_flops, sst_examples, without_bf16
from benchmarks.sides import alternate
from contrastive import losses
from contrastive.methods import MethodSetup, SimCSE
from contrastive.negatives import same_text
from contrastive.presets import METHODS
from data.batching import Batch, EncodedExamples, length_grouped_batches
from minbert import AdamW, BertModel, BertTokenizer
from minbert.optimizer import parameter_groups
from minbert.training import runtime

PRESET = METHODS["simcse"].preset  # batches of 64, at most 32 tokens


class TwoPasses(SimCSE):
    """SimCSE with a forward pass for each view."""

    def forward(self, batch: Batch, task: str = "simcse") -> Tensor:
        """The loss of a batch of B sentences."""
        first_view, second_view = (
            self.projection(self.vectors(self.encoder, batch.input_ids, batch.attention_mask))
            for _ in range(2)
        )
        return losses.info_nce(
            first_view,
            second_view,
            self.temperature,
            same=same_text(batch.input_ids, batch.input_ids),
        )


def make_side(
    method: type[SimCSE],
    model: Path,
    rows: EncodedExamples,
    batches: list[list[int]],
    precision: str,
) -> Callable[[int], None]:
    """A function that takes the training step of batch `part`."""
    encoder = BertModel.from_pretrained(model)
    setup = MethodSetup(encoder, "mean", PRESET.temperature, PRESET.projection)
    module = method(setup).train()
    optimizer = AdamW(parameter_groups(module, 0.01), lr=PRESET.lr, fused=True)

    def take(part: int) -> None:
        batch = rows.batch(batches[part])
        with runtime.autocast(DEVICE, precision):
            loss = module(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return take


def rows_and_batches(
    settings: Settings, num_batches: int
) -> tuple[EncodedExamples, list[list[int]]]:
    """SST sentences, and their rows in batches of similar length."""
    examples = sst_examples(settings.data_dir, num_batches * PRESET.batch_size)
    rows = EncodedExamples(
        examples, BertTokenizer.from_pretrained(settings.model), PRESET.max_length
    )
    return rows, length_grouped_batches(
        rows.lengths, PRESET.batch_size, torch.Generator().manual_seed(0)
    )


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 7 rounds of 10 steps; quick: 3 of 3."""
    runtime.settle_memory()
    rows, batches = rows_and_batches(settings, settings.size(10, 3))
    precision, limit = settings.precision, Limit(settings.precision)
    sides = {
        name: make_side(method, settings.model, rows, batches, precision)
        for name, method in {"ours": SimCSE, "peer": TwoPasses}.items()
    }
    seconds = alternate(sides, settings.rounds(7, 3), len(batches), between=limit.measure)
    comparison = Comparison.of(
        f"step ({precision}), one pass of 2B rows : two passes",
        "ms",
        seconds["ours"],
        seconds["peer"],
        ("<=", 0.9),
        scale=1e3 / len(batches),
    )
    flops = layer_flops(settings.model, 6) * 2 * int(rows.lengths.sum()) / len(batches)  # of a step
    return json_line(
        "simcse",
        [comparison],
        versions(),
        notes=[
            *without_bf16("Both sides are in fp32."),
            f"{len(batches)} batches of {PRESET.batch_size} SST sentences a round",
        ],
        share_of_limit=flops / (comparison.ours / 1e3) / limit.median,
        limit=limit.median,
    )
