"""The contrastive methods: what each one encodes, and which loss it calls.

B sentences, pairs or triplets, R rows of the encoder, T tokens, H hidden, L layers, P width of the
projection.

A method is a module: method(batch, task) is the loss of a batch, a scalar. `task` tells batches
apart where a method reads two kinds. [BSC], [CT], [GEN], [ROB] and [SG] stand for the sources in
docs/contrastive.md. CLASSES has the class of each name of --pretrain. A method that has a loss in
place of a class is a LossOnVectors.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contrastive import losses
from contrastive.caching import in_pieces
from contrastive.negatives import no_negatives, same_text
from contrastive.options import HALVES
from contrastive.registry import METHODS, MethodEntry, Reads, Settings, Vectors
from contrastive.sentences import POSITIVE_ABOVE
from data.batching import Batch
from minbert import BertModel
from minbert.commands.options import NONE, MethodOptions
from minbert.pooling import maximum, mean, pool, positions_read
from minbert.training import processes

GUIDED_WIDTH = 4096  # P of the self-guided methods
SCALE_LR = 1e-3  # of the scale that ct-in-batch trains; [BSC] section 3 has it for its own scale


class MethodSetup(NamedTuple):
    """What every method is made of."""

    encoder: BertModel
    pooling: str  # the sentence vector: "mean", "cls" or "pooler"
    temperature: float
    projection: str = "none"  # see make_projection
    chunk: int = 0  # rows in the encoder at a time (caching.py); 0: all of a batch


def make_projection(encoder: BertModel, kind: str) -> nn.Module:
    """The layers between pooling and loss, (R, H) -> (R, P). They are used in training only.

    "tanh": linear and tanh (the released code of Gao et al. 2021). "mlp": two layers with ReLU
    between them ([GEN]). "guided": H -> 4096 -> GELU -> 4096 -> GELU ([SG]). "none": no layer.
    P is H but for "guided".
    """
    size = encoder.config.hidden_size
    match kind:
        case "tanh":
            projection = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        case "mlp":
            projection = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        case "guided":
            projection = nn.Sequential(
                nn.Linear(size, GUIDED_WIDTH),
                nn.GELU(),
                nn.Linear(GUIDED_WIDTH, GUIDED_WIDTH),
                nn.GELU(),
            )
        case _:
            projection = nn.Sequential()
    return projection.apply(encoder.initialise)


def labels_of(batch: Batch) -> Tensor:
    """The labels (B,) of a batch of labelled pairs."""
    assert batch.labels is not None, "the method reads labelled pairs"
    return batch.labels


class Method(nn.Module, ABC):
    """The part that all methods share: an encoder, its pooling, and a projection.

    The projection is trained along, but it is no part of the encoder that the stage saves.

    Attributes: `scale` is 1 / temperature where that is a trained parameter, else None, and
    `scale_lr` is its learning rate. `chunk` is the number of rows that go through an encoder at a
    time, 0 for all of a batch. `has_dropout` is whether dropout is on in training. `widths` are the
    numbers of first units that are trained as vectors of their own, ending with all units.
    """

    has_dropout = True
    widths: tuple[int, ...] = ()

    def __init__(self, setup: MethodSetup) -> None:
        super().__init__()
        self.encoder = setup.encoder
        self.pooling = setup.pooling
        self.temperature = setup.temperature
        self.chunk = setup.chunk
        self.projection = make_projection(setup.encoder, setup.projection)
        self.scale: nn.Parameter | None = None
        self.scale_lr = SCALE_LR

    def train(self, mode: bool = True) -> Method:
        """Training mode, or evaluation mode for a method without dropout."""
        return super().train(mode and self.has_dropout)

    @abstractmethod
    def forward(self, batch: Batch, task: str = "") -> Tensor:
        """The loss of a batch, a scalar. task: the name that the plan gives the batch."""

    def vectors(self, encoder: BertModel, *inputs: Tensor) -> Tensor:
        """Sentence vectors (R, H) float32.

        inputs: token ids, attention mask and, of pairs in one row, segments, each (R, T).
        """

        def encode(input_ids: Tensor, attention_mask: Tensor, *segments: Tensor) -> Tensor:
            positions = positions_read(attention_mask, self.pooling)
            output = encoder(input_ids, attention_mask, *segments, positions=positions)
            return pool(output, attention_mask, self.pooling)

        # Of several processes each encodes its own rows. The loss needs the vectors of all.
        num_rows = len(inputs[0])
        rows, _ = processes.own_rows(num_rows)
        own_inputs = [tensor[rows] for tensor in inputs]
        with processes.own_randomness():
            own_vectors = in_pieces(encode, self.chunk, *own_inputs)
        return processes.gather(own_vectors, num_rows)  # (R, H), in every process

    def projected(self, batch: Batch) -> Tensor:
        """The vectors of all rows of a batch after the projection, (R, P)."""
        return self.projection(self.vectors(self.encoder, batch.input_ids, batch.attention_mask))

    def two_views(self, batch: Batch) -> Vectors:
        """Two encodings of each row of a batch, under two dropout masks.

        Rows of equal text are no negatives of each other. In fusion training a row may also be a
        pair, and the two rows of one example are no negatives of each other either.
        """
        # Both views go through the encoder in one pass. Dropout makes them differ.
        inputs = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        twice = [tensor.repeat(2, 1) for tensor in inputs]  # (2R, T) each
        vectors = self.projection(self.vectors(self.encoder, *twice))  # (2R, P)
        first_view, second_view = vectors.chunk(2)  # (R, P) each

        # Row r belongs to example r % B.
        num_rows = len(batch.input_ids)
        example_of = torch.arange(num_rows, device=first_view.device) % len(batch.ids)  # (R,)
        is_same_example = example_of == example_of.unsqueeze(1)  # (R, R)
        same = same_text(batch.input_ids, batch.input_ids) | is_same_example
        return Vectors(
            first_view, second_view, same, self.temperature, batch.labels, texts=batch.texts
        )

    def groups(self, batch: Batch) -> Vectors:
        """The vectors of B pairs (2B rows), triplets (3B), or groups with K negatives each.

        Without labels all pairs belong together.
        """
        num_groups = len(batch.ids)
        first_ids, second_ids, *negative_ids = batch.input_ids.split(num_groups)  # (B, T) each
        is_positive = torch.ones(num_groups).bool()  # (B,)
        if batch.labels is not None:
            is_positive = batch.labels > POSITIVE_ABOVE
        hard_ids = torch.cat(negative_ids) if negative_ids else None  # (K B, T)
        masked = no_negatives(first_ids, second_ids, is_positive, hard_ids)  # (B, (1 + K) B)

        anchors, positives, *negatives = self.projected(batch).split(num_groups)  # (B, P) each
        return Vectors(
            anchors,
            positives,
            masked[:, :num_groups],
            self.temperature,
            batch.labels,
            torch.cat(negatives) if negatives else None,
            masked[:, num_groups:] if negatives else None,
            batch.texts,
        )

    def trained_projection(self) -> nn.Module:
        """What the stage stores beside its encoder: the projection, or those of both copies."""
        return self.projection

    def trained_scale(self) -> Tensor:
        """The scale that is trained, a scalar.

        ValueError where training has brought it to 0 or below.
        """
        assert self.scale is not None
        value = self.scale.item()
        if value <= 0:
            raise ValueError(
                f"the trained scale, 1 / temperature, has come to {value:g}; it must be above "
                "0. Use a fixed one: bsc without --bsc_temperature_lr, or ct instead of "
                "ct-in-batch."
            )
        return self.scale

    def copies(self) -> dict[str, BertModel]:
        """The encoders whose vectors are scored, by name. The stage saves the best of them."""
        return {"only": self.encoder}

    def begin(self) -> None:
        """Called when the stage starts.

        All stages of a chain are built before the first one runs, so copies are made here.
        """

    def frozen(self) -> tuple[nn.Parameter, ...]:
        """The parameters that keep their values in this stage."""
        return ()


# --- SimCSE and its supervised forms --------------------------------------------------------------


class SimCSE(Method):
    """Unsupervised SimCSE (Gao et al. 2021, section 3).

    A sentence is encoded twice, under two dropout masks. The two vectors are each other's positive.
    """

    def forward(self, batch: Batch, task: str = "simcse") -> Tensor:
        """The loss of a batch of B sentences, R = B rows, or in fusion of B pairs."""
        views = self.two_views(batch)
        return losses.info_nce(views.anchors, views.positives, self.temperature, same=views.same)


class SupervisedSimCSE(SimCSE):
    """SimCSE on Quora's labelled pairs ([GEN]).

    Pairs labelled 0 are candidates without a term. As hard negatives of their own first sentence
    they would be pushed from it. With softmax over rows only, nothing here does that
    (docs/contrastive.md, section "Traps"). With --labelled_negatives maximised their own loss is
    maximised, which does push them apart. [GEN] describes that.

    Batches of any other task are sentences. They get the loss of unsupervised SimCSE through the
    same projection.
    """

    def __init__(self, setup: MethodSetup, maximises_negatives: bool = False) -> None:
        super().__init__(setup)
        self.maximises_negatives = maximises_negatives

    def forward(self, batch: Batch, task: str = "simcse-supervised") -> Tensor:
        """The loss of B pairs (2B rows), or of another task's B sentences."""
        if task != "simcse-supervised":
            return super().forward(batch)
        labels = labels_of(batch)  # (B,)
        first_ids, second_ids = batch.input_ids.chunk(2)  # (B, T) each
        first, second = self.projected(batch).chunk(2)  # (B, P) each
        same = no_negatives(first_ids, second_ids, labels > 0)  # (B, B)
        if self.maximises_negatives:
            return losses.signed_softmax(first, second, self.temperature, labels, same)
        # With rows only and cosine, bsc is info_nce with labels.
        return losses.bsc(
            first, second, self.temperature, symmetric=False, labels=labels, same=same
        )


class TripletSimCSE(Method):
    """Supervised SimCSE on NLI triplets (Gao et al. 2021, section 4).

    The contradiction of a triplet is the hard negative of its premise.
    """

    def __init__(self, setup: MethodSetup, hard_negative_weight: float = 0.0) -> None:
        super().__init__(setup)
        self.hard_negative_weight = hard_negative_weight

    def forward(self, batch: Batch, task: str = "simcse-nli") -> Tensor:
        """The loss of B triplets (3B rows)."""
        triplets = self.groups(batch)
        return losses.info_nce(
            triplets.anchors,
            triplets.positives,
            self.temperature,
            triplets.hard_negatives,
            self.hard_negative_weight,
            same=triplets.same,
            same_hard=triplets.same_hard,
        )


# --- pairs: batch softmax -------------------------------------------------------------------------


class BatchSoftmax(Method):
    """The batch-softmax contrastive loss with its switches (Chernyavskiy et al. 2022, [BSC]).

    With --bsc_temperature_lr, 1 / temperature is a parameter that starts at 1.
    """

    def __init__(
        self,
        setup: MethodSetup,
        symmetric: str = "yes",
        normalise: losses.Normalisation = "l2",
        align: float | str = NONE,
        temperature_lr: float | str = NONE,
    ) -> None:
        super().__init__(setup)
        self.symmetric = symmetric == "yes"
        self.normalise = normalise
        self.align = None if align == NONE else float(align)
        if temperature_lr != NONE:
            self.scale = nn.Parameter(torch.tensor(1.0))
            self.scale_lr = float(temperature_lr)

    def forward(self, batch: Batch, task: str = "bsc") -> Tensor:
        """The loss of B pairs (2B rows) labelled 0 to 1."""
        labels = labels_of(batch)  # (B,)
        first_ids, second_ids = batch.input_ids.chunk(2)  # (B, T) each
        same = no_negatives(first_ids, second_ids, labels > POSITIVE_ABOVE)  # (B, B)

        # [BSC] section 3 trains 1 / t in place of t.
        temperature: float | Tensor = self.temperature
        if self.scale is not None:
            temperature = 1 / self.trained_scale()

        first, second = self.projected(batch).chunk(2)  # (B, P) each
        loss = losses.bsc(
            first,
            second,
            temperature,
            self.symmetric,
            self.normalise,
            labels,
            same,
            POSITIVE_ABOVE,
        )
        if self.align is None:
            return loss
        # [BSC] section 3: m x BSC + (1 - m) x squared error of the cosines.
        return self.align * loss + (1 - self.align) * losses.label_error(first, second, labels)


# --- pairs: several widths ------------------------------------------------------------------------


class Matryoshka(Method):
    """Multiple negatives ranking at several widths of the vectors (Kusupati et al. 2022).

    ValueError for a width that the encoder's vectors do not have.
    """

    def __init__(self, setup: MethodSetup, widths: str = HALVES) -> None:
        super().__init__(setup)
        full = setup.encoder.config.hidden_size
        narrow = {max(1, full // part) for part in (8, 4, 2)}
        if widths != HALVES:
            narrow = {int(width) for width in widths.split(",")}
        if max(narrow) >= full:
            raise ValueError(
                f"--matryoshka_widths is {widths}; the encoder's vectors have {full} units, which "
                "are always compared, too. Pass widths below that."
            )
        self.widths = (*sorted(narrow), full)

    def forward(self, batch: Batch, task: str = "matryoshka") -> Tensor:
        """The loss of B pairs that belong together (2B rows)."""
        pairs = self.groups(batch)

        def ranking(first: Tensor, second: Tensor) -> Tensor:
            return losses.info_nce(first, second, self.temperature, same=pairs.same)

        return losses.matryoshka(ranking, pairs.anchors, pairs.positives, self.widths)


# --- two encoders: contrastive tension ------------------------------------------------------------


class ContrastiveTension(Method):
    """Two copies of the encoder agree on a sentence and disagree on two different ones.

    Carlsson et al. 2021, [CT]. The first copy encodes the first half of a batch's rows, the second
    copy the other half. A pair whose ids are equal is a positive. Dropout is off: under two masks
    a sentence would differ from itself.

    The paper has no projection. With one, each copy has its own. Both start alike, as the encoders.
    """

    has_dropout = False

    def __init__(self, setup: MethodSetup, as_printed: bool = False) -> None:
        super().__init__(setup)
        self.second = copy.deepcopy(self.encoder)
        self.second_projection = copy.deepcopy(self.projection)
        self.as_printed = as_printed

    def begin(self) -> None:
        """Both copies start from the encoder as the stage receives it."""
        self.second.load_state_dict(self.encoder.state_dict())

    def copies(self) -> dict[str, BertModel]:
        """The two copies by name."""
        return {"first": self.encoder, "second": self.second}

    def trained_projection(self) -> nn.Module:
        """The projections of both copies, by their names."""
        return nn.ModuleDict({"first": self.projection, "second": self.second_projection})

    def distinct(
        self, encoder: BertModel, ids: Sequence[str], input_ids: Tensor, attention_mask: Tensor
    ) -> Tensor:
        """Vectors (R, H) of rows (R, T). Rows with one id are encoded once.

        An anchor comes back in the pairs with its negatives, so this saves most of the work.
        """
        # The first row of each id: from the last row to the first one, a later entry wins.
        row_of: dict[str, int] = {}
        for row in reversed(range(len(ids))):
            row_of[ids[row]] = row
        rows = list(row_of.values())
        vectors = self.vectors(encoder, input_ids[rows], attention_mask[rows])

        place_of = {name: place for place, name in enumerate(row_of)}
        return vectors[[place_of[name] for name in ids]]  # (R, H)

    def forward(self, batch: Batch, task: str = "ct") -> Tensor:
        """The loss of B pairs (2B rows)."""
        # All first sentences of the pairs come before all second ones.
        half = len(batch.ids) // 2
        first_ids = batch.ids[:half]
        second_ids = batch.ids[half:]
        first = self.distinct(
            self.encoder, first_ids, batch.input_ids[:half], batch.attention_mask[:half]
        )  # (B, H)
        second = self.distinct(
            self.second, second_ids, batch.input_ids[half:], batch.attention_mask[half:]
        )  # (B, H)
        first = self.projection(first)  # (B, P)
        second = self.second_projection(second)  # (B, P)
        id_pairs = zip(first_ids, second_ids, strict=True)
        is_identical = [first_id == second_id for first_id, second_id in id_pairs]
        is_positive = torch.tensor(is_identical, device=first.device)  # (B,)
        return losses.contrastive_tension(first, second, is_positive, self.as_printed)


class TensionInBatch(ContrastiveTension):
    """Contrastive tension in which each of B sentences meets all B, with a trained scale.

    A variant of sentence-transformers, not of [CT].
    """

    def __init__(self, setup: MethodSetup) -> None:
        super().__init__(setup)
        self.scale = nn.Parameter(torch.tensor(1 / self.temperature))

    def forward(self, batch: Batch, task: str = "ct-in-batch") -> Tensor:
        """The loss of B sentences (B rows, through both copies)."""
        first = self.vectors(self.encoder, batch.input_ids, batch.attention_mask)  # (B, H)
        second = self.vectors(self.second, batch.input_ids, batch.attention_mask)  # (B, H)
        first = self.projection(first)  # (B, P)
        second = self.second_projection(second)  # (B, P)
        return losses.contrastive_tension_in_batch(first, second, self.trained_scale())


# --- an encoder and its frozen copy: self-guided --------------------------------------------------


def states_of(layers: str, num_layers: int) -> slice:
    """The hidden states of --sg_layers. ValueError where the encoder does not have them."""
    if layers == "all":
        return slice(0, num_layers + 1)
    if layers == "upper":
        # Of 13 states the first four, as in WK pooling (untrained_vectors.py).
        return slice(num_layers // 3, num_layers + 1)
    first, last = map(int, layers.split("-"))
    if last > num_layers:
        raise ValueError(
            f"--sg_layers is {layers}; the encoder has the states 0 to {num_layers}. Pass a range "
            "of these."
        )
    return slice(first, last + 1)


class SelfGuided(Method):
    """An encoder T is guided by the hidden states of F, a frozen copy of T at the start.

    Kim et al. 2021, [SG]. c is T's sentence vector; the paper takes [CLS], --pooling cls. h_k is
    F's hidden state k, from 0 (the embeddings) to L, pooled over real tokens by "max" (paper) or
    "mean" (released code). Each sentence draws one k, uniformly. --sg_loss says which vectors are
    anchors and which are candidates. The same projection stands on both sides. T's embeddings are
    frozen. --sg_layers leaves out some of the states k.

    The loss is that of --sg_loss plus --sg_regulariser x |theta_T - theta_F|^2.
    """

    def __init__(
        self,
        setup: MethodSetup,
        state_pooling: str = "max",
        regulariser: float = 0.1,
        objective: str = "nt-xent",
        layers: str = "all",
    ) -> None:
        super().__init__(setup)
        self.layers = states_of(layers, setup.encoder.config.num_hidden_layers)
        # In a list, F is no submodule: no training mode, no checkpoint and no optimizer reach it.
        self.guides = [copy.deepcopy(self.encoder).requires_grad_(False).eval()]
        self.objective = objective
        self.state_pooling = state_pooling
        self.regulariser = regulariser

    def begin(self) -> None:
        """F becomes a copy of the encoder as the stage receives it."""
        device = next(self.encoder.parameters()).device
        self.guides[0].to(device).load_state_dict(self.encoder.state_dict())

    def frozen(self) -> tuple[nn.Parameter, ...]:
        """T's embeddings."""
        return tuple(self.encoder.embeddings.parameters())

    def states(self, batch: Batch) -> Tensor:
        """The pooled hidden states of F that are used, (B, L + 1, H) float32."""
        reduce = mean if self.state_pooling == "mean" else maximum

        def encode(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            output = self.guides[0](input_ids, attention_mask, output_hidden_states=True)
            pooled = []
            for state in output.hidden_states[self.layers]:
                pooled.append(reduce(state, attention_mask))
            return torch.stack(pooled, dim=1)  # (B, L + 1, H)

        with torch.no_grad():
            return in_pieces(encode, self.chunk, batch.input_ids, batch.attention_mask)

    def distance(self) -> Tensor:
        """The sum of squares of T's weights less F's, a scalar.

        It runs over what is trained. All other weights are where they were.
        """
        theirs = dict(self.guides[0].named_parameters())
        total = next(self.encoder.parameters()).new_zeros(())
        for name, weight in self.encoder.named_parameters():
            is_used = self.pooling == "pooler" or not name.startswith("pooler.")
            if weight.requires_grad and is_used:
                total = total + (weight - theirs[name]).square().sum()
        return total

    def compare(self, anchors: Tensor, states: Tensor) -> Tensor:
        """The loss between c and h_k, a scalar. anchors: (B, P); states: (B, L + 1, H)."""
        formulas: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
            "nt-xent": losses.nt_xent,
            "opt1": losses.self_guided_opt1,
            "opt2": losses.self_guided_opt2,
        }

        # One hidden state for each sentence.
        batch_size, num_states, _ = states.shape
        drawn = torch.randint(num_states, (batch_size,)).to(states.device)  # (B,)
        sentence = torch.arange(batch_size, device=states.device)  # (B,)
        hidden = self.projection(states[sentence, drawn])  # (B, P)
        return formulas[self.objective](anchors, hidden, self.temperature)

    def forward(self, batch: Batch, task: str = "sg") -> Tensor:
        """The loss of B sentences."""
        anchors = self.projected(batch)  # (B, P)
        states = self.states(batch)  # (B, L + 1, H)
        loss = self.compare(anchors, states)
        return loss + self.regulariser * self.distance()


class SelfGuidedOpt(SelfGuided):
    """SG-OPT ([SG] section 3.2): all hidden states of F at once, with T's vectors as anchors."""

    def compare(self, anchors: Tensor, states: Tensor) -> Tensor:
        """The loss between c and all h_k, a scalar. anchors: (B, P); states: (B, L + 1, H)."""
        hidden = self.projection(states)  # (B, L + 1, P)
        return losses.self_guided_opt3(anchors, hidden, self.temperature)


# --- a teacher's vectors --------------------------------------------------------------------------


class Distillation(Method):
    """The encoder is trained to give the vectors of a teacher (Reimers and Gurevych 2020).

    The teacher's vectors come with the batch. Dropout is off: its noise would be taught, too.
    """

    has_dropout = False

    def forward(self, batch: Batch, task: str = "distill") -> Tensor:
        """The loss of a batch of B sentences (B rows), whose labels are (B, H)."""
        return losses.distillation(self.projected(batch), labels_of(batch))


# --- by name --------------------------------------------------------------------------------------

Loss = Callable[[Vectors, MethodOptions], Tensor]  # the result is a scalar
# Each entry of presets.py has a loss or a class here.
LOSSES: dict[str, Loss] = {"mnr": losses.loss_of_mnr, "cosent": losses.loss_of_cosent}
CLASSES: dict[str, Callable[..., Method]] = {
    "simcse": SimCSE,
    "simcse-supervised": SupervisedSimCSE,
    "simcse-nli": TripletSimCSE,
    "bsc": BatchSoftmax,
    "ct": ContrastiveTension,
    "ct-in-batch": TensionInBatch,
    "sg": SelfGuided,
    "sg-opt": SelfGuidedOpt,
    "distill": Distillation,
    "matryoshka": Matryoshka,
}


class LossOnVectors(Method):
    """A method that is one formula on the vectors of a batch."""

    def __init__(
        self, setup: MethodSetup, loss: Loss, entry: MethodEntry, method_options: MethodOptions
    ) -> None:
        super().__init__(setup)
        self.title = entry.title
        self.loss = loss
        self.method_options = method_options
        vectors: dict[Reads, Callable[[Batch], Vectors]] = {
            "sentences": self.two_views,
            "labelled pairs": self.groups,
            "triplets": self.groups,
        }
        self.vectors_of = vectors[entry.reads]

    def forward(self, batch: Batch, task: str = "") -> Tensor:
        """The loss of B sentences (B rows), pairs (2B rows), or groups of S texts (S B rows).

        ValueError where the entry's loss is no scalar.
        """
        loss = self.loss(self.vectors_of(batch), self.method_options)
        if loss.dim() > 0:
            raise ValueError(
                f"the loss of '{self.title}' has the shape {tuple(loss.shape)}; a scalar, the mean "
                "over the batch, is expected."
            )
        return loss


def build_method(
    method: str,
    method_options: MethodOptions,
    settings: Settings,
    pooling: str,
    encoder: BertModel,
) -> Method:
    """The module of a stage.

    method: its name in --pretrain. KeyError for another name. method_options:
    ContrastiveOptions.of_method. settings: see presets.py.
    """
    entry = METHODS[method]
    setup = MethodSetup(encoder, pooling, settings.temperature, settings.projection, settings.chunk)
    if entry.method_class is not None:
        return entry.method_class(setup, **entry.arguments_from(method_options))
    loss = entry.loss or LOSSES.get(method)
    if loss is not None:
        return LossOnVectors(setup, loss, entry, method_options)
    return CLASSES[method](setup, **entry.arguments_from(method_options))
