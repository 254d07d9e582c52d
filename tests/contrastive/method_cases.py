"""A contrastive method as the tests build it, run it and stop it, from its entry in the registry.

The general tests run over all entries. So a new method needs nothing here: what the tests must know
of it is the fixture of its entry.
"""

from __future__ import annotations

from typing import Any

from contrastive.methods import Method, build_method
from contrastive.options import ContrastiveOptions
from contrastive.presets import settings_of
from contrastive.registry import METHODS
from minbert import BertModel
from minbert.commands.options import with_values

# The batch that a method takes in test_caching.py.
BATCHES = {"sentences": "sentences", "labelled pairs": "pairs", "triplets": "triplets"}


def build_case(name: str, encoder: BertModel, chunk: int = 0, **changes: Any) -> Method:
    """The module of a method on an encoder, with mean pooling. changes: its other options."""
    options = with_values(ContrastiveOptions(), **{**METHODS[name].fixture.options, **changes})
    options = with_values(options, contrastive_chunk=chunk)
    settings = settings_of(name, options, encoder.config.hidden_size, "cpu")
    return build_method(name, options.of_method, settings, "mean", encoder)


def batch_of(name: str) -> str:
    """The kind of batch that a method takes."""
    entry = METHODS[name]
    return entry.fixture.batch or BATCHES[entry.reads]


def has_projection(name: str) -> bool:
    """Whether a projection is stored beside the encoder that a method trains."""
    return METHODS[name].preset.projection != "none"
