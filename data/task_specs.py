"""What a task is, as data: its name, its kind of answer, columns, label names, loss and metric.

SST, PARA, STS and CFIMDB are four specifications. task_flags.py and task_tables.py make further
ones from --task and the files of a user. multitask/tasks.py adds the mathematics to a
specification. No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from data.examples import CFIMDB, PARA, SST, STS, TRAINING_FORMATS, Format

Kind = Literal["classes", "binary", "multilabel", "score"]


class KindNames(NamedTuple):
    """What the answers of a kind are, and the losses and metrics that fit it, the default first."""

    meaning: str
    losses: tuple[str, ...]
    metrics: tuple[str, ...]


# They compare differences, and are 0/0 where all labels are equal.
CORRELATIONS = ("matthews", "pearson", "spearman")
METRICS_OF_CLASSES = ("accuracy", "macro_f1", "matthews")
KINDS: dict[str, KindNames] = {
    "classes": KindNames("one of several classes", ("cross_entropy",), METRICS_OF_CLASSES),
    "binary": KindNames("one of two classes", ("binary_cross_entropy",), METRICS_OF_CLASSES),
    "multilabel": KindNames(
        "any number of several labels",
        ("binary_cross_entropy",),
        ("micro_f1", "macro_f1", "exact_match"),
    ),
    "score": KindNames("a number", ("mse", "mae"), ("pearson", "spearman")),
}


@dataclass(frozen=True)
class TaskSpec:
    """The specification of a task."""

    name: str  # the key in options and in the names of files
    title: str  # for tables
    format: Format  # columns and labels of its files
    kind: Kind
    label_names: tuple[str, ...] = ()  # of its classes, lowest label first; () for a score
    loss_name: str = ""  # of KINDS; "": the first of its kind
    metric_name: str = ""  # likewise
    column: str = ""  # of the predictions in a leaderboard file; "" where there is no leaderboard

    def __post_init__(self) -> None:
        # The empty words stand for the usual ones.
        usual = KINDS[self.kind]
        object.__setattr__(self, "loss_name", self.loss_name or usual.losses[0])
        object.__setattr__(self, "metric_name", self.metric_name or usual.metrics[0])

    @property
    def training_format(self) -> Format:
        """The columns and labels of its training file."""
        return TRAINING_FORMATS.get(self.name, self.format)

    @property
    def num_outputs(self) -> int:
        """Outputs per example. Several come as (B, C), one comes as (B,)."""
        return len(self.label_names) if self.kind in ("classes", "multilabel") else 1

    @property
    def start(self) -> float:
        """The first answer of an untrained head: the middle of a scale, or a logit of 0."""
        return (self.format.low + self.format.high) / 2 if self.is_regression else 0.0

    @property
    def is_pair(self) -> bool:
        """Whether an example is two sentences."""
        return self.format.is_pair

    @property
    def is_regression(self) -> bool:
        """Whether its labels are numbers on a scale, and not classes."""
        return self.kind == "score"

    @property
    def is_multilabel(self) -> bool:
        """Whether a row may have several labels, or none."""
        return self.kind == "multilabel"

    @property
    def is_built_in(self) -> bool:
        """Whether it is a task of the course, whose predictions go into a leaderboard's file."""
        return self.format.is_course

    @property
    def has_order(self) -> bool:
        """Whether its classes have an order, such as the five of SST."""
        has_numbers = all(name.lstrip("-").isdecimal() for name in self.label_names)
        return self.is_built_in or (has_numbers and not self.is_multilabel)


# --- the built-in tasks ---------------------------------------------------------------------------

# "Similiary" is the course's spelling, and the leaderboard's reader expects it.
SST_SPEC = TaskSpec(
    "sst",
    "SST",
    SST,
    "classes",
    ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    column="Predicted_Sentiment",
)
PARA_SPEC = TaskSpec(
    "para",
    "PARA",
    PARA,
    "binary",
    ("not a paraphrase", "paraphrase"),
    column="Predicted_Is_Paraphrase",
)
STS_SPEC = TaskSpec("sts", "STS", STS, "score", column="Predicted_Similiary")
# The course's classifier.py writes CFIMDB's file with the header of SST's.
CFIMDB_SPEC = TaskSpec(
    "cfimdb", "CFIMDB", CFIMDB, "classes", ("negative", "positive"), column="Predicted_Sentiment"
)
BUILT_IN = {spec.name: spec for spec in (SST_SPEC, PARA_SPEC, STS_SPEC, CFIMDB_SPEC)}


# --- in run.json and heads.json -------------------------------------------------------------------

Spec = TypeVar("Spec", bound=TaskSpec)


def stored(specs: Mapping[str, TaskSpec]) -> list[dict[str, Any]]:
    """The specifications as JSON keeps them."""
    return [asdict(spec) for spec in specs.values()]


def from_stored(content: Sequence[Mapping[str, Any]], cls: type[Spec]) -> dict[str, Spec]:
    """The specifications by name that `stored` wrote, as objects of a class.

    Raises KeyError, TypeError or ValueError for content of another version.
    """
    specs = {}
    for values in content:
        format = Format(**_with_tuples(values["format"]))
        spec = cls(**{**_with_tuples(values), "format": format})
        specs[spec.name] = spec
    return specs


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values with tuples in place of the lists of JSON."""
    with_tuples = {}
    for name, value in values.items():
        with_tuples[name] = tuple(value) if isinstance(value, list) else value
    return with_tuples
