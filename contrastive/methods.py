"""What each contrastive method encodes, and which loss it calls. Next: text.py (what it reads), plans.py, pretrain.py.

B sentences, pairs or triplets, R rows of the encoder, T tokens, H hidden, L layers. Every method is a module:
method(batch, task) is the loss of a batch, a scalar; `task` tells batches apart where a method reads two kinds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from contrastive import losses
from contrastive.caching import in_pieces
from contrastive.negatives import no_negatives, same_text
from contrastive.options import ContrastiveOptions
from contrastive.presets import Settings
from contrastive.sentences import POSITIVE_ABOVE
from data.batching import Batch
from minbert import BertModel
from minbert.fast import positions_read
from minbert.pooling import maximum, mean, pool
from minbert.training import processes

GUIDED_WIDTH = 4096  # of the self-guided projection


def make_projection(encoder: BertModel, kind: str) -> nn.Module:
    """ "tanh": linear and tanh ([SimCSE], released code); "mlp": two layers, ReLU between ([GEN]); "none"."""
    size = encoder.config.hidden_size
    match kind:
        case "tanh":
            projection = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        case "mlp":
            projection = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        case _:
            projection = nn.Sequential()
    return projection.apply(encoder.initialise)


class Method(nn.Module):
    """What all share: one encoder, its pooling, a projection that learns with it and is no part of it.

    `scale` is 1 / temperature where it learns, else None. `copies` are the encoders whose vectors count, by name; the
    stage goes on with the better. `begin` is called when the stage starts; `frozen` are parameters that do not learn.
    `chunk` rows at a time go through an encoder (caching.py), or with 0 all of a batch.
    """

    def __init__(
        self,
        encoder: BertModel,
        pooling: str,
        temperature: float,
        projection: str = "none",
        chunk: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.temperature, self.chunk = (
            encoder,
            pooling,
            temperature,
            chunk,
        )
        self.projection = make_projection(encoder, projection)
        self.scale: nn.Parameter | None = None

    def vectors(self, encoder: BertModel, *inputs: Tensor) -> Tensor:
        """Sentence vectors (R, H) float32 of token ids, attention mask and, of pairs, segments, each (R, T)."""

        def encode(input_ids: Tensor, attention_mask: Tensor, *segments: Tensor) -> Tensor:
            positions = positions_read(attention_mask, self.pooling)
            output = encoder(input_ids, attention_mask, *segments, positions=positions)
            return pool(output, attention_mask, self.pooling)

        rows, _ = processes.own_rows(len(inputs[0]))
        with processes.own_randomness():
            own = in_pieces(encode, self.chunk, *(tensor[rows] for tensor in inputs))
        return processes.gather(own, len(inputs[0]))  # (R, H), in every process

    def projected(self, batch: Batch) -> Tensor:
        """(R, H): the vectors of all rows of a batch, after the projection."""
        return self.projection(self.vectors(self.encoder, batch.input_ids, batch.attention_mask))

    def learned_scale(self) -> Tensor:
        """The scale that learns; ValueError where that has brought it to 0 or below."""
        if self.scale.item() <= 0:
            raise ValueError(
                f"the scale that learns, 1 / temperature, has come to {self.scale.item():g}; it must be "
                "above 0. Take a fixed one: bsc without --bsc_temperature_lr, or ct for ct-in-batch."
            )
        return self.scale

    def copies(self) -> dict[str, BertModel]:
        return {"only": self.encoder}

    def begin(self) -> None:
        pass

    def frozen(self) -> tuple[nn.Parameter, ...]:
        return ()


class SimCSE(Method):
    """Unsupervised SimCSE (Gao et al. 2021, section 3): a sentence encoded twice, under two dropout masks, is its own
    positive. Rows of equal text are not negatives of each other. Fusion training brings such rows; there a row may
    also be a pair, and the two rows of one example are not negatives of each other either.
    """

    def forward(self, batch: Batch, task: str = "simcse") -> Tensor:
        """The loss of a batch of B sentences. Both views go through the encoder in one pass of 2B rows."""
        inputs = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        twice = (tensor.repeat(2, 1) for tensor in inputs)  # (2B, T) each: dropout differs
        first_view, second_view = self.projection(self.vectors(self.encoder, *twice)).chunk(
            2
        )  # (B, H) each
        example_of = torch.arange(len(batch.input_ids), device=first_view.device) % len(batch.ids)
        same = same_text(batch.input_ids, batch.input_ids) | (example_of == example_of.unsqueeze(1))
        return losses.info_nce(first_view, second_view, self.temperature, same=same)


class SupervisedSimCSE(SimCSE):
    """SimCSE on Quora's labelled pairs: those labelled 0 are candidates without a term of their own.

    [GEN] maximizes their loss instead, which has no end; as hard negatives of their own first sentence they would be
    pushed from it, and with rows only nothing here does that (docs/contrastive.md, traps). Batches of any other task
    are sentences, and unsupervised SimCSE by the same projection.
    """

    def forward(self, batch: Batch, task: str = "simcse-supervised") -> Tensor:
        """The loss of B pairs (2B rows), or of another task's B sentences."""
        if task != "simcse-supervised":
            return super().forward(batch)
        same = no_negatives(*batch.input_ids.chunk(2), batch.labels > 0)
        return losses.bsc(
            *self.projected(batch).chunk(2),
            self.temperature,
            symmetric=False,
            labels=batch.labels,
            same=same,
        )  # rows only, cosine: info_nce with labels


class TripletSimCSE(Method):
    """Supervised SimCSE (Gao et al. 2021, section 4): triplets whose contradictions are hard negatives."""

    def __init__(self, *shared, hard_negative_weight: float = 0.0) -> None:
        super().__init__(*shared)
        self.hard_negative_weight = hard_negative_weight

    def forward(self, batch: Batch, task: str = "simcse-nli") -> Tensor:
        """The loss of B triplets (3B rows)."""
        first, second, third = batch.input_ids.chunk(3)  # (B, T) each
        same, same_hard = no_negatives(first, second, torch.ones(len(first)).bool(), third).chunk(
            2, dim=1
        )  # (B, B)
        anchors, positives, hard = self.projected(batch).chunk(3)  # (B, H) each
        return losses.info_nce(
            anchors,
            positives,
            self.temperature,
            hard,
            self.hard_negative_weight,
            same,
            same_hard=same_hard,
        )


class Ranking(Method):
    """Multiple negatives ranking (Henderson et al. 2017; [ROB]): pairs that belong together, scale 1 / temperature."""

    def __init__(self, *shared, similarity: losses.Similarity) -> None:
        super().__init__(*shared)
        self.similarity: losses.Similarity = similarity

    def forward(self, batch: Batch, task: str = "mnr") -> Tensor:
        """The loss of B pairs (2B rows)."""
        same = no_negatives(*batch.input_ids.chunk(2), batch.labels > 0)
        return losses.multiple_negatives_ranking(
            *self.projected(batch).chunk(2), 1 / self.temperature, self.similarity, same
        )


class BatchSoftmax(Method):
    """BSC (Chernyavskiy et al.) with its switches, see losses.bsc. With `learns_temperature` 1 / t starts at 1."""

    def __init__(
        self,
        *shared,
        symmetric: bool = True,
        normalise: Literal["l2", "batch", "none"] = "l2",
        align: float | None = None,
        learns_temperature: bool = False,
    ) -> None:
        super().__init__(*shared)
        self.symmetric, self.normalise, self.align = symmetric, normalise, align
        if learns_temperature:
            self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, batch: Batch, task: str = "bsc") -> Tensor:
        """The loss of B pairs (2B rows) labelled 0 to 1."""
        same = no_negatives(*batch.input_ids.chunk(2), batch.labels > POSITIVE_ABOVE)
        temperature = self.temperature if self.scale is None else 1 / self.learned_scale()
        return losses.bsc(
            *self.projected(batch).chunk(2),
            temperature,
            self.symmetric,
            self.normalise,
            batch.labels,
            self.align,
            same,
            POSITIVE_ABOVE,
        )


class ContrastiveTension(Method):
    """Two copies of the encoder (Carlsson et al. 2021): they agree on a sentence and disagree on two different ones.

    The first copy encodes the first half of a batch's rows, the second one the other half; a pair whose ids are equal
    is a positive. With `in_batch` each of B sentences is met with all B, by a scale that learns. Dropout is off.
    """

    def __init__(self, *shared, in_batch: bool) -> None:
        super().__init__(*shared)
        self.second = copy.deepcopy(self.encoder)
        if in_batch:
            self.scale = nn.Parameter(torch.tensor(1 / self.temperature))

    def begin(self) -> None:
        self.second.load_state_dict(self.encoder.state_dict())

    def copies(self) -> dict[str, BertModel]:
        return {"first": self.encoder, "second": self.second}

    def train(self, mode: bool = True) -> ContrastiveTension:
        """Evaluation mode whatever the loop asks for: two dropout masks would make a sentence differ from itself."""
        return super().train(False)

    def distinct(
        self, encoder: BertModel, ids: tuple[str, ...], input_ids: Tensor, attention_mask: Tensor
    ) -> Tensor:
        """(R, H); rows of one id, such as an anchor and its negatives' anchor, are encoded once."""
        row_of = {name: row for row, name in reversed(list(enumerate(ids)))}
        place_of = {name: place for place, name in enumerate(row_of)}
        rows = list(row_of.values())
        return self.vectors(encoder, input_ids[rows], attention_mask[rows])[
            [place_of[name] for name in ids]
        ]

    def forward(self, batch: Batch, task: str = "ct") -> Tensor:
        """The loss of B pairs (2B rows), or with `in_batch` of B sentences."""
        if self.scale is not None:
            first, second = (
                self.vectors(encoder, batch.input_ids, batch.attention_mask)
                for encoder in (self.encoder, self.second)
            )
            return losses.contrastive_tension_in_batch(first, second, self.learned_scale())
        half = len(batch.ids) // 2
        sides = zip(
            (self.encoder, self.second),
            (batch.ids[:half], batch.ids[half:]),
            batch.input_ids.chunk(2),
            batch.attention_mask.chunk(2),
            strict=True,
        )
        first, second = (self.distinct(*side) for side in sides)  # (B, H) each
        is_identical = [
            one == other for one, other in zip(batch.ids[:half], batch.ids[half:], strict=True)
        ]
        return losses.contrastive_tension(
            first, second, torch.tensor(is_identical, device=first.device)
        )


class SelfGuided(Method):
    """An encoder T is guided by the hidden states of F, a frozen copy of how it began (Kim et al. 2021, [SG]).

    c = T's sentence vector ([CLS] in the paper: --pooling cls); h_k = F's hidden state k = 0 (embeddings) to L, pooled
    over real tokens by "max" (paper) or "mean" (released code). objective "nt-xent" (SG), "opt1" and "opt2" take one k
    for each sentence, drawn uniformly; "opt3" (SG-OPT) takes all. Plus `regulariser` x |theta_T - theta_F|^2. T's
    embeddings do not learn. The projection, H -> 4096 -> GELU -> 4096 -> GELU, stands on both sides.
    """

    def __init__(
        self, *shared, objective: str, state_pooling: str = "max", regulariser: float = 0.1
    ) -> None:
        super().__init__(*shared)
        # In a list, F is no part of the module: neither its training mode nor its checkpoint nor its optimizer.
        self.guides = [copy.deepcopy(self.encoder).requires_grad_(False).eval()]
        self.objective, self.state_pooling, self.regulariser = objective, state_pooling, regulariser
        size = self.encoder.config.hidden_size
        self.projection = nn.Sequential(
            nn.Linear(size, GUIDED_WIDTH),
            nn.GELU(),
            nn.Linear(GUIDED_WIDTH, GUIDED_WIDTH),
            nn.GELU(),
        ).apply(self.encoder.initialise)

    def begin(self) -> None:
        self.guides[0].to(next(self.encoder.parameters()).device).load_state_dict(
            self.encoder.state_dict()
        )

    def frozen(self) -> tuple[nn.Parameter, ...]:
        return tuple(self.encoder.embeddings.parameters())

    def states(self, batch: Batch) -> Tensor:
        """(B, L + 1, H) float32: the pooled hidden states of F."""

        def encode(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            hidden = self.guides[0](
                input_ids, attention_mask, output_hidden_states=True
            ).hidden_states
            reduce = mean if self.state_pooling == "mean" else maximum
            return torch.stack([reduce(state, attention_mask) for state in hidden], dim=1)

        with torch.no_grad():
            return in_pieces(encode, self.chunk, batch.input_ids, batch.attention_mask)

    def distance(self) -> Tensor:
        """The sum of squares of T's weights less F's, a scalar, over what learns: the rest is where it was."""
        theirs = dict(self.guides[0].named_parameters())
        return sum(
            (ours - theirs[name]).square().sum()
            for name, ours in self.encoder.named_parameters()
            if ours.requires_grad and (self.pooling == "pooler" or not name.startswith("pooler."))
        )

    def forward(self, batch: Batch, task: str = "sg") -> Tensor:
        """The loss of B sentences."""
        anchors, states = self.projected(batch), self.states(batch)  # (B, 4096), (B, L + 1, H)
        if self.objective == "opt3":
            loss = losses.self_guided_opt3(anchors, self.projection(states), self.temperature)
        else:
            chosen = torch.randint(states.size(1), (len(states),)).to(states.device)  # (B,)
            hidden = self.projection(
                states[torch.arange(len(states), device=states.device), chosen]
            )  # (B, 4096)
            formula = {
                "nt-xent": losses.nt_xent,
                "opt1": losses.self_guided_opt1,
                "opt2": losses.self_guided_opt2,
            }
            loss = formula[self.objective](anchors, hidden, self.temperature)
        return loss + self.regulariser * self.distance()


def build_method(
    method: str,
    options: ContrastiveOptions,
    settings: Settings,
    pooling: str,
    encoder: BertModel,
) -> Method:
    """The module of a stage. method: its name in --pretrain. settings: see presets.py."""
    return BUILDERS[method](
        options,
        encoder,
        pooling,
        settings.temperature,
        settings.projection,
        settings.chunk,
    )


def build_bsc(options: ContrastiveOptions, *shared: Any) -> Method:
    """BatchSoftmax with the options of bsc. shared: the arguments of every Method."""
    own = options.bsc
    return BatchSoftmax(
        *shared,
        symmetric=own.bsc_symmetric == "yes",
        normalise=own.bsc_normalise,
        align=None if own.bsc_align == "none" else own.bsc_align,
        learns_temperature=own.bsc_temperature_lr != "none",
    )


def build_self_guided(objective: str, options: ContrastiveOptions, *shared: Any) -> Method:
    """SelfGuided with an objective and the options of sg."""
    own = options.self_guided
    return SelfGuided(
        *shared,
        objective=objective,
        state_pooling=own.sg_states,
        regulariser=own.sg_regulariser,
    )


BUILDERS: dict[str, Callable[..., Method]] = {
    "simcse": lambda options, *shared: SimCSE(*shared),
    "simcse-supervised": lambda options, *shared: SupervisedSimCSE(*shared),
    "simcse-nli": lambda options, *shared: TripletSimCSE(
        *shared, hard_negative_weight=options.triplets.hard_negative_weight
    ),
    "mnr": lambda options, *shared: Ranking(*shared, similarity=options.mnr.mnr_similarity),
    "bsc": build_bsc,
    "ct": lambda options, *shared: ContrastiveTension(*shared, in_batch=False),
    "ct-in-batch": lambda options, *shared: ContrastiveTension(*shared, in_batch=True),
    "sg": lambda options, *shared: build_self_guided(options.self_guided.sg_loss, options, *shared),
    "sg-opt": lambda options, *shared: build_self_guided("opt3", options, *shared),
}
