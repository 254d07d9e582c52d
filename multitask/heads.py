"""The prediction heads. model.py puts them on an encoder. head_registry.py names them.

A head is called with the vectors that the pair encoding gives. One vector stands for a sentence, or
for a pair that is encoded in one row with [CLS] or pooler. A pair gives two vectors otherwise, and
three to the heads DPH and DPHA. The output is (B, C), or (B,) where C is 1.

[ROB], [GEN]: two reports of the course (experiments/recipes.py); [CT]: contrastive tension,
Carlsson et al. 2021.
Legend: B batch, H hidden, C outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from data.task_specs import BUILT_IN
from minbert.commands.options import MethodOptions
from multitask.head_registry import HEADS


def module_name(task: str) -> str:
    """The name of a task's module in an nn.ModuleDict.

    A user's task may be called "type" or "keys", which are attributes of every nn.ModuleDict.
    """
    return task if task in BUILT_IN else f"task_{task}"


class Head(nn.Module):
    """The base of the heads of one task."""

    def reset(self, start: float) -> None:
        """Set the first answer of the untrained head. Called once, after all weights are drawn."""

    def inputs(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        """The vectors that the head reads, made from those of the encoder, each (B, H)."""
        return vectors


class DenseHead(Head):
    """Dropout, then one linear layer on all vectors side by side ([ROB] "vanilla", VM)."""

    def __init__(self, num_inputs: int, num_outputs: int, dropout_probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_probability)
        self.dense = nn.Linear(num_inputs, num_outputs)

    def reset(self, start: float) -> None:
        nn.init.constant_(self.dense.bias, start)

    def forward(self, *vectors: Tensor) -> Tensor:
        joined = torch.cat(vectors, dim=-1)  # (B, num_inputs)
        outputs = self.dense(self.dropout(joined))  # (B, C)
        return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs  # (B,) or (B, C)


class FeaturesHead(DenseHead):
    """A DenseHead on `pair_features` where there are two vectors."""

    def forward(self, *vectors: Tensor) -> Tensor:
        features = pair_features(*vectors) if len(vectors) == 2 else vectors[0]
        return super().forward(features)


def pair_features(first: Tensor, second: Tensor) -> Tensor:
    """The features u, v, |u - v|, u * v of two vectors side by side (Conneau et al. 2017).

    One linear layer can read from them how alike the vectors are. From u and v alone it could
    not: a linear function of the two has no term in which both meet.

    first, second: (B, H). Returns (B, 4H).
    """
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class TwoOrdersHead(Head):
    """C outputs from both orders of a pair ([ROB] section 4, "dense prediction heads").

    PH: the vector of each order goes through its own linear layer to one logit. A last linear layer
    joins the logits. Of several classes, each has such logits and such a layer of its own. DPH
    (`has_difference`): the difference of the encoder's two vectors is a third input. It goes
    through the common layer as they do. DPHA (also `has_activation`): a tanh stands between the
    logits and the last layer. Without tanh and without the common layer, DPH is a linear function
    of the two vectors, as PH is.

    The last layer starts as the mean of the logits. After a tanh the logits are at most 1. The last
    layer then starts as `REACH` times the mean. With a fine-tuning learning rate it hardly moves:
    a mean of the three could only say similarities from 1.5 to 3.5.
    """

    REACH = 4.0

    def __init__(
        self,
        hidden_size: int,
        dropout_probability: float,
        has_difference: bool = False,
        has_activation: bool = False,
        num_outputs: int = 1,
    ) -> None:
        super().__init__()
        num_logits = 3 if has_difference else 2
        self.dropout = nn.Dropout(dropout_probability)
        self.has_difference = has_difference
        self.has_activation = has_activation
        layers = [nn.Linear(hidden_size, num_outputs) for _ in range(num_logits)]
        self.logits = nn.ModuleList(layers)
        # For each output a row of weights, one for each of its logits.
        self.dense = nn.Linear(num_logits, num_outputs)

    def reset(self, start: float) -> None:
        sum_of_weights = self.REACH if self.has_activation else 1.0
        nn.init.constant_(self.dense.weight, sum_of_weights / len(self.logits))
        nn.init.constant_(self.dense.bias, start)

    def inputs(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        """Both vectors, and their difference if the head reads it."""
        first, second = vectors
        return (first, second, first - second) if self.has_difference else (first, second)

    def forward(self, *vectors: Tensor) -> Tensor:
        # Each order, and the difference, has its own layer.
        columns = []
        for layer, vector in zip(self.logits, vectors, strict=True):
            columns.append(layer(self.dropout(vector)))  # (B, C)
        logits = torch.stack(columns, dim=-1)  # (B, C, 2 or 3)

        # The last layer joins them: PH and DPH as they are, DPHA after a tanh.
        if self.has_activation:
            logits = torch.tanh(logits)
        if logits.size(1) == 1:
            return self.dense(logits[:, 0]).squeeze(-1)  # (B,)
        return (logits * self.dense.weight).sum(dim=-1) + self.dense.bias  # (B, C)


class CosineHead(Head):
    """The cosine of two vectors in points of similarity, 5 (cos - M) / (1 - M). It has no weights.

    Scores of another range, from low to high, are low + (high - low) (cos - M) / (1 - M). M = 0
    reads the cosine of the untrained encoder as it is ([GEN], table 1). As a logit of PARA, every
    positive cosine then means a paraphrase. With `has_range` M is the value of losses.fitted_range
    ([CT] section 5.2), and 0 until then. It is a buffer, so checkpoints and saved models hold it.
    """

    lowest: Tensor  # M, a scalar

    def __init__(self, has_range: bool = False, low: float = 0.0, high: float = 5.0) -> None:
        super().__init__()
        self.low = low
        self.high = high
        self.register_buffer("lowest", torch.zeros(()), persistent=has_range)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        cosines = F.cosine_similarity(first.float(), second.float(), dim=-1)  # (B,)
        points = (self.high - self.low) * (cosines - self.lowest) / (1 - self.lowest)  # (B,)
        return points + self.low if self.low else points


class MlpHead(Head):
    """Two linear layers, ReLU between them, dropout before each ([GEN]).

    The report does not name its activation.
    """

    def __init__(self, hidden_size: int, num_outputs: int, dropout_probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_probability)
        self.first = nn.Linear(hidden_size, hidden_size)
        self.second = nn.Linear(hidden_size, num_outputs)

    def reset(self, start: float) -> None:
        nn.init.constant_(self.second.bias, start)

    def forward(self, vector: Tensor) -> Tensor:
        hidden = F.relu(self.first(self.dropout(vector)))  # (B, H)
        outputs = self.second(self.dropout(hidden))  # (B, C)
        return outputs.squeeze(-1) if outputs.size(-1) == 1 else outputs  # (B,) or (B, C)


class BilinearForm(nn.Module):
    """C bilinear forms of two vectors, u . W_c v + b_c, as nn.Bilinear computes them."""

    def __init__(self, hidden_size: int, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        self.bilinear = nn.Linear(hidden_size, num_outputs * hidden_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_outputs))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        forms = self.bilinear(v).view(len(v), self.num_outputs, -1)  # (B, C, H)
        outputs = (u.unsqueeze(1) * forms).sum(dim=-1) + self.bias  # (B, C)
        return outputs.squeeze(-1) if self.num_outputs == 1 else outputs  # (B,) or (B, C)


class PairTask(NamedTuple):
    """What PairMlpHeads has to know of a task."""

    num_outputs: int = 1
    is_score: bool = False
    low: float = 0.0
    high: float = 5.0


PARA_AND_STS = {"para": PairTask(), "sts": PairTask(is_score=True)}


class PairMlpHeads(nn.Module):
    """The heads of PARA and STS in [GEN], in one module because they may share layers.

    Each sentence vector goes through two layers. STS, as every score, is the cosine of the two
    results (a CosineHead, which explains `has_range`). PARA is their bilinear form u . W v + b.
    Every other task with classes has bilinear forms of its own, one for each output. Every other
    score has a cosine of its own, because its range is another one.

    tasks: by name.
    sharing: "first" shares the first layer between the tasks, "heads" both layers, "none" nothing.
    """

    def __init__(
        self,
        hidden_size: int,
        dropout_probability: float,
        sharing: str,
        has_range: bool = False,
        tasks: Mapping[str, PairTask] = PARA_AND_STS,
    ) -> None:
        super().__init__()
        scores = [name for name, task in tasks.items() if task.is_score]
        self.first_score = scores[0] if scores else ""
        binary = [name for name, task in tasks.items() if task.num_outputs == 1]
        binary = [name for name in binary if name not in scores]
        self.first_binary = binary[0] if binary else ""

        # The first task of each kind has the names of a model with one task of each kind.
        self.cosines = nn.ModuleDict()
        for name in scores:
            cosine = CosineHead(has_range, tasks[name].low, tasks[name].high)
            if name == self.first_score:
                self.cosine = cosine
            else:
                self.cosines[module_name(name)] = cosine
        self.dropout = nn.Dropout(dropout_probability)
        self.sharing = sharing

        # A layer named "both" is shared, the others belong to one task.
        names = [module_name(name) for name in tasks]
        first_names = names if sharing == "none" else ["both"]
        second_names = ["both"] if sharing == "heads" else names
        self.first = nn.ModuleDict({name: square_layer(hidden_size) for name in first_names})
        self.second = nn.ModuleDict({name: square_layer(hidden_size) for name in second_names})

        if self.first_binary:
            self.bilinear = nn.Linear(hidden_size, hidden_size, bias=False)
            self.bias = nn.Parameter(torch.zeros(()))
        self.forms = nn.ModuleDict()
        for name, task in tasks.items():
            if name not in (*scores, self.first_binary):
                self.forms[module_name(name)] = BilinearForm(hidden_size, task.num_outputs)

    def forward(self, task: str, first: Tensor, second: Tensor) -> Tensor:
        u = self.transform(task, first)  # (B, H)
        v = self.transform(task, second)  # (B, H)
        name = module_name(task)
        if task == self.first_score or name in self.cosines:
            return self.cosine_of(task)(u, v)  # (B,)
        if name in self.forms:
            return self.forms[name](u, v)  # (B,) or (B, C)
        # The bilinear form u . W v + b.
        return (u * self.bilinear(v)).sum(dim=-1) + self.bias  # (B,)

    def cosine_of(self, task: str) -> CosineHead:
        """The cosine that answers a score."""
        if task == self.first_score:
            return self.cosine
        return cast(CosineHead, self.cosines[module_name(task)])

    def transform(self, task: str, vector: Tensor) -> Tensor:
        """Apply the task's two layers: (B, H) -> (B, H)."""
        name = module_name(task)
        first_layer = self.first[name if self.sharing == "none" else "both"]
        second_layer = self.second["both" if self.sharing == "heads" else name]
        hidden = F.relu(first_layer(self.dropout(vector)))  # (B, H)
        return second_layer(self.dropout(hidden))  # (B, H)


def square_layer(hidden_size: int) -> nn.Linear:
    """A linear layer from H units to H units."""
    return nn.Linear(hidden_size, hidden_size)


# --- heads by name --------------------------------------------------------------------------------


class HeadShape(NamedTuple):
    """The numbers that a head of one task is built from."""

    hidden_size: int
    num_vectors: int  # 1 or 2, as the encoder gives them
    num_outputs: int
    dropout_probability: float
    has_range: bool = False  # whether a cosine's lowest value is fitted
    method_options: MethodOptions = MethodOptions(())  # HeadOptions.of_head
    low: float = 0.0  # of a score
    high: float = 5.0


def make_vm_head(shape: HeadShape) -> Head:
    """--head vm."""
    num_inputs = shape.num_vectors * shape.hidden_size
    return DenseHead(num_inputs, shape.num_outputs, shape.dropout_probability)


def make_features_head(shape: HeadShape) -> Head:
    """--head features."""
    num_features = 4 if shape.num_vectors == 2 else 1
    num_inputs = num_features * shape.hidden_size
    return FeaturesHead(num_inputs, shape.num_outputs, shape.dropout_probability)


def make_mlp_head(shape: HeadShape) -> Head:
    """--head mlp for tasks of single sentences. Pairs have PairMlpHeads."""
    return MlpHead(shape.hidden_size, shape.num_outputs, shape.dropout_probability)


def make_cosine_head(shape: HeadShape) -> Head:
    """--head cosine."""
    return CosineHead(shape.has_range, shape.low, shape.high)


def make_ph_head(shape: HeadShape) -> Head:
    """--head ph."""
    return TwoOrdersHead(
        shape.hidden_size, shape.dropout_probability, num_outputs=shape.num_outputs
    )


def make_dph_head(shape: HeadShape) -> Head:
    """--head dph."""
    return TwoOrdersHead(
        shape.hidden_size,
        shape.dropout_probability,
        has_difference=True,
        num_outputs=shape.num_outputs,
    )


def make_dpha_head(shape: HeadShape) -> Head:
    """--head dpha."""
    return TwoOrdersHead(
        shape.hidden_size,
        shape.dropout_probability,
        has_difference=True,
        has_activation=True,
        num_outputs=shape.num_outputs,
    )


# The function of each entry in head_registry.py.
BUILDERS: dict[str, Callable[[HeadShape], Head]] = {
    "features": make_features_head,
    "vm": make_vm_head,
    "ph": make_ph_head,
    "dph": make_dph_head,
    "dpha": make_dpha_head,
    "mlp": make_mlp_head,
    "cosine": make_cosine_head,
}


def build_head(name: str, shape: HeadShape) -> Head:
    """The head of one task. name: of --head. KeyError for another name."""
    build = HEADS[name].build or BUILDERS[name]
    return build(shape)
