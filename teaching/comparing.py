"""`minbert trace --against`: other code beside ours, and the first tensor that differs.

The other code is a clone, a hand-out, or the library transformers on a model's folder. It runs in a
child process with our weights on the same batch. The child is forked, so torch is imported once.

Legend: B rows, T tokens, N heads, D head size.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from minbert import BertConfig, BertModel
from minbert.commands.hidden import ROOT
from minbert.weights import to_hugging_face
from teaching import judging
from teaching.children import Send, run_in_child
from teaching.stations import Recorder, Station, record, stations_of

SECONDS = 120  # for the other code

# Equal numbers differ by less than this share of the station's largest one: the order of sums.
TOLERANCE = 1e-5

LOWEST = -60.0  # of the logarithm of a weight: less is no weight at all


def compare(folder: Path, weights: Path, model: BertModel, row: Mapping[str, Tensor]) -> str:
    """Run other code and our model on a row, and say where they differ first.

    weights: the folder of the model, which the other code loads, too. Raises ValueError for a
    folder that holds neither code nor a model, and for code that gives no answer.
    """
    is_code = (folder / "minbert" / "bert.py").is_file()
    if not is_code and not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} holds neither minbert/bert.py nor config.json. Give a clone, a hand-out, or "
            "the folder of a model, which transformers then runs."
        )
    probes = [probe_of(row, model.config), row]
    ours = [record(model, probe) for probe in probes]

    def work(send: Send) -> None:
        # The other threads of torch are not in a forked process.
        torch.set_num_threads(1)
        # Nothing more comes from this clone: its names could hide those of a library.
        sys.path[:] = [path for path in sys.path if Path(path).resolve() != ROOT]
        stations = ours[0].stations if is_code else renamed(ours[0].stations, model)
        theirs = [Recorder(stations) for _ in probes]
        lines = [f"compared with the weights of {weights}"]
        error = []
        try:
            other = open_code(folder, weights) if is_code else open_transformers(folder)
            lines += lend_functions()
            for recorder, probe in zip(theirs, probes, strict=True):
                recorder.run(other, probe)
        except Exception as raised:  # whatever the other code raises
            last = traceback.extract_tb(raised.__traceback__)[-1]
            error = [
                f"It stopped: {type(raised).__name__}: {raised} ({last.filename}:{last.lineno})"
            ]
        num_seen = len(theirs[0].tensors.keys() & ours[0].tensors.keys())
        lines.append(f"compared: {num_seen} of {len(ours[0].tensors)} stations")
        equal = "equal: the results do not differ"
        if not num_seen:
            equal = "nothing was compared: the other code passes none of these stations"
        first = next(filter(None, map(differences, ours, theirs, probes)), [])
        lines += [*first, *error] or [equal]
        send("\n".join(lines).encode())

    answers, ending = run_in_child(work, SECONDS)
    if not answers:
        raise ValueError(f"the code in {folder} gave no answer: {ending}")
    return answers[0].decode()


def differences(ours: Recorder, theirs: Recorder, probe: Mapping[str, Tensor]) -> list[str]:
    """Say what differs on a batch, in no line where nothing does."""
    lines = []
    difference = first_difference(ours, theirs.tensors, probe["attention_mask"])
    if difference is not None:
        function = ours.stations[difference.station].function
        code = their_function(function).__code__
        place = f", in {function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
        lines = [f"The first tensor that differs is {difference.station}{place}", difference.words]
    for station in theirs.changed:
        lines.append(f"{station} is changed in place. Write to a new tensor.")
    return lines


def probe_of(row: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """A batch (3, T) that both sides read beside a row (1, T): the row, and two copies of it.

    The row alone has no padding, and often only one segment, so some mistakes would not show. The
    first copy has both, the second one is padding alone.
    """
    probe = {name: tensor.repeat(3, 1) for name, tensor in row.items()}
    mask = probe["attention_mask"]
    mask[1, -max(1, mask.size(1) // 4) :] = 0
    mask[2] = 0
    probe["input_ids"][mask == 0] = config.pad_token_id or 0
    # Models without segments ignore them.
    probe["token_type_ids"][1, 2:] = int(config.type_vocab_size > 1)
    return probe


# --- the other code -------------------------------------------------------------------------------


def open_code(folder: Path, weights: Path) -> nn.Module:
    """The encoder of a clone or a hand-out.

    For a child process alone: our package is forgotten, so that theirs is imported under its name.
    """
    sys.path.insert(0, str(folder.resolve()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "minbert"]:
        del sys.modules[name]
    bert = importlib.import_module("minbert.bert")
    if folder.resolve() not in Path(str(bert.__file__)).resolve().parents:
        raise ValueError(f"Python imports {bert.__file__} in place of the code in {folder}")
    return bert.BertModel.from_pretrained(weights, attention_implementation="eager").eval()


def their_function(ours: Any) -> Any:
    """One of our functions, or that of the code that `open_code` has imported in its place."""
    return attrgetter(ours.__qualname__)(sys.modules[ours.__module__])


def lend_functions() -> list[str]:
    """Put our code where the student's is not written yet, and say so.

    What is lent calls the student's other functions.
    """
    lent = []
    for ours in dict.fromkeys(station.function for station in stations_of(1).values()):
        theirs = their_function(ours)
        # A function that raises the error and does nothing else.
        if theirs.__code__.co_names == ("NotImplementedError",):
            theirs.__code__ = ours.__code__
            lent.append(ours.__qualname__)
    return [f"not written yet, so ours ran in their place: {', '.join(lent)}"] if lent else []


def open_transformers(folder: Path) -> nn.Module:
    """The encoder that the library transformers reads from a folder."""
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, attn_implementation="eager").eval()


def renamed(stations: Mapping[str, Station], model: BertModel) -> dict[str, Station]:
    """The stations with the names of modules that transformers has for those of a model."""
    by_name = {}
    for name, station in stations.items():
        has_project = name == "embeddings" and model.embeddings.project is not None
        weight = f"{station.module}{'.project' if has_project else station.part}.weight"
        with suppress(KeyError):
            their_weight = to_hugging_face(weight, model.config.model_type)
            by_name[name] = station._replace(module=their_weight.removesuffix(".weight"))
    return by_name


# --- the first difference -------------------------------------------------------------------------


class Difference(NamedTuple):
    """A station at which two codes differ."""

    station: str
    words: str


def first_difference(
    ours: Recorder, theirs: Mapping[str, Tensor], mask: Tensor
) -> Difference | None:
    """The first station, in our order, whose tensors differ. None where all results are equal.

    Right code may take another way, such as one head after the other. The results are those of the
    layers and of the pooler. mask: (B, T), 1 for tokens. What padding computes means nothing, so it
    must only be finite.
    """
    in_order = {name: ours.tensors[name] for name in ours.stations if name in ours.tensors}
    results = [name for name in in_order if name.endswith((" output", "pooler"))]
    if all(
        name in theirs and not describe_difference(name, in_order[name], theirs[name], mask)
        for name in results
    ):
        return None
    for station, tensor in in_order.items():
        words = ""
        if station in theirs:
            words = describe_difference(station, tensor, theirs[station], mask)
        elif station.endswith(" mask") and station.removesuffix("mask") + "Q" in theirs:
            words = "`attention` gets None in place of it: is it passed on?"
        if words:
            return Difference(station, words)
    return None


def describe_difference(station: str, ours: Tensor, theirs: Tensor, mask: Tensor) -> str:
    """Where and by how much two tensors of one station differ, or "".

    A place is (row, token, unit), or (row, head, token, unit). In masks and attention, a token
    stands in the place of the unit.
    """
    if ours.shape != theirs.shape:
        return f"shape {tuple(theirs.shape)}, expected {tuple(ours.shape)}"
    if ours.dim() == 2:
        ours, theirs = ours[:, None], theirs[:, None]
    if station.endswith((" mask", " scores")):
        # A constant that is added to a row of scores changes no weight. Neither does it matter how
        # negative a masked score is.
        ours, theirs = (
            tensor.double().log_softmax(dim=-1).clamp(min=LOWEST) for tensor in (ours, theirs)
        )
    # The tokens are the last dimension but one. A row of a mask or of the pooler stands there as
    # its first token.
    is_real = mask[:, : ours.size(-2)].bool()
    is_real = is_real.view(len(mask), *[1] * (ours.dim() - 3), -1, 1)
    expected = ours.where(is_real, theirs)
    return judging.compare(theirs.numpy(), expected.numpy(), TOLERANCE, smallest=1e-3)
