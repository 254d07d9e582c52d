"""What does a contrastive stage do to an encoder? Zero-shot STS dev before and after, over seeds.

`python -m tools.benchmarks.contrastive --data-dir DIR --out FILE` trains, for each stage, model and
seed, the stage that `run_multitask.py --pretrain` would train. The text is the same, and no tasks
follow. A stage is a method, or a comparison of --list-recipes that has one, such as bsc-knn.

Each stage has its own process, so that its peak of memory is its own. It writes a line of JSON to
FILE. A stage that is in FILE is not trained again. "after" is the best of the stage's evaluations
on the same dev pairs, so it flatters a little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from contrastive.registry import METHODS
from experiments.recipes import COMPARISONS
from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.options import NONE
from minbert.training import cost_estimate, runtime
from multitask.rows import read_tables
from tools.benchmarks.jobs import build_contrastive_stage, resolve_options
from tools.benchmarks.json_lines import (
    Line,
    add_data_flag,
    add_output_flag,
    add_seeds_flag,
    check_lines,
    format_mean,
    has_identity,
    read_tables_or_exit,
    run_missing,
)
from tools.benchmarks.timing import Side, SideProcess

# Options that name the text of some stages, which do not read the course's sentences.
TEXTS = ("nli", "ct_corpus")

# A value of --ct-corpus that is no file.
RANDOM_WORDS = "random-words"

SHOWN_SCORES = ("spearman", "pearson", "alignment", "uniformity")


def options_of(stage: str) -> dict[str, Any]:
    """Return the option values that a method's or a comparison's name stands for."""
    return COMPARISONS.get(stage, {"pretrain": stage})


def method_of(stage: str) -> str:
    """Return the method of --pretrain that a stage's name stands for, or ""."""
    # A comparison such as head-vm has no stage, and mlm is no contrastive one.
    method = options_of(stage).get("pretrain", "")
    return method if method in METHODS else ""


def texts_of(stage: str, texts: dict[str, str]) -> dict[str, str]:
    """Return those of `texts` that the stage's method reads, "none" too.

    {} for a stage that no longer exists.
    """
    method = method_of(stage)
    if not method:
        return {}
    read_options = METHODS[method].own_options
    return {name: text for name, text in texts.items() if name in read_options}


# --- a stage --------------------------------------------------------------------------------------


def train_stage(
    stage: str, model: str, seed: int, data_dir: str, train_rows: str, **texts: str
) -> Line:
    """Train one stage and return its line. texts: the options of TEXTS that it reads."""
    runtime.settle_memory()
    device = runtime.choose_device()[0]
    folder = hub.resolve(model)
    options = resolve_options(
        BertConfig.from_pretrained(folder).hidden_size,
        device,
        runtime.choose_precision("auto", device)[0],
        data_dir=data_dir,
        model=model,
        seed=seed,
        train_rows=train_rows,
        **options_of(stage),
        **texts,
    )
    encoder = BertModel.from_pretrained(folder).to(device)
    tokenizer = BertTokenizer.from_pretrained(folder)
    tables = read_tables(options.data)
    # The trained encoder is not kept: only its scores count.
    with tempfile.TemporaryDirectory() as name:
        built = build_contrastive_stage(options, encoder, tokenizer, tables, Path(name))
        quality, seconds = built.train(is_resumed=False)
    return {
        "stage": stage,
        "model": model,
        "seed": seed,
        "train_rows": train_rows,
        "data_dir": data_dir,
        **texts,
        **quality,
        "seconds": round(seconds, 1),
        "peak_memory": cost_estimate.peak_memory(device),
    }


def make_trainer() -> Side:
    """Return a function that trains the stage of its request. `SideProcess` calls it."""
    return lambda settings: train_stage(**settings)


def train_in_process(**settings: Any) -> Line:
    """Return what `train_stage` returns, from its own process."""
    with SideProcess(torch.get_num_threads(), make_trainer) as process:
        return process(settings)


# --- the table ------------------------------------------------------------------------------------


def format_row(label: str, cells: list[str]) -> str:
    """Return a line of the table."""
    return f"{label:<40}" + "".join(f"{cell:>18}" for cell in cells)


def format_table(lines: list[Line]) -> str:
    """Return mean and standard deviation over seeds of the scores before and after.

    The row "after" also has median seconds, peak memory and the number of seeds.
    """
    rows = [format_row("zero-shot STS dev", list(SHOWN_SCORES))]
    for stage, model in dict.fromkeys((line["stage"], line["model"]) for line in lines):
        identity = {"stage": stage, "model": model}
        chosen = [line for line in lines if has_identity(line, identity)]
        for time in ("before", "after"):
            cells = []
            for score in SHOWN_SCORES:
                cells.append(format_mean([line[time][score] for line in chosen]))
            if time == "after":
                seconds = statistics.median(line["seconds"] for line in chosen)
                peak = max(line["peak_memory"] for line in chosen)
                cells += [f"{seconds:,.0f} s", f"{peak / 1e9:.2f} GB", f"n={len(chosen)}"]
            rows.append(format_row(f"{model}, {stage}, {time}", cells))
    return "\n".join(rows)


# --- the command ----------------------------------------------------------------------------------


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        description="What does a contrastive stage do to an encoder? Zero-shot STS dev over seeds."
    )
    add_data_flag(parser)
    add_output_flag(parser)
    parser.add_argument("--stages", nargs="+", default=["simcse"])
    parser.add_argument(
        "--train-rows", default=NONE, help="as of run_multitask.py: fewer rows of some tasks"
    )
    parser.add_argument("--models", nargs="+", default=["minbert-mini"])
    add_seeds_flag(parser)
    parser.add_argument(
        "--nli", default=NONE, help="as of run_multitask.py: the triplets of simcse-nli"
    )
    parser.add_argument(
        "--ct-corpus", default=NONE, help="as of run_multitask.py: what ct and ct-in-batch read"
    )
    return parser


def find_problem(arguments: argparse.Namespace) -> str:
    """Return what is wrong with the arguments and what to do, or ""."""
    for stage in arguments.stages:
        method = method_of(stage)
        if not method:
            return (
                f"--stages {stage}: it is one of {', '.join(METHODS)}, or a comparison with a "
                "stage of those."
            )
        if METHODS[method].reads == "triplets" and arguments.nli == NONE:
            return f"--stages {stage} trains on triplets of sentences; name their file with --nli."
    for path in {arguments.nli, arguments.ct_corpus} - {NONE, RANDOM_WORDS}:
        if not Path(path).is_file():
            return f"{path} is no file. Name one with --nli or --ct-corpus."
    return ""


@exit_code("python -m tools.benchmarks.contrastive")
def main(argv: Sequence[str] | None = None) -> None:
    """Train the stages that are missing, and print the table of those on the same text."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    problem = find_problem(arguments)
    if problem:
        parser.error(problem)
    check_lines(arguments.out, ("stage", "model", "seed"))
    read_tables_or_exit(parser, arguments.data_dir, arguments.train_rows)

    data_dir = str(Path(arguments.data_dir).resolve())
    data = {"train_rows": arguments.train_rows, "data_dir": data_dir}
    texts = {name: getattr(arguments, name) for name in TEXTS}
    identities = []
    for seed in arguments.seeds:
        for model in arguments.models:
            for stage in arguments.stages:
                run = {"stage": stage, "model": model, "seed": seed}
                identities.append({**run, **data, **texts_of(stage, texts)})

    # The file may hold lines of other data and other text.
    shown = []
    for line in run_missing(arguments.out, identities, train_in_process):
        expected = {**data, **texts_of(line["stage"], texts)}
        if all(line.get(name) == expected.get(name) for name in (*data, *TEXTS)):
            shown.append(line)
    print(format_table(shown))


if __name__ == "__main__":
    sys.exit(main())
