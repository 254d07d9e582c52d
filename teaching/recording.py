"""Keeps the tensors that an encoder computes, by hooks. The encoder's code is not changed.

It also runs in a child process (`main`), where comparing.py runs other code beside ours. So this
file imports nothing of ours before it knows whose code it has to run.

Legend: B batch, T tokens, N heads, D head size.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Place(NamedTuple):
    """Where a tensor can be seen: what a module gets as its input, or gives as its output."""

    module: str  # its name in the model
    side: str  # "input" or "output"


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
    model: nn.Module, places: Mapping[str, Place], starts: Sequence[str], attention_file: Any = None
) -> Iterator[Recorded]:
    """Record what a model computes in a `with` block. Places that it does not pass stay out.

    places: by the station's name. starts: for each layer the first module that it runs.
    attention_file: the module whose function `attention` the encoder calls, if it has one.
    """
    kept = Recorded({}, [])
    recorder = SoftmaxRecorder(kept.tensors)
    modules = dict(model.named_modules())
    handles = []
    for station, place in places.items():
        module = modules.get(place.module)
        if module is None:
            continue
        if place.side == "input":
            hook = module.register_forward_pre_hook(keep_input(kept, station))
        else:
            hook = module.register_forward_hook(keep_output(kept, station))
        handles.append(hook)
    for number, name in enumerate(starts):
        handles.append(modules[name].register_forward_pre_hook(enter(recorder, number)))
        handles += watch_argument(kept, name, modules[name])

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


def keep_input(kept: Recorded, station: str) -> Callable[..., None]:
    """A hook that keeps a module's first argument, of its first call."""

    def hook(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        kept.tensors.setdefault(station, arguments[0].detach().clone())

    return hook


def keep_output(kept: Recorded, station: str) -> Callable[..., None]:
    """A hook that keeps the result of a module's first call, or the first one of several."""

    def hook(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        if isinstance(tensor, Tensor):
            kept.tensors.setdefault(station, tensor.detach().clone())

    return hook


def enter(recorder: SoftmaxRecorder, layer: int) -> Callable[..., None]:
    """A hook that notes which layer runs."""

    def hook(module: nn.Module, arguments: Any) -> None:
        recorder.layer = layer

    return hook


def watch_argument(kept: Recorded, name: str, module: nn.Module) -> list[Any]:
    """Hooks that notice where a module changes its argument in place."""
    before: list[Tensor] = []

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        before[:] = [arguments[0].detach().clone()]

    def compare(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if not torch.equal(before[0].nan_to_num(), arguments[0].nan_to_num()):
            kept.changed.append(name)

    return [module.register_forward_pre_hook(keep), module.register_forward_hook(compare)]


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


# --- other code, in a process of its own ----------------------------------------------------------


def open_code(folder: Path, weights: str) -> tuple[nn.Module, Any]:
    """The encoder of a clone or a hand-out, and its file attention.py."""
    sys.path[0] = str(folder)
    bert = importlib.import_module("minbert.bert")
    importlib.import_module("minbert.fast").choose("readable")
    if folder.resolve() not in Path(str(bert.__file__)).resolve().parents:
        raise ValueError(f"Python imports {bert.__file__} in place of the code in {folder}")
    model = bert.BertModel.from_pretrained(weights, attention_implementation="eager")
    return model, importlib.import_module("minbert.attention")


def open_transformers(folder: Path) -> tuple[nn.Module, Any]:
    """The encoder that the library transformers reads from a folder."""
    # No file of ours may hide a library.
    del sys.path[0]
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, attn_implementation="eager"), None


def main(exchange: Path) -> None:
    """Run the encoder that request.json names on batch.safetensors, and write what was seen.

    The first folder of sys.path is the one that holds this file's package.
    """
    request = json.loads((exchange / "request.json").read_text(encoding="utf-8"))
    batch = load_file(exchange / "batch.safetensors")
    kept = Recorded({}, [])
    error = ""
    try:
        folder = Path(request["folder"])
        if request["is_transformers"]:
            model, attention_file = open_transformers(folder)
        else:
            model, attention_file = open_code(folder, request["weights"])
        places = {name: Place(*place) for name, place in request["places"].items()}
        with recorded(model.eval(), places, request["starts"], attention_file) as kept:
            model(**batch)
    except Exception as raised:  # whatever the other code raises
        last = traceback.extract_tb(raised.__traceback__)[-1]
        error = f"{type(raised).__name__}: {raised} ({last.filename}:{last.lineno})"
    tensors = {name: tensor.contiguous() for name, tensor in kept.tensors.items()}
    save_file(tensors, exchange / "answer.safetensors")
    answer = {"error": error, "changed": kept.changed}
    (exchange / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
