"""What is measured: the sentence vectors of an encoder, or the mean of word vectors.

The rest of the package asks a `VectorSource`, and does not know which of the two it is. The mean of
word vectors is the baseline of GloVe (Pennington et al. 2014) in Carlsson et al. 2021 and Kim et
al. 2021. contrastive/quality/word_vectors.py reads its file. Next: metrics.py.

N sentences, and of N examples V vectors: N, or 2N of pairs, all first sentences before all second
ones. H numbers of a vector, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from contrastive.embedder import Embedder, warn_of_unknown
from contrastive.quality.untrained_vectors import POOLING_NAMES, layer_cosines, vector_functions
from contrastive.quality.word_vectors import Coverage, WordVectors
from contrastive.zero_shot import SHOW_PROGRESS, embed, encode
from data.batching import EncodedExamples, sorted_batches
from data.examples import Example
from minbert.bert import BertOutput


class EncodedSet(NamedTuple):
    """The vectors (V, H) of a set by kind, and the number of sentences that were cut.

    layers: the cosines (N,) of `layer_cosines` by (state, pooling). Empty if nobody asked for them,
    and where there are no layers.
    """

    vectors: Mapping[str, Tensor]
    layers: Mapping[tuple[int, str], Tensor]
    num_truncated: int


class VectorSource(Protocol):
    """What turns sentences into vectors. The classes below say nothing again that stands here."""

    @property
    def pooling(self) -> str:
        """The pooling that makes its vectors, by its name in minbert/pooling.py."""

    @property
    def precision(self) -> str:
        """Of matrix products."""

    @property
    def max_length(self) -> int | None:
        """Tokens of a sentence at most. None: no sentence is cut."""

    @property
    def size(self) -> int:
        """H."""

    @property
    def device(self) -> str:
        """The type of the device that computes the vectors."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What the record of a report says of it, beside its settings."""

    def encode(self, sentences: Sequence[str]) -> tuple[Tensor, int]:
        """Vectors (N, H) float32 on the CPU, and how many sentences were cut."""

    def encode_examples(self, examples: Sequence[Example], name: str = "") -> tuple[Tensor, int]:
        """Vectors (V, H) float32 on the CPU, and how many sentences were cut.

        name: of the examples in a warning that most of their tokens are unknown. Without a name
        there is no warning.
        """

    def encode_kinds(
        self, pairs: Sequence[Example], name: str, with_baselines: bool, with_layers: bool
    ) -> EncodedSet:
        """Its own vectors, which come first, and with_baselines those of untrained_vectors.py.

        name: of the pairs in a warning. Kinds and layers that it does not have are left out.
        """


@dataclass(frozen=True)
class EncoderVectors:
    """The vectors of an encoder.

    training: how the encoder was trained, as of `read_training`. None if nothing is known of it.
    """

    embedder: Embedder
    training: Mapping[str, Any] | None = None

    @property
    def pooling(self) -> str:
        return self.embedder.pooling

    @property
    def precision(self) -> str:
        return self.embedder.precision

    @property
    def max_length(self) -> int:
        return self.embedder.max_length

    @property
    def size(self) -> int:
        return self.embedder.encoder.config.hidden_size

    @property
    def device(self) -> str:
        return next(self.embedder.encoder.parameters()).device.type

    @property
    def description(self) -> dict[str, Any]:
        return {} if self.training is None else {"training": self.training}

    def encode(self, sentences: Sequence[str]) -> tuple[Tensor, int]:
        return self.embedder.encode(sentences)

    def encode_examples(self, examples: Sequence[Example], name: str = "") -> tuple[Tensor, int]:
        rows = self._rows_of(examples, name)
        vectors = embed(
            self.embedder.encoder, rows, self.pooling, self.precision, self.embedder.batch_size
        )
        return vectors, rows.num_truncated

    def encode_kinds(
        self, pairs: Sequence[Example], name: str, with_baselines: bool, with_layers: bool
    ) -> EncodedSet:
        rows = self._rows_of(pairs, name)
        functions = vector_functions(self.pooling, with_baselines)

        # Hidden states are large. Each batch keeps only its vectors and cosines.
        def read(output: BertOutput, attention_mask: Tensor) -> dict[Any, Tensor]:
            tensors: dict[Any, Tensor] = {}
            for kind, function in functions.items():
                tensors[kind] = function(output, attention_mask)
            if with_layers:
                assert output.hidden_states is not None
                tensors |= layer_cosines(output.hidden_states, attention_mask)
            return tensors

        with_states = with_baselines or with_layers
        batches = SHOW_PROGRESS(sorted_batches(rows.lengths, self.embedder.batch_size))
        tensors = encode(self.embedder.encoder, rows, read, self.precision, batches, with_states)
        vectors: dict[Any, Tensor] = {}
        layers: dict[Any, Tensor] = {}
        for key, tensor in tensors.items():
            part = vectors if key in functions else layers
            part[key] = tensor
        return EncodedSet(vectors, layers, rows.num_truncated)

    def _rows_of(self, examples: Sequence[Example], name: str) -> EncodedExamples:
        """Token ids, with one row for each sentence."""
        rows = EncodedExamples(examples, self.embedder.tokenizer, self.max_length, "bi")
        if name:
            warn_of_unknown(rows, name)
        return rows


@dataclass(frozen=True)
class WordMean:
    """The mean of the vectors of a sentence's words.

    Unknown words are left out. The vector of a sentence without a known word is zero.

    coverage: how many words of the measured sentences are known, for the record.
    """

    words: WordVectors
    coverage: Coverage
    pooling: str = "mean"
    precision: str = "fp32"
    max_length: None = None  # no sentence is cut
    device: str = "cpu"

    @property
    def size(self) -> int:
        return self.words.size

    @property
    def description(self) -> dict[str, Any]:
        return {"word_vectors": self.coverage.record | {"file": self.words.summary}}

    def encode(self, sentences: Sequence[str]) -> tuple[Tensor, int]:
        means = np.zeros((len(sentences), self.size), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            known = [vector for vector in self.words.vectors_in(sentence) if vector is not None]
            if known:
                means[row] = np.stack(known).mean(axis=0, dtype=np.float64)
        return torch.from_numpy(means), 0

    def encode_examples(self, examples: Sequence[Example], name: str = "") -> tuple[Tensor, int]:
        sentences = [example.texts[0] for example in examples]
        sentences += [example.texts[1] for example in examples if len(example.texts) == 2]
        return self.encode(sentences)

    def encode_kinds(
        self, pairs: Sequence[Example], name: str, with_baselines: bool, with_layers: bool
    ) -> EncodedSet:
        vectors, num_truncated = self.encode_examples(pairs)
        return EncodedSet({POOLING_NAMES[self.pooling]: vectors}, {}, num_truncated)
