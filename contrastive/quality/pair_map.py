"""A map of 20 positive and 20 negative pairs: which sentences are neighbours of each other?

t-SNE (van der Maaten and Hinton 2008) keeps neighbours together and little else. Two maps show an
encoder before and after training. Next: page.py, which shows the record.

Legend: N vectors, K pairs of each kind, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch.nn.functional as F

from contrastive.quality.vector_sources import VectorSource
from data.examples import Example, evenly_spaced
from data.sentence_sets import SentenceSet

NUM_PAIRS = 20  # of each kind
# The number of neighbours that t-SNE considers. Fewer than 25 points use a third of the others.
PERPLEXITY = 8.0


def choose_pairs(labels: np.ndarray, most: int = NUM_PAIRS) -> tuple[np.ndarray, np.ndarray]:
    """The rows of K positive and of K negative pairs, each (K,) in file order. K is at most `most`.

    Positive pairs have the highest labels of those above the middle of the range. Negative pairs
    have the lowest labels of those below it. So no row is both. If too many rows share the last
    admitted label, rows at even distances in the file are chosen.

    labels: (N,), not all equal.
    """
    middle = (labels.min() + labels.max()) / 2
    num_high = int((labels > middle).sum())
    num_low = int((labels < middle).sum())
    count = min(most, num_high, num_low)
    return _highest(labels, count), _highest(-labels, count)


def _highest(labels: np.ndarray, count: int) -> np.ndarray:
    """The rows of the `count` highest labels, in file order."""
    last_admitted = np.sort(labels)[-count]
    above = np.flatnonzero(labels > last_admitted)
    equal = np.flatnonzero(labels == last_admitted)
    places = evenly_spaced(range(len(equal)), count - len(above))
    return np.sort(np.concatenate([above, equal[list(places)]]))


def project(vectors: np.ndarray) -> np.ndarray:
    """Map vectors (N, H) to points (N, 2) float64 by t-SNE. Equal vectors give equal maps.

    It is scikit-learn's t-SNE in its exact form, from a PCA start. The distances are those of
    normalised vectors, which order neighbours as cosines do. If all vectors are equal, there is no
    map, and all points are 0.
    """
    # Imported late: scikit-learn takes a second.
    from sklearn.manifold import TSNE

    if np.ptp(vectors, axis=0).max() == 0:
        return np.zeros((len(vectors), 2))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    # The mean of word vectors may be zero.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.maximum(lengths, np.finfo(vectors.dtype).tiny)
    model = TSNE(n_components=2, perplexity=perplexity, init="pca", method="exact", random_state=0)
    return model.fit_transform(directions.astype(np.float64)).astype(np.float64)


def measure_map(
    sources: Mapping[str, VectorSource], name: str, pairs: SentenceSet
) -> dict[str, Any]:
    """The maps of K positive and K negative pairs of a set, as a record.

    sources: by time, such as "before" and "after". name: of the set.

    The record has the "set", the "pairs" (the positive ones first) and "maps" by time. A map is
    what `map_of` returns.
    """
    labels = np.array([example.label for example in pairs.examples])
    positive, negative = choose_pairs(labels)
    examples = [pairs.examples[row] for row in (*positive, *negative)]
    maps = {time: map_of(source, examples) for time, source in sources.items()}

    records = []
    for number, example in enumerate(examples):
        records.append(
            {
                "label": example.label,
                "sentence_1": example.sentence_1,
                "sentence_2": example.sentence_2,
                "is_positive": number < len(positive),
            }
        )
    return {"set": name, "maps": maps, "pairs": records}


def map_of(source: VectorSource, examples: list[Example]) -> dict[str, list]:
    """The map of one source of vectors.

    examples: K positive pairs, then K negative ones. The record has
    "points": (2K, 2, 2), two points for each pair.
    "cosine": the mean cosine of the positive and of the negative pairs.
    "beside": how many of the 2K sentences of each kind have their partner as nearest neighbour.
    The last two come from the vectors and not from the map.
    """
    # (4K, H), all first sentences before all second ones
    vectors = source.encode_examples(examples)[0].double()
    directions = F.normalize(vectors, dim=-1)
    cosines = directions @ directions.T  # (4K, 4K)
    # A sentence is no neighbour of itself.
    cosines.fill_diagonal_(-2)
    partner = cosines.diagonal(len(examples))  # (2K,), of the two sentences of each pair

    nearest = cosines.amax(dim=1).unflatten(0, (2, -1))  # (2, 2K)
    is_nearest = partner >= nearest - 1e-12  # (2, 2K)
    num_nearest = is_nearest.sum(dim=0)  # (2K,) of 0, 1 and 2

    points = project(vectors.numpy()).reshape(2, -1, 2)  # (2, 2K, 2)
    return {
        "points": points.swapaxes(0, 1).tolist(),
        "cosine": [float(half.mean()) for half in partner.chunk(2)],
        "beside": [int(half.sum()) for half in num_nearest.chunk(2)],
    }
