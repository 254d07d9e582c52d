"""The stations of a sentence on its way through the encoder, and how their tensors are kept.

Each station stands somewhere in the code. Hooks keep its tensor, so no code is changed.

Legend: B rows, T tokens, N heads, D head size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from minbert import BertModel, attention, fast
from minbert.attention import MultiHeadAttention, mask_to_bias
from minbert.bert import BertEmbeddings, BertLayer, FeedForward


class Place(NamedTuple):
    """Where a tensor can be seen: what a module gets as its input, or gives as its output."""

    module: str  # its name in the model
    side: str  # "input" or "output"


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


def line_of(station: Station, root: Path) -> str:
    """The file and line of a station, such as minbert/attention.py:55."""
    lines, first = inspect.getsourcelines(station.function)
    file = Path(str(inspect.getsourcefile(station.function))).relative_to(root)
    fitting = [first + number for number, text in enumerate(lines) if station.line in text]
    # An edited file may say it in other words.
    return f"{file}:{fitting[-1] if fitting else first}"


# --- keeping tensors ------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """What was seen of one pass."""

    tensors: dict[str, Tensor]  # by station
    changed: list[str]  # the modules that changed an argument in place


class SoftmaxRecorder(TorchFunctionMode):
    """Keeps what goes into the softmax of attention, and what comes out."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.tensors = tensors
        self.layer = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        is_softmax = getattr(func, "__name__", "") == "softmax" and bool(args)
        if is_softmax and args[0].dim() == 4:
            # What is a softmax of a softmax goes wrong behind its scores.
            self.tensors.setdefault(f"layer {self.layer} scores", args[0].detach().clone())
            self.tensors[f"layer {self.layer} attention"] = result.detach().clone()
        return result


@contextmanager
def recorded(
    model: nn.Module,
    num_layers: int,
    attention_file: Any = None,
    name_of: Callable[[str], str] = str,
    start: str = "",
) -> Iterator[Recorded]:
    """Record what a model computes in a `with` block. Stations that it does not pass stay out.

    attention_file: the module whose function `attention` the encoder calls, if it has one. name_of:
    gives the model's name of a module of ours. start: the part of a layer that runs first.
    """
    kept = Recorded({}, [])
    recorder = SoftmaxRecorder(kept.tensors)
    modules = dict(model.named_modules())
    handles = []
    for name, station in stations_of(num_layers).items():
        module = modules.get(name_of(station.place.module)) if station.place else None
        if module is None or station.place is None:
            continue
        is_input = station.place.side == IN
        register = module.register_forward_pre_hook if is_input else module.register_forward_hook
        handles.append(register(keep(kept, name)))
    for number in range(num_layers):
        name = name_of(f"layers.{number}{start}")
        handles += watch_layer(kept, recorder, number, name, modules[name])

    original = getattr(attention_file, "attention", None)
    if original is not None:
        attention_file.attention = watched_attention(original, recorder, kept.changed)
    try:
        with torch.no_grad(), recorder:
            yield kept
    finally:
        for handle in handles:
            handle.remove()
        if original is not None:
            attention_file.attention = original


def keep(kept: Recorded, station: str) -> Callable[..., None]:
    """A hook of a module's first call: keeps its first argument, or its first result after it."""

    def hook(module: nn.Module, arguments: tuple[Any, ...], *outputs: Any) -> None:
        tensor = (outputs or arguments)[0]
        if isinstance(tensor, tuple):
            tensor = tensor[0]
        if isinstance(tensor, Tensor):
            kept.tensors.setdefault(station, tensor.detach().clone())

    return hook


def watch_layer(
    kept: Recorded, recorder: SoftmaxRecorder, layer: int, name: str, module: nn.Module
) -> list[Any]:
    """Hooks that note which layer runs, and whether it changes its argument in place."""
    before: list[Tensor] = []

    def enter(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        recorder.layer = layer
        before[:] = [arguments[0].detach().clone()]

    def leave(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if not torch.equal(before[0].nan_to_num(), arguments[0].nan_to_num()):
            kept.changed.append(name)

    return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]


def watched_attention(
    original: Callable[..., Tensor], recorder: SoftmaxRecorder, changed: list[str]
) -> Any:
    """The function `attention`, whose weights and mask are kept whatever way it computes them.

    changed: gets the name of a layer's argument that the function changes in place.
    """

    def watched(*arguments: Any, **options: Any) -> Tensor:
        layer = recorder.layer
        passed = inspect.signature(original).bind(*arguments, **options)
        passed.apply_defaults()
        query, key, value, bias, _, is_training, *_ = passed.arguments.values()
        inputs = {"Q": query, "K": key, "V": value}
        for name, tensor in inputs.items():
            recorder.tensors[f"layer {layer} {name}"] = tensor.detach().clone()
        output = original(*arguments, **options)
        for name, tensor in inputs.items():
            before = recorder.tensors[f"layer {layer} {name}"]
            if not torch.equal(tensor.nan_to_num(), before.nan_to_num()):
                changed.append(f"attention in layer {layer}, for {name},")
        if bias is not None:
            recorder.tensors[f"layer {layer} mask"] = bias.detach().clone()
        recorder.tensors[f"layer {layer} weighted mean"] = output.detach().clone()
        # With unit vectors as values, the weighted mean of the values is the weights themselves.
        units = torch.eye(key.size(-2)).expand(*key.shape[:2], -1, -1)  # (B, N, T, T)
        weights = original(query, key, units, bias, 0.0, is_training)  # (B, N, T, T)
        recorder.tensors[f"layer {layer} attention"] = weights.detach().clone()
        return output

    return watched


def record(model: BertModel, batch: Mapping[str, Tensor]) -> Recorded:
    """Run our encoder on a batch with the readable formulas, and keep all stations.

    A pooler without trained weights is none: its numbers would be drawn anew each time.
    """
    with fast.switched(is_fast=False), recorded(model, len(model.layers), attention) as kept:
        model(**batch)
    if model.load_report is not None and "pooler.dense.weight" in model.load_report.missing:
        kept.tensors.pop("pooler", None)
    return kept
