"""The request of `python -m contrastive.embed`: its flags, and what is refused before any work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.tables.columns import ColumnNames
from minbert.commands.arguments import check_at_least
from minbert.commands.flags import Parser
from minbert.commands.optional import check_onnx_packages
from minbert.commands.outputs import OVERWRITE, STREAM, Output, check_new_folder, check_outputs

# Names that promise another format than .npy.
OTHER_FORMATS = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".xlsx", ".npz", ".pt", ".parquet"}
DEFAULT_TOP = 5
DEFAULT_THRESHOLD = 0.9
LEAST = {"nearest": 1, "top": 1, "batch_size": 1, "max_length": 4}


@dataclass(frozen=True)
class Request:
    """The command line. The fields are the flags."""

    model: str
    input: Path | None
    text: str | None
    id: str | None
    lines: bool
    vectors: Path | None
    out: Path | None
    nearest: int | None
    query: str | None
    top: int
    duplicates: bool
    threshold: float
    overwrite: bool
    export: Path | None
    onnx: bool
    normalise: bool
    pooling: str
    batch_size: int
    max_length: int | None
    device: str
    precision: str

    @property
    def needs_sentences(self) -> bool:
        """Whether a flag asks for an answer about the sentences. --export alone does not."""
        is_asked = (self.out, self.nearest, self.query) != (None, None, None)
        return is_asked or self.duplicates

    @property
    def column_names(self) -> ColumnNames:
        """The names of the columns that the user passed."""
        return ColumnNames(text=self.text, id=self.id)

    @property
    def writes_to_stream(self) -> bool:
        """Whether the vectors go to standard output."""
        return self.out == STREAM


# --- the command line -----------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> Request:
    """Read the command line. Exits with code 2 and a message for a wrong flag."""
    parser = Parser(
        prog="python -m contrastive.embed",
        allow_abbrev=False,
        description="Computes the sentence vectors of a model and uses them.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="minbert-mini, minilm, a folder such as runs/NAME/encoder or runs/NAME/model, or a "
        "hub name",
    )
    _add_sentences(parser)
    _add_answers(parser)
    _add_export(parser)
    _add_encoding(parser)
    values = vars(parser.parse_args(arguments))

    # Without any question, the vectors are the answer.
    answers = ("out", "nearest", "query", "export")
    if all(values[name] is None for name in answers) and not values["duplicates"]:
        values["out"] = STREAM
    return Request(**values)


def _add_sentences(parser: argparse.ArgumentParser) -> None:
    """The flags of the sentences to read."""
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="one sentence per line, or a table (.csv, .tsv, .jsonl, .xlsx) (default: standard "
        "input)",
    )
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of a table with the sentences (default: sentence or text)",
    )
    parser.add_argument(
        "--id",
        metavar="COLUMN",
        help="column of a table with the names of the rows (default: id, or else the line)",
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="each line of the input is a sentence, also where it looks like a table",
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE.npy",
        help="vectors of these sentences that --out has stored, so that they are not computed "
        "again",
    )


def _add_answers(parser: argparse.ArgumentParser) -> None:
    """The flags that ask for something."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.npy",
        help="store the vectors: float32 (N, H), one row per line of the input. - is standard "
        "output, and the default if no other flag asks for anything",
    )
    parser.add_argument(
        OVERWRITE,
        action="store_true",
        help="replace the file of --out, whoever wrote it. Files of --out are replaced anyway",
    )
    parser.add_argument(
        "--nearest",
        type=int,
        metavar="K",
        help="print the K nearest other sentences to each sentence",
    )
    parser.add_argument(
        "--query",
        metavar="TEXT",
        help="print the sentences of the input that are nearest to this text",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=DEFAULT_TOP,
        metavar="N",
        help="number of sentences that --query prints (default: %(default)s)",
    )
    parser.add_argument(
        "--duplicates",
        action="store_true",
        help="print all pairs of sentences with a cosine of at least --threshold, as a table of "
        "two ids and the cosine",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=DEFAULT_THRESHOLD,
        metavar="COSINE",
        help="of --duplicates, -1 to 1 (default: %(default)s)",
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    """The flags of what is written for other libraries."""
    parser.add_argument(
        "--export",
        type=Path,
        metavar="DIR",
        help="write the model to a new folder that sentence-transformers opens",
    )
    parser.add_argument(
        "--onnx",
        action="store_true",
        help="with --export: also write onnx/model.onnx, a graph for onnxruntime (after "
        "`bash setup.sh --onnx`)",
    )
    parser.add_argument(
        "--normalise",
        action="store_true",
        help="bring the vectors of --out and --export to length 1",
    )


def _add_encoding(parser: argparse.ArgumentParser) -> None:
    """The flags that say how sentences become vectors."""
    parser.add_argument(
        "--pooling",
        choices=("auto", "mean", "cls", "pooler"),
        default="auto",
        help="the sentence vector. auto: the vector that the model was trained for, or mean if its "
        "folder does not say (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=64,
        metavar="N",
        help="number of sentences in the model at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        metavar="N",
        help="maximum number of tokens in a sentence. Longer sentences are cut (default: that of "
        "the model's sentence-transformers folder, or 128, or the model's positions if they are "
        "fewer)",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda", "mps"),
        default="auto",
        help="where to compute. auto: the fastest device that PyTorch finds (default: %(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="fp32",
        help="precision of matrix products. With bf16, cosines are exact to about 0.002 (default: "
        "%(default)s)",
    )


# --- what is refused ------------------------------------------------------------------------------


def check_request(request: Request) -> None:
    """Raise ValueError for everything that can be refused before any work.

    No sentence has been read by then, and no model opened.
    """
    # The flags together, then each value.
    check_stream(request)
    check_effects(request)
    check_at_least(request, LEAST)
    if request.query is not None:
        check_query(request.query)
    if not -1 <= request.threshold <= 1:  # nan is not, either
        raise ValueError(f"--threshold is {request.threshold}; pass a cosine from -1 to 1.")

    # The paths to write to.
    if request.overwrite and (request.out is None or request.writes_to_stream):
        raise ValueError(f"{OVERWRITE} has no effect without a file of --out. Drop it.")
    if request.out is not None and not request.writes_to_stream:
        check_out(request, request.out)
    if request.export is not None:
        check_export(request.export)
    if request.out is None or request.export is None:
        return
    if request.out.absolute() == request.export.absolute():
        raise ValueError(
            f"--out and --export are both {request.out}; --out is a file, and --export a folder. "
            "Choose two paths."
        )


def check_stream(request: Request) -> None:
    """Raise ValueError where vectors would go to a terminal, or share a stream with text."""
    if not request.writes_to_stream:
        return
    if sys.stdout.isatty():
        raise ValueError(
            "standard output is a terminal, which cannot show vectors; pass --out FILE.npy, "
            "--nearest K, --query TEXT or --export DIR, or redirect the output: > vectors.npy"
        )
    if request.nearest is not None or request.query is not None or request.duplicates:
        raise ValueError(
            "--out - writes vectors to standard output, and --nearest, --query and --duplicates "
            "print there; pass a file as --out."
        )


def check_effects(request: Request) -> None:
    """Raise ValueError for a flag that no other flag reads, and for two that exclude each other."""
    prints = {
        "--nearest": request.nearest,
        "--query": request.query,
        "--duplicates": request.duplicates or None,
    }
    answers = {"--out": request.out, **prints}
    inputs = {"--input": request.input, "--text": request.text, "--id": request.id}
    for flag, value in {**inputs, "--lines": request.lines or None}.items():
        if value is not None:
            check_effect(flag, answers)
    if request.vectors is not None:
        check_effect("--vectors", prints)
        if request.out is not None:
            raise ValueError("--out would only copy the vectors of --vectors; drop one of the two.")
    if request.onnx:
        check_effect("--onnx", {"--export": request.export})
        check_onnx_packages()
    if request.normalise:  # --nearest and --query need no lengths: they compare cosines
        check_effect("--normalise", {"--out": request.out, "--export": request.export})
    if request.top != DEFAULT_TOP:
        check_effect("--top", {"--query": request.query})
    if request.threshold != DEFAULT_THRESHOLD:
        check_effect("--threshold", {"--duplicates": request.duplicates or None})
    if request.duplicates and (request.nearest is not None or request.query is not None):
        raise ValueError(
            "--duplicates prints a table, and --nearest and --query print text; ask for one of "
            "them."
        )


def check_effect(flag: str, readers: dict[str, Any]) -> None:
    """Raise ValueError where none of the flags that read `flag` was passed."""
    if all(value is None for value in readers.values()):
        raise ValueError(
            f"{flag} has no effect without {' or '.join(readers)}; add one of them, or drop {flag}."
        )


def check_query(text: str) -> None:
    """Raise ValueError for a text without a letter, or one that is not UTF-8."""
    if not text.strip():
        raise ValueError("--query is empty; pass a text to find the nearest sentences to.")
    # Python keeps the bytes that are not UTF-8 as these code points.
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("--query is not in UTF-8; pass it in that encoding.")


def check_out(request: Request, path: Path) -> None:
    """Raise ValueError where the vectors cannot go to `path`, or would replace another file."""
    if path.is_dir():
        raise ValueError(
            f"--out is {path}, which is a folder; expected is the path of a file. Pass one such as "
            f"{path / 'vectors.npy'}."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"--out is {path}; there is no folder {path.parent}. Make it, or choose another folder."
        )
    # Standard input may be a file, too.
    source = Path("/dev/stdin") if request.input is None else request.input
    inputs = [source, *([request.vectors] if request.vectors else [])]
    output = Output("--out", path, holds_vectors)
    check_outputs([output], inputs, [Path(request.model)], request.overwrite)
    if path.suffix.lower() in OTHER_FORMATS:
        raise ValueError(
            f"--out is {path}; the vectors are stored as .npy, which numpy.load reads. Pass a name "
            f"such as {path.with_suffix('.npy')}."
        )


def holds_vectors(path: Path) -> bool:
    """Whether a file holds vectors with their record, as --out writes it."""
    from math import prod

    from numpy.lib import format as npy

    try:
        with open(path, "rb") as file:
            npy.read_magic(file)
            shape, _, dtype = npy.read_array_header_1_0(file)
            # The record is a second array behind the first one.
            file.seek(prod(shape) * dtype.itemsize, 1)
            npy.read_magic(file)
    except ValueError:
        return False
    return True


def check_export(folder: Path) -> None:
    """Raise ValueError where `folder` exists, or cannot be made."""
    if folder.exists() or folder.is_symlink():
        raise ValueError(
            f"--export is {folder}, which exists; a new folder is expected, so that it holds no "
            "file of another model. Choose another folder, or remove this one."
        )
    check_new_folder("--export", folder)
