"""How fast is a training step, against a plain Hugging Face loop, against one with every trick, against the machine?

The same SST sentences on each side, MiniLM's shape, batches of 32. Each side has a process of its own, as it would be
used, and they take their steps in turn; a round is one pass over the sentences. Sentences a second, medians of rounds.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import (
    Limit,
    Place,
    Settings,
    layer_flops,
    real_tokens,
    require,
    sst_examples,
    without_bf16,
)
from benchmarks.sides import Process, alternate
from benchmarks.training import our_side, peer_side, write_heads

PLAIN, TRICKS, FURTHER = "plain", "tricks", "further"


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 5 rounds of 50 steps; quick: 3 of 8."""
    require("transformers")
    num_parts = settings.size(50, 8)
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    num_parts = len(examples) // settings.batch_size  # whole batches
    examples = examples[: num_parts * settings.batch_size]
    write_heads(settings.model, settings.folder / "heads", examples, settings.pooling)
    precision, limit = settings.precision, Limit(settings.precision, settings.device)
    has_goals = settings.has_goals and precision == "bf16"  # they are set for it
    place, shared = settings.place(precision), (settings.model, examples, settings.batch_size)
    sides = {
        "ours": (
            our_side,
            settings.model,
            settings.folder / "ours",
            examples,
            settings.batch_size,
            place,
        ),
        PLAIN: (peer_side, *shared, Place(settings.device)),
        TRICKS: (peer_side, *shared, Place(settings.device, precision), True),
        FURTHER: (peer_side, *shared, place, True, True, True),
    }
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(Process(settings.threads, *side))
            for name, side in sides.items()
        }
        seconds = alternate(processes, settings.rounds(5, 3), num_parts, between=limit.measure)
    names = {
        PLAIN: (
            f"ours ({precision}) : plain Hugging Face loop (fp32, random batches)",
            (">=", 5.0),
        ),
        TRICKS: (
            f"ours ({precision}) : Hugging Face with sdpa, {precision}, sorted batches",
            (">=", 1.6),
        ),
        FURTHER: (
            f"the same with fused AdamW, and freed memory kept{', compiled' * settings.is_compiled}",
            None,
        ),
    }
    comparisons = [
        Comparison.of(
            what,
            "sentences/s",
            seconds["ours"],
            seconds[peer],
            goal if has_goals else None,
            per=len(examples),
        )
        for peer, (what, goal) in names.items()
    ]
    tokens = real_tokens(examples, settings.model)
    flops = layer_flops(settings.model, 6) * tokens / len(examples)  # of a sentence
    share = flops * comparisons[0].ours / limit.median
    checks = [
        Check(
            f"share of the {precision} matrix-product limit, 6 FLOPs a layer's weight and real token",
            share,
            ">=",
            0.45,
        )
    ]
    notes = without_bf16(
        "Every side is in fp32. The goals are for bf16 and are left out.", settings.device
    )
    notes += [
        f"{len(examples):,} sentences of {tokens / len(examples):.1f} tokens, their vector {settings.pooling}, "
        f"{num_parts} steps a round; ours on {settings.device_name}: "
        f"{comparisons[0].ours * tokens / len(examples):,.0f} real tokens/s"
    ]
    return json_line(
        "train_step",
        comparisons,
        versions("transformers"),
        checks if has_goals else [],
        notes,
        share,
        limit.median,
    )
