"""How fast is a training step, against Hugging Face loops and against the machine?

The peers are a loop around transformers' BertModel with every trick, which is its best setting, the
same loop with some tricks, and a plain one. The comparison with the best setting comes first. All
sides have the same SST sentences, MiniLM's shape and batches of 32. Each side has its own process,
as it would be used, and they take their steps in turn. A round is one pass over the sentences. The
unit is sentences per second, and medians of rounds count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from tools.benchmarks.comparison import Check, Comparison, Goal, json_line, versions
from tools.benchmarks.inputs import layer_flops, real_tokens, require, sst_examples
from tools.benchmarks.limit import Limit, notes_without_bf16
from tools.benchmarks.settings import Execution, Settings
from tools.benchmarks.timing import Side, SideProcess, alternate
from tools.benchmarks.training_sides import TrainingData, Tricks, our_side, peer_side, write_heads

# The share of the machine's limit that a step in bf16 should reach.
LEAST_SHARE = 0.7


class Peer(NamedTuple):
    """A peer's loop, what the comparison with it is called, and its goals.

    goal: where ours is in bf16. fp32_goal: in fp32, by either library.
    """

    execution: Execution
    tricks: Tricks
    what: str
    goal: Goal
    fp32_goal: Goal | None = None


def list_peers(settings: Settings) -> dict[str, Peer]:
    """Return the peers by name, the best setting first."""
    ours = settings.precision
    precision = ours if ours == "bf16" else "fp32"
    # Only the strongest peer is compiled, as --help says.
    compiled = ", compiled" if settings.is_compiled else ""
    return {
        "best": Peer(
            settings.execution(precision),
            Tricks(groups_by_length=True, is_fused=True, keeps_memory=True),
            f"ours ({ours}) : best setting of Hugging Face, which is sdpa, {precision}, sorted "
            f"batches, fused AdamW, and freed memory kept{compiled}",
            Goal(">=", 1.5),
            Goal(">=", 1.3),
        ),
        "tricks": Peer(
            Execution(settings.device, precision),
            Tricks(groups_by_length=True),
            f"ours ({ours}) : Hugging Face with sdpa, {precision}, sorted batches",
            Goal(">=", 1.6),
        ),
        "plain": Peer(
            Execution(settings.device),
            Tricks(),
            f"ours ({ours}) : plain Hugging Face loop (fp32, random batches)",
            Goal(">=", 5.0),
        ),
    }


def choose_data(settings: Settings) -> TrainingData:
    """Return the sentences, in whole batches. Full: 50 batches; quick: 8."""
    num_parts = settings.size(50, 8)
    examples = sst_examples(settings.data_dir, num_parts * settings.batch_size)
    # The last batch would be smaller, and faster.
    num_parts = len(examples) // settings.batch_size
    whole = examples[: num_parts * settings.batch_size]
    return TrainingData(settings.model, whole, settings.batch_size)


def measure_sides(
    settings: Settings, data: TrainingData, peers: Mapping[str, Peer], limit: Limit
) -> Mapping[str, list[float]]:
    """Return the seconds of each round, of "ours" and of the peers by name.

    limit: is measured between the rounds.
    """
    num_parts = len(data.examples) // data.batch_size
    with ExitStack() as stack:
        # All processes live for the whole benchmark, so that they can take turns.
        def open_side(make_side: Callable[..., Side], *arguments: Any) -> Side:
            process = SideProcess(settings.threads, make_side, data, *arguments)
            return stack.enter_context(process)

        execution = settings.execution(settings.precision)
        sides = {"ours": open_side(our_side, settings.folder / "ours", execution)}
        for name, peer in peers.items():
            sides[name] = open_side(peer_side, peer.execution, peer.tricks)
        return alternate(sides, settings.rounds(5, 3), num_parts, between=limit.measure)


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 5 rounds of 50 steps; quick: 3 of 8."""
    require("transformers")
    data = choose_data(settings)
    num_sentences = len(data.examples)
    num_parts = num_sentences // data.batch_size
    write_heads(data, settings.folder / "heads", settings.pooling)

    precision = settings.precision
    limit = Limit(precision, settings.device)
    peers = list_peers(settings)
    seconds = measure_sides(settings, data, peers, limit)

    is_bf16 = precision == "bf16"
    comparisons = []
    for name, peer in peers.items():
        goal = None
        if settings.has_goals:
            goal = peer.goal if is_bf16 else peer.fp32_goal
        comparisons.append(
            Comparison.of(
                peer.what, "sentences/s", seconds["ours"], seconds[name], goal, per=num_sentences
            )
        )

    # 6 FLOPs for each weight of the layers and each token: 2 forward, 4 backward.
    tokens_per_sentence = real_tokens(data.examples, settings.model) / num_sentences
    flops_per_sentence = layer_flops(settings.model, 6) * tokens_per_sentence
    sentences_per_second = comparisons[0].ours
    share = flops_per_sentence * sentences_per_second / limit.median
    what = f"share of the {precision} matrix-product limit, 6 FLOPs a layer's weight and real token"
    checks = [Check(what, share, ">=", LEAST_SHARE)]
    notes = notes_without_bf16(
        "Every side is in fp32. Goals for bf16 are left out.", settings.device
    )
    notes.append(
        f"{num_sentences:,} sentences of {tokens_per_sentence:.1f} tokens, their vector "
        f"{settings.pooling}, {num_parts} steps a round; ours on {settings.device_name}: "
        f"{sentences_per_second * tokens_per_sentence:,.0f} real tokens/s"
    )
    return json_line(
        "train_step",
        comparisons,
        versions("transformers"),
        checks if settings.has_goals and is_bf16 else [],
        notes,
        share,
        limit.median,
    )
