"""Decoupled contrastive learning (Yeh et al. 2021), as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/dcl.py --pretrain dcl

B sentences, P width of the vectors, t temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from contrastive import MethodEntry, Settings, Vectors, register_method
from contrastive.losses import similarities
from minbert.commands.options import NONE, MethodOptions, OptionGroup, flag
from minbert.commands.registry import Fixture


@dataclass(frozen=True)
class DclOptions(OptionGroup):
    """Option of dcl."""

    dcl_sigma: float | str = flag(
        NONE,
        "With --pretrain dcl: the width of DCLW's weights, which count a pair less whose vectors "
        "are alike already. The paper uses 0.5. none: all pairs count the same (DCL).",
        low=0.01,
    )


def dcl(
    first: torch.Tensor,
    second: torch.Tensor,
    temperature: float,
    same: torch.Tensor,
    sigma: float | None = None,
) -> torch.Tensor:
    """InfoNCE over both views, without the positive in the denominator (equation 6).

        l_i = -w_i cos(a_i, p_i) / t + log( sum_{j != i} exp(cos(a_i, a_j) / t)
                                            + sum_{j != i} exp(cos(a_i, p_j) / t) )

    The same with p_i as the anchor. w_i is 1, or with sigma 2 - e_i / mean(e), where e_i is
    exp(cos(a_i, p_i) / sigma) (DCLW, equation 7). A sentence without any negative has only the
    first term.

    first, second: (B, P), two encodings of each sentence. same: (B, B) bool, True where two
    sentences are no negatives of each other. Returns a scalar, the mean over the 2B anchors.
    """
    positives = torch.nn.functional.cosine_similarity(first, second)  # (B,)
    weights = torch.ones_like(positives)
    if sigma is not None:
        closeness = (positives.detach() / sigma).exp()  # (B,)
        weights = 2 - closeness / closeness.mean()

    is_negative = ~(same | torch.eye(len(first), dtype=torch.bool, device=same.device))  # (B, B)
    terms = []
    for anchors, others in ((first, second), (second, first)):
        within = similarities(anchors, anchors) / temperature  # (B, B)
        across = similarities(anchors, others) / temperature  # (B, B)
        masks = torch.cat([is_negative, is_negative], dim=1)  # (B, 2B)
        logits = torch.cat([within, across], dim=1).masked_fill(~masks, -torch.inf)  # (B, 2B)
        has_negatives = masks.any(dim=1)  # (B,)
        spread = logits[has_negatives].logsumexp(dim=1)
        terms.append(-weights * positives / temperature)  # (B,)
        terms[-1] = terms[-1].index_add(0, has_negatives.nonzero().squeeze(1), spread)
    return torch.cat(terms).mean()


def loss(vectors: Vectors, method_options: MethodOptions) -> torch.Tensor:
    """--pretrain dcl."""
    sigma = method_options[DclOptions].dcl_sigma
    width = None if sigma == NONE else float(sigma)
    return dcl(vectors.anchors, vectors.positives, vectors.temperature, vectors.same, width)


register_method(
    "dcl",
    MethodEntry(
        title="decoupled contrastive learning, Yeh et al. 2021",
        reads="sentences",
        loss=loss,
        # The paper trains on images. Epochs, batch and learning rate are those of simcse.
        preset=Settings(
            source="Yeh et al. 2021 with simcse's settings",
            epochs=1,
            batch_size=64,
            lr=3e-5,
            temperature=0.1,
        ),
        options=(DclOptions,),
        fixture=Fixture(values={"dcl_sigma": ["none", 0.5, 2.0]}),
    ),
)
