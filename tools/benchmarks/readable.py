"""Does the fast path train what the readable one trains? The three tasks by both, over seeds.

`python -m tools.benchmarks.readable --data-dir DIR --out FILE` makes one fine-tune for each path
and seed through the multitask stage of a run. "fast" is how a run computes: bf16 where the
processor has it, and the fast branches. "readable" has float32 and the readable
functions, with AdamW.update formula by formula. Attention is written out in both, as in every
training on a CPU. Dev scores after the last epoch go into FILE as lines of JSON. A fine-tune that
is there is not run again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.records import RECORDS
from minbert import BertConfig, BertModel, BertTokenizer, fast, hub
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.options import NONE
from minbert.training import runtime
from minbert.training.loop import fit
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
from tools.benchmarks.limit import notes_without_bf16
from tools.benchmarks.recording import HELP, digest_of_folder, record_measurement

READABLE_RUNS = RECORDS / "readable.jsonl"
FAST = "fast"
READABLE = "readable"
PATHS = (FAST, READABLE)
SCORES = (*TASKS, "overall_2023")
MAX_LENGTH = 64


def fine_tune(path: str, **settings: Any) -> Line:
    """Make one fine-tune on a path and return its line. settings: as of `train_and_score`."""
    if path == FAST:
        return train_and_score(path, **settings)
    # Inside, every readable function computes itself.
    with fast.switched(is_fast=False):
        return train_and_score(path, **settings)


def train_and_score(
    path: str, model: str, seed: int, data_dir: str, train_rows: str, epochs: int
) -> Line:
    """Make one fine-tune and return its line. path: decides the precision."""
    folder = hub.resolve(model)
    config = BertConfig.from_pretrained(folder)
    device = runtime.choose_device()[0]
    precision = "fp32" if path == READABLE else runtime.choose_precision("auto", device)[0]
    options = resolve_options(
        config.hidden_size,
        device,
        precision,
        data_dir=data_dir,
        seed=seed,
        train_rows=train_rows,
        epochs=epochs,
        max_length=MAX_LENGTH,
        # Small encoders have dropout here, too: one of the paths to compare is that of dropout.
        encoder_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
    )
    tokenizer = BertTokenizer.from_pretrained(folder)
    rows = encode_rows(options, read_tables(options.data), tokenizer)
    # Both paths start from the same random state.
    runtime.seed_everything(seed)
    encoder = BertModel.from_pretrained(folder).to(device)
    with tempfile.TemporaryDirectory() as name:
        progress = fit(build_task_job(options, encoder, rows, Path(name)))
    # The last epoch counts, not the best one: that would be chosen on dev.
    scores = {name: progress.history[-1][name] for name in SCORES}
    return {
        "path": path,
        "model": model,
        "seed": seed,
        "data_dir": data_dir,
        "train_rows": train_rows,
        "epochs": epochs,
        "precision": precision,
        **scores,
        "seconds": round(progress.seconds, 1),
    }


def fine_tune_and_record(path: str, data_dir: str, **settings: Any) -> Line:
    """Make one fine-tune, add its record, and return its line."""
    line = fine_tune(path, data_dir=data_dir, **settings)
    # The folder of the data differs from machine to machine.
    measured = {key: value for key, value in line.items() if key != "data_dir"}
    data = digest_of_folder(data_dir)
    record_measurement(READABLE_RUNS, {**measured, "data": data})
    return line


def format_table(lines: list[Line]) -> str:
    """Return mean and standard deviation over seeds, with a row for each path."""
    titles = "".join(f"{name:>20}" for name in SCORES)
    rows = [f"{'dev, last epoch':<20}{titles}"]
    for path in PATHS:
        chosen = [line for line in lines if line["path"] == path]
        row = f"{path:<20}"
        for name in SCORES:
            mean = format_mean([line[name] for line in chosen])
            row += f"{mean:>20}"
        rows.append(row)
    return "\n".join(rows)


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(description="Does the fast path train what the readable one trains?")
    add_data_flag(parser)
    add_output_flag(parser)
    parser.add_argument(
        "--model", default="minbert-mini", help="as of run_multitask.py (%(default)s)"
    )
    parser.add_argument(
        "--train-rows", default=NONE, help="as of run_multitask.py: fewer rows of some tasks"
    )
    parser.add_argument("--epochs", type=int, default=2, help="of each run (%(default)s)")
    add_seeds_flag(parser)
    parser.add_argument("--record", action="store_true", help=f"{HELP}; not those that are in FILE")
    return parser


@exit_code("python -m tools.benchmarks.readable")
def main(argv: Sequence[str] | None = None) -> None:
    """Make the fine-tunes that are missing, and print the table of those with the same settings."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    check_lines(arguments.out, ("path", "model", "seed"))
    read_tables_or_exit(parser, arguments.data_dir, arguments.train_rows)
    runtime.settle_memory()
    for note in notes_without_bf16("Both paths are in fp32.", runtime.choose_device()[0]):
        print(note)
    # Lines of the file with other settings are not shown.
    common = {
        "model": arguments.model,
        "data_dir": str(Path(arguments.data_dir).resolve()),
        "train_rows": arguments.train_rows,
        "epochs": arguments.epochs,
    }
    identities = []
    for seed in arguments.seeds:
        identities += [{"path": path, "seed": seed, **common} for path in PATHS]
    make_line = fine_tune_and_record if arguments.record else fine_tune
    lines = run_missing(arguments.out, identities, make_line)
    print(format_table([line for line in lines if has_identity(line, common)]))


if __name__ == "__main__":
    sys.exit(main())
