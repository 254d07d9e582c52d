"""`python -m minbert.pretraining --corpus FILES --out DIR`: a vocabulary and an encoder from plain text.

The command line and the named sizes; the work is that of from_text.py, which is imported late, as it brings torch, so
that `--help` and bad input answer at once.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from pathlib import Path

from data.corpus import check_files
from minbert.commands.ending import exit_code, resumable
from minbert.commands.paths import check_writable, is_free
from minbert.pretraining.sizes import SIZES


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line; with --resume the options that the run in that folder began with."""
    parser = argparse.ArgumentParser(
        prog="python -m minbert.pretraining",
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--corpus", type=Path, nargs="+", help="plain-text files in UTF-8, a paragraph a line"
    )
    parser.add_argument(
        "--out", type=Path, help="new folder for config.json, model.safetensors, vocab.txt"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="continue the run in this folder; no other flag"
    )
    parser.add_argument("--size", choices=SIZES, help="named shape (default: mini)")
    parser.add_argument(
        "--init",
        type=absolute,
        help="start from this model's weights, shape and vocabulary: "
        "minbert-mini, or a folder of this command",
    )
    parser.add_argument(
        "--vocabulary", help="take the vocabulary of this model or folder instead of a new one"
    )
    numbers = {  # flag: type, default, lowest, highest, help
        "--tokens": (int, 22_000_000, 1, None, "tokens to see"),
        "--batch-size": (int, 32, 1, None, "blocks a batch"),
        "--accumulation": (int, 1, 1, None, "batches that make one update"),
        "--block-size": (int, 64, 8, None, "tokens a block"),
        "--lr": (float, 5e-4, 0, None, "peak learning rate; linear decay"),
        "--warmup": (float, 0.05, 0, 1, "share of the updates in which the rate rises"),
        "--pairs": (
            float,
            0.0,
            0,
            1,
            "share of the blocks that hold two overlapping passages as a pair",
        ),
        "--seed": (int, 0, 0, 2**32 - 1, "seed of everything random"),
    }
    for flag, (kind, default, _, _, text) in numbers.items():
        parser.add_argument(flag, type=kind, default=default, help=f"{text} (default: %(default)s)")
    parser.add_argument(
        "--whole-word", action="store_true", help="mask whole words instead of single tokens"
    )
    parser.add_argument(
        "--compile", action="store_true", help="let torch.compile make kernels of the layers"
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda", "mps"), default="auto", help="where to compute"
    )
    parser.add_argument(
        "--precision", choices=("auto", "fp32", "bf16"), default="auto", help="of matrix products"
    )
    arguments = parser.parse_args(argv)
    if arguments.resume:
        return resumed(parser, arguments.resume, sys.argv[1:] if argv is None else argv)
    for flag, (_, _, low, high, _) in numbers.items():
        value = getattr(arguments, flag[2:].replace("-", "_"))
        if not (low <= value < math.inf and (high is None or value <= high)):
            limit = f"a finite number, at least {low}" if high is None else f"{low} to {high}"
            parser.error(f"{flag} is {value}; it must be {limit}.")
    if not (arguments.corpus and arguments.out):
        parser.error("--corpus FILES and --out DIR are needed, or --resume DIR.")
    for flag in ("size", "vocabulary"):
        if arguments.init and getattr(arguments, flag):
            parser.error(
                f"--{flag} {getattr(arguments, flag)} and --init {arguments.init}: a folder brings its own; "
                "drop one of the two."
            )
    if arguments.pairs and not round(arguments.pairs * arguments.batch_size):
        parser.error(
            f"--pairs {arguments.pairs} of --batch-size {arguments.batch_size} is no block; raise one."
        )
    if not is_free(arguments.out):
        parser.error(
            f"--out {arguments.out} exists. Give a new folder, or continue the run in it with --resume."
        )
    arguments.size = None if arguments.init else arguments.size or "mini"
    return arguments


def absolute(name: str) -> str:
    """A folder as an absolute path, so that --resume finds it from anywhere; a built-in or hub name as it is."""
    return (
        str(Path(name).absolute())
        if name not in ("", "minbert-mini", "minilm") and Path(name).is_dir()
        else name
    )


def resumed(parser: argparse.ArgumentParser, folder: Path, argv: list[str]) -> argparse.Namespace:
    """The stored options of the run in `folder`; exits with code 2 where there is none or other flags are given."""
    if any(text.startswith("--") and text.split("=")[0] != "--resume" for text in argv):
        parser.error("--resume continues a run with its own options; drop the other flags.")
    try:
        stored = json.loads((folder / "options.json").read_text(encoding="utf-8"))["options"]
        stored["corpus"] = list(map(Path, stored["corpus"]))
        if stored.keys() != vars(parser.parse_args([])).keys() or stored["size"] not in (
            None,
            *SIZES,
        ):
            raise ValueError("other options than this version's")
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(
            f"--resume {folder}: no run of minbert.pretrain there, or of another version (options.json: "
            f"{error}). Give the folder of --out."
        )
    return argparse.Namespace(**{**stored, "out": folder, "resume": folder})


@exit_code("minbert.pretraining")
def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    if (arguments.out / "run.json").is_file():
        print(
            f"{arguments.out} is finished, there is nothing to resume; see {arguments.out / 'run.json'}."
        )
        return
    check_files(arguments.corpus)
    check_writable(arguments.out)
    with resumable("-m minbert.pretraining", arguments.out):
        from minbert.pretraining.plain_text import run

        run(arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
