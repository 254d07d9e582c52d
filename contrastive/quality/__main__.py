"""`python -m contrastive.quality MODEL --sets FILE...`: how good are an encoder's sentence vectors?

Nothing is trained. The command measures zero-shot STS under each convention, alignment and
uniformity, and the distribution of cosines by label. --layers adds every hidden state under three
poolings, --baselines adds vectors that need no training, and --transfer adds a linear classifier
on the frozen vectors.

It prints tables. --out keeps them as quality.json and quality.md. --report writes one HTML page
with all figures: the heat map of the layers, cosines by label, a map of pairs, and the curves of
the training if a stage of training wrote the model's folder.

torch is imported once the command line and the files are understood.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.sentence_sets import SentenceSet, read_labelled, read_pairs
from data.tables.columns import ColumnNames
from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    PAGE_START,
    Output,
    begins_with,
    check_outputs,
)
from minbert.commands.paths import check_writable, real_path
from minbert.reporting import terminal

if TYPE_CHECKING:
    from contrastive.embedder import Embedder
    from minbert.reporting.pages import Section

MIN_LENGTH = 3  # [CLS], a token, [SEP]
COLUMN_FLAGS = {
    "--text": "the sentences (default: sentence1 of --sets, sentence of --transfer)",
    "--text-pair": "the second sentences of --sets (default: sentence2)",
    "--label": "the labels (default: score of --sets, label of --transfer)",
}
DEFAULT_FOLDS = 10
DEFAULT_SEED = 11711
TITLE_START = "Sentence vectors of "
RECORD_START = '{\n  "model": '  # of quality.json


@dataclass(frozen=True)
class Request:
    """The command line. The fields are the flags."""

    model: str
    sets: list[Path]
    transfer: list[Path]
    text: str | None
    text_pair: str | None
    label: str | None
    report: Path | None
    before: str | None
    layers: bool
    baselines: bool
    pooling: str
    range: tuple[float, float] | None
    out: Path | None
    overwrite: bool
    device: str
    precision: str
    max_length: int | None
    batch_size: int
    folds: int
    seed: int

    @property
    def column_names(self) -> ColumnNames:
        """The names of the columns that the user passed."""
        return ColumnNames(text=self.text, text_pair=self.text_pair, label=self.label)


def parse(arguments: Sequence[str] | None) -> Request:
    """Read the command line. Exits with code 2 and a message for a wrong flag."""
    parser = Parser(
        prog="python -m contrastive.quality",
        allow_abbrev=False,
        description="Measures an encoder's sentence vectors, without training it.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="minbert-mini, minilm, a folder such as runs/NAME/encoder, or a hub name",
    )
    _add_files(parser)
    _add_measurements(parser)
    _add_encoding(parser)
    namespace = parser.parse_args(arguments)
    if namespace.range is not None:
        namespace.range = tuple(namespace.range)
    return Request(**vars(namespace))


def _add_files(parser: argparse.ArgumentParser) -> None:
    """The flags of files to read and to write."""
    parser.add_argument(
        "--sets",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="STS files: columns score (or similarity), sentence1, sentence2, and perhaps subset",
    )
    parser.add_argument(
        "--transfer",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="classification files: columns sentence, and sentiment or label",
    )
    for flag, what in COLUMN_FLAGS.items():
        parser.add_argument(flag, metavar="COLUMN", help=f"column of the files with {what}")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="one page with all figures: --layers, cosines by label, a map of pairs of the first "
        "set, and, if MODEL is the folder of a training stage, loss, dev score, alignment and "
        "uniformity over its training",
    )
    parser.add_argument(
        "--before",
        metavar="MODEL",
        help="the encoder before training, for a second map of the pairs in --report",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for quality.json (the numbers) and quality.md (the tables)",
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)


def _add_measurements(parser: argparse.ArgumentParser) -> None:
    """The flags that say what is measured."""
    parser.add_argument(
        "--layers",
        action="store_true",
        help="every hidden state under cls, mean and max, on the first set",
    )
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="also [CLS], mean, first-last mean, WK pooling and whitening",
    )
    parser.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="scale of the labels; default: the whole numbers around those of each file",
    )
    parser.add_argument(
        "--folds",
        type=int,
        default=DEFAULT_FOLDS,
        metavar="N",
        help="parts of a --transfer file (%(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        metavar="N",
        help="of the folds of --transfer (%(default)s)",
    )


def _add_encoding(parser: argparse.ArgumentParser) -> None:
    """The flags that say how sentences become vectors."""
    parser.add_argument(
        "--pooling",
        choices=("auto", "mean", "cls", "pooler"),
        default="auto",
        help="the encoder's own sentence vector; auto: the one it was trained for, or else mean "
        "(%(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda", "mps"),
        default="auto",
        help="where the encoder runs (%(default)s)",
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16", "auto"),
        default="fp32",
        help="of the encoder; auto is faster on some machines, and cosines then agree to two "
        "digits (%(default)s)",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        default=None,
        metavar="N",
        help="tokens of a sentence at most (default: that of the model's folder, or 128)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        metavar="N",
        help="pairs or sentences encoded at once (%(default)s)",
    )


# --- checks before any work ---------------------------------------------------------------------


def check_request(request: Request) -> None:
    """ValueError for anything that would stop the command later, or would have no effect."""
    if not request.sets and not request.transfer:
        raise ValueError(
            "there is nothing to measure on; expected is --sets FILE... or --transfer FILE.... "
            "Name some, such as --sets data/sample/sts-dev.csv."
        )
    # A flag without an effect is refused: the user expects one.
    _check_effects(request)
    lowest = {"batch_size": 1, "folds": 2, "seed": 0}
    if request.max_length is not None:
        lowest["max_length"] = MIN_LENGTH
    check_at_least(request, lowest)
    if request.seed >= 2**32:
        raise ValueError(f"--seed is {request.seed}; pass a whole number below {2**32}.")
    if request.range and not request.range[0] < request.range[1]:
        raise ValueError(
            f"--range is {request.range[0]:g} {request.range[1]:g}; expected is the lowest label "
            "and then the highest, such as --range 0 5."
        )
    _check_outputs(request)


def _check_effects(request: Request) -> None:
    """ValueError for a flag that has no effect."""
    needs_sets = {
        "--layers": request.layers,
        "--baselines": request.baselines,
        "--range": request.range,
        "--before": request.before,
        "--text-pair": request.text_pair,
    }
    for flag, value in needs_sets.items():
        if value and not request.sets:
            raise ValueError(f"{flag} has no effect without --sets; add that or drop it.")
    if request.column_names.are_given and request.sets and request.transfer:
        raise ValueError(
            "--text and --label would name columns of --sets and of --transfer; measure the two in "
            "commands of their own."
        )
    if not request.transfer and (request.folds, request.seed) != (DEFAULT_FOLDS, DEFAULT_SEED):
        raise ValueError(
            "--folds and --seed have no effect without --transfer; add that or drop them."
        )
    if request.before and not request.report:
        raise ValueError(
            "--before has no effect without --report, the page that shows its map; add that or "
            "drop it."
        )


def _check_outputs(request: Request) -> None:
    """ValueError for a file or a folder that cannot or must not be written."""
    outputs = []
    if request.report:
        if request.report.suffix != ".html":
            raise ValueError(
                f"--report is {request.report}; expected is a file whose name ends in .html, new "
                "or not. Pass such a name."
            )
        outputs.append(Output("--report", request.report, begins_with(PAGE_START)))
    if request.out:
        check_writable(request.out)
        is_ours = begins_with(f"# {TITLE_START}")
        outputs.append(Output("--out", request.out / "quality.md", is_ours))
        is_ours = begins_with(RECORD_START)
        outputs.append(Output("--out", request.out / "quality.json", is_ours))
    if request.overwrite and not outputs:
        raise ValueError(f"{OVERWRITE} has no effect without --out or --report. Drop it.")
    folders = [Path(request.model)]
    check_outputs(outputs, [*request.sets, *request.transfer], folders, request.overwrite)


def by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Paths by their names in tables.

    The name is the file's without its suffix, or the whole path if two files share that. Raises
    ValueError for a file that is given twice.
    """
    resolved: set[Path] = set()
    for path in paths:
        if real_path(path) in resolved:
            raise ValueError(
                f"{path} is given twice, and would count twice in the average. Name each file once."
            )
        resolved.add(real_path(path))

    # Short names where they are clear, whole paths where they are not.
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


# --- the measurement ----------------------------------------------------------------------------


def open_map_embedders(request: Request, embedder: Embedder) -> dict[str, Embedder]:
    """The encoders to draw maps of, by time: "before" and "after", or "" for only one.

    Raises ValueError if --before cannot be the start of MODEL's training.
    """
    if not request.before:
        return {"": embedder}

    from contrastive.embedder import open_embedder

    # Both encoders are read in the same way, even if --pooling is auto.
    before, _ = open_embedder(
        request.before,
        embedder.pooling,
        embedder.max_length,
        request.batch_size,
        request.device,
        embedder.precision,
        is_bound=False,
    )
    num_units = embedder.encoder.config.hidden_size
    num_units_before = before.encoder.config.hidden_size
    if num_units_before != num_units:
        raise ValueError(
            f"--before is {request.before}, of {num_units_before} units, and {request.model} has "
            f"{num_units}; expected is the encoder that its training started from. Pass that, or "
            "drop --before."
        )
    return {"before": before, "after": embedder}


def measure(
    request: Request,
    sets: Mapping[str, SentenceSet],
    transfer: Mapping[str, SentenceSet],
    embedder: Embedder,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Measure all files; returns the record that page.py shows and quality.json keeps.

    sets, transfer: the files by their names in tables. log: gets a line for each file.
    """
    from contrastive.quality.measurement import measure_set, measure_transfer
    from contrastive.quality.pair_map import measure_map
    from contrastive.quality.training_history import read_training

    record: dict[str, Any] = {
        "model": request.model,
        "before": request.before,
        "pooling": embedder.pooling,
        "precision": embedder.precision,
        "max_length": embedder.max_length,
        "seed": request.seed,
        "sets": {},
        "transfer": {},
    }
    # Before the measurement, so that a damaged file or a wrong --before is reported at once.
    training = read_training(request.model)
    if training is not None:
        record["training"] = training
    map_embedders = open_map_embedders(request, embedder) if request.report else {}

    for number, (name, pairs) in enumerate(sets.items()):
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        # Layers cost the most, so only the first set has them.
        with_layers = number == 0 and (request.layers or request.report is not None)
        of_set = measure_set(embedder, pairs, request.range, request.baselines, with_layers)
        record["sets"][name] = of_set
        log(_progress(name, of_set, embedder.max_length, started))
    for name, sentences in transfer.items():
        started = time.perf_counter()
        terminal.doing(f"measuring on {name}")
        of_file = measure_transfer(embedder, sentences, request.folds, request.seed)
        record["transfer"][name] = of_file
        log(_progress(name, of_file, embedder.max_length, started))

    # The map shows pairs of the first set.
    if map_embedders and sets:
        first = next(iter(sets))
        record["map"] = measure_map(map_embedders, first, sets[first])
    return record


def _progress(name: str, record: Mapping[str, Any], max_length: int, started: float) -> str:
    seconds = time.perf_counter() - started
    line = f"{name}: {record['rows']:,} rows in {seconds:.1f} s"
    if record["truncated"]:
        line += f", {record['truncated']} sentences cut at {max_length} tokens"
    return line


def write_files(
    request: Request, record: dict[str, Any], title: str, sections: Sequence[Section]
) -> list[Path]:
    """Write the files that were asked for; returns their paths."""
    from minbert.commands.files import write_json
    from minbert.reporting.pages import write_html, write_markdown

    paths = []
    if request.report:
        write_html(request.report, title, sections)
        paths.append(request.report)
    if request.out:
        write_markdown(request.out / "quality.md", title, sections)
        write_json(request.out / "quality.json", record)
        paths += [request.out / "quality.md", request.out / "quality.json"]
    return paths


@exit_code("python -m contrastive.quality")
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the files, measure the encoder, write and print the report."""
    request = parse(arguments)
    check_request(request)
    with terminal.session("reading the files"):
        run(request)


def run(request: Request) -> None:
    """Read the files, measure the encoder, write and print the report."""
    # Files are read first: a mistake in them is reported before torch is imported.
    names = request.column_names
    sets = {name: read_pairs(path, names) for name, path in by_name(request.sets).items()}
    transfer = {}
    for name, path in by_name(request.transfer).items():
        transfer[name] = read_labelled(path, request.folds, names)
    terminal.say(*(content.summary for content in (*sets.values(), *transfer.values())))

    terminal.doing("importing PyTorch")
    from contrastive.embedder import open_embedder
    from contrastive.quality.page import all_sections
    from minbert.reporting.pages import render_text
    from minbert.training import runtime

    runtime.settle_memory()
    embedder, notes = open_embedder(
        request.model,
        request.pooling,
        request.max_length,
        request.batch_size,
        request.device,
        request.precision,
        # Any pooling can be measured, and not only the one the model was trained for.
        is_bound=False,
    )
    terminal.say(*notes)
    record = measure(request, sets, transfer, embedder, log=terminal.say)

    terminal.doing("writing the report")
    title = f"{TITLE_START}{request.model}"
    sections = all_sections(record)
    # Written before it is printed: a pipe such as `| head` may break.
    paths = write_files(request, record, title, sections)
    terminal.say("", render_text(title, sections), *map(str, paths))


if __name__ == "__main__":
    sys.exit(main())
