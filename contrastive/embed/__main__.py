"""Sentences -> vectors that can be used: `python -m contrastive.embed MODEL < sentences`.

Reads one sentence a line; gives the vectors (--out, or alone `> vectors.npy`), prints the nearest sentences to each
(--nearest) or to another text (--query), and writes the model as a folder that sentence-transformers opens (--export).
Answers go to standard output, notes and bars to standard error. Next: vectors.py and export.py, which do the work.

N sentences, K neighbours, H hidden. torch is imported late, so that `--help` and bad input answer at once.
"""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.paths import check_writable

if TYPE_CHECKING:
    from torch import Tensor

NEEDS_SENTENCES = ("out", "nearest", "query")
STREAM = Path("-")  # as --out: standard output
LEAST = {"nearest": 1, "top": 1, "batch_size": 1, "max_length": 4}
ONLY_WITH = {  # a flag, its default, and the flags without which nothing reads it
    "input": (None, NEEDS_SENTENCES),
    "normalise": (False, ("out", "export")),  # cosines do not ask for lengths
    "top": (5, ("query",)),
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with code 2 and a message for a wrong flag."""
    parser = argparse.ArgumentParser(
        prog="python -m contrastive.embed",
        allow_abbrev=False,
        description="Sentence vectors of a model, and what they are good for.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="minbert-mini, minilm, a folder such as runs/NAME/encoder or "
        "runs/NAME/model, or a hub name",
    )
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="one sentence a line, UTF-8 (standard input)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.npy",
        help="store the vectors: float32 (N, H), one row "
        "for each line; - is standard output, and the default if no other flag asks for anything",
    )
    parser.add_argument(
        "--nearest", type=int, metavar="K", help="print the K nearest other sentences to each one"
    )
    parser.add_argument(
        "--query", metavar="TEXT", help="print the sentences of the input nearest to this text"
    )
    parser.add_argument(
        "--top",
        type=int,
        default=ONLY_WITH["top"][0],
        metavar="N",
        help="how many --query prints at most (%(default)s)",
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="DIR",
        help="write a new folder that sentence-transformers opens",
    )
    parser.add_argument(
        "--normalise",
        action="store_true",
        help="bring the vectors of --out and --export to length 1",
    )
    parser.add_argument(
        "--pooling",
        choices=("auto", "mean", "cls", "pooler"),
        default="auto",
        help="the sentence "
        "vector; auto: the one that the model was trained for, or mean if its folder notes none",
    )
    parser.add_argument(
        "--batch-size", type=int, default=64, help="sentences at once (%(default)s)"
    )
    parser.add_argument(
        "--max-length",
        type=int,
        default=128,
        help="tokens a sentence at most; longer ones are cut (%(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda", "mps"),
        default="auto",
        help="where to compute (%(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="fp32",
        help="of matrix products; with bf16 cosines are good to about .002 (%(default)s)",
    )
    given = parser.parse_args(arguments)
    if all(getattr(given, answer) is None for answer in (*NEEDS_SENTENCES, "export")):
        given.out = STREAM
    return given


# --- what is refused, and the sentences -------------------------------------------------------------------------------


def check_request(given: argparse.Namespace) -> None:
    """ValueError for whatever can be refused before a sentence is read or a model opened."""
    if given.out == STREAM and sys.stdout.isatty():
        raise ValueError(
            "vectors are no text for a terminal; pass at least one of --out FILE.npy, --nearest K, "
            "--query TEXT and --export DIR, or send them on: > vectors.npy"
        )
    if given.out == STREAM and (given.nearest, given.query) != (None, None):
        raise ValueError(
            "--out - would share standard output with what --nearest and --query print; pass a file."
        )
    for flag, (default, readers) in ONLY_WITH.items():
        if getattr(given, flag) != default and all(
            getattr(given, reader) is None for reader in readers
        ):
            raise ValueError(
                f"--{flag} has no effect without --{' or --'.join(readers)}; add one of them or drop it."
            )
    check_at_least(given, LEAST)
    if given.query is not None and not given.query.strip():
        raise ValueError("--query is empty; pass the text whose nearest sentences you want.")
    if given.query is not None and any("\ud800" <= letter <= "\udfff" for letter in given.query):
        raise ValueError("--query is not UTF-8; pass it in that encoding, as the sentences are.")
    if given.out not in (None, STREAM):
        check_out(given.out, given.input or 0)
    if given.export is not None:
        check_export(given.export)
    if None not in (given.out, given.export) and given.out.absolute() == given.export.absolute():
        raise ValueError(
            f"--out and --export are both {given.out}; one is a file, one a folder. Choose two paths."
        )


def check_out(path: Path, source: Path | int) -> None:
    """ValueError where the vectors could not be written to `path`, or would replace the sentences in `source`: a file,
    or 0 for standard input."""
    if path.exists() and not path.is_file():
        raise ValueError(
            f"--out is {path}, {'a folder' if path.is_dir() else 'not a plain file'}; needed is the path "
            f"of a file. Pass one such as {path / 'vectors.npy' if path.is_dir() else 'vectors.npy'}."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"--out is {path}; there is no folder {path.parent}. Make it, or choose another."
        )
    check_writable(path.parent)
    if path.exists() and os.path.exists(source) and os.path.samefile(path, source):
        raise ValueError(
            f"--out is {path}, which holds the sentences; the vectors would replace them. Choose another "
            "--out."
        )


def check_export(folder: Path) -> None:
    """ValueError where `folder` cannot be made anew."""
    if folder.exists() or folder.is_symlink():
        raise ValueError(
            f"--export is {folder}, which exists; the folder is made anew, so that no file of another "
            "model stays in it. Choose another, or remove that one."
        )
    check_writable(folder)


def split_sentences(content: bytes, name: str) -> list[str]:
    """The lines of `content`, without space around them; sentence n is line n + 1.

    name: what the errors call the content. Raises ValueError for no line at all, a line that is not UTF-8, and an empty
    one: left out it would shift all rows after it, and a vector of nothing would be near to something.
    """
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()  # what follows the newline of the last line
    if not lines:
        raise ValueError(
            f"{name} holds no lines; needed is one sentence a line, in UTF-8. Pass it with "
            "< sentences.txt or --input sentences.txt."
        )
    sentences = []
    for number, line in enumerate(lines, start=1):
        try:
            sentences.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {number}: its byte {error.start + 1} (0x{line[error.start]:02x}) is not "
                "UTF-8, which the sentences must be. Convert them: iconv -f latin1 -t utf-8"
            ) from error
        if not sentences[-1]:
            raise ValueError(
                f"{name}, line {number} is empty; every line is a sentence, and line {number} has row "
                f"{number - 1} of the vectors. Drop empty lines first: grep '[^[:space:]]'"
            )
    return sentences


def read_sentences(path: Path | None, num_nearest: int | None) -> list[str]:
    """The sentences of a file, or of standard input for None. ValueError as in `split_sentences`, for a file that
    cannot be read, and for fewer sentences than `num_nearest` others ask for."""
    try:
        content = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"--input is {path}, which cannot be read ({error.strerror}). Check the path."
        ) from error
    name = "standard input" if path is None else str(path)
    sentences = split_sentences(content, name)
    if num_nearest is not None and num_nearest >= len(sentences):
        count = f"{len(sentences):,} sentence{'s' * (len(sentences) > 1)}"
        raise ValueError(
            f"--nearest is {num_nearest}; {name} holds {count}, so that each has {len(sentences) - 1:,} "
            "others. Pass a smaller K, or more sentences."
        )
    return sentences


# --- answers ----------------------------------------------------------------------------------------------------------


def answer_lines(
    given: argparse.Namespace,
    asked: tuple[Tensor, int] | None,
    sentences: Sequence[str],
    vectors: Tensor,
    progress: Callable,
) -> Iterator[str]:
    """What --query and --nearest print: a heading, then a line a neighbour with its cosine and its line's number."""
    from contrastive.embedder import nearest

    def block(heading: str, cosines: Tensor, rows: Tensor) -> str:
        lines = [
            f"  {cosine:7.4f}  {row + 1}: {sentences[row]}"
            for cosine, row in zip(cosines.tolist(), rows.tolist(), strict=True)
        ]
        return "\n".join([heading, *lines])

    if asked is not None:
        query, num_cut = asked  # (1, H)
        cosines, rows = nearest(vectors, min(given.top, len(sentences)), query)
        remark = f" (cut to {given.max_length} tokens)" if num_cut else ""
        yield block(f"query{remark}: {given.query.strip()}", cosines[0], rows[0])
    if given.nearest is not None:
        for row, (cosines, rows) in enumerate(
            zip(*nearest(vectors, given.nearest, progress=progress), strict=True)
        ):
            yield block(f"{row + 1}: {sentences[row]}", cosines, rows)


def work(
    given: argparse.Namespace, sentences: Sequence[str], log: Callable[[str], None]
) -> Iterator[str]:
    """Write what is to be written, then give what is to be printed. log: receives the notes."""
    from tqdm import tqdm

    from contrastive.embed.export import export
    from contrastive.embedder import open_embedder, write_vectors
    from minbert.training import runtime

    def progress(title: str) -> Callable:
        return partial(
            tqdm, desc=title, unit="batch", disable=None, leave=False
        )  # None: silent but on a terminal

    runtime.settle_memory()
    embedder, notes = open_embedder(
        given.model,
        given.pooling,
        given.max_length,
        given.batch_size,
        given.device,
        given.precision,
    )
    log("\n".join(notes))
    if given.export is not None:
        export(
            embedder.encoder,
            embedder.tokenizer,
            given.export,
            embedder.pooling,
            given.max_length,
            given.normalise,
        )
        log(f"export: {given.export}")
    if not sentences:
        return
    asked = None if given.query is None else embedder.encode([given.query], name="--query")
    vectors, num_cut = embedder.encode(sentences, progress("encoding"))
    log(f"{len(sentences):,} sentences, {num_cut:,} of them cut to {given.max_length} tokens")
    if given.out is not None:
        write_vectors(None if given.out == STREAM else given.out, vectors, given.normalise)
        log(f"vectors: {given.out}, {len(vectors):,} rows of {vectors.size(1)}")
    yield from answer_lines(given, asked, sentences, vectors, progress("comparing"))


@exit_code(
    "python -m contrastive.embed",
    "Stopped. Files named above are complete, others were not written.",
)
def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    try:
        check_request(given)
        sentences = []
        if any(getattr(given, answer) is not None for answer in NEEDS_SENTENCES):
            if given.input is None and sys.stdin.isatty():
                print("Type one sentence a line and end with Ctrl-D.", file=sys.stderr)
            sentences = read_sentences(given.input, given.nearest)
        for text in work(given, sentences, log=partial(print, file=sys.stderr)):
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the flush at the end finds a reader


if __name__ == "__main__":
    sys.exit(main())
