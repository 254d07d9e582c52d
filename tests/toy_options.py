"""The options of a command line, and the message of one that is refused."""

from __future__ import annotations

import pytest

from command_line.checks import all_stages
from command_line.options import Options
from command_line.parser import parse
from contrastive.registry import METHODS
from minbert.commands.options import all_fields
from minbert.commands.registry import Registry
from multitask.head_registry import HEADS
from multitask.regulariser_registry import REGULARISERS
from multitask.sampler_registry import SAMPLERS
from multitask.surgery_registry import SURGERIES
from tests.method_values import fixture_of, own_options, tried_with

REGISTRIES: dict[str, Registry] = {
    "sampling": SAMPLERS,
    "surgery": SURGERIES,
    "head": HEADS,
    "regulariser": REGULARISERS,
}
FIELDS = {item.name: item for item in all_fields(Options)}
SPLITS = [
    f"{task}_{split}" for task in ("sst", "para", "sts") for split in ("train", "dev", "test")
]

# Flags that make a difference only beside these.
SPECIAL = {
    "cfimdb_dev_out": ["--tasks", "cfimdb"],
    "cfimdb_test_out": ["--tasks", "cfimdb"],
    "single_task_lr": ["--single_task_epochs", "1"],
    "soup_kind": ["--soup", "2"],
    # Without the earlier model, a weight of 0 would leave nothing of SMART.
    "smart_weight": ["--regulariser", "smart"],
}


def options_of(*flags: str) -> Options:
    """The options that these flags give."""
    options, resumed = parse(list(flags))
    assert resumed is None
    return options


def refusal(capsys: pytest.CaptureFixture, *flags: str) -> str:
    """The last line that a refused command line prints. It must end with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        parse(list(flags))
    assert caught.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def context_of(name: str) -> list[str]:
    """The flags without which option `name` would have no effect."""
    if name in SPECIAL:
        return SPECIAL[name]
    if name.startswith("contrastive_") or name == "hand_on":
        return ["--pretrain", "simcse"]
    for method, entry in METHODS.items():
        if name in entry.own_options:
            return ["--pretrain", method, *needed_flags(method, name), *flags_of_other(name)]
    for chosen_by, methods in REGISTRIES.items():
        if name in own_options(methods):
            return context_of_own_option(name, chosen_by, methods)
    for stage in all_stages():
        if name.startswith(f"{stage}_"):
            return ["--pretrain", stage]
    return flags_of_other(name)


def flags_of_other(name: str) -> list[str]:
    """The flag of the option without which option `name` would have no effect, if there is one."""
    other = FIELDS[name].metadata["only_with"]
    return [] if other is None else [f"--{other.name}", next(iter(other.values))]


def needed_flags(method: str, besides: str = "") -> list[str]:
    """The flags that a contrastive method needs, such as the file of its triplets."""
    needs_file = METHODS[method].reads == "triplets" and besides != "nli"
    return ["--nli", "a.tsv"] if needs_file else []


def context_of_own_option(name: str, chosen_by: str, methods: Registry) -> list[str]:
    """The flags without which an own option of a sampler, surgery or head would have no effect."""
    method = methods.readers(name)[0]
    flags = [f"--{chosen_by}", method]
    for option, value in tried_with(fixture_of(methods, method), name).items():
        flags += [f"--{option}", str(value)]
    return [*flags, "--sampling", "joint"] if chosen_by == "surgery" else flags
