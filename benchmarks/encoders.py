"""What is an encoder worth? Single-task fine-tunes from several encoders by one recipe, over several seeds.

`python -m benchmarks.encoders --data-dir DIR --out FILE`: for each encoder, task and seed one fine-tune through the
project's own multitask stage with that task alone. Its dev score after the last epoch goes into FILE as a line of JSON;
what is in FILE already is not run again, so a stopped series goes on. "random" is minbert-mini's shape and vocabulary
with fresh weights, as its pretraining began. --dropout replaces what an encoder's config.json says, --epochs the
recipe's; --lr, --hidden-dropout-prob and --para-prior are those of run_multitask.py.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.series import course_tables, go_on, shown_mean
from command_line.options import Options
from contrastive.presets import AUTO
from minbert import BertConfig, BertModel, BertTokenizer, weights
from minbert.pretraining.plain_text import fresh_encoder
from minbert.training import runtime
from minbert.training.loop import fit
from multitask.stage import build_job, encode_tables, read_tables
from multitask.tasks import TASKS

EPOCHS = {"sst": 4, "para": 2, "sts": 6}  # fixed before the first run, the same for every encoder
MAX_LENGTH = 96
RANDOM = "random"


def make_encoder(name: str, options: Options) -> BertModel:
    if name != RANDOM:
        return BertModel.from_pretrained(name, **options.dropout_of_encoder())
    runtime.seed_everything(options.seed)
    return fresh_encoder(
        BertConfig.from_pretrained(weights.resolve("minbert-mini"), **options.dropout_of_encoder())
    )


def options_for(
    name: str, task: str, seed: int, data_dir: str, dropout: float | str, **given
) -> Options:
    """The recipe: cross-encoded pairs; what is not given, by its name in Options, is the default for this encoder."""
    folder = weights.resolve("minbert-mini" if name == RANDOM else name)
    options = Options(
        data_dir=data_dir,
        seed=seed,
        tasks=task,
        pair_encoding="cross",
        max_length=MAX_LENGTH,
        encoder_dropout=dropout,
        attention_dropout=dropout,
        **given,
        precision=runtime.choose_precision("auto", runtime.choose_device()[0])[0],
    )
    options = options.with_files()
    return options.for_encoder(BertConfig.from_pretrained(folder).hidden_size)[0]


def fine_tune(encoder: str, task: str, **given) -> dict:
    """One fine-tune; returns the line for the file. given: the rest of what `options_for` takes."""
    options = options_for(encoder, task, **given)
    tokenizer = BertTokenizer.from_pretrained("minbert-mini" if encoder == RANDOM else encoder)
    tables = {task: read_tables(options)[task]}
    rows = encode_tables(tables, tokenizer, options.max_length, options.pair_encoding)
    device = runtime.choose_device()[0]
    with tempfile.TemporaryDirectory() as folder:
        job = build_job(
            options, make_encoder(encoder, options).to(device), rows, Path(folder), device
        )
        progress = fit(job)
    by_epoch = [scores[task] for scores in progress.history]
    return {
        "encoder": encoder,
        "task": task,
        **given,
        "score": by_epoch[-1],
        "by_epoch": by_epoch,
        "peak_rate": options.lr,
        "seconds": round(progress.seconds, 1),
    }


def table(lines: list[dict]) -> str:
    """Mean and standard deviation over seeds, a row for each encoder."""
    shown = [f"{'dev score':<20}" + "".join(f"{TASKS[task].title:>24}" for task in TASKS)]
    for name in dict.fromkeys(line["encoder"] for line in lines):
        cells = []
        for task in TASKS:
            scores = [
                line["score"] for line in lines if (line["encoder"], line["task"]) == (name, task)
            ]
            cells.append(f"{shown_mean(scores)} (n={len(scores)})" if scores else "-")
        shown.append(f"{name:<20}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="folder with the nine course files")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="file of the results, a line of JSON each; is added to",
    )
    parser.add_argument("--encoders", nargs="+", default=[RANDOM, "minbert-mini", "minilm"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--epochs",
        type=int,
        help="of every task; default: "
        + ", ".join(f"{epochs} of {task}" for task, epochs in EPOCHS.items()),
    )
    parser.add_argument("--dropout", type=float, help="in the encoder; default: a run's own")
    parser.add_argument(
        "--para-prior", type=float, help="share of paraphrases to train PARA for; default: none"
    )
    parser.add_argument("--lr", type=float, help="peak learning rate; default: a run's own")
    parser.add_argument(
        "--hidden-dropout-prob",
        type=float,
        default=Options().hidden_dropout_prob,
        help="before each head (%(default)s)",
    )
    given = parser.parse_args()
    course_tables(parser, given.data_dir)
    runtime.settle_memory()
    same = {
        "data_dir": str(Path(given.data_dir).resolve()),
        "dropout": AUTO if given.dropout is None else given.dropout,
        "lr": AUTO if given.lr is None else given.lr,
        "hidden_dropout_prob": given.hidden_dropout_prob,
    }
    todo = [
        {
            "encoder": name,
            "task": task,
            "seed": seed,
            **same,
            "epochs": EPOCHS[task] if given.epochs is None else given.epochs,
            "para_prior": given.para_prior
            if task == "para" and given.para_prior is not None
            else "none",
        }
        for seed in given.seeds
        for name in given.encoders
        for task in given.tasks
    ]
    lines = go_on(given.out, todo, fine_tune)
    print(
        table(
            [line for line in lines if any(identity.items() <= line.items() for identity in todo)]
        )
    )


if __name__ == "__main__":
    main()
