"""Command: do models survive the way through other libraries, and with which differences?

    python -m tools.benchmarks.round_trips

Each model goes three ways: through transformers, through sentence-transformers, and through our own
files. Each way reads it, writes it and reads it again. A cell is the largest difference of any
number at any station. Token ids must be equal.

It adds a record to experiments/records/. `python -m tools.tables` writes the table in
docs/models.md from it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrastive.embed.export import export
from contrastive.embedder import open_embedder
from experiments.records import RECORDS, Record, add_records, without_folders
from minbert import BertModel, BertTokenizer, hub
from minbert.commands.ending import exit_code
from tests.small_models import SENTENCES, make_model
from tools.benchmarks.inputs import require
from tools.benchmarks.recording import conditions

ROUND_TRIPS = RECORDS / "round-trips.jsonl"
LIBRARIES = ("transformers", "sentence-transformers", "tokenizers", "torch")

# A row of the table, and the family of its random model; None for weights that are at hand.
MODELS = {
    "minbert-mini": None,
    "MiniLM": None,
    "tiny BERT": "bert",
    "cased BERT": "cased",
    "multilingual BERT": "multilingual",
    "DistilBERT": "distilbert",
    "RoBERTa": "roberta",
    "XLM-R": "xlm-roberta",
    "CamemBERT": "camembert",
    "ELECTRA": "electra",
    "MPNet": "mpnet",
}


# --- one model ------------------------------------------------------------------------------------


@contextmanager
def model_folder(name: str) -> Iterator[Path]:
    """The folder of a row's model, for as long as the block runs."""
    family = MODELS[name]
    if family is None:
        yield hub.resolve(name.lower())
        return
    with tempfile.TemporaryDirectory() as folder:
        make_model(family, Path(folder) / family)
        yield Path(folder) / family


def our_states(folder: Path) -> list[Tensor]:
    """Our hidden states and token ids of each sentence by itself, (T, H + 1) each."""
    encoder = BertModel.from_pretrained(folder)
    tokenizer = BertTokenizer.from_pretrained(folder)
    return states_of(encoder, tokenizer)


def their_states(folder: Path) -> list[Tensor]:
    """The states of transformers, as `our_states`."""
    from transformers import AutoModel, AutoTokenizer

    return states_of(
        AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    )


@torch.no_grad()
def states_of(encoder: Callable[..., Any], tokenizer: Callable[..., Any]) -> list[Tensor]:
    """Hidden states and token ids side by side, (T, H + 1), of sentences and of pairs."""
    rows = []
    for first, second in zip(SENTENCES, (None, *SENTENCES[1:]), strict=True):
        inputs = tokenizer(first, second, return_tensors="pt")
        states = encoder(**inputs).last_hidden_state[0]  # (T, H)
        ids = inputs["input_ids"][0].unsqueeze(1)  # (T, 1)
        rows.append(torch.cat([states, ids.to(states.dtype)], dim=1))
    return rows


def difference(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    """The largest difference of two lists of tensors; infinite where their shapes differ."""
    largest = 0.0
    for ours, theirs in zip(first, second, strict=True):
        if ours.shape != theirs.shape:
            return float("inf")
        largest = max(largest, float((ours - theirs).abs().max()))
    return largest


def save(source: Path, folder: Path) -> None:
    """Read a model and its tokenizer, and write them again, both ours."""
    folder.mkdir()
    BertModel.from_pretrained(source).save_pretrained(folder, pooling=None)
    BertTokenizer.from_pretrained(source).save_pretrained(folder)


def through_transformers(source: Path, place: Path) -> float:
    """Theirs is the reference. Ours reads it and writes it, theirs reads that and writes it."""
    from transformers import AutoModel, AutoTokenizer

    reference = their_states(source)
    save(source, place / "ours")
    AutoModel.from_pretrained(place / "ours").save_pretrained(place / "theirs")
    AutoTokenizer.from_pretrained(place / "ours").save_pretrained(place / "theirs")
    stations = [our_states(source), their_states(place / "ours"), our_states(place / "theirs")]
    return max(difference(station, reference) for station in stations)


def through_sentence_transformers(source: Path, place: Path) -> float:
    """Our vectors are the reference. Ours exports, theirs reads that and writes it, ours reads."""
    from sentence_transformers import SentenceTransformer

    embedder, _ = open_embedder(source, "mean", device="cpu")
    reference, _ = embedder.encode(SENTENCES)
    is_normalised = embedder.is_normalised
    export(embedder.encoder, embedder.tokenizer, place / "ours", "mean", 128, is_normalised)
    library = SentenceTransformer(str(place / "ours"), device="cpu")
    theirs = library.encode(list(SENTENCES), convert_to_tensor=True)
    library.save(str(place / "theirs"))
    again, _ = open_embedder(place / "theirs", device="cpu")[0].encode(SENTENCES)
    return max(difference([vectors], [reference]) for vectors in (theirs, again))


def through_ours(source: Path, place: Path) -> float:
    """Written and read twice."""
    save(source, place / "first")
    save(place / "first", place / "second")
    return difference(our_states(place / "second"), our_states(source))


WAYS = {
    "transformers": through_transformers,
    "sentence-transformers": through_sentence_transformers,
    "ours": through_ours,
}


def measure(name: str) -> dict[str, float]:
    """The largest difference of a model on each way."""
    differences = {}
    with model_folder(name) as source:
        for way, go in WAYS.items():
            with tempfile.TemporaryDirectory() as place:
                differences[way] = go(source, Path(place))
    return differences


# --- the record -----------------------------------------------------------------------------------


def make_record(differences: dict[str, dict[str, float]], day: date) -> Record:
    """Return the record of one measurement. differences: by model and way. day: of it."""
    weights = {}
    for name in differences:
        weights[name] = "real" if MODELS[name] is None else "random, small"
    return {
        "differences": differences,
        "weights": weights,
        "versions": {name: version(name) for name in LIBRARIES},
        **conditions(),
        "command": without_folders(sys.argv),
        "date": day.isoformat(),
    }


@exit_code("python -m tools.benchmarks.round_trips")
def main(argv: Sequence[str] | None = None) -> None:
    """Measure all models, and add the record."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments:
        raise ValueError(f"{arguments[0]} is not known; this command takes no argument. Drop it.")
    require("transformers", "sentence-transformers")
    differences = {}
    for name in MODELS:
        differences[name] = measure(name)
        print(name, json.dumps(differences[name]))
    num_new = add_records(ROUND_TRIPS, [make_record(differences, date.today())])
    print(f"{num_new} new record in {ROUND_TRIPS}; python -m tools.tables writes its table")


if __name__ == "__main__":
    sys.exit(main())
