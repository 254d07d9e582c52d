"""Command: is a damaged file noticed before it is used?

`python -m tools.benchmarks.bit_flips` writes each kind of file that minBERT reads again, turns over
one random bit of it, and reads it as the commands do. A flip counts as noticed where the reader
refuses the file, and as without effect where it returns what it returned before. Everything else is
silent damage, and the command then ends with code 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy
import torch

from contrastive.embed.export import export
from contrastive.embed.stored_vectors import read_vectors, record_of, write_vectors
from contrastive.sentence_folder import read_sentence_folder
from data import token_cache
from data.examples import Example
from data.known_words import load_words, save_words
from experiments.records import RECORDS
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.commands.digests import read_record
from minbert.commands.ending import exit_code
from minbert.commands.files import digest_of_file, read_json, write_json, write_tensors
from minbert.commands.flags import Parser
from minbert.reporting.tables import aligned
from minbert.tokenizer import SPECIAL_TOKENS
from minbert.training.checkpoint import STATE_FILE, load_checkpoint, save_checkpoint
from minbert.training.cost_estimate import read_estimates
from minbert.training.run_folder import check_unchanged
from minbert.training.stage import STAGE_FILE, check_files
from minbert.training.step_log import CHECKSUMS, LOG_FILE, StepLog, StepRecord
from multitask.model import MultitaskBert
from multitask.options import HeadOptions
from multitask.prediction_files import is_as_written
from tools.benchmarks.comparison import versions
from tools.benchmarks.json_lines import Line, check_lines, run_missing
from tools.benchmarks.recording import HELP, record_measurement

BIT_FLIPS = RECORDS / "bit-flips.jsonl"
NUM_FLIPS = 200


class Kind(NamedTuple):
    """A kind of file, and how a run reads it.

    read: returns what the run would use, or None where the file is not used. It may raise
    ValueError.
    """

    name: str
    path: Path
    read: Callable[[], Any]


class Counts(NamedTuple):
    """What became of the flips in one file."""

    noticed: int
    without_effect: int
    silent: int


def try_flips(kind: Kind, num_flips: int, seed: int) -> Counts:
    """Turn over one random bit of the file at a time. The file is whole again afterwards."""
    content = kind.path.read_bytes()
    expected = kind.read()
    rng = random.Random(seed)
    noticed = without_effect = 0
    try:
        for _ in range(num_flips):
            damaged = bytearray(content)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            kind.path.write_bytes(damaged)
            try:
                result = kind.read()
            except ValueError:
                result = None
            if result is None:
                noticed += 1
            elif agrees(result, expected):
                without_effect += 1
    finally:
        kind.path.write_bytes(content)
    return Counts(noticed, without_effect, num_flips - noticed - without_effect)


def agrees(value: Any, expected: Any) -> bool:
    """Whether a value holds every bit of what is expected.

    A dictionary may have further keys, which no reader asks for.
    """
    if isinstance(expected, torch.Tensor):
        return isinstance(value, torch.Tensor) and agrees(value.numpy(), expected.numpy())
    if isinstance(expected, numpy.ndarray):
        is_alike = value.dtype == expected.dtype and value.shape == expected.shape
        return is_alike and value.tobytes() == expected.tobytes()
    if isinstance(expected, dict):
        return all(name in value and agrees(value[name], expected[name]) for name in expected)
    if isinstance(expected, list | tuple):
        if len(value) != len(expected):
            return False
        return all(map(agrees, value, expected))
    return value == expected


def make_kinds(folder: Path) -> list[Kind]:
    """Write a small file of each kind into a folder."""
    torch.manual_seed(0)
    return [
        *make_checkpoint(folder / "checkpoint"),
        *make_records(folder / "run"),
        *make_log(folder / "log"),
        *make_encoder(folder / "encoder"),
        *make_model(folder / "model"),
        *make_export(folder / "export"),
        make_cache(folder / "cache.npz"),
        make_vectors(folder / "vectors.npy"),
    ]


# --- the files of a run ---------------------------------------------------------------------------


def make_checkpoint(folder: Path) -> list[Kind]:
    """A checkpoint: the tensors of a step, the best model so far, and the state."""
    generator = torch.Generator().manual_seed(0)
    weights = {"model.weight": torch.randn(8, 16, generator=generator)}
    best = "best-00000002.safetensors"
    digests = {best: write_tensors(folder / best, weights)}
    state = {"step": 3, "keep": [best], "digests": digests, "history": [{"score": 0.25}]}
    save_checkpoint(folder, weights, state)
    names = {"checkpoint": "step-00000003.safetensors", "best model": best, "state": STATE_FILE}
    return [
        Kind(name, folder / file_name, lambda: load_checkpoint(folder))
        for name, file_name in names.items()
    ]


def make_records(folder: Path) -> list[Kind]:
    """What says how a run was made, and the files whose digests it holds."""
    content = {"options": {"lr": 0.001, "epochs": 3, "head": "mlp"}, "files": {"a.csv": "0" * 64}}
    for name in ("options.json", "run.json"):
        write_json(folder / name, content, has_checksum=True)
    estimate = {"name": "mlm", "num_steps": 9, "seconds": 1.5, "peak_memory": 10, "disk": 20}
    estimates = folder / "cost_estimate.json"
    write_json(estimates, {"jobs": [estimate]}, has_checksum=True)

    data = folder / "rows.csv"
    data.write_text("id\tsentence\tsentiment\na1\tA good film .\t3\n")
    predictions = folder / "sst-dev-output.csv"
    predictions.write_text("id \t Predicted_Sentiment \na1 , 3 \nb2 , 4 \n")
    digest = digest_of_file(data)
    record = {"predictions": {"sst_dev": digest_of_file(predictions)}}

    def read_data() -> bytes:
        check_unchanged(folder, {"rows": digest}, {"rows": digest_of_file(data)})
        return data.read_bytes()

    def read_predictions() -> bytes | None:
        return predictions.read_bytes() if is_as_written(predictions, record) else None

    def read_estimate() -> Any:
        # As in cost_estimate.estimate, which then measures the cost again.
        try:
            return read_estimates(estimates)
        except (KeyError, TypeError):
            return None

    return [
        Kind("options.json", folder / "options.json", lambda: read_json(folder / "options.json")),
        Kind("run.json", folder / "run.json", lambda: read_json(folder / "run.json")),
        Kind("cost_estimate.json", estimates, read_estimate),
        Kind("data file", data, read_data),
        Kind("predictions", predictions, read_predictions),
    ]


def make_log(folder: Path) -> list[Kind]:
    """The step log of a run that was stopped, and the checksums of its rows."""
    log = StepLog(folder)
    for step in range(1, 6):
        loss = 1 / step
        log.write(StepRecord("multitask", 1, step, loss, {"sst": loss}, 0.1, 2.0, 0.5, 12))

    def read() -> Any:
        again = StepLog(folder)
        said = StringIO()
        with redirect_stdout(said):
            rows = again.intact_rows()
        return None if "damaged" in said.getvalue() else [again.tasks, rows]

    paths = {"log.csv": folder / LOG_FILE, "checksums of log.csv": folder / CHECKSUMS}
    return [Kind(name, path, read) for name, path in paths.items()]


# --- models ---------------------------------------------------------------------------------------


def tiny_config() -> BertConfig:
    """The config of an encoder of one layer."""
    return BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )


def tiny_tokenizer() -> BertTokenizer:
    """A tokenizer with a vocabulary of 20."""
    words = [*SPECIAL_TOKENS, *"abcdefghijklmno"]
    return BertTokenizer({word: number for number, word in enumerate(words)})


def make_encoder(folder: Path) -> list[Kind]:
    """The encoder of a finished stage, and its record."""
    BertModel(tiny_config()).save_pretrained(folder)
    content = {"fingerprint": "f", "code": "c", "seconds": 1.5, "files": read_record(folder)}
    write_json(folder / STAGE_FILE, content, has_checksum=True)

    def read() -> Any:
        stored = read_json(folder / STAGE_FILE)
        check_files(folder, stored)
        return [stored, BertModel.from_pretrained(folder).state_dict()]

    names = ["model.safetensors", "config.json", STAGE_FILE]
    return [Kind(f"encoder of a stage, {name}", folder / name, read) for name in names]


def make_model(folder: Path) -> list[Kind]:
    """The model of a finished run, as predict and --model open it."""
    heads = HeadOptions(head="vm", pair_encoding="cross")
    model = MultitaskBert(BertModel(tiny_config()), "mean", heads, seed=0)
    model.save_pretrained(folder, tiny_tokenizer())
    save_words(folder, {"sst": [Example("a1", "A good film", None, None)]})

    def read() -> Any:
        opened = MultitaskBert.from_pretrained(folder)
        tokenizer = BertTokenizer.from_pretrained(folder)
        words = load_words(folder, "sst")
        weights = opened.state_dict()
        settings = [opened.encoder.config, opened.pooling, opened.options, opened.tasks]
        return [weights, *settings, tokenizer.fingerprint, words]

    names = sorted(path.name for path in folder.iterdir())
    return [Kind(f"model, {name}", folder / name, read) for name in names]


def make_export(folder: Path) -> list[Kind]:
    """A model as embed exports it for sentence-transformers. --model opens it, too."""
    encoder = BertModel(tiny_config())
    export(encoder, tiny_tokenizer(), folder, "pooler", 8, is_normalised=True)

    def read() -> Any:
        opened = read_sentence_folder(folder)
        assert opened is not None
        values = {name: value for name, value in vars(opened).items() if name != "steps"}
        dense = opened.steps[0]
        return [values, dense.keywords["weight"], dense.keywords["bias"]]  # type: ignore[attr-defined]

    names = ["modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors"]
    return [Kind(f"exported model, {name}", folder / name, read) for name in names]


# --- what is kept from command to command ---------------------------------------------------------


def make_cache(path: Path) -> Kind:
    """Token ids that are kept from run to run."""
    tokens = numpy.arange(120, dtype=numpy.int32).reshape(2, 60)
    rows = token_cache.TokenRows(tokens, numpy.full(6, 10, numpy.int32), 1)
    token_cache.write(path, rows)

    def read() -> Any:
        stored = token_cache.read(path)
        return None if stored is None else vars(stored)

    return Kind("token cache", path, read)


def make_vectors(path: Path) -> Kind:
    """Sentence vectors that `embed --out` has stored."""
    identity = {"model": "m", "modules": "", "pooling": "mean", "max_length": 8}
    embedder: Any = SimpleNamespace(identity=lambda: identity)
    sentences = ["a b", "c d", "e f"]
    vectors = torch.randn(3, 8)
    write_vectors(path, vectors, is_normalised=True, record=record_of(sentences, embedder))
    return Kind("sentence vectors", path, lambda: read_vectors(path, sentences, embedder)[0])


# --- the command ----------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(
        prog="python -m tools.benchmarks.bit_flips",
        allow_abbrev=False,
        description="Turn over single bits of files that minBERT reads again.",
    )
    parser.add_argument(
        "--flips", type=int, default=NUM_FLIPS, metavar="N", help="of each file (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all flips (%(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="keep the counts, a line of JSON for each file. A later call with the same FILE goes "
        "on where this one was stopped",
    )
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


@exit_code("python -m tools.benchmarks.bit_flips")
def main(argv: Sequence[str] | None = None) -> int:
    """Try all kinds and print a table. Exit code 1 where damage was silent."""
    arguments = build_parser().parse_args(argv)
    if arguments.flips < 1:
        raise ValueError(f"--flips is {arguments.flips}; pass 1 or more.")
    if arguments.out is not None:
        check_lines(arguments.out, ("file", "flips", "seed"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        kinds = {kind.name: kind for kind in make_kinds(place)}

        def count(file: str, flips: int, seed: int) -> Line:
            counts = try_flips(kinds[file], flips, seed)
            return {"file": file, "flips": flips, "seed": seed, **counts._asdict()}

        common = {"flips": arguments.flips, "seed": arguments.seed}
        identities = [{"file": file, **common} for file in kinds]
        with redirect_stdout(StringIO()):
            lines = run_missing(arguments.out or place / "lines.jsonl", identities, count)
    lines = [line for line in lines if common.items() <= line.items()]

    rows = [("flips of", *(name.replace("_", " ") for name in Counts._fields))]
    for line in lines:
        rows.append((line["file"], *(str(line[name]) for name in Counts._fields)))
    print(aligned(rows))
    summary = {"name": "bit_flips", **common, "files": lines, "versions": versions()}
    if arguments.record:
        record_measurement(BIT_FLIPS, summary)
    print(json.dumps(summary))
    return 1 if any(line["silent"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
