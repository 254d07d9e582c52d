"""Option groups: how a package declares its options, and that each group checks itself alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import pytest

from contrastive.options import BscOptions, ContrastiveOptions
from data.options import DataOptions
from minbert.commands.options import (
    AUTO,
    OnlyWith,
    OptionGroup,
    all_fields,
    changed,
    direct_fields,
    flag,
    flat,
    from_flat,
    group,
    inner_groups,
    with_values,
)
from minbert.options import EncoderOptions
from minbert.pretraining.options import MlmOptions
from minbert.training.options import TrainingOptions
from multitask.options import (
    FineTuningOptions,
    HeadOptions,
    MultitaskOptions,
    PredictionFileOptions,
    TaskOptions,
)

# --- a group of our own ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner(OptionGroup):
    """A group inside another one."""

    kind: str = flag("plain", "Which kind.", choices=("plain", "fancy"))
    power: float = flag(0.5, "How much.", low=0, high=1, only_with=OnlyWith("kind", ("fancy",)))


@dataclass(frozen=True)
class Outer(OptionGroup):
    """A group with a check of two fields."""

    rate: float | str = flag(AUTO, "A number or a word.", low=1e-3)
    steps: int = flag(3, "How many.", low=1)
    is_loud: bool = flag(False, "A switch.")
    inner: Inner = group(Inner)

    def check(self) -> None:
        if self.is_loud and self.steps > 5:
            raise ValueError("--is_loud needs at most 5 --steps.")


def test_fields_of_a_group():
    assert [item.name for item in direct_fields(Outer)] == ["rate", "steps", "is_loud"]
    assert inner_groups(Outer) == {"inner": Inner}
    names = [item.name for item in all_fields(Outer)]
    assert names == ["rate", "steps", "is_loud", "kind", "power"]


def test_from_flat_names_to_groups_and_back():
    options = from_flat(Outer, {"steps": 5, "kind": "fancy", "power": 0.25})
    assert options == Outer(steps=5, inner=Inner(kind="fancy", power=0.25))
    values = {"rate": "auto", "steps": 5, "is_loud": False, "kind": "fancy", "power": 0.25}
    assert flat(options) == values
    assert from_flat(Outer, values) == options
    assert changed(options) == {"steps": 5, "kind": "fancy", "power": 0.25}
    assert changed(Outer()) == {}


def test_other_values_wherever_they_stand():
    options = Outer(steps=5, inner=Inner(kind="fancy"))
    other = with_values(options, power=1.0, steps=2)
    assert other == Outer(steps=2, inner=Inner(kind="fancy", power=1.0))
    assert options.steps == 5, "the first one must not change"


def test_a_group_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Outer().steps = 5  # type: ignore[misc]


@pytest.mark.parametrize("name", ["step", "inner", "rates"])
def test_a_name_that_is_no_option(name):
    """Nor is the name of an inner group one: its options are flat."""
    with pytest.raises(TypeError, match=f"unknown option {name}"):
        from_flat(Outer, {name: 5})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "--steps is 0; it must be a whole number, at least 1."),
        ({"steps": 2.0}, "--steps is 2.0; it must be int."),
        ({"steps": True}, "--steps is True; it must be int."),
        ({"is_loud": 1}, "--is_loud is 1; it must be bool."),
        ({"rate": 0.0}, "--rate is 0.0; it must be a finite number, at least 0.001."),
        ({"rate": float("inf")}, "--rate is inf; it must be a finite number, at least 0.001."),
        ({"rate": None}, "--rate is None; it must be float or str."),
        ({"kind": "grand"}, "--kind is 'grand'; it is one of plain, fancy."),
        ({"kind": "fancy", "power": 1.5}, "--power is 1.5; it must be 0 to 1."),
        (
            {"power": 0.25},
            "--power has no effect with --kind plain; add --kind fancy, or pass --power 0.5.",
        ),
        ({"is_loud": True, "steps": 6}, "--is_loud needs at most 5 --steps."),
    ],
)
def test_a_value_that_is_refused(values, message):
    with pytest.raises(ValueError) as caught:
        from_flat(Outer, values)
    assert str(caught.value) == message


@pytest.mark.parametrize("values", [{"rate": 1}, {"rate": AUTO}, {"kind": "fancy", "power": 0.5}])
def test_a_value_that_is_allowed(values):
    options = from_flat(Outer, values)
    assert {name: flat(options)[name] for name in values} == values


# --- the groups of the packages -------------------------------------------------------------------

GROUPS = [
    ContrastiveOptions,
    DataOptions,
    EncoderOptions,
    FineTuningOptions,
    HeadOptions,
    MlmOptions,
    MultitaskOptions,
    PredictionFileOptions,
    TaskOptions,
    TrainingOptions,
]


@pytest.mark.parametrize("cls", GROUPS)
def test_defaults_of_a_group_are_allowed(cls):
    assert changed(cls()) == {}
    assert from_flat(cls, flat(cls())) == cls()


@pytest.mark.parametrize(
    ("cls", "values", "words"),
    [
        (HeadOptions, {"head": "vm", "pair_encoding": "dual", "sharing": "first"}, "--sharing has"),
        (HeadOptions, {"head": "ph", "pair_encoding": "bi"}, "--head ph cannot read"),
        (HeadOptions, {"head": "cosine", "para_head": "ph"}, "in different encodings"),
        (TaskOptions, {"untrained_tasks": "sst"}, "--untrained_tasks is 'sst'; it is none, or"),
        (TaskOptions, {"tasks": "sst", "untrained_tasks": "sts,sts"}, "each once, separated by"),
        (TaskOptions, {"surgery": "weighted"}, "--surgery weighted has no weights"),
        (TaskOptions, {"gradvac_beta": 0.1}, "--gradvac_beta has no effect with --surgery mean"),
        (TaskOptions, {"score": "mean"}, "--score mean cannot select an epoch of --tasks sst,"),
        (TaskOptions, {"tasks": "sst,sts", "score": "overall_2023"}, "it can be mean, sst, sts."),
        (FineTuningOptions, {"freeze": "all"}, "--freeze is 'all'; it is none, embeddings, or"),
        (FineTuningOptions, {"option": "pretrain", "heads_first": 1}, "--heads_first 1 would have"),
        (MultitaskOptions, {"surgery": "pcgrad"}, "--surgery pcgrad has no effect with"),
        (MultitaskOptions, {"head": "cosine"}, "--head cosine has nothing to train for PARA"),
        (TrainingOptions, {"use_gpu": True, "device": "cpu"}, "--use_gpu asks for cuda and"),
        (DataOptions, {"dev_rows": "sst=2.5"}, "--dev_rows is 'sst=2.5'; it is none, or tasks"),
        (BscOptions, {"bsc_align": 1.0}, "--bsc_align is 1.0; it must be 0.01 to 0.99."),
        (
            ContrastiveOptions,
            {"bsc_shuffle": "knn", "contrastive_epochs": 1},
            "--bsc_shuffle knn has no effect in one epoch: it begins with the second.",
        ),
        (EncoderOptions, {"pooling": "max"}, "--pooling is 'max'; it is one of mean, cls, pooler."),
        (MlmOptions, {"mlm_epochs": 0}, "--mlm_epochs is 0; it must be"),
    ],
)
def test_a_group_checks_itself(cls, values, words):
    """Without the rest of the options."""
    with pytest.raises(ValueError) as caught:
        from_flat(cls, values)
    assert words in str(caught.value)


def test_groups_are_made_by_their_own_names():
    assert HeadOptions(head="vm", pair_encoding="dual").readable_encodings() == [
        "cross",
        "bi",
        "dual",
    ]
    assert TaskOptions(tasks="sts,sst", score="mean").order == ("sts", "sst")
    assert MultitaskOptions(tasks=TaskOptions(tasks="sst")).tasks.order == ("sst",)


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ({}, True),
        ({"common_layer": "none"}, False),
        ({"common_layer": "none", "head": "mlp", "sharing": "first", "tasks": "para,sts"}, True),
        ({"common_layer": "none", "head": "mlp", "sharing": "heads", "tasks": "sts,para"}, True),
        # The heads of pairs share a layer, but the head of SST does not.
        ({"common_layer": "none", "head": "mlp", "sharing": "first"}, False),
        ({"common_layer": "none", "head": "mlp", "tasks": "para,sts"}, False),
        ({"common_layer": "none", "head": "mlp", "sharing": "first", "tasks": "para"}, False),
    ],
)
def test_whether_tasks_share_a_layer_after_the_encoder(values, shares):
    options = from_flat(MultitaskOptions, values)
    assert options.heads.shares_a_layer(options.tasks) == shares
