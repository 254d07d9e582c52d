"""The mean of word vectors as a sentence vector, in place of an encoder's.

It is the baseline of GloVe (Pennington et al. 2014) in Carlsson et al. 2021 and Kim et al. 2021.
contrastive/quality/word_vectors.py reads the file. Next: metrics.py.

N sentences, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contrastive.embedder import Embedder
from contrastive.quality.word_vectors import WordVectors
from data.examples import Example


@dataclass(frozen=True)
class WordMean:
    """Gives the mean of the vectors of a sentence's words, where `Embedder` asks an encoder.

    Unknown words are left out. The vector of a sentence without a known word is zero.
    """

    words: WordVectors
    pooling: str = "mean"
    precision: str = "fp32"
    max_length: None = None  # no sentence is cut

    def encode(self, sentences: Sequence[str]) -> tuple[Tensor, int]:
        """Vectors (N, D) float32, and how many sentences were cut, which is none."""
        means = np.zeros((len(sentences), self.words.size), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            known = [vector for vector in self.words.vectors_in(sentence) if vector is not None]
            if known:
                means[row] = np.stack(known).mean(axis=0, dtype=np.float64)
        return torch.from_numpy(means), 0

    def vectors_of_examples(self, examples: Sequence[Example]) -> Tensor:
        """The vectors of examples: (N, D), or of pairs (2N, D), all first sentences first."""
        sentences = [example.texts[0] for example in examples]
        sentences += [example.texts[1] for example in examples if len(example.texts) == 2]
        return self.encode(sentences)[0]


Measured = Embedder | WordMean
