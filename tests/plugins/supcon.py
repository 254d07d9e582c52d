"""Supervised contrastive learning, SupCon (Khosla et al. 2020), as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/supcon.py --pretrain supcon

Two sentences of SST with the same label belong together. So a sentence has several positives.

B sentences, P width of the vectors, t temperature.
"""

from __future__ import annotations

import torch

from contrastive import MethodEntry, Settings, Vectors, register_method
from contrastive.inputs import Inputs, Source, in_turn
from contrastive.losses import diagonal_mask, similarities
from minbert.commands.options import MethodOptions


def supcon(vectors: torch.Tensor, is_alike: torch.Tensor, temperature: float) -> torch.Tensor:
    """Each vector must find all others of its class (equation 2, L_out).

        l_i = -1 / |P(i)| sum over p in P(i) of log( exp(cos_ip / t) / sum_{a != i} exp(cos_ia / t))

    P(i) are the other vectors of the class of i. vectors: (2B, P). is_alike: (2B, 2B) bool, whether
    two vectors have one class; the diagonal does not matter. Each has a partner. Returns a scalar,
    the mean over the 2B vectors.
    """
    itself = diagonal_mask(len(vectors), vectors.device)
    logits = similarities(vectors, vectors) / temperature  # (2B, 2B)
    shares = logits.masked_fill(itself, -torch.inf).log_softmax(dim=1)  # (2B, 2B)
    is_positive = is_alike & ~itself
    terms = shares.masked_fill(~is_positive, 0.0).sum(dim=1) / is_positive.sum(dim=1)  # (2B,)
    return -terms.mean()


def loss(vectors: Vectors, method_options: MethodOptions) -> torch.Tensor:
    """--pretrain supcon. Without labels each sentence is a class of its own."""
    is_alike = vectors.same | diagonal_mask(len(vectors.same), vectors.same.device)  # (B, B)
    if vectors.labels is not None:
        is_alike = is_alike | (vectors.labels.unsqueeze(1) == vectors.labels)
    both = torch.cat([vectors.anchors, vectors.positives])  # (2B, P)
    return supcon(both, is_alike.repeat(2, 2), vectors.temperature)


def collect(source: Source) -> Inputs:
    """The sentences of SST with their labels."""
    examples = source.train.get("sst", ())
    if not examples or examples[0].label is None:
        raise ValueError("--pretrain supcon reads the labels of SST. Add sst to --tasks.")
    return in_turn({source.method: source.encode(examples)}, source.settings)


register_method(
    "supcon",
    MethodEntry(
        title="classes as positives, Khosla et al. 2020",
        reads="sentences",
        loss=loss,
        collector=collect,
        # The paper trains on images. Epochs, batch and learning rate are those of simcse.
        preset=Settings(
            source="Khosla et al. 2020 with simcse's settings",
            epochs=1,
            batch_size=64,
            lr=3e-5,
            temperature=0.1,
        ),
    ),
)
