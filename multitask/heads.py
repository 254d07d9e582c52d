"""The prediction heads, one class each. Next: model.py, which puts them on an encoder.

B batch, H hidden, C outputs. A head is called with the vectors that the pair encoding gives, each (B, H): one for a
sentence or a cross-encoded pair with [CLS] or pooler, else two (of DPH three). It returns (B, C), or (B,) where C is 1.
`reset(start)` is called once, after all weights are drawn: `start` is what the head should say before it has learned.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DenseHead(nn.Module):
    """Dropout, then one linear layer on all vectors side by side ([ROB] "vanilla multitask", VM)."""

    def __init__(self, num_inputs: int, num_outputs: int, dropout_probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_probability)
        self.dense = nn.Linear(num_inputs, num_outputs)

    def reset(self, start: float) -> None:
        """Set the bias."""
        nn.init.constant_(self.dense.bias, start)

    def forward(self, *vectors: Tensor) -> Tensor:
        outputs = self.dense(self.dropout(torch.cat(vectors, dim=-1)))  # (B, C)
        return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs


class FeaturesHead(DenseHead):
    """A DenseHead on `pair_features` where there are two vectors."""

    def forward(self, *vectors: Tensor) -> Tensor:
        return super().forward(pair_features(*vectors) if len(vectors) == 2 else vectors[0])


def pair_features(first: Tensor, second: Tensor) -> Tensor:
    """Two vectors (B, H) -> (B, 4H): u, v, |u - v|, u * v, where one layer can read a likeness (Conneau et al. 2017).

    A linear layer on u and v alone could not: it has no term in which both meet.
    """
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class TwoOrdersHead(nn.Module):
    """A number from both orders of a pair, "dual" encoding ([ROB] section 4, "dense prediction heads").

    Each order's vector goes through a linear layer of its own to one logit; a last linear layer joins the logits: PH.
    With `has_difference` the difference of the encoder's two vectors is a third, which goes through the common layer as
    they do: DPH. With `has_activation` tanh stands between the logits and the last layer: DPHA. With neither tanh nor
    the common layer DPH is a linear function of the two vectors, as PH is.

    The last layer starts as the mean of the logits; under an activation, whose results are 1 at most, as `REACH` times
    the mean. At fine-tuning's rates it hardly moves: a mean of the three could say 1.5 to 3.5 and no other similarity.
    """

    REACH = 4.0

    def __init__(
        self,
        hidden_size: int,
        dropout_probability: float,
        has_difference: bool = False,
        has_activation: bool = False,
    ) -> None:
        super().__init__()
        self.dropout, self.has_activation = nn.Dropout(dropout_probability), has_activation
        self.logits = nn.ModuleList(
            nn.Linear(hidden_size, 1) for _ in range(3 if has_difference else 2)
        )
        self.dense = nn.Linear(len(self.logits), 1)

    def reset(self, start: float) -> None:
        """Set the last layer to the mean, and its bias."""
        nn.init.constant_(
            self.dense.weight, (self.REACH if self.has_activation else 1.0) / len(self.logits)
        )
        nn.init.constant_(self.dense.bias, start)

    def with_difference(self, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        """Of the encoder's vectors, (B, H) each, those that the head reads: both, and their difference if it has one."""
        return (first, second, first - second)[: len(self.logits)]

    def forward(self, *vectors: Tensor) -> Tensor:
        logits = [
            dense(self.dropout(vector)) for dense, vector in zip(self.logits, vectors, strict=True)
        ]  # (B, 1)
        logits = torch.cat(logits, dim=-1)  # (B, 2 or 3)
        return self.dense(torch.tanh(logits) if self.has_activation else logits).squeeze(-1)  # (B,)


class CosineHead(nn.Module):
    """The cosine of two vectors in points of similarity, 5 (cos - M) / (1 - M), and no parameters.

    M = 0 is the untrained encoder's own reading of a cosine ([GEN], table 1). Used as PARA's logit, every pair with a
    positive cosine counts as a paraphrase. With `has_range` M is what losses.fitted_range found ([CT] section 5.2; 0
    until then), a buffer, which checkpoints and saved models hold.
    """

    def __init__(self, has_range: bool = False) -> None:
        super().__init__()
        self.register_buffer("lowest", torch.zeros(()), persistent=has_range)

    def reset(self, start: float) -> None:
        """Nothing to set: what it says is the encoder's."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        cosines = F.cosine_similarity(first.float(), second.float(), dim=-1)  # (B,)
        return 5 * (cosines - self.lowest) / (1 - self.lowest)  # (B,)


class MlpHead(nn.Module):
    """Two linear layers with ReLU between and dropout before each ([GEN]; the report does not name its activation)."""

    def __init__(self, hidden_size: int, num_outputs: int, dropout_probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_probability)
        self.first, self.second = (
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, num_outputs),
        )

    def reset(self, start: float) -> None:
        """Set the bias of the second layer."""
        nn.init.constant_(self.second.bias, start)

    def forward(self, vector: Tensor) -> Tensor:
        return self.second(self.dropout(F.relu(self.first(self.dropout(vector)))))


class PairMlpHeads(nn.Module):
    """The heads of PARA and STS in [GEN], in one module because they may share layers.

    Each sentence vector goes through two layers; STS is the cosine of the two results (a CosineHead, which says what
    has_range is), PARA their bilinear form u . W v + b, as nn.Bilinear computes it.
    sharing "first": one first layer for both tasks; "heads": both layers; "none": nothing.
    """

    def __init__(
        self, hidden_size: int, dropout_probability: float, sharing: str, has_range: bool = False
    ) -> None:
        super().__init__()
        self.cosine = CosineHead(has_range)
        self.dropout, self.sharing = nn.Dropout(dropout_probability), sharing
        first = ("para", "sts") if sharing == "none" else ("both",)
        second = ("both",) if sharing == "heads" else ("para", "sts")
        self.first = nn.ModuleDict({name: nn.Linear(hidden_size, hidden_size) for name in first})
        self.second = nn.ModuleDict({name: nn.Linear(hidden_size, hidden_size) for name in second})
        self.bilinear, self.bias = (
            nn.Linear(hidden_size, hidden_size, bias=False),
            nn.Parameter(torch.zeros(())),
        )

    def forward(self, task: str, first: Tensor, second: Tensor) -> Tensor:
        u, v = self.transform(task, first), self.transform(task, second)  # (B, H) each
        if task == "sts":
            return self.cosine(u, v)  # (B,)
        return (u * self.bilinear(v)).sum(dim=-1) + self.bias  # (B,)

    def transform(self, task: str, vector: Tensor) -> Tensor:
        """(B, H) -> (B, H) by the task's two layers."""
        first = self.first[task if self.sharing == "none" else "both"]
        second = self.second["both" if self.sharing == "heads" else task]
        return second(self.dropout(F.relu(first(self.dropout(vector)))))
