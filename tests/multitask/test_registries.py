"""Names of options against the registries that they pick from: tasks, heads, samplers, surgery.

If a name is missing, an option offers something that no code does, or code that no option reaches.
"""

import pytest

from data.examples import BUILT_IN_FILES, COURSE_FILES, FORMATS
from data.options import InputFileOptions
from data.task_specs import KINDS
from minbert.commands.options import all_fields, direct_fields, from_flat
from multitask.head_registry import HEADS
from multitask.heads import BUILDERS
from multitask.options import (
    HeadOptions,
    MultitaskOptions,
    PredictionFileOptions,
    TaskOptions,
)
from multitask.regulariser_registry import REGULARISERS
from multitask.sampler_registry import SAMPLERS
from multitask.surgery_registry import SURGERIES
from multitask.tasks import (
    BUILT_IN_TASKS,
    COURSE_TASKS,
    DECODERS,
    LOSSES,
    METRICS,
    METRICS_OF_LABELS,
    TASKS,
)
from tests.method_values import fixture_of, own_options

FIELDS = {item.name: item for item in direct_fields(TaskOptions)}
ALL_FIELDS = {item.name: item for item in all_fields(MultitaskOptions)}
HEAD_FIELDS = {item.name: item for item in direct_fields(HeadOptions)}
OF_SOME = {name: item for name, item in HEAD_FIELDS.items() if item.metadata["only_with"]}


def test_surgery():
    assert list(SURGERIES) == list(FIELDS["surgery"].metadata["choices"])
    changing = {name for name, entry in SURGERIES.items() if entry.changes_gradients}
    assert {"pcgrad", "gradvac"} <= changing
    assert not {"mean", "sum", "weighted"} & changing
    for name in SURGERIES:
        options = from_flat(TaskOptions, {"surgery": name, **fixture_of(SURGERIES, name).options})
        assert options.changes_gradients == (name in changing)


@pytest.mark.parametrize(("chosen_by", "methods"), [("sampling", SAMPLERS), ("surgery", SURGERIES)])
def test_an_own_option_needs_a_method_that_reads_it(chosen_by, methods):
    """Each other value of the option is refused, and the message names all readers."""
    for option in own_options(methods):
        readers = methods.readers(option)
        values = fixture_of(methods, readers[0]).values[option]
        value = next(value for value in values if value != ALL_FIELDS[option].default)
        others = [name for name in methods if name not in readers]
        assert others, option
        for name in others:
            values = {**fixture_of(methods, name).options, chosen_by: name, option: value}
            words = f"--{option} has no effect with --{chosen_by} {name}; add --{chosen_by} "
            with pytest.raises(ValueError) as caught:
                from_flat(TaskOptions, values)
            assert words + " or ".join(readers) in str(caught.value)


@pytest.mark.parametrize(
    "methods", [SAMPLERS, SURGERIES, HEADS, REGULARISERS], ids=lambda methods: methods.kind
)
def test_a_fixture_has_values_for_each_own_option(methods):
    for name, entry in methods.items():
        fixture = fixture_of(methods, name)
        assert set(fixture.values) == set(entry.own_options), name
        for option, values in fixture.values.items():
            assert len(set(values)) > 1, option
            assert set(ALL_FIELDS[option].metadata["choices"]) <= set(values), option


def test_heads():
    assert list(HEADS) == list(HEAD_FIELDS["head"].metadata["choices"])
    assert list(BUILDERS) == [name for name, entry in HEADS.items() if entry.build is None]
    for name, entry in HEADS.items():
        assert entry.encodings, name
        assert set(entry.encodings) <= set(HEAD_FIELDS["pair_encoding"].metadata["choices"])
    of_para = list(HEAD_FIELDS["para_head"].metadata["choices"])
    assert of_para[:6] == ["auto", "features", "vm", "ph", "dph", "dpha"]
    assert not {"mlp", "cosine"} & set(of_para)


def test_options_of_some_heads():
    readers = {name: list(item.metadata["only_with"].values) for name, item in OF_SOME.items()}
    assert readers["para_head"] == [name for name in HEADS if name != "mlp"]
    assert readers["sharing"] == ["mlp"]
    assert readers["sts_range"] == ["mlp", "cosine"]


def test_tasks():
    assert list(TASKS) == list(FORMATS) == list(COURSE_FILES) == list(COURSE_TASKS)
    assert list(BUILT_IN_TASKS) == [*TASKS, "cfimdb"] == list(BUILT_IN_FILES)
    # No task of the course has rows with several labels.
    assert {task.kind for task in TASKS.values()} == set(KINDS) - {"multilabel"}
    assert set(KINDS) == set(DECODERS)
    for task in BUILT_IN_TASKS:
        assert PredictionFileOptions().path_of(task, "dev") == "auto"
        assert PredictionFileOptions().path_of(task, "test") == "auto"
        assert InputFileOptions().__dict__[f"{task}_train"] == "auto"


def test_losses_and_metrics():
    losses = set()
    metrics = set()
    for name, kind in KINDS.items():
        losses |= set(kind.losses)
        if name != "multilabel":
            metrics |= set(kind.metrics)
    assert losses == set(LOSSES) and metrics == set(METRICS)
    assert set(KINDS["multilabel"].metrics) == set(METRICS_OF_LABELS)
