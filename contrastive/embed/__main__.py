"""`python -m contrastive.embed MODEL < sentences`: use the sentence vectors of a model.

The command reads one sentence per line. It stores the vectors (--out, or alone `> vectors.npy`),
prints the nearest sentences to each one (--nearest) or to another text (--query), and writes the
model as a folder that sentence-transformers opens (--export). Answers go to standard output, notes
and progress bars to standard error.

contrastive/embedder.py and export.py do the work. torch is imported late, so that `--help` and bad
input answer at once.
"""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.paths import check_writable

if TYPE_CHECKING:
    from torch import Tensor

    from contrastive.embedder import Embedder, Neighbours

STREAM = Path("-")  # as --out: standard output
DEFAULT_TOP = 5
LEAST = {"nearest": 1, "top": 1, "batch_size": 1, "max_length": 4}


@dataclass(frozen=True)
class Request:
    """The command line. The fields are the flags."""

    model: str
    input: Path | None
    out: Path | None
    nearest: int | None
    query: str | None
    top: int
    export: Path | None
    normalise: bool
    pooling: str
    batch_size: int
    max_length: int | None
    device: str
    precision: str

    @property
    def needs_sentences(self) -> bool:
        """Whether a flag asks for an answer about the sentences. --export alone does not."""
        return (self.out, self.nearest, self.query) != (None, None, None)

    @property
    def writes_to_stream(self) -> bool:
        """Whether the vectors go to standard output."""
        return self.out == STREAM


# --- the command line -----------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> Request:
    """Read the command line. Exits with code 2 and a message for a wrong flag."""
    parser = argparse.ArgumentParser(
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
    _add_encoding(parser)
    values = vars(parser.parse_args(arguments))

    # Without any question, the vectors are the answer.
    is_nothing_asked = all(values[name] is None for name in ("out", "nearest", "query", "export"))
    if is_nothing_asked:
        values["out"] = STREAM
    return Request(**values)


def _add_sentences(parser: argparse.ArgumentParser) -> None:
    """The flag of the sentences to read."""
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="file with one sentence per line, in UTF-8 (default: standard input)",
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
        "--export",
        type=Path,
        metavar="DIR",
        help="write the model to a new folder that sentence-transformers opens",
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
        "the model's sentence-transformers folder, or 128)",
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

    # The paths to write to.
    if request.out is not None and not request.writes_to_stream:
        check_out(request.out, request.input)
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
    if request.nearest is not None or request.query is not None:
        raise ValueError(
            "--out - writes vectors to standard output, and --nearest and --query print there; "
            "pass a file as --out."
        )


def check_effects(request: Request) -> None:
    """Raise ValueError for a flag that no other flag reads."""
    answers = {"--out": request.out, "--nearest": request.nearest, "--query": request.query}
    if request.input is not None:
        check_effect("--input", answers)
    if request.normalise:  # --nearest and --query need no lengths: they compare cosines
        check_effect("--normalise", {"--out": request.out, "--export": request.export})
    if request.top != DEFAULT_TOP:
        check_effect("--top", {"--query": request.query})


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


def check_out(path: Path, source: Path | None) -> None:
    """Raise ValueError where the vectors cannot go to `path`, or would replace the sentences.

    source: the file of the sentences, or None for standard input.
    """
    if path.is_dir():
        raise ValueError(
            f"--out is {path}, which is a folder; expected is the path of a file. Pass one such as "
            f"{path / 'vectors.npy'}."
        )
    if path.exists() and not path.is_file():
        raise ValueError(
            f"--out is {path}, which is not a plain file; expected is the path of a file. Pass one "
            "such as vectors.npy."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"--out is {path}; there is no folder {path.parent}. Make it, or choose another folder."
        )
    check_writable(path.parent)
    opened = 0 if source is None else source  # standard input may be a file, too
    if path.exists() and os.path.exists(opened) and os.path.samefile(path, opened):
        raise ValueError(
            f"--out is {path}, which holds the sentences; the vectors would replace them. Choose "
            "another --out."
        )


def check_export(folder: Path) -> None:
    """Raise ValueError where `folder` exists, or cannot be made."""
    if folder.exists() or folder.is_symlink():
        raise ValueError(
            f"--export is {folder}, which exists; a new folder is expected, so that it holds no "
            "file of another model. Choose another folder, or remove this one."
        )
    check_writable(folder)


# --- the sentences --------------------------------------------------------------------------------


def split_sentences(content: bytes, name: str) -> list[str]:
    """The lines of `content`, without the space around them. Sentence n is line n + 1.

    name: of the content, in messages. ValueError for no line at all, for a line that is not UTF-8,
    and for an empty line. Without it, all rows after it would shift. As a sentence, its vector
    would mean nothing, yet be near to some other.
    """
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()  # the rest after the newline of the last line
    if not lines:
        raise ValueError(
            f"{name} holds no lines; expected is one sentence per line, in UTF-8. Pass it with "
            "< sentences.txt or --input sentences.txt."
        )

    # Line numbers are those that an editor shows.
    sentences = []
    for number, line in enumerate(lines, start=1):
        sentence = decode_line(line, f"{name}, line {number}")
        if not sentence:
            raise ValueError(
                f"{name}, line {number} is empty; every line is a sentence, and line {number} has "
                f"row {number - 1} of the vectors. Remove empty lines first: grep '[^[:space:]]'"
            )
        sentences.append(sentence)
    return sentences


def decode_line(line: bytes, name: str) -> str:
    """A line as text, without the space around it. ValueError where it is not UTF-8."""
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8, which the "
            "sentences must be. Convert them: iconv -f latin1 -t utf-8"
        ) from error


def read_sentences(path: Path | None, num_nearest: int | None) -> list[str]:
    """The sentences of a file, or of standard input for None.

    ValueError as in `split_sentences`, for a file that cannot be read, and for too few sentences
    to give each one `num_nearest` others.
    """
    try:
        content = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"--input is {path}, which cannot be read ({error.strerror}). Check the path."
        ) from error
    name = "standard input" if path is None else str(path)
    sentences = split_sentences(content, name)
    if num_nearest is not None and num_nearest >= len(sentences):
        count = "1 line" if len(sentences) == 1 else f"{len(sentences):,} lines"
        raise ValueError(
            f"--nearest is {num_nearest}; {name} holds {count}, so each sentence has "
            f"{len(sentences) - 1:,} others. Pass a smaller K, or more sentences."
        )
    return sentences


# --- the answers ----------------------------------------------------------------------------------


class Query(NamedTuple):
    """The text of --query."""

    vector: Tensor  # (1, H)
    is_cut: bool
    max_length: int


def list_neighbours(heading: str, cosines: Tensor, rows: Tensor, sentences: Sequence[str]) -> str:
    """A heading, then per neighbour its cosine, the number of its line, and the sentence."""
    lines = [heading]
    for cosine, row in zip(cosines.tolist(), rows.tolist(), strict=True):
        lines.append(f"  {cosine:7.4f}  {row + 1}: {sentences[row]}")
    return "\n".join(lines)


def answer_query(request: Request, query: Query, sentences: Sequence[str], vectors: Tensor) -> str:
    """The text that --query prints."""
    from contrastive.embedder import nearest

    assert request.query is not None
    found = nearest(vectors, min(request.top, len(sentences)), query.vector)
    remark = f" (cut to {query.max_length} tokens)" if query.is_cut else ""
    heading = f"query{remark}: {request.query.strip()}"
    return list_neighbours(heading, found.cosines[0], found.rows[0], sentences)


def answer_nearest(neighbours: Neighbours, sentences: Sequence[str]) -> Iterator[str]:
    """The texts that --nearest prints, one per sentence."""
    for row, (cosines, rows) in enumerate(zip(*neighbours, strict=True)):
        yield list_neighbours(f"{row + 1}: {sentences[row]}", cosines, rows, sentences)


def check_modules(embedder: Embedder) -> None:
    """Raise ValueError if an export would lose modules of a sentence-transformers folder."""
    if embedder.modules is not None and not embedder.modules.is_plain:
        raise ValueError(
            "--export writes an encoder and its pooling only; this model has further modules, "
            "another pooling, a prompt or truncate_dim, which would be lost. It is a folder of "
            "sentence-transformers already: copy it."
        )


def work(request: Request, sentences: Sequence[str], log: Callable[[str], None]) -> Iterator[str]:
    """Write all files, then yield the texts to print. log: receives the notes."""
    from tqdm import tqdm

    from contrastive.embed.export import export
    from contrastive.embedder import nearest, open_embedder, write_vectors
    from minbert.training import runtime

    # Progress bars. disable=None: a bar is shown only on a terminal.
    bar = partial(tqdm, unit="batch", disable=None, leave=False)
    runtime.settle_memory()
    embedder, notes = open_embedder(
        request.model,
        request.pooling,
        request.max_length,
        request.batch_size,
        request.device,
        request.precision,
    )
    log("\n".join(notes))

    # The export needs no sentences.
    if request.export is not None:
        check_modules(embedder)
        export(
            embedder.encoder,
            embedder.tokenizer,
            request.export,
            embedder.pooling,
            embedder.max_length,
            request.normalise,
        )
        log(f"export: {request.export}")
    if not sentences:
        return

    # A bad query is refused before the sentences are encoded, which may take long.
    query = None
    if request.query is not None:
        vector, num_cut = embedder.encode([request.query], name="--query")
        query = Query(vector, num_cut > 0, embedder.max_length)
    vectors, num_cut = embedder.encode(sentences, partial(bar, desc="encoding"))
    log(f"{len(sentences):,} sentences, {num_cut:,} of them cut to {embedder.max_length} tokens")

    # Files first: whoever stops the printing keeps them.
    if request.out is not None:
        path = None if request.writes_to_stream else request.out
        write_vectors(path, vectors, request.normalise)
        log(f"vectors: {request.out}, {len(vectors):,} rows of {vectors.size(1)}")
    if query is not None:
        yield answer_query(request, query, sentences, vectors)
    if request.nearest is not None:
        progress = partial(bar, desc="comparing")
        neighbours = nearest(vectors, request.nearest, progress=progress)
        yield from answer_nearest(neighbours, sentences)


@exit_code(
    "python -m contrastive.embed",
    "Stopped. Files named above are complete, others were not written.",
)
def main(arguments: Sequence[str] | None = None) -> None:
    request = parse(arguments)
    try:
        check_request(request)
        sentences = []
        if request.needs_sentences:
            if request.input is None and sys.stdin.isatty():
                print("Type one sentence per line and end with Ctrl-D.", file=sys.stderr)
            sentences = read_sentences(request.input, request.nearest)
        for text in work(request, sentences, log=partial(print, file=sys.stderr)):
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough. The flush at the end of Python needs a reader all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
