"""The stations of a sentence on its way through the encoder, and how their tensors are kept.

Each station stands somewhere in the code. Hooks keep its tensor, so no code is changed.

Legend: B rows, T tokens, N heads, D head size.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from minbert import BertModel, attention
from minbert.attention import MultiHeadAttention, mask_to_bias
from minbert.bert import BertEmbeddings, BertLayer, FeedForward


class Station(NamedTuple):
    """A tensor on the way, the function that computes it, and the text of its line there."""

    function: Any
    line: str

    # The module that has it as its input or as its output, and how to hook it there. Without one it
    # is seen in the arguments of `attention`, or in its softmax.
    module: str = ""
    hook: Callable[..., Any] | None = None

    # The part of the module whose weights tell the name that transformers has for it.
    part: str = ""


IN, OUT = nn.Module.register_forward_pre_hook, nn.Module.register_forward_hook
EMBEDDINGS: dict[str, Station] = {
    "word": Station(BertEmbeddings.forward, "words =", "embeddings.word", OUT),
    "segment": Station(BertEmbeddings.forward, "segments =", "embeddings.segment", OUT),
    "sum": Station(BertEmbeddings.forward, "self.norm(", "embeddings.norm", IN),
    "embeddings": Station(BertEmbeddings.forward, "return", "embeddings", OUT, ".norm"),
}
# Those of one layer.
LAYER: dict[str, Station] = {
    "input": Station(BertLayer.forward, "def forward", "{}", IN, ".attention.query"),
    "query": Station(MultiHeadAttention.project, "return", "{}.attention.query", OUT),
    "key": Station(MultiHeadAttention.project, "return", "{}.attention.key", OUT),
    "value": Station(MultiHeadAttention.project, "return", "{}.attention.value", OUT),
    "Q": Station(MultiHeadAttention.forward, "query = self.split_heads"),
    "K": Station(MultiHeadAttention.forward, "key = self.split_heads"),
    "V": Station(MultiHeadAttention.forward, "value = self.split_heads"),
    "mask": Station(mask_to_bias, "return"),
    "scores": Station(attention.attention, "scores = query @ key"),
    "attention": Station(attention.attention, "probabilities = scores.softmax"),
    "weighted mean": Station(attention.attention, "return probabilities @ value"),
    "heads joined": Station(MultiHeadAttention.forward, "joined =", "{}.attention.output", IN),
    "attended": Station(
        MultiHeadAttention.forward, "return self.output", "{}.attention", OUT, ".output"
    ),
    "sum 1": Station(BertLayer.forward, "self.attention_norm(", "{}.attention_norm", IN),
    "norm 1": Station(BertLayer.forward, "self.attention_norm(", "{}.attention_norm", OUT),
    "up": Station(FeedForward.forward, "self.up(", "{}.feed_forward.up", OUT),
    "activated": Station(FeedForward.forward, "activated =", "{}.feed_forward.down", IN),
    "down": Station(FeedForward.forward, "self.down(", "{}.feed_forward", OUT, ".down"),
    "sum 2": Station(BertLayer.forward, "self.feed_forward_norm(", "{}.feed_forward_norm", IN),
    "output": Station(
        BertLayer.forward, "self.feed_forward_norm(", "{}", OUT, ".feed_forward_norm"
    ),
}
POOLER = {"pooler": Station(BertModel.forward, "pooled =", "pooler", OUT)}

# The arguments of a layer and of `attention`, which must not be changed in place.
ARGUMENTS = (" input", " Q", " K", " V")


def stations_of(num_layers: int) -> dict[str, Station]:
    """All stations of an encoder by name, such as "layer 0 scores", in their order."""
    stations = dict(EMBEDDINGS)
    for number in range(num_layers):
        for name, station in LAYER.items():
            module = station.module.format(f"layers.{number}")
            stations[f"layer {number} {name}"] = station._replace(module=module)
    return stations | POOLER


def line_of(station: Station, root: Path) -> str:
    """The file and line of a station, such as minbert/attention.py:55."""
    lines, first = inspect.getsourcelines(station.function)
    file = Path(str(inspect.getsourcefile(station.function))).relative_to(root)
    fitting = [first + number for number, text in enumerate(lines) if station.line in text]
    # An edited file may say it in other words.
    return f"{file}:{fitting[-1] if fitting else first}"


class Recorder(TorchFunctionMode):
    """Keeps the tensors of one pass by station. Stations that the pass does not reach stay out."""

    def __init__(self, stations: Mapping[str, Station]) -> None:
        super().__init__()
        self.stations = stations
        self.tensors: dict[str, Tensor] = {}
        self.arguments: dict[str, Tensor] = {}  # of which `tensors` has copies
        self.layer = ""  # the one that runs, such as "layer 0"

    def keep(self, station: str, tensor: Tensor | None) -> None:
        """Keep the first tensor of a station."""
        if isinstance(tensor, Tensor):
            if station.endswith(ARGUMENTS):
                self.arguments.setdefault(station, tensor)
            self.tensors.setdefault(station, tensor.detach().clone())

    @property
    def changed(self) -> list[str]:
        """The arguments of layers and of `attention` that were changed in place."""
        changed = []
        for station, tensor in self.arguments.items():
            copy = self.tensors[station]
            if not torch.allclose(tensor, copy, rtol=0, atol=0, equal_nan=True):
                changed.append(station)
        return changed

    def run(self, model: nn.Module, batch: Mapping[str, Tensor]) -> None:
        """Run a model with the readable formulas.

        In a child process, the package minbert may be that of another folder.
        """
        code: Any = sys.modules["minbert.attention"]
        switched = sys.modules["minbert.fast"].switched
        modules = dict(model.named_modules())
        with ExitStack() as stack:
            for name, station in self.stations.items():
                module = modules.get(station.module)
                if station.hook is not None and module is not None:
                    stack.enter_context(station.hook(module, partial(self.see, name)))
            heads = code.MultiHeadAttention
            stack.callback(setattr, heads, "project", heads.project)
            stack.callback(setattr, code, "attention", code.attention)
            heads.project = self.watched_project(heads.project)
            code.attention = self.watched(code.attention)
            with torch.no_grad(), switched(is_fast=False), self:
                model(**batch)

    def see(self, station: str, module: nn.Module, arguments: Any, *outputs: Any) -> None:
        """A hook: keeps a module's first argument, or its first result after it."""
        tensor = (outputs or arguments)[0]
        self.layer = " ".join(station.split()[:2])
        self.keep(station, tensor[0] if isinstance(tensor, tuple) else tensor)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Keep what goes into the softmax of attention, and what comes out."""
        result = func(*args, **(kwargs or {}))
        is_softmax = getattr(func, "__name__", "") == "softmax" and bool(args)
        if is_softmax and args[0].dim() == 4:
            # What is a softmax of a softmax goes wrong behind its scores.
            self.keep(f"{self.layer} scores", args[0])
            self.tensors[f"{self.layer} attention"] = result.detach().clone()
        return result

    def watched_project(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The method `project`, whose results are kept however it computes them."""

        def project(*arguments: Any, **options: Any) -> Any:
            projected = original(*arguments, **options)
            if isinstance(projected, Sequence):
                for name, tensor in zip(("query", "key", "value"), projected, strict=False):
                    # In place of what the module of this name gave.
                    self.tensors.pop(f"{self.layer} {name}", None)
                    self.keep(f"{self.layer} {name}", tensor)
            return projected

        return project

    def watched(self, original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The function `attention`, whose weights and mask are kept however it computes them."""

        def attend(*arguments: Any, **options: Any) -> Tensor:
            passed = inspect.signature(original).bind(*arguments, **options)
            passed.apply_defaults()
            query, key, value, bias, _, is_training, *_ = passed.arguments.values()
            inputs = {"Q": query, "K": key, "V": value, "mask": bias}
            for name, tensor in inputs.items():
                self.keep(f"{self.layer} {name}", tensor)
            output = original(*arguments, **options)
            self.keep(f"{self.layer} weighted mean", output)
            # With unit vectors as values, the weighted mean of the values is the weights.
            units = torch.eye(key.size(-2)).expand(*key.shape[:2], -1, -1)  # (B, N, T, T)
            weights = original(query, key, units, bias, 0.0, is_training)  # (B, N, T, T)
            self.tensors[f"{self.layer} attention"] = weights.detach().clone()
            return output

        return attend


def record(model: BertModel, batch: Mapping[str, Tensor]) -> Recorder:
    """Run our encoder on a batch, and keep all stations.

    A pooler without trained weights is none: its numbers would be drawn anew each time.
    """
    recorder = Recorder(stations_of(len(model.layers)))
    recorder.run(model, batch)
    if model.load_report is not None and "pooler.dense.weight" in model.load_report.missing:
        recorder.tensors.pop("pooler", None)
    return recorder
