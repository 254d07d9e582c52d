"""What the general tests need of each method of ours: values of its own options.

`--plugin-file` adds the methods of a user's file to these tests. Their entries bring a fixture.
"""

from __future__ import annotations

from typing import Any

from minbert.commands.options import all_fields
from minbert.commands.registry import Fixture, Registry

YES_NO = ["yes", "no"]
REDUCTIONS = ["sum", "mean"]

SAMPLERS = {
    "mt-dnn": Fixture(values={"sampling_weights": ["none", "sst=0.1", "sts=5"]}),
    "random-task": Fixture(
        values={"draw_weights": ["none", "sst=0.1", "sts=5"], "steps_per_epoch": [0, 3]}
    ),
    "joint": Fixture(values={"joint_limit": ["largest", "smallest"]}),
    "batch-round-robin": Fixture(values={"joint_limit": ["largest", "smallest"]}),
    "power": Fixture(values={"sampling_power": [0.0, 1.0]}),
}

SURGERIES = {
    "weighted": Fixture(
        options={"loss_weights": "sst=3"}, values={"loss_weights": ["sst=3", "sst=2", "para=2"]}
    ),
    "pcgrad": Fixture(values={"surgery_reduction": REDUCTIONS}),
    "gradvac": Fixture(values={"gradvac_beta": [0.01, 0.9], "surgery_reduction": REDUCTIONS}),
    "cagrad": Fixture(values={"cagrad_radius": [0.5, 0.9], "surgery_reduction": REDUCTIONS}),
    "upgrad": Fixture(values={"surgery_reduction": REDUCTIONS}),
}

# With these settings of SMART, the tests see what the others change.
TRIED_EPSILON = {"smart_epsilon": 0.01, "proximal": "none"}
TRIED_START = {"smart_sigma": 0.01, "smart_step": 0.01, "proximal": "none"}
REGULARISERS = {
    "r-drop": Fixture(values={"r_drop_weight": [0.0, 1.0]}),
    "smart": Fixture(
        values={
            "smart_weight": [1.0, 3.0],
            "smart_epsilon": [0.01, 0.001],
            "smart_sigma": [0.01, 0.001],
            "smart_step": [0.01, 0.001],
            "smart_steps": [1, 2],
            "proximal": ["momentum", "vanilla", "none"],
            "proximal_weight": [1.0, 9.0],
            "proximal_decay": [0.9, 0.1],
            "proximal_every": [2, 3],
        },
        beside={
            "smart_weight": TRIED_EPSILON | TRIED_START,
            "smart_epsilon": TRIED_START,
            "smart_sigma": TRIED_EPSILON,
            "smart_step": TRIED_EPSILON,
            "smart_steps": TRIED_EPSILON,
            "proximal_weight": {"smart_weight": 0.0},
            "proximal_decay": {"smart_weight": 0.0},
            "proximal_every": {"smart_weight": 0.0, "proximal": "vanilla"},
        },
    ),
}

# "FILE" stands for a file of sentences.
CORPORA = ["none", "random-words", "FILE"]
WARM = {"contrastive_temperature": 0.1}  # the preset's 0.01 would leave few digits of a gradient
SELF_GUIDED_VALUES: dict[str, list] = {
    "sg_states": ["max", "mean"],
    "sg_regulariser": [0.0, 0.1, 10.0],
    "sg_layers": ["all", "1-2"],
}
CONTRASTIVE_METHODS = {
    "simcse-supervised": Fixture(
        options={
            "contrastive_epochs": 2,
            "contrastive_batch_size": 16,
            "contrastive_schedule": "constant",
        },
        values={
            "labelled_negatives": ["yes", "maximised", "no"],
            "unsupervised_too": ["sst,sts", "none"],
        },
    ),
    "simcse-nli": Fixture(values={"hard_negative_weight": [0.0, -5.0, 5.0]}),
    "bsc": Fixture(
        options={"contrastive_epochs": 3},
        values={
            "bsc_symmetric": YES_NO,
            "bsc_labelled_negatives": YES_NO,
            "bsc_normalise": ["l2", "batch", "none"],
            "bsc_align": ["none", 0.1, 0.9],
            "bsc_temperature_lr": ["none", 1e-3, 1e-2],
        },
        beside={"bsc_normalise": {"contrastive_temperature": 1.0}},
    ),
    "ct": Fixture(
        options={"contrastive_max_length": 12},
        values={
            "ct_corpus": CORPORA,
            "ct_negatives": ["paper", "code"],
            "ct_num_negatives": [7, 1],
            "ct_loss": ["code", "printed"],
        },
    ),
    "ct-in-batch": Fixture(
        options={"contrastive_projection": "tanh"}, values={"ct_corpus": CORPORA}
    ),
    "sg": Fixture(
        options=WARM,
        values={**SELF_GUIDED_VALUES, "sg_loss": ["nt-xent", "opt1", "opt2"]},
    ),
    "sg-opt": Fixture(options=WARM, values=SELF_GUIDED_VALUES),
    "distill": Fixture(
        options={"contrastive_max_length": 12},
        values={"teacher": ["minilm", "minbert-mini"], "teacher_text": ["none", "FILE"]},
    ),
    "mnr": Fixture(
        options={"contrastive_epochs": 3, "contrastive_chunk": 5},
        values={"mnr_similarity": ["cos", "dot"]},
        beside={"mnr_similarity": {"contrastive_temperature": 0.5}},
    ),
    "cosent": Fixture(options={"contrastive_epochs": 2}),
    "matryoshka": Fixture(values={"matryoshka_widths": ["halves", "2,16"]}),
}

FIXTURES: dict[str, dict[str, Fixture]] = {
    "sampler": SAMPLERS,
    "surgery": SURGERIES,
    "head": {},
    "regulariser": REGULARISERS,
    "contrastive method": CONTRASTIVE_METHODS,
}


def fixture_of(methods: Registry, name: str) -> Fixture:
    """What the tests need of a method, ours or a user's."""
    return FIXTURES[methods.kind].get(name, methods[name].fixture)


def tried_with(fixture: Fixture, option: str) -> dict[str, Any]:
    """The options with which the values of an own option are tried."""
    options = {name: value for name, value in fixture.options.items() if name != option}
    return options | dict(fixture.beside.get(option, {}))


def own_options(methods: Registry) -> list[str]:
    """The names of the options that only some methods of a registry read."""
    names: list[str] = []
    for group in methods.groups():
        names += [item.name for item in all_fields(group)]
    return names
