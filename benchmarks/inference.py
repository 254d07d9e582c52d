"""How fast do sentences become vectors, against sentence_transformers.encode as it comes, and are they the same?

Both sides get text and sort it by length themselves; each has a process of its own. The peer opens the folder that our
own --export writes. Where bf16 is not native both are in fp32 alone, and a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import (
    MAX_LENGTH,
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
from contrastive.embed.export import export
from contrastive.embedder import open_embedder
from minbert import BertModel, BertTokenizer
from minbert.training import runtime

VECTORS = "vectors"  # a request; a part gives nothing back, so that no time goes into sending


def our_side(folder: Path, sentences: Sequence[str], batch_size: int, place: Place):
    """A function that encodes all sentences, as `python -m contrastive.embed` does."""
    runtime.settle_memory()
    embedder, _ = open_embedder(
        folder, "auto", MAX_LENGTH, batch_size, place.device.type, place.precision
    )
    runtime.compile_layers(embedder.encoder, place.is_compiled)

    def take(request: int | str) -> np.ndarray | None:
        vectors, _ = embedder.encode(sentences)
        return vectors.numpy() if request == VECTORS else None

    return take


def peer_side(folder: Path, sentences: Sequence[str], batch_size: int, place: Place):
    """The same through sentence_transformers, as it comes; for bf16 with weights and everything else in bfloat16."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    chosen = {"dtype": torch.bfloat16} if place.precision == "bf16" else {}
    model = SentenceTransformer(str(folder), device=place.device.type, model_kwargs=chosen)
    if place.is_compiled:
        model[0].auto_model.compile(dynamic=True)

    def take(request: int | str) -> np.ndarray | None:
        vectors = model.encode(list(sentences), batch_size=batch_size, show_progress_bar=False)
        return vectors if request == VECTORS else None

    return take


def write_export(model: Path, folder: Path, pooling: str = "mean") -> Path:
    """The model as a folder that both sides open, which notes the sentence vector; returns it."""
    export(
        BertModel.from_pretrained(model),
        BertTokenizer.from_pretrained(model),
        folder,
        pooling,
        MAX_LENGTH,
        False,
    )
    return folder


def least_cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """The smallest cosine of two rows with the same number; both (N, H)."""
    products = (vectors.astype(np.float64) * others).sum(axis=1)
    return float(
        (products / np.linalg.norm(vectors, axis=1) / np.linalg.norm(others, axis=1)).min()
    )


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 5 rounds of 2,048 sentences; quick: 3 of 256."""
    require("sentence-transformers")
    precision = settings.precision
    examples = sst_examples(settings.data_dir, settings.size(2048, 256))
    sentences = [example.sentence_1 for example in examples]
    folder = write_export(settings.model, settings.folder / "export", settings.pooling)
    shared, limit = (folder, sentences, settings.batch_size), Limit(precision, settings.device)
    places = {
        "bf16": (our_side, settings.place("bf16")),
        "fp32": (our_side, settings.place("fp32")),
        "peer": (peer_side, Place(settings.device)),
        "peer in bf16": (peer_side, settings.place("bf16")),
    }
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(Process(settings.threads, make, *shared, place))
            for name, (make, place) in places.items()
            if runtime.is_native(place.precision, settings.device)
        }
        vectors = {name: side(VECTORS) for name, side in sides.items()}
        seconds = alternate(sides, settings.rounds(5, 3), num_warm=1, between=limit.measure)
    in_bf16 = f"everything in bf16{', compiled' * settings.is_compiled}"
    comparisons = [
        Comparison.of(
            f"ours ({ours}) : sentence_transformers.encode ({how})",
            "sentences/s",
            seconds[ours],
            seconds[peer],
            goal if settings.has_goals else None,
            per=len(sentences),
        )
        for ours, peer, how, goal in (
            ("bf16", "peer", "fp32", (">=", 3.0)),
            ("fp32", "peer", "fp32", (">=", 1.1)),
            ("bf16", "peer in bf16", in_bf16, None),
        )
        if {ours, peer} <= sides.keys()
    ]
    checks = (
        [
            Check(
                "least cosine of a bf16 vector with the peer's",
                least_cosine(vectors["bf16"], vectors["peer"]),
                ">=",
                0.999,
            )
        ]
        if "bf16" in sides
        else []
    )
    checks.append(
        Check(
            "largest difference of an fp32 vector's number from the peer's",
            float(np.abs(vectors["fp32"] - vectors["peer"]).max()),
            "<=",
            1e-5,
        )
    )
    tokens = real_tokens(examples, folder) / len(examples)  # of a sentence
    notes = without_bf16(
        "Ours in bf16, the peer in bf16 and the cosines of bf16 vectors are left out.",
        settings.device,
    )
    notes += [
        f"{len(sentences):,} SST sentences ({settings.pooling}) a round, tokenization included; ours in "
        f"{precision} on {settings.device_name}: {comparisons[0].ours * tokens:,.0f} real tokens/s"
    ]
    return json_line(
        "inference",
        comparisons,
        versions("sentence-transformers", "transformers"),
        checks,
        notes,
        layer_flops(folder, 2) * tokens * comparisons[0].ours / limit.median,
        limit.median,
    )
