"""`python -m contrastive.quality MODEL --sets FILE...`: what an encoder's sentence vectors are worth, without training.

Zero-shot STS under each convention, alignment and uniformity, the spread of cosines by label; with --layers every
hidden state under every pooling, with --baselines what needs no training, with --transfer a linear classifier of the
frozen vectors. Prints tables; --out keeps them as quality.json and quality.md. --report writes one HTML page with every
picture: heat map, cosines by label, a map of pairs, and of a folder that a stage of training wrote the curves too. The
numbers are those of measure.py and maps.py, the pages those of pages.py. torch is imported once the command line and
the files are understood.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from data.sentence_sets import SentenceSet, read_labelled, read_pairs
from minbert.commands.arguments import check_at_least
from minbert.commands.ending import exit_code
from minbert.commands.paths import check_writable

MIN_LENGTH = 3  # [CLS], a token, [SEP]
FOLDS, SEED = 10, 11711


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with code 2 and a message for a wrong flag."""
    parser = argparse.ArgumentParser(
        prog="python -m contrastive.quality",
        allow_abbrev=False,
        description="What an encoder's sentence vectors are worth, without training it.",
    )
    add = parser.add_argument
    add(
        "model",
        metavar="MODEL",
        help="minbert-mini, minilm, a folder such as runs/NAME/encoder, or a hub name",
    )
    add(
        "--sets",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="STS files: columns score (or similarity), sentence1, sentence2, and perhaps subset",
    )
    add(
        "--transfer",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="classification files: columns sentence, and sentiment or label",
    )
    add(
        "--report",
        type=Path,
        default=None,
        metavar="FILE.html",
        help="one page with all pictures: --layers, cosines by label, a map of pairs of the first of the sets, and "
        "where MODEL is a stage's folder, loss, dev score, alignment and uniformity over its training",
    )
    add(
        "--before",
        default=None,
        metavar="MODEL",
        help="the encoder that training started from, for a second map of the pairs in --report",
    )
    add(
        "--layers",
        action="store_true",
        help="every hidden state under cls, mean and max, on the first of the sets",
    )
    add(
        "--baselines",
        action="store_true",
        help="also [CLS], mean, first-last mean, WK pooling and whitening",
    )
    add(
        "--pooling",
        choices=("auto", "mean", "cls", "pooler"),
        default="auto",
        help="the encoder's own sentence vector; auto: what it was trained for, or else mean (%(default)s)",
    )
    add(
        "--range",
        nargs=2,
        type=float,
        default=None,
        metavar=("LOW", "HIGH"),
        help="scale of the labels; without it the whole numbers around those of each file",
    )
    add(
        "--out",
        type=Path,
        default=None,
        metavar="DIR",
        help="folder for quality.json, the numbers, and quality.md, the tables",
    )
    add(
        "--device",
        choices=("auto", "cpu", "cuda", "mps"),
        default="auto",
        help="where the encoder runs (%(default)s)",
    )
    add(
        "--precision",
        choices=("fp32", "bf16", "auto"),
        default="fp32",
        help="of the encoder; auto is faster on some machines, and cosines then agree to two digits (%(default)s)",
    )
    add(
        "--max-length",
        type=int,
        default=128,
        metavar="N",
        help="tokens of a sentence at most (%(default)s)",
    )
    add(
        "--batch-size",
        type=int,
        default=32,
        metavar="N",
        help="pairs or sentences encoded at once (%(default)s)",
    )
    add(
        "--folds",
        type=int,
        default=FOLDS,
        metavar="N",
        help="parts of a --transfer file (%(default)s)",
    )
    add(
        "--seed",
        type=int,
        default=SEED,
        metavar="N",
        help="of the folds of --transfer (%(default)s)",
    )
    return parser.parse_args(arguments)


def check_request(given: argparse.Namespace) -> None:
    """ValueError for whatever would stop the command later, or would be ignored, before anything is opened."""
    if not given.sets and not given.transfer:
        raise ValueError(
            "there is nothing to measure on; needed is --sets FILE... or --transfer FILE.... Name some, "
            "such as --sets data/sample/sts-dev.csv."
        )
    for flag, is_given in {
        "--layers": given.layers,
        "--baselines": given.baselines,
        "--range": given.range,
        "--before": given.before,
    }.items():
        if is_given and not given.sets:
            raise ValueError(f"{flag} has no effect without --sets; add that or drop it.")
    if not given.transfer and (given.folds, given.seed) != (FOLDS, SEED):
        raise ValueError(
            "--folds and --seed have no effect without --transfer; add that or drop them."
        )
    check_at_least(given, {"max_length": MIN_LENGTH, "batch_size": 1, "folds": 2, "seed": 0})
    if given.seed >= 2**32:
        raise ValueError(f"--seed is {given.seed}; pass a whole number below {2**32}.")
    if given.range and not given.range[0] < given.range[1]:
        raise ValueError(
            f"--range is {given.range[0]:g} {given.range[1]:g}; needed is the lowest label and then the "
            "highest, such as --range 0 5."
        )
    for folder in filter(None, (given.out, given.report and given.report.parent)):
        check_writable(folder)
    if given.before and not given.report:
        raise ValueError(
            "--before has no effect without --report, the page that shows its map; add that or drop it."
        )
    if given.report and (given.report.suffix != ".html" or given.report.is_dir()):
        raise ValueError(
            f"--report is {given.report}; needed is a file whose name ends in .html, new or not. Pass "
            "such a name."
        )


def by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Paths by the names they have in tables: the file's, without its suffix, or the whole path where two share that.

    ValueError where a file is given twice.
    """
    for number, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:number]]:
            raise ValueError(
                f"{path} is given twice, and would count twice in the average. Name each file once."
            )
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


def open_for_map(
    given: argparse.Namespace, encoder: object, tokenizer: object
) -> dict[str, tuple[object, object]]:
    """The encoders to draw maps of, by when; ValueError where --before cannot be the start of MODEL's training."""
    if not given.before:
        return {"": (encoder, tokenizer)}
    from contrastive.embedder import open_embedder

    start, _ = open_embedder(
        given.before,
        given.pooling,
        given.max_length,
        given.batch_size,
        given.device,
        given.precision,
        is_bound=False,
    )
    if start.encoder.config.hidden_size != encoder.config.hidden_size:
        raise ValueError(
            f"--before is {given.before}, of {start.encoder.config.hidden_size} units, and {given.model} "
            f"has {encoder.config.hidden_size}; needed is the encoder that its training started from. "
            "Pass that, or drop --before."
        )
    return {"before": (start.encoder, start.tokenizer), "after": (encoder, tokenizer)}


def read_training(model: str) -> dict:
    """{"training": what stage.json says of how the encoder was trained}, or {} where its folder has none.

    "before" and "after" (scores), "is_kept" and "history", as Stage.train writes them; ValueError where one is not.
    """
    from contrastive.quality.page import SCORES
    from minbert import weights
    from minbert.training.stage import STAGE_FILE

    path = weights.resolve(model) / STAGE_FILE
    if not path.exists():
        return {}
    try:
        stage = json.loads(path.read_text(encoding="utf-8"))
        training = {name: stage[name] for name in ("before", "after", "is_kept", "history")}
        if not training["history"] or not set(SCORES) & set(training["before"]):
            raise ValueError(f"no evaluations, or none with {' or '.join(SCORES)}")
        for scores, more in (
            (training["before"], ()),
            (training["after"], ()),
            *((entry, ("step", "loss")) for entry in training["history"]),
        ):
            if not all(
                isinstance(scores[name], int | float) for name in (*training["before"], *more)
            ):
                raise ValueError("a score that is no number")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: is not what a stage of training writes ({type(error).__name__}: {error}); needed "
            "are before, after, is_kept and history, with the same scores. Restore the file, or remove "
            "it to do without the chapter on training."
        ) from None
    return {"training": training}


def read_files(given: argparse.Namespace) -> dict[str, dict[str, SentenceSet]]:
    """The files by name, under "sets" and "transfer"; ValueError names the first that cannot be used."""
    return {
        "sets": {name: read_pairs(path) for name, path in by_name(given.sets).items()},
        "transfer": {
            name: read_labelled(path, given.folds) for name, path in by_name(given.transfer).items()
        },
    }


def write_files(
    given: argparse.Namespace, record: dict, title: str, sections: Sequence
) -> list[Path]:
    """Write the page of --report, then quality.md and last quality.json of --out; returns the paths of those asked for."""
    from minbert.commands.files import write_atomically, write_json
    from minbert.reporting.pages import render_html, render_markdown

    pages = {given.report: render_html} if given.report else {}
    pages |= {given.out / "quality.md": render_markdown} if given.out else {}
    for path, render in pages.items():
        content = render(title, sections).encode("utf-8")
        write_atomically(path, lambda beside, content=content: beside.write_bytes(content))
    if not given.out:
        return list(pages)
    write_json(given.out / "quality.json", record)
    return [*pages, given.out / "quality.json"]


def measure(
    given: argparse.Namespace,
    files: dict[str, dict[str, SentenceSet]],
    encoder: object,
    tokenizer: object,
    log: Callable[[str], None],
) -> dict:
    """The record that pages.py shows: the settings, what was found for each file, the map, the training."""
    from contrastive.quality.measurement import measure_set, measure_transfer
    from contrastive.quality.pair_map import measure_map

    record = {
        "model": given.model,
        "before": given.before,
        "pooling": given.pooling,
        "precision": given.precision,
        "max_length": given.max_length,
        "seed": given.seed,
        "sets": {},
        "transfer": {},
        **read_training(given.model),
    }
    for_map = open_for_map(given, encoder, tokenizer) if given.report else {}
    for kind, of_kind in files.items():
        for number, (name, each) in enumerate(of_kind.items()):
            started = time.perf_counter()
            with_layers = number == 0 and (given.layers or given.report is not None)
            found = (
                measure_set(encoder, tokenizer, each, given, with_layers)
                if kind == "sets"
                else measure_transfer(encoder, tokenizer, each, given)
            )
            cut = (
                f", {found['truncated']} sentences cut at {given.max_length} tokens"
                if found["truncated"]
                else ""
            )
            log(f"{name}: {found['rows']:,} rows in {time.perf_counter() - started:.1f} s{cut}")
            record[kind][name] = found
    if for_map and files["sets"]:
        record["map"] = measure_map(for_map, *next(iter(files["sets"].items())), given)
    return record


@exit_code("python -m contrastive.quality")
def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    check_request(given)
    files = read_files(given)
    print(*(each.summary for of_kind in files.values() for each in of_kind.values()), sep="\n")

    from contrastive.embedder import open_embedder
    from minbert.training import runtime

    runtime.settle_memory()
    embedder, notes = open_embedder(
        given.model,
        given.pooling,
        given.max_length,
        given.batch_size,
        given.device,
        given.precision,
        is_bound=False,
    )
    given.pooling, given.precision = embedder.pooling, embedder.precision
    print(*notes, sep="\n")
    record = measure(given, files, embedder.encoder, embedder.tokenizer, log=print)

    from contrastive.quality.page import all_sections
    from minbert.reporting.pages import render_text

    title, sections = f"Sentence vectors of {given.model}", all_sections(record)
    written = write_files(given, record, title, sections)  # before it is said: a pipe may break
    print("", render_text(title, sections), *written, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
