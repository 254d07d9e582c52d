"""What is an encoder worth? Single-task fine-tunes from several encoders, over several seeds.

`python -m tools.benchmarks.encoders --data-dir DIR --out FILE` makes one fine-tune for each
encoder, task and seed. It uses the project's own multitask stage with that task alone, and one
recipe. The dev score after the last epoch goes into FILE as a line of JSON. A fine-tune that is in
FILE is not run again, so a series that was stopped continues.

"random" is minbert-mini's shape and vocabulary with fresh weights, as its pretraining began.
--dropout replaces the dropout in an encoder's config.json, and --epochs those of the recipe. --lr,
--hidden-dropout-prob and --para-prior are those of run_multitask.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command_line.options import Options
from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.options import AUTO, NONE
from minbert.pretraining.plain_text import fresh_encoder
from minbert.training import runtime
from minbert.training.loop import fit
from multitask.options import HeadOptions
from multitask.rows import read_tables
from multitask.tasks import TASKS
from tools.benchmarks.jobs import build_task_job, encode_rows, resolve_options
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

# Fixed before the first run, and the same for every encoder.
EPOCHS = {"sst": 4, "para": 2, "sts": 6}
MAX_LENGTH = 96

RANDOM = "random"
SHAPE_OF_RANDOM = "minbert-mini"


def folder_name(encoder: str) -> str:
    """Return the model whose shape and vocabulary an encoder has."""
    return SHAPE_OF_RANDOM if encoder == RANDOM else encoder


def make_encoder(name: str, options: Options) -> BertModel:
    """Return an encoder with the dropout that the options set."""
    dropout = options.encoder.dropout_overrides()
    if name != RANDOM:
        return BertModel.from_pretrained(name, **dropout)
    # Fresh weights depend on the seed, as those of a pretraining do.
    runtime.seed_everything(options.training.seed)
    return fresh_encoder(BertConfig.from_pretrained(hub.resolve(SHAPE_OF_RANDOM), **dropout))


def choose_options(encoder: str, task: str, dropout: float | str, **other_values: Any) -> Options:
    """Return the options of a fine-tune: pairs in one row, and defaults for this encoder.

    dropout: in the encoder, or "auto". other_values: options by their flat names.
    """
    # The learning rate and the precision are those that a run would choose.
    device = runtime.choose_device()[0]
    config = BertConfig.from_pretrained(hub.resolve(folder_name(encoder)))
    return resolve_options(
        config.hidden_size,
        device,
        runtime.choose_precision("auto", device)[0],
        tasks=task,
        pair_encoding="cross",
        max_length=MAX_LENGTH,
        encoder_dropout=dropout,
        attention_dropout=dropout,
        **other_values,
    )


def fine_tune(encoder: str, task: str, **other_values: Any) -> Line:
    """Make one fine-tune and return its line. Arguments as of `choose_options`."""
    options = choose_options(encoder, task, **other_values)
    # Only the task's own rows are encoded.
    tables = {task: read_tables(options.data)[task]}
    tokenizer = BertTokenizer.from_pretrained(folder_name(encoder))
    rows = encode_rows(options, tables, tokenizer)
    model = make_encoder(encoder, options).to(options.training.device)
    with tempfile.TemporaryDirectory() as folder:
        progress = fit(build_task_job(options, model, rows, Path(folder)))

    # The last epoch counts, not the best one: that would be chosen on dev.
    by_epoch = [scores[task] for scores in progress.history]
    return {
        "encoder": encoder,
        "task": task,
        **other_values,
        "score": by_epoch[-1],
        "by_epoch": by_epoch,
        "peak_rate": options.multitask.fine_tuning.lr,
        "seconds": round(progress.seconds, 1),
    }


def format_table(lines: list[Line]) -> str:
    """Return mean and standard deviation over seeds, with a row for each encoder."""
    titles = "".join(f"{task.title:>24}" for task in TASKS.values())
    rows = [f"{'dev score':<20}{titles}"]
    for encoder in dict.fromkeys(line["encoder"] for line in lines):
        row = f"{encoder:<20}"
        for task in TASKS:
            identity = {"encoder": encoder, "task": task}
            scores = [line["score"] for line in lines if has_identity(line, identity)]
            cell = f"{format_mean(scores)} (n={len(scores)})" if scores else "-"
            row += f"{cell:>24}"
        rows.append(row)
    return "\n".join(rows)


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        description="What is an encoder worth? Single-task fine-tunes over several seeds."
    )
    add_data_flag(parser)
    add_output_flag(parser)
    parser.add_argument("--encoders", nargs="+", default=[RANDOM, "minbert-mini", "minilm"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    add_seeds_flag(parser)
    of_tasks = ", ".join(f"{epochs} of {task}" for task, epochs in EPOCHS.items())
    parser.add_argument("--epochs", type=int, help=f"of every task; default: {of_tasks}")
    parser.add_argument("--dropout", type=float, help="in the encoder; default: a run's own")
    parser.add_argument(
        "--para-prior", type=float, help="share of paraphrases to train PARA for; default: none"
    )
    parser.add_argument("--lr", type=float, help="peak learning rate; default: a run's own")
    parser.add_argument(
        "--hidden-dropout-prob",
        type=float,
        default=HeadOptions().hidden_dropout_prob,
        help="before each head (%(default)s)",
    )
    return parser


def list_identities(arguments: argparse.Namespace) -> list[Line]:
    """Return what tells the fine-tunes of a command line apart: encoder, task, seed and options."""
    common = {
        "data_dir": str(Path(arguments.data_dir).resolve()),
        "dropout": AUTO if arguments.dropout is None else arguments.dropout,
        "lr": AUTO if arguments.lr is None else arguments.lr,
        "hidden_dropout_prob": arguments.hidden_dropout_prob,
    }
    identities = []
    for seed in arguments.seeds:
        for encoder in arguments.encoders:
            for task in arguments.tasks:
                # The prior belongs to PARA alone.
                has_prior = task == "para" and arguments.para_prior is not None
                identities.append(
                    {
                        "encoder": encoder,
                        "task": task,
                        "seed": seed,
                        **common,
                        "epochs": EPOCHS[task] if arguments.epochs is None else arguments.epochs,
                        "para_prior": arguments.para_prior if has_prior else NONE,
                    }
                )
    return identities


@exit_code("python -m tools.benchmarks.encoders")
def main(argv: Sequence[str] | None = None) -> None:
    """Make the fine-tunes that are missing, and print the table of those that were asked for."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    check_lines(arguments.out, ("encoder", "task", "seed"))
    read_tables_or_exit(parser, arguments.data_dir)
    runtime.settle_memory()
    identities = list_identities(arguments)
    shown = []
    # The file may hold fine-tunes that another command line asked for.
    for line in run_missing(arguments.out, identities, fine_tune):
        if any(has_identity(line, identity) for identity in identities):
            shown.append(line)
    print(format_table(shown))


if __name__ == "__main__":
    sys.exit(main())
