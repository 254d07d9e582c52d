"""A contrastive method as the tests build it, run it and stop it, from its entry in the registry.

The general tests run over all entries. What they must know of a method stands in
tests/method_values.py.
"""

from __future__ import annotations

from typing import Any

from contrastive.methods import Method, build_method
from contrastive.options import ContrastiveOptions
from contrastive.presets import settings_of
from contrastive.registry import METHODS
from minbert import BertModel
from minbert.commands.options import with_values
from tests.method_values import fixture_of

# The batch that a method takes in test_caching.py, by what it reads, and by its name.
BATCHES = {"sentences": "sentences", "labelled pairs": "pairs", "triplets": "triplets"}
OWN_BATCHES = {"ct": "pairs of sentences", "distill": "sentences with vectors"}


def build_case(name: str, encoder: BertModel, chunk: int = 0, **changes: Any) -> Method:
    """The module of a method on an encoder, with mean pooling. changes: its other options."""
    options = with_values(ContrastiveOptions(), **{**fixture_of(METHODS, name).options, **changes})
    options = with_values(options, contrastive_chunk=chunk)
    settings = settings_of(name, options, encoder.config.hidden_size, "cpu")
    return build_method(name, options.of_method, settings, "mean", encoder)


def batch_of(name: str) -> str:
    """The kind of batch that a method takes."""
    return OWN_BATCHES.get(name) or BATCHES[METHODS[name].reads]


def has_projection(name: str) -> bool:
    """Whether the case of a method stores a projection beside the encoder that it trains."""
    options = with_values(ContrastiveOptions(), **fixture_of(METHODS, name).options)
    return settings_of(name, options, 32, "cpu").projection != "none"
