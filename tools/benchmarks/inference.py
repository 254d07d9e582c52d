"""How fast do sentences become vectors, against sentence_transformers.encode? Are they the same?

Both sides get text and sort it by length themselves. Each has its own process. The peer opens the
folder that our own --export writes. Where bf16 is not native, both are in fp32 alone, and a note
says so. With --precision our side computes in this precision alone. What int8 loses is measured by
`python -m tools.benchmarks.large int8`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from contrastive.embed.export import export
from contrastive.embedder import open_embedder
from minbert import BertModel, BertTokenizer
from minbert.commands.options import AUTO
from minbert.options import FP32_ONEDNN
from minbert.training import runtime
from tools.benchmarks.comparison import Check, Comparison, Goal, json_line, versions
from tools.benchmarks.inputs import MAX_LENGTH, layer_flops, real_tokens, require, sst_examples
from tools.benchmarks.limit import Limit, notes_without_bf16
from tools.benchmarks.settings import Execution, Settings
from tools.benchmarks.timing import Side, SideProcess, alternate

# The request for the vectors. A part returns nothing, so that no time goes into sending them.
VECTORS = "vectors"


class EmbedderSide(NamedTuple):
    """A side of the benchmark, and how it computes."""

    make_side: Callable[..., Side]
    execution: Execution


class Pairing(NamedTuple):
    """Two sides that are compared, and what the comparison says."""

    ours: str
    peer: str
    peer_in_words: str
    goal: Goal | None


def our_side(folder: Path, sentences: Sequence[str], batch_size: int, execution: Execution) -> Side:
    """Return a function that encodes all sentences, as `python -m contrastive.embed` does."""
    # Our command keeps freed memory, too.
    runtime.settle_memory()
    embedder, _ = open_embedder(
        folder, "auto", MAX_LENGTH, batch_size, execution.device.type, execution.precision
    )
    runtime.compile_layers(embedder.encoder, execution.is_compiled)

    def run_part(request: int | str) -> np.ndarray | None:
        vectors, _ = embedder.encode(sentences)
        return vectors.numpy() if request == VECTORS else None

    return run_part


def peer_side(
    folder: Path, sentences: Sequence[str], batch_size: int, execution: Execution
) -> Side:
    """Return the same through sentence_transformers, as it comes.

    For bf16 its weights and everything else are in bfloat16.
    """
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    # transformers would show a progress bar while it loads, in the middle of our lines.
    logging.disable_progress_bar()
    model_settings = {"dtype": torch.bfloat16} if execution.precision == "bf16" else {}
    model = SentenceTransformer(
        str(folder), device=execution.device.type, model_kwargs=model_settings
    )
    if execution.is_compiled:
        transformer: Any = model[0]
        transformer.auto_model.compile(dynamic=True)

    def run_part(request: int | str) -> np.ndarray | None:
        vectors = model.encode(list(sentences), batch_size=batch_size, show_progress_bar=False)
        return vectors if request == VECTORS else None

    return run_part


def write_export(model: Path, folder: Path, pooling: str = "mean") -> Path:
    """Write the model as a folder that both sides open, with its sentence vector. Return it."""
    encoder = BertModel.from_pretrained(model)
    tokenizer = BertTokenizer.from_pretrained(model)
    export(encoder, tokenizer, folder, pooling, MAX_LENGTH, False)
    return folder


def least_cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the smallest cosine of two rows with the same number. Both are (N, H)."""
    # In float64: the check is about the vectors, not about their sums.
    products = (vectors.astype(np.float64) * others).sum(axis=1)  # (N,)
    lengths = np.linalg.norm(vectors, axis=1)  # (N,)
    other_lengths = np.linalg.norm(others, axis=1)  # (N,)
    return float((products / lengths / other_lengths).min())


def list_sides(settings: Settings) -> dict[str, EmbedderSide]:
    """Return the sides by name: the precision of ours, "peer" and "peer in bf16".

    Sides that the device would emulate are left out, unless they were asked for.
    """
    asked = settings.asked_precision
    sides = {}
    for precision in ("bf16", "fp32") if asked == AUTO else (asked,):
        sides[precision] = EmbedderSide(our_side, settings.execution(precision))
    sides["peer"] = EmbedderSide(peer_side, Execution(settings.device))
    sides["peer in bf16"] = EmbedderSide(peer_side, settings.execution("bf16"))
    kept = {}
    for name, side in sides.items():
        if name == asked or runtime.is_native(side.execution.precision, settings.device):
            kept[name] = side
    return kept


def compare(
    seconds: dict[str, list[float]], settings: Settings, num_sentences: int
) -> list[Comparison]:
    """Return the comparisons of the sides that were measured."""
    compiled = ", compiled" if settings.is_compiled else ""
    in_bf16 = f"everything in bf16{compiled}"
    # The peer's best setting comes first.
    pairings = [
        Pairing("bf16", "peer in bf16", in_bf16, Goal(">=", 1.5)),
        Pairing("bf16", "peer", "fp32", Goal(">=", 3.0)),
        Pairing("fp32", "peer", "fp32", Goal(">=", 1.1)),
        Pairing("int8", "peer in bf16", in_bf16, Goal(">=", 2.5)),
        Pairing("int8", "peer", "fp32", None),
        Pairing(FP32_ONEDNN, "peer in bf16", in_bf16, None),
        Pairing(FP32_ONEDNN, "peer", "fp32", None),
    ]
    comparisons = []
    for pairing in pairings:
        if not {pairing.ours, pairing.peer} <= seconds.keys():
            continue
        comparisons.append(
            Comparison.of(
                f"ours ({pairing.ours}) : sentence_transformers.encode ({pairing.peer_in_words})",
                "sentences/s",
                seconds[pairing.ours],
                seconds[pairing.peer],
                pairing.goal if settings.has_goals else None,
                per=num_sentences,
            )
        )
    return comparisons


def check_vectors(vectors: dict[str, np.ndarray]) -> list[Check]:
    """Return how close our vectors are to the peer's. vectors: by side."""
    checks = []
    if "bf16" in vectors:
        cosine = least_cosine(vectors["bf16"], vectors["peer"])
        checks.append(Check("least cosine of a bf16 vector with the peer's", cosine, ">=", 0.9999))
    for precision in ("fp32", FP32_ONEDNN):
        if precision in vectors:
            difference = float(np.abs(vectors[precision] - vectors["peer"]).max())
            what = f"largest difference of an {precision} vector's number from the peer's"
            checks.append(Check(what, difference, "<=", 1e-5))
    return checks


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 15 rounds of 2,048 sentences; quick: 3 of 256."""
    require("sentence-transformers")
    examples = sst_examples(settings.data_dir, settings.size(2048, 256))
    sentences = [example.sentence_1 for example in examples]
    folder = write_export(settings.model, settings.folder / "export", settings.pooling)

    limit = Limit(settings.precision, settings.device)
    with ExitStack() as stack:
        sides = {}
        for name, side in list_sides(settings).items():
            arguments = (folder, sentences, settings.batch_size, side.execution)
            process = SideProcess(settings.threads, side.make_side, *arguments)
            sides[name] = stack.enter_context(process)
        # All sides encode once for their vectors before the clock starts. So they are warm.
        vectors = {name: side(VECTORS) for name, side in sides.items()}
        seconds = alternate(sides, settings.rounds(15, 3), num_warmup=0, between=limit.measure)

    comparisons = compare(seconds, settings, len(sentences))
    # 2 FLOPs for each weight of the layers and each token: only a forward pass.
    sentences_per_second = comparisons[0].ours
    tokens_per_sentence = real_tokens(examples, folder) / len(examples)
    tokens_per_second = sentences_per_second * tokens_per_sentence
    notes = notes_without_bf16(
        "Ours in bf16, the peer in bf16 and the cosines of bf16 vectors are left out.",
        settings.device,
    )
    notes.append(
        f"{len(sentences):,} SST sentences ({settings.pooling}) a round, tokenization included; "
        f"ours in {settings.precision} on {settings.device_name}: {tokens_per_second:,.0f} real "
        "tokens/s"
    )
    return json_line(
        "inference",
        comparisons,
        versions("sentence-transformers", "transformers"),
        check_vectors(vectors),
        notes,
        share_of_limit=layer_flops(folder, 2) * tokens_per_second / limit.median,
        limit=limit.median,
    )
