"""The registry of contrastive methods: what an entry holds, and the entries by name.

The entries stand in presets.py. --pretrain, the help and the checks of options read them, and the
general tests run over them.

No torch here: options are checked, and settings are printed, before any heavy import. methods.py
has the losses and classes of our own methods by name, and inputs.py what collects their rows.

B batch, P width of the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from minbert.commands.options import NONE, MethodOptions
from minbert.commands.registry import Entry, Registry

if TYPE_CHECKING:
    from torch import Tensor

Reads = Literal["sentences", "labelled pairs", "triplets"]
HEADINGS: dict[Reads, str] = {
    "sentences": "Contrastive stages on sentences without labels:",
    "labelled pairs": "On labelled pairs:",
    "triplets": "On the triplets of --nli:",
}

SHUFFLED = "shuffled"  # the order of a text in which all tasks are mixed
# The fields of Settings for methods that read the sentences of all tasks.
ON_ALL_SENTENCES = ("sentences", "text_order", "text_shares")


@dataclass(frozen=True)
class Settings:
    """How one contrastive stage trains.

    Weight decay, clipping, pooling, precision and seed are those of the run.
    """

    source: str  # the paper that the values are from
    epochs: int
    batch_size: int  # sentences, pairs or triplets, whichever the method reads
    lr: float  # peak for an encoder of 768 units; an encoder of H units takes 768 / H times it
    temperature: float
    max_length: int = 32
    projection: str = "none"  # or "tanh", "mlp", "guided" (of sg); used in training only
    optimizer: str = "adamw"  # or "rmsprop"
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    schedule: str = "linear"
    warmup: float = 0.1  # our own value where a paper names none
    evaluate_every: int = 0  # steps; 0: four times per epoch
    keep: str = "best"  # or "last": the evaluation whose encoder the stage gives back
    patience: int = 0  # evaluations without a better score; 0: never stop early
    chunk: int = 0  # rows in the encoder at a time (caching.py); 0: the whole batch
    sentences: int = 0  # at most, of the tasks' sentences; 0: all
    text_order: str = SHUFFLED  # or tasks, such as "sst,para,sts": one after the other
    text_shares: str = NONE  # of a task's sentences in an epoch, such as "para=0.06"
    steps: int = 0  # after which the stage ends, in place of `epochs`; 0: after these
    batches: str = "similar"  # rows of similar length, or "random" ones


class Vectors(NamedTuple):
    """The sentence vectors of a batch, as the loss of an entry gets them.

    Row i of all tensors belongs to example i. Of sentences, anchors and positives are two encodings
    of the same sentence under two dropout masks. Of pairs, they are the two sentences. A sentence
    with several positives is the anchor of several pairs, and `same` is True between them.

    K hard negatives of each anchor stand one after the other: the first ones of all anchors, then
    the second ones, and so on.
    """

    anchors: Tensor  # (B, P)
    positives: Tensor  # (B, P)
    same: Tensor  # (B, B) bool: positive j is no negative of anchor i. The diagonal does not matter
    temperature: float
    labels: Tensor | None = None  # (B,), of labelled pairs: 0 to 1
    hard_negatives: Tensor | None = None  # (K B, P); of triplets, K is 1
    same_hard: Tensor | None = None  # (B, K B) bool: hard negative j is no negative of anchor i
    texts: tuple[tuple[str, ...], ...] = ()  # of each example, in the order of its rows


def as_it_is(method_options: MethodOptions, preset: Settings) -> Settings:
    """For a method whose own options leave its preset as it is."""
    return preset


def nothing(method_options: MethodOptions) -> tuple[str, ...]:
    """For a method whose own options replace no setting."""
    return ()


class BatchGroups(NamedTuple):
    """Of what size the groups are that a batch consists of, and why."""

    size: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class MethodEntry(Entry):
    """One contrastive method. A user's one has either a `loss` on sentence vectors, or a class.

    title: the method and its paper, for the help of --pretrain.
    """

    reads: Reads
    preset: Settings
    # Of a user's method: (vectors, method options) -> scalar
    loss: Callable[[Vectors, MethodOptions], Tensor] | None = None
    # Of a user's method: a subclass of Method (methods.py). It gets a MethodSetup and `arguments`.
    method_class: Callable[..., Any] | None = None
    # Of a user's method that does not read all rows of `reads`: from a Source to Inputs.
    collector: Callable[..., Any] | None = None
    has_own_rows: bool = False  # inputs.py has a function that collects them
    pairs_of: tuple[str, ...] = ("para", "sts")  # of labelled pairs: the tasks that have them
    has_dropout: bool = True  # whether dropout is on while it trains
    unread: tuple[str, ...] = ()  # fields of Settings without a use in this method
    why_unread: Mapping[str, str] = field(default_factory=dict)  # for messages, of some of these
    # Further such fields under some values of its own options.
    unread_with: Callable[[MethodOptions], tuple[str, ...]] = nothing
    # The preset under other values of its own options.
    adapted: Callable[[MethodOptions, Settings], Settings] = as_it_is
    # Of what groups a batch consists, under the values of its own options; None: of single rows.
    groups: Callable[[MethodOptions], BatchGroups] | None = None

    def __post_init__(self) -> None:
        if self.reads not in HEADINGS:
            raise ValueError(f"reads is '{self.reads}'; it is one of {', '.join(HEADINGS)}.")

    def check_batch_size(self, flag: str, size: int, stage: str, options: MethodOptions) -> None:
        """ValueError for a batch size that the method's groups do not divide.

        flag: with which the size was passed. stage: the name of the method. options: its own ones.
        """
        if self.groups is None:
            return
        groups = self.groups(options)
        if size % groups.size:
            raise ValueError(
                f"{flag} is {size}; with {stage} it is a multiple of {groups.size}: "
                f"{groups.reason}."
            )

    @property
    def reads_all_sentences(self) -> bool:
        """Whether its rows are the sentences of all tasks."""
        return self.reads == "sentences" and not self.has_own_rows and self.collector is None


METHODS: Registry[MethodEntry] = Registry("contrastive method", MethodEntry)


def register_method(name: str, entry: MethodEntry) -> None:
    """Add a contrastive method to --pretrain, from a file that is given to --plugin.

        import torch
        from torch.nn import functional as F

        from contrastive import MethodEntry, Settings, register_method
        from contrastive.losses import similarities

        def rows_and_columns(vectors, method_options):
            # Each anchor must find its positive, and each positive its anchor.
            logits = similarities(vectors.anchors, vectors.positives) / vectors.temperature
            targets = torch.arange(len(logits), device=logits.device)
            return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2

        register_method(
            "clip",
            MethodEntry(
                title="rows and columns",
                reads="labelled pairs",
                loss=rows_and_columns,
                preset=Settings(
                    source="our own", epochs=1, batch_size=64, lr=2e-5, temperature=0.05
                ),
            ),
        )

    The loss gets Vectors: `same` says which pairs of the batch must not be pushed apart.

    An option of your own is a field of an OptionGroup. Name the group in `options`, and read it as
    method_options[YourGroup].your_option. A method that encodes something else is a subclass of
    contrastive.methods.Method, in `method_class`. ValueError where the name exists, and where the
    entry has both a loss and a class, or none of them.
    """
    if isinstance(entry, MethodEntry) and (entry.loss is None) == (entry.method_class is None):
        raise ValueError("a contrastive method has either a loss or a method_class, not both.")
    METHODS.register(name, entry)


def list_methods() -> str:
    """The methods with their papers, for the help of --pretrain: a list under each heading."""
    lines = []
    for reads, heading in HEADINGS.items():
        lines.append(heading)
        for name, entry in METHODS.items():
            if entry.reads == reads:
                lines.append(f"- {name}: {entry.title}")
    return "\n".join(lines)
