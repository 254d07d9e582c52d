"""Names of options against the registries that they pick from: tasks, heads, samplers, surgery.

If a name is missing, an option offers something that no code does, or code that no option reaches.
"""

import pytest

from data.readers import COURSE_FILES, FORMATS
from minbert.commands.options import direct_fields
from multitask.combining import GRADIENT_METHODS, LOSS_METHODS
from multitask.heads import HEADS
from multitask.options import ENCODINGS_OF, HeadOptions, PredictionFileOptions, TaskOptions
from multitask.sampling import SAMPLERS
from multitask.tasks import COURSE_TASKS, KINDS, TASKS

FIELDS = {item.name: item for item in direct_fields(TaskOptions)}
HEAD_FIELDS = {item.name: item for item in direct_fields(HeadOptions)}


def options_read(field: str, method: str) -> set[str]:
    """The options that take effect with one value of an option only, or with some."""
    names = set()
    for name, item in FIELDS.items():
        other = item.metadata["only_with"]
        if other is not None and other.name == field and method in other.values:
            names.add(name)
    return names


def test_samplers():
    assert set(SAMPLERS) == set(FIELDS["sampling"].metadata["choices"])


@pytest.mark.parametrize("name", SAMPLERS)
def test_options_of_a_sampler(name):
    assert set(SAMPLERS[name].options) == options_read("sampling", name)


def test_surgery():
    assert not set(LOSS_METHODS) & set(GRADIENT_METHODS)
    names = set(LOSS_METHODS) | set(GRADIENT_METHODS)
    assert names == set(FIELDS["surgery"].metadata["choices"])
    for name in names - {"weighted"}:
        is_gradient_method = name in GRADIENT_METHODS
        assert TaskOptions(surgery=name).changes_gradients == is_gradient_method


@pytest.mark.parametrize("name", [*LOSS_METHODS, *GRADIENT_METHODS])
def test_options_of_a_surgery(name):
    methods = {**LOSS_METHODS, **GRADIENT_METHODS}
    assert set(methods[name].options) == options_read("surgery", name)


def test_heads():
    names = set(HEAD_FIELDS["head"].metadata["choices"])
    assert set(HEADS) == set(ENCODINGS_OF) == names
    assert set(HEAD_FIELDS["para_head"].metadata["choices"]) - {"auto"} <= names


def test_tasks():
    assert list(TASKS) == list(FORMATS) == list(COURSE_FILES) == list(COURSE_TASKS)
    assert {task.kind for task in TASKS.values()} == set(KINDS)
    for task in TASKS:
        assert PredictionFileOptions().path_of(task, "dev") == "auto"
        assert PredictionFileOptions().path_of(task, "test") == "auto"
