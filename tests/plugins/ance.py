"""Hard negatives that the encoder itself finds (ANCE, Xiong et al. 2021), as a file for --plugin.

    python run_multitask.py --plugin tests/plugins/ance.py --pretrain ance

In the first epoch a pair meets the other pairs of its batch. Before each later one the encoder, as
it is then, looks among the second texts of all pairs for those that are nearest to each first text
and do not belong to it. They join its batch as hard negatives.

N pairs, B of a batch, K hard negatives of each pair, H hidden, P width of the vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from contrastive import MethodEntry, Settings, Vectors, register_method
from contrastive.batch_order import Renewal
from contrastive.embedder import nearest
from contrastive.inputs import Inputs, Source, in_turn
from contrastive.losses import info_nce
from contrastive.negatives import components
from contrastive.sentences import EncodedGroups
from data.batching import EncodedExamples
from minbert.commands.options import MethodOptions, OptionGroup, flag
from minbert.commands.registry import Fixture


@dataclass(frozen=True)
class AnceOptions(OptionGroup):
    """Option of ance."""

    ance_negatives: int = flag(
        1, "With --pretrain ance: hard negatives of each pair from the second epoch on.", low=1
    )


class Mined(Renewal):
    """The hard negatives of each pair, as numbers of the pairs whose second texts they are."""

    title = "the search of ance"
    negatives: torch.Tensor  # (N, K) int64
    of_epoch: torch.Tensor  # the epoch that they are for, 0 before there are any

    def __init__(self, pairs: Sequence[tuple[str, ...]], num_negatives: int) -> None:
        super().__init__()
        self.register_buffer("negatives", torch.zeros(len(pairs), num_negatives).long())
        self.register_buffer("of_epoch", torch.tensor(0))

        # What a text means: the same as all texts that pairs connect with it.
        numbers: dict[str, int] = {}
        text_of = []
        for pair in pairs:
            text_of.append([numbers.setdefault(text, len(numbers)) for text in pair])
        texts = torch.tensor(text_of).T  # (2, N)
        self.first, self.second = components(texts.flatten(), texts).chunk(2)  # (N,) each
        self.most_alike = int(self.second.bincount().max())
        if len(pairs) < num_negatives + self.most_alike:
            raise ValueError(
                f"--pretrain ance: {len(pairs)} pairs, of which up to {self.most_alike} say the "
                f"same, do not hold {num_negatives} negatives of each. Add other pairs, or pass a "
                "smaller --ance_negatives."
            )

    def compute(self, epoch: int, vectors: torch.Tensor) -> list[list[int]]:
        """The hard negatives of each pair. vectors: (2N, H), of all first, then second texts."""
        first, second = vectors.chunk(2)  # (N, H) each
        num_negatives = self.negatives.size(1)
        found = nearest(second, num_negatives + self.most_alike, first).rows.tolist()
        chosen = []
        for meaning, near in zip(self.first, found, strict=True):
            others = [number for number in near if self.second[number] != meaning]
            chosen.append(others[:num_negatives])
        return chosen

    def renew(self, epoch: int, computed: list[list[int]]) -> None:
        """Take the hard negatives for `epoch`."""
        self.negatives.copy_(torch.tensor(computed))
        self.of_epoch.fill_(epoch)


class MinedPairs(EncodedGroups):
    """Pairs whose batches also have the hard negatives that were found."""

    def __init__(self, pairs: EncodedExamples, source: Source) -> None:
        texts = [pair.texts for pair in pairs.examples]
        super().__init__(texts, source.tokenizer, source.settings.max_length)
        self.mined = Mined(texts, source.method_options[AnceOptions].ance_negatives)

    def sides(self, indices: Sequence[int]) -> list[list[int]]:
        """The rows of the first and second texts, and of the hard negatives."""
        sides = super().sides(indices)
        if self.mined.of_epoch > 0:
            for numbers in self.mined.negatives[indices].T.tolist():
                sides.append([len(self.groups) + number for number in numbers])
        return sides


def collect(source: Source) -> Inputs:
    """The pairs of PARA and STS that belong together, and the search before an epoch."""
    pairs = source.pairs(source.train.get("sts", ()), keeps_negatives=False)
    rows = MinedPairs(pairs, source)
    inputs = in_turn({source.method: rows}, source.settings)
    return replace(inputs, renewal=rows.mined, renewal_rows=pairs)


def loss(vectors: Vectors, method_options: MethodOptions) -> torch.Tensor:
    """--pretrain ance: InfoNCE, in which the hard negatives of all pairs are candidates, too."""
    return info_nce(
        vectors.anchors,
        vectors.positives,
        vectors.temperature,
        vectors.hard_negatives,
        same=vectors.same,
        same_hard=vectors.same_hard,
    )


register_method(
    "ance",
    MethodEntry(
        title="the nearest other texts as hard negatives, Xiong et al. 2021",
        reads="labelled pairs",
        loss=loss,
        collector=collect,
        # The paper ranks passages with other settings. These are those of mnr, for more epochs.
        preset=Settings(source="our own", epochs=3, batch_size=64, lr=2e-5, temperature=0.05),
        options=(AnceOptions,),
        fixture=Fixture(
            options={"contrastive_epochs": 3, "contrastive_batch_size": 32},
            values={"ance_negatives": [1, 2]},
        ),
    ),
)
