"""`minbert trace --against`: other code beside ours, and the first tensor that differs.

The other code is a clone, a hand-out, or the library transformers on a model's folder. It runs in a
child process with our weights on the same batch. The child is forked, so torch is imported once.

Legend: B rows, T tokens, N heads, D head size.
"""

from __future__ import annotations

import ast
import importlib
import io
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from minbert import BertConfig, BertModel
from minbert.commands.hidden import ROOT
from minbert.weights import to_hugging_face
from teaching.children import Send, run_in_child
from teaching.exercises import EXERCISES, functions, module_name, released_body
from teaching.stations import Recorded, Station, record, recorded, stations_of

SECONDS = 120  # for the other code

# Equal numbers differ by less than this share of the station's largest one: the order of sums.
TOLERANCE = 1e-5

LOWEST = -60.0  # of the logarithm of a weight: less is no weight at all
NAMES_OF_DIMENSIONS = {
    2: ("row",),
    3: ("row", "token"),
    4: ("row", "head", "token"),
}


class OtherRun(NamedTuple):
    """What the other code computed."""

    tensors: dict[str, Tensor]
    changed: list[str]  # the modules that changed an argument in place
    error: str  # "" where it came to its end
    lent: list[str]  # functions that are not written there, so ours ran


def probe_of(row: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """The batch (3, T) that both sides read: a row (1, T), and two copies of it.

    The row alone has no padding, and often only one segment, so some mistakes would not show. The
    first copy has both, the second one is padding alone.
    """
    num_tokens = row["input_ids"].size(1)
    num_real = num_tokens - max(1, num_tokens // 4)
    lengths = torch.tensor([num_tokens, num_real, 0])
    places = torch.arange(num_tokens)
    mask = (places < lengths[:, None]).long()  # (3, T)
    ids = row["input_ids"].where(mask.bool(), config.pad_token_id or 0)  # (3, T)
    segments = row["token_type_ids"].repeat(3, 1)  # (3, T)
    if config.has_segments and config.type_vocab_size > 1:
        segments[1] = (places >= 2).long()
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def run_other(folder: Path, weights: Path, model: BertModel, batch: dict[str, Tensor]) -> OtherRun:
    """Run the other code on a batch. Raises ValueError for a folder that holds neither kind."""
    is_code = (folder / "minbert" / "bert.py").is_file()
    if not is_code and not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} holds neither minbert/bert.py nor config.json. Give a clone, a hand-out, or "
            "the folder of a model, which transformers then runs."
        )
    if not is_code and not model.config.has_segments:
        batch = {name: value for name, value in batch.items() if name != "token_type_ids"}

    def work(send: Send) -> None:
        # The other threads of torch are not in a forked process.
        torch.set_num_threads(1)
        kept, error = Recorded({}, []), ""
        lent: list[str] = []
        num_layers = len(model.layers)
        try:
            if is_code:
                other, file, lent = open_code(folder, weights)
                recording = recorded(other, num_layers, file)
            else:
                other = open_transformers(folder)
                name_of = partial(their_module, model)
                recording = recorded(other, num_layers, None, name_of, ".attention.query")
            with recording as kept:
                other.eval()(**batch)
        except Exception as raised:  # whatever the other code raises
            last = traceback.extract_tb(raised.__traceback__)[-1]
            error = f"{type(raised).__name__}: {raised} ({last.filename}:{last.lineno})"
        answer = io.BytesIO()
        other_run = OtherRun(kept.tensors, kept.changed, error, lent)
        torch.save(other_run._asdict(), answer)
        send(answer.getvalue())

    answers, ending = run_in_child(work, SECONDS)
    if not answers:
        raise ValueError(f"the code in {folder} gave no answer: {ending}")
    return OtherRun(**torch.load(io.BytesIO(answers[0]), weights_only=True))


def open_code(folder: Path, weights: Path) -> tuple[nn.Module, Any, list[str]]:
    """The encoder of a clone or a hand-out, its file attention.py, and what it was lent.

    For a child process alone: our package is forgotten, so that theirs is imported under its name.
    """
    leave_clone()
    sys.path.insert(0, str(folder.resolve()))
    ours = {}
    for name in [name for name in sys.modules if name.partition(".")[0] == "minbert"]:
        ours[name] = sys.modules.pop(name)
    bert = importlib.import_module("minbert.bert")
    importlib.import_module("minbert.fast").choose("readable")
    if folder.resolve() not in Path(str(bert.__file__)).resolve().parents:
        raise ValueError(f"Python imports {bert.__file__} in place of the code in {folder}")
    lent = lend_functions(ours)
    model = bert.BertModel.from_pretrained(weights, attention_implementation="eager")
    return model, importlib.import_module("minbert.attention"), lent


def lend_functions(ours: Mapping[str, ModuleType]) -> list[str]:
    """Put our code where the student's is not written yet, and return the names of the functions.

    ours: our modules by name. What is lent calls the student's other functions.
    """
    lent = []
    for exercise in EXERCISES.values():
        module = module_name(exercise.file)
        theirs = sys.modules.get(module)
        if module not in ours or theirs is None:
            continue
        source = Path(str(theirs.__file__)).read_text(encoding="utf-8")
        known = functions(ast.parse(source))
        for name, body in exercise.bodies().items():
            blank = ast.unparse(ast.parse(body))
            if name in known and released_body(source, name) == blank:
                function = attrgetter(name)
                function(theirs).__code__ = function(ours[module]).__code__
                lent.append(name)
    return lent


def open_transformers(folder: Path) -> nn.Module:
    """The encoder that the library transformers reads from a folder."""
    leave_clone()
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, attn_implementation="eager")


def leave_clone() -> None:
    """Import nothing more from this clone: its names could hide those of a library."""
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != ROOT]


def their_module(model: BertModel, name: str) -> str:
    """transformers' name of a module of ours. A group of ours is there its last part."""
    last = {"attention": ".output", "feed_forward": ".down"}.get(name.rpartition(".")[2], "")
    if name.startswith("layers.") and name.count(".") == 1:
        last = ".feed_forward_norm"
    if name == "embeddings":
        return "embeddings_project" if model.embeddings.project is not None else "embeddings"
    try:
        return to_hugging_face(f"{name}{last}.weight", model.config.model_type)[: -len(".weight")]
    except KeyError:
        return "not there"


# --- the first difference -------------------------------------------------------------------------


class Difference(NamedTuple):
    """A station at which two codes differ."""

    station: str
    words: str


def first_difference(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], mask: Tensor
) -> Difference | None:
    """The first station, in our order, whose tensors differ. None where all are equal.

    mask: (B, T), 1 for tokens. What padding computes means nothing, so it must only be finite.
    """
    for station, tensor in ours.items():
        if station in theirs:
            words = describe_difference(station, tensor, theirs[station], mask)
            if words:
                return Difference(station, words)
        elif station.endswith(" mask") and station.removesuffix("mask") + "Q" in theirs:
            return Difference(station, "`attention` gets None in place of it: is it passed on?")
    return None


def describe_difference(station: str, ours: Tensor, theirs: Tensor, mask: Tensor) -> str:
    """Where and by how much two tensors of one station differ, or ""."""
    if ours.shape != theirs.shape:
        return f"shape {tuple(theirs.shape)}, expected {tuple(ours.shape)}"
    kind = station.rpartition(" ")[2]
    if kind in ("mask", "scores"):
        # A constant that is added to a row of scores changes no weight. Neither does it matter how
        # negative a masked score is.
        ours, theirs = (
            tensor.double().log_softmax(dim=-1).clamp(min=LOWEST) for tensor in (ours, theirs)
        )
    if bool(theirs.isnan().any()):
        return "it holds nan"
    difference = (ours.double() - theirs.double()).abs()
    # The tokens are dimension 1 of (B, T, ...), and dimension 2 of (B, N, T, ...).
    is_real = mask.bool()
    if ours.dim() == 3:
        is_real = is_real[..., None]
    elif ours.dim() == 4 and kind != "mask":
        is_real = is_real[:, None, :, None]
    else:
        is_real = is_real.any(dim=1).view(-1, *[1] * (ours.dim() - 1))
    difference = difference.where(is_real, 0.0)
    most = float(difference.max())
    if most <= TOLERANCE * max(float(ours.abs().max()), 1e-3):
        return ""
    place = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    names = NAMES_OF_DIMENSIONS[ours.dim()][: len(place) - 1]
    words = [f"{name} {number}" for name, number in zip(names, place[:-1], strict=True)]
    last = "to token" if kind in ("mask", "scores", "attention") else "unit"
    return (
        f"largest difference {most:.3g}, at {', '.join([*words, f'{last} {place[-1]}'])}: "
        f"{float(theirs[place]):.5g}, expected {float(ours[place]):.5g}"
    )


def file_of_station(station: Station, folder: Path) -> str:
    """The file and line at which the other code has the function of a station."""
    file = f"{station.function.__module__.replace('.', '/')}.py"
    path = folder / file
    if not path.is_file():
        return ""
    node = functions(ast.parse(path.read_text(encoding="utf-8"))).get(station.function.__qualname__)
    name = station.function.__qualname__
    return "" if node is None else f", in {name} ({path}:{node.lineno})"


def compare(folder: Path, weights: Path, row: Mapping[str, Tensor]) -> str:
    """Run both on a row, and say where they differ first.

    weights: the folder of the encoder that both load.
    """
    model = BertModel.from_pretrained(weights, attention_implementation="eager").eval()
    probe = probe_of(row, model.config)
    kept = record(model, probe)
    other = run_other(folder, weights, model, probe)
    stations = stations_of(len(model.layers))
    ours = {station: kept.tensors[station] for station in stations if station in kept.tensors}
    num_seen = sum(station in other.tensors for station in ours)
    difference = first_difference(ours, other.tensors, probe["attention_mask"])

    lines = [f"compared: {num_seen} of {len(ours)} stations, with the weights of {weights}"]
    if other.lent:
        lines.append(f"not written yet, so ours ran in their place: {', '.join(other.lent)}")
    if difference is not None:
        place = file_of_station(stations[difference.station], folder)
        lines.append(f"The first tensor that differs is {difference.station}{place}")
        lines.append(difference.words)
    for module in other.changed:
        lines.append(f"{module} changes its argument in place. Write to a new tensor.")
    if other.error:
        lines.append(f"It stopped: {other.error}")
    if difference is None and not other.changed and not other.error:
        if num_seen:
            lines.append("equal: no tensor differs")
        else:
            lines.append("nothing was compared: the other code passes none of these stations")
    return "\n".join(lines)
