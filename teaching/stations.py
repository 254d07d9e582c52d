"""The stations of a sentence on its way through the encoder, and where each stands in the code.

Legend: B rows, T tokens, E embedding, H hidden, I intermediate, N heads, D head size.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from minbert import BertModel, attention, fast
from minbert.attention import MultiHeadAttention, mask_to_bias
from minbert.bert import BertEmbeddings, BertLayer, FeedForward
from teaching.recording import Place, Recorded, recorded


class Station(NamedTuple):
    """A tensor on the way, the function that computes it, and the text of its line there."""

    function: Any
    line: str
    place: Place | None = None  # None: seen in the arguments of `attention`, or in its softmax


IN, OUT = "input", "output"
EMBEDDINGS: dict[str, Station] = {
    "word": Station(BertEmbeddings.forward, "words =", Place("embeddings.word", OUT)),
    "segment": Station(BertEmbeddings.forward, "segments =", Place("embeddings.segment", OUT)),
    "sum": Station(BertEmbeddings.forward, "self.norm(", Place("embeddings.norm", IN)),
    "embeddings": Station(BertEmbeddings.forward, "return", Place("embeddings", OUT)),
}
# Those of one layer.
LAYER: dict[str, Station] = {
    "query": Station(MultiHeadAttention.project, "return", Place("attention.query", OUT)),
    "key": Station(MultiHeadAttention.project, "return", Place("attention.key", OUT)),
    "value": Station(MultiHeadAttention.project, "return", Place("attention.value", OUT)),
    "Q": Station(MultiHeadAttention.forward, "query = self.split_heads"),
    "K": Station(MultiHeadAttention.forward, "key = self.split_heads"),
    "V": Station(MultiHeadAttention.forward, "value = self.split_heads"),
    "mask": Station(mask_to_bias, "return"),
    "scores": Station(attention.attention, "scores = query @ key"),
    "attention": Station(attention.attention, "probabilities = scores.softmax"),
    "weighted mean": Station(attention.attention, "return probabilities @ value"),
    "heads joined": Station(MultiHeadAttention.forward, "joined =", Place("attention.output", IN)),
    "attended": Station(MultiHeadAttention.forward, "return self.output", Place("attention", OUT)),
    "sum 1": Station(BertLayer.forward, "self.attention_norm(", Place("attention_norm", IN)),
    "norm 1": Station(BertLayer.forward, "self.attention_norm(", Place("attention_norm", OUT)),
    "up": Station(FeedForward.forward, "self.up(", Place("feed_forward.up", OUT)),
    "activated": Station(FeedForward.forward, "activated =", Place("feed_forward.down", IN)),
    "down": Station(FeedForward.forward, "self.down(", Place("feed_forward", OUT)),
    "sum 2": Station(BertLayer.forward, "self.feed_forward_norm(", Place("feed_forward_norm", IN)),
    "output": Station(BertLayer.forward, "self.feed_forward_norm(", Place("", OUT)),
}
POOLER = {"pooler": Station(BertModel.forward, "pooled =", Place("pooler", OUT))}


def stations_of(num_layers: int) -> dict[str, Station]:
    """All stations of an encoder by name, such as "layer 0 scores", in their order."""
    stations = dict(EMBEDDINGS)
    for number in range(num_layers):
        for name, station in LAYER.items():
            place = station.place
            if place is not None:
                module = f"layers.{number}.{place.module}".rstrip(".")
                place = Place(module, place.side)
            stations[f"layer {number} {name}"] = station._replace(place=place)
    return stations | POOLER


def places_of(stations: Mapping[str, Station]) -> dict[str, Place]:
    """The places of those stations that a module shows."""
    return {name: item.place for name, item in stations.items() if item.place is not None}


def starts_of(num_layers: int) -> list[str]:
    """For each layer the module whose call begins it."""
    return [f"layers.{number}" for number in range(num_layers)]


def line_of(station: Station, root: Path) -> str:
    """The file and line of a station, such as minbert/attention.py:55."""
    lines, first = inspect.getsourcelines(station.function)
    file = Path(str(inspect.getsourcefile(station.function))).relative_to(root)
    fitting = [first + number for number, text in enumerate(lines) if station.line in text]
    # An edited file may say it in other words.
    return f"{file}:{fitting[-1] if fitting else first}"


def record(model: BertModel, batch: Mapping[str, Tensor]) -> Recorded:
    """Run our encoder on a batch with the readable formulas, and keep all stations."""
    num_layers = len(model.layers)
    places = places_of(stations_of(num_layers))
    with (
        fast.switched(is_fast=False),
        recorded(model, places, starts_of(num_layers), attention) as kept,
    ):
        model(**batch)
    return kept
