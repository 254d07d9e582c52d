"""A map of 20 positive and 20 negative pairs: which sentences lie beside each other, before and after training.

t-SNE (van der Maaten and Hinton 2008) keeps neighbours together and little else. survey.py calls `measure_map`, and
pages.py shows its record. N pairs, K of each kind, H hidden.
"""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F

from contrastive.zero_shot import embed
from data.batching import EncodedExamples
from data.sentence_sets import SentenceSet
from minbert import BertModel, BertTokenizer

NUM_PAIRS = 20  # of each kind
PERPLEXITY = (
    8.0  # how many neighbours t-SNE looks at; of fewer than 25 points a third of the others
)


def choose_pairs(labels: np.ndarray, most: int = NUM_PAIRS) -> tuple[np.ndarray, np.ndarray]:
    """Rows of K positive and of K negative pairs, each (K,) and in file order, K at most `most`.

    The highest labels of those above the middle of all labels' range, and the lowest of those below it, so that no row
    is both. Where more rows share the last label admitted than there is room for, those at even distances in the file
    are taken. labels (N,), not all equal.
    """
    middle = (labels.min() + labels.max()) / 2
    count = min(most, int((labels > middle).sum()), int((labels < middle).sum()))
    return _highest(labels, count), _highest(-labels, count)


def _highest(labels: np.ndarray, count: int) -> np.ndarray:
    last = np.sort(labels)[-count]
    above, equal = np.flatnonzero(labels > last), np.flatnonzero(labels == last)
    room = count - len(above)
    return np.sort(np.concatenate([above, equal[np.arange(room) * len(equal) // room]]))


def project(vectors: np.ndarray) -> np.ndarray:
    """(N, H) -> (N, 2) float64: scikit-learn's t-SNE from a PCA start, in its exact form; equal input, equal map.

    Distances are those of normalised vectors, which order neighbours as cosines do. Vectors that are all equal have no
    map; all their points are 0.
    """
    from sklearn.manifold import TSNE  # late: scikit-learn takes a second to import

    if np.ptp(vectors, axis=0).max() == 0:
        return np.zeros((len(vectors), 2))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    model = TSNE(n_components=2, perplexity=perplexity, init="pca", method="exact", random_state=0)
    return model.fit_transform(units.astype(np.float64)).astype(np.float64)


def measure_map(
    encoders: dict[str, tuple[BertModel, BertTokenizer]], name: str, pairs: SentenceSet, options
) -> dict:
    """Where each encoder puts K positive and K negative pairs of a set, as a record.

    encoders: by when, such as "before" and "after". name: the set's. options: pooling, precision, max_length,
    batch_size, as given. "pairs": label, sentences and kind of each, the positive ones first. "maps": by when,
    "points" (2K, 2, 2) and for the positive and the negative pairs, from the vectors and not the map, the mean "cosine"
    and "beside": in how many of the 2K sentences of that kind no other sentence's vector is nearer than the partner's.
    """
    positive, negative = choose_pairs(np.array([example.label for example in pairs.examples]))
    examples = [pairs.examples[row] for row in (*positive, *negative)]
    count, maps = len(positive), {}
    for when, (encoder, tokenizer) in encoders.items():
        rows = EncodedExamples(examples, tokenizer, options.max_length, pair_encoding="bi")
        vectors = embed(
            encoder, rows, options.pooling, options.precision, options.batch_size
        ).double()  # (4K, H)
        units = F.normalize(vectors, dim=-1)
        cosines = (units @ units.T).fill_diagonal_(
            -2
        )  # (4K, 4K), a sentence being no neighbour of its own
        partner = cosines.diagonal(2 * count)  # (2K,), of each pair's two sentences
        beside = (partner >= cosines.amax(dim=1).unflatten(0, (2, -1)) - 1e-12).sum(
            dim=0
        )  # (2K,) of 0, 1 and 2
        points = project(vectors.numpy()).reshape(2, -1, 2).swapaxes(0, 1)  # (2K, 2, 2)
        maps[when] = {
            "points": points.tolist(),
            "cosine": [float(half.mean()) for half in partner.chunk(2)],
            "beside": [int(half.sum()) for half in beside.chunk(2)],
        }
    return {
        "set": name,
        "maps": maps,
        "pairs": [
            {
                "label": example.label,
                "sentence_1": example.sentence_1,
                "sentence_2": example.sentence_2,
                "is_positive": number < count,
            }
            for number, example in enumerate(examples)
        ],
    }
