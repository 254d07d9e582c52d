"""The options of `python -m contrastive.embed`, and what is refused before any work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.embed.shards import Shard, parse_shard, shards_in
from data.tables.columns import ColumnNames
from minbert.commands.optional import check_onnx_packages
from minbert.commands.options import AUTO, CommandOptions, argument, positional
from minbert.commands.outputs import OVERWRITE, STREAM, Output, check_new_folder, check_outputs
from minbert.options import FP32_ONEDNN

# Names that promise another format than .npy.
OTHER_FORMATS = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".xlsx", ".npz", ".pt", ".parquet"}
DEFAULT_TOP = 5
DEFAULT_THRESHOLD = 0.9


@dataclass(frozen=True)
class EmbedOptions(CommandOptions):
    """The command line of contrastive.embed."""

    model: str = positional(
        "MODEL",
        "minbert-mini-distilled, minilm, a folder such as runs/NAME/encoder or runs/NAME/model, or "
        "a hub name",
    )
    # The sentences to read.
    input: Path | None = argument(
        None,
        "one sentence per line, or a table (.csv, .tsv, .jsonl, .xlsx) (default: standard input)",
        "FILE",
    )
    text: str | None = argument(
        None, "column of a table with the sentences (default: sentence or text)", "COLUMN"
    )
    id: str | None = argument(
        None,
        "column of a table with the names of the rows (default: id, or else the line)",
        "COLUMN",
    )
    lines: bool = argument(
        False, "each line of the input is a sentence, also where it looks like a table"
    )
    vectors: Path | None = argument(
        None,
        "vectors of these sentences that --out has stored, so that they are not computed again: a "
        "file, or the folder of all shards",
        "PATH",
    )
    # What is asked for.
    out: Path | None = argument(
        None,
        "store the vectors: float32 (N, H), one row per line of the input. - is standard output, "
        "and the default if no other flag asks for anything",
        "FILE.npy",
    )
    shard: str | None = argument(
        None,
        "with --out DIR: compute shard I of N and store it in that folder, unless it is there. The "
        "shards together are the vectors of one call, to the bit",
        "I/N",
    )
    overwrite: bool = argument(
        False, "replace the file of --out, whoever wrote it. Files of --out are replaced anyway"
    )
    nearest: int | None = argument(
        None, "print the K nearest other sentences to each sentence", "K", low=1
    )
    query: str | None = argument(
        None, "print the sentences of the input that are nearest to this text", "TEXT"
    )
    top: int = argument(DEFAULT_TOP, "number of sentences that --query prints", low=1)
    duplicates: bool = argument(
        False,
        "print all pairs of sentences with a cosine of at least --threshold, as a table of two "
        "ids and the cosine",
    )
    threshold: float = argument(
        DEFAULT_THRESHOLD, "of --duplicates, -1 to 1", "COSINE", low=-1, high=1
    )
    # What is written for other libraries.
    export: Path | None = argument(
        None, "write the model to a new folder that sentence-transformers opens", "DIR"
    )
    onnx: bool = argument(
        False,
        "with --export: also write onnx/model.onnx, a graph for onnxruntime (after `bash setup.sh "
        "--onnx`)",
    )
    normalise: bool = argument(False, "bring the vectors of --out and --export to length 1")
    # How sentences become vectors.
    pooling: str = argument(
        AUTO,
        "the sentence vector. auto: the vector that the model was trained for, or mean if its "
        "folder does not say",
        choices=(AUTO, "mean", "cls", "pooler"),
    )
    batch_size: int = argument(64, "number of sentences in the model at a time", low=1)
    max_length: int | None = argument(
        None,
        "maximum number of tokens in a sentence. Longer sentences are cut (default: that of the "
        "model's sentence-transformers folder, or 128, or the model's positions if they are fewer)",
        low=4,
    )
    device: str = argument(
        AUTO,
        "where to compute. auto: the fastest device that PyTorch finds",
        choices=(AUTO, "cpu", "cuda", "mps"),
    )
    precision: str = argument(
        "fp32",
        "precision of matrix products. With bf16, cosines are exact to about 0.002. int8 is faster "
        "on the CPU and less exact, and a vector depends a little on the other sentences. "
        "fp32-onednn: fp32 by oneDNN, faster on some processors",
        choices=(AUTO, "fp32", "bf16", "int8", FP32_ONEDNN),
    )

    def __post_init__(self) -> None:
        # Without any question, the vectors are the answer.
        answers = (self.out, self.nearest, self.query, self.export)
        if all(value is None for value in answers) and not self.duplicates:
            object.__setattr__(self, "out", STREAM)
        super().__post_init__()

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

    @property
    def part(self) -> Shard | None:
        """The shard to compute, or None for all sentences."""
        return None if self.shard is None else parse_shard(self.shard)

    @property
    def vector_file(self) -> Path | None:
        """The file of the vectors: that of --out, or that of a shard in the folder of --out."""
        if self.out is None or self.writes_to_stream or self.part is None:
            return self.out
        return self.out / self.part.file_name

    def check(self) -> None:
        check_effects(self)
        if self.shard is not None:
            check_shard(self)
        if self.query is not None:
            check_query(self.query)
        if self.overwrite and (self.out is None or self.writes_to_stream):
            raise ValueError(f"{OVERWRITE} has no effect without a file of --out. Drop it.")
        if self.out is None or self.export is None:
            return
        if self.out.absolute() == self.export.absolute():
            raise ValueError(
                f"--out and --export are both {self.out}; --out is a file, and --export a folder. "
                "Choose two paths."
            )


# --- what is refused ------------------------------------------------------------------------------


def check_request(request: EmbedOptions) -> None:
    """Raise ValueError for everything that can be refused before any work.

    No sentence has been read by then, and no model opened.
    """
    check_stream(request)
    if request.onnx:
        check_onnx_packages()
    if request.out is not None and not request.writes_to_stream:
        if request.part is not None:
            check_parts(request.out, request.part)
        assert request.vector_file is not None
        check_out(request, request.vector_file)
    if request.export is not None:
        check_export(request.export)


def check_stream(request: EmbedOptions) -> None:
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


def check_effects(request: EmbedOptions) -> None:
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


def check_out(request: EmbedOptions, path: Path) -> None:
    """Raise ValueError where the vectors cannot go to `path`, or would replace another file."""
    if path.is_dir():
        raise ValueError(
            f"--out is {path}, which is a folder; expected is the path of a file. Pass one such as "
            f"{path / 'vectors.npy'}."
        )
    folder = path.parent if request.shard is None else path.parent.parent
    if not folder.is_dir():
        raise ValueError(
            f"--out is {request.out}; there is no folder {folder}. Make it, or choose another "
            "folder."
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


def check_shard(request: EmbedOptions) -> None:
    """Raise ValueError for --shard with a flag that asks for more than its own vectors."""
    parse_shard(request.shard or "")
    if request.out is None or request.writes_to_stream:
        raise ValueError("--shard stores vectors in a folder; pass it as --out DIR.")
    others = {
        "--nearest": request.nearest,
        "--query": request.query,
        "--duplicates": request.duplicates or None,
        "--export": request.export,
    }
    for flag, value in others.items():
        if value is not None:
            raise ValueError(
                f"--shard computes a part of the vectors, and {flag} is another job; drop one of "
                "the two. --vectors DIR reads the vectors of all shards."
            )


def check_parts(folder: Path, shard: Shard) -> None:
    """Raise ValueError where a shard cannot be stored in a folder beside what it holds."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out is {folder}, which is a file; expected with --shard is a folder.")
    if not folder.is_dir():
        return
    for other in shards_in(folder):
        if other.total != shard.total:
            raise ValueError(
                f"--shard is {shard}; {folder} holds {other.file_name}, of another number of "
                "shards. Pass another folder, or that number."
            )


def holds_vectors(path: Path) -> bool:
    """Whether a file holds vectors with their record, as --out writes it."""
    # NumPy takes a while, and few commands have a file to look at.
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
