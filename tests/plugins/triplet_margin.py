"""The triplet loss with a margin (Reimers and Gurevych 2019), as a file for --plugin.

    python -m contrastive.train triplet-margin --plugin tests/plugins/triplet_margin.py \\
        --text pairs.csv --out runs/triplet-margin

[BSC] compares with it. A text must be closer to its positive than to its negative, by a margin.

B triplets, P width of the vectors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from contrastive import MethodEntry, Settings, Vectors, register_method
from contrastive.inputs import Inputs, Source, nli_triplets
from minbert.commands.options import MethodOptions

MARGIN = 1.0  # how much closer a positive must be


def loss(vectors: Vectors, method_options: MethodOptions) -> torch.Tensor:
    """The mean of max(0, |a - p| - |a - n| + margin), with Euclidean distances.

    The vectors have no fixed length, so the margin is not one of cosines. Returns a scalar.
    """
    assert vectors.hard_negatives is not None, "triplets have a hard negative"
    texts = (vectors.anchors, vectors.positives, vectors.hard_negatives)  # (B, P) each
    return F.triplet_margin_loss(*(text.float() for text in texts), margin=MARGIN)


def collect(source: Source) -> Inputs:
    """The triplets of the text."""
    if not source.triplets:
        raise ValueError(
            "triplet-margin finds its triplets in the text of contrastive.train: pass it to "
            "python -m contrastive.train triplet-margin --text FILE."
        )
    return nli_triplets(source)


register_method(
    "triplet-margin",
    MethodEntry(
        title="a margin between positive and negative, Reimers and Gurevych 2019",
        reads="triplets",
        loss=loss,
        collector=collect,
        preset=Settings(
            source="Reimers and Gurevych 2019", epochs=1, batch_size=16, lr=2e-5, temperature=1.0
        ),
        unread=("temperature",),
    ),
)
