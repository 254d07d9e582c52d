"""What the tests need of each contrastive method: one case per entry of presets.METHODS.

A new method gets its case here. test_registry.py fails where one is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from contrastive.methods import (
    BatchSoftmax,
    ContrastiveTension,
    Method,
    MethodSetup,
    Ranking,
    SelfGuided,
    SelfGuidedOpt,
    SimCSE,
    SupervisedSimCSE,
    TensionInBatch,
    TripletSimCSE,
)
from contrastive.options import ContrastiveOptions
from minbert import BertModel
from minbert.commands.options import with_values


@dataclass(frozen=True)
class MethodCase:
    """One method, as the tests build it, run it and stop it."""

    method_class: type[Method]
    batch: str  # the batch that it takes in test_caching.py
    temperature: float
    preset: dict[str, Any]  # the values that its paper fixes
    killed_before: int  # the step before which a run of it is killed
    projection: str = "none"
    options: dict[str, Any] = field(default_factory=dict)  # of its module
    run_options: dict[str, Any] = field(default_factory=dict)  # of the run that is killed
    keeps_projection: bool = False  # whether a projection is stored beside the encoder

    def build(self, encoder: BertModel, chunk: int = 0, **changes: Any) -> Method:
        """The module on an encoder, with mean pooling. changes: other options."""
        setup = MethodSetup(encoder, "mean", self.temperature, self.projection, chunk)
        options = with_values(ContrastiveOptions(), **{**self.options, **changes})
        return self.method_class.build(setup, options)


SELF_GUIDED = {
    "epochs": 1,
    "batch_size": 16,
    "lr": 5e-5,
    "temperature": 0.01,
    "betas": (0.9, 0.9),
    "evaluate_every": 50,
    "patience": 10,
    "projection": "guided",
}

CASES: dict[str, MethodCase] = {
    "simcse": MethodCase(
        SimCSE,
        batch="sentences",
        temperature=0.05,
        projection="tanh",
        preset={
            "epochs": 1,
            "batch_size": 64,
            "lr": 3e-5,
            "temperature": 0.05,
            "max_length": 32,
            "projection": "tanh",
        },
        run_options={"contrastive_batch_size": 16},
        killed_before=3,
        keeps_projection=True,
    ),
    "simcse-supervised": MethodCase(
        SupervisedSimCSE,
        batch="pairs",
        temperature=0.05,
        projection="mlp",
        preset={
            "epochs": 5,
            "batch_size": 16,
            "lr": 2e-5,
            "temperature": 0.05,
            "projection": "mlp",
        },
        run_options={"contrastive_epochs": 2},
        killed_before=11,
        keeps_projection=True,
    ),
    "simcse-nli": MethodCase(
        TripletSimCSE,
        batch="triplets",
        temperature=0.05,
        projection="tanh",
        preset={
            "epochs": 3,
            "batch_size": 512,
            "lr": 5e-5,
            "temperature": 0.05,
            "projection": "tanh",
        },
        killed_before=4,
        keeps_projection=True,
    ),
    "mnr": MethodCase(
        Ranking,
        batch="pairs",
        temperature=0.05,
        preset={
            "epochs": 1,
            "batch_size": 64,
            "lr": 2e-5,
            "temperature": 0.05,
            "projection": "none",
        },
        run_options={"contrastive_epochs": 3, "contrastive_chunk": 5},
        killed_before=6,
    ),
    "bsc": MethodCase(
        BatchSoftmax,
        batch="pairs",
        temperature=0.07,
        options={"bsc_align": 0.3},
        preset={
            "epochs": 5,
            "batch_size": 30,
            "lr": 2e-5,
            "temperature": 0.07,
            "projection": "none",
        },
        run_options={"contrastive_epochs": 3, "bsc_temperature_lr": 1e-3},
        killed_before=7,
    ),
    "ct": MethodCase(
        ContrastiveTension,
        batch="pairs of sentences",
        temperature=1.0,
        preset={
            "epochs": 1,
            "batch_size": 16,
            "lr": 1e-5,
            "optimizer": "rmsprop",
            "schedule": "tension",
            "warmup": 0.0,
        },
        run_options={"contrastive_max_length": 12},
        killed_before=9,
    ),
    "ct-in-batch": MethodCase(
        TensionInBatch,
        batch="sentences",
        temperature=0.05,
        preset={
            "batch_size": 16,
            "lr": 1e-5,
            "temperature": 0.05,
            "optimizer": "rmsprop",
            "schedule": "tension",
        },
        killed_before=4,
    ),
    "sg": MethodCase(
        SelfGuided,
        batch="sentences",
        temperature=0.1,
        preset=SELF_GUIDED,
        killed_before=4,
        keeps_projection=True,
    ),
    "sg-opt": MethodCase(
        SelfGuidedOpt,
        batch="sentences",
        temperature=0.1,
        preset=SELF_GUIDED,
        killed_before=4,
        keeps_projection=True,
    ),
}
