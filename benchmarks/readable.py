"""Does the fast path learn what the readable one learns? The three tasks by both, over several seeds.

`python -m benchmarks.readable --data-dir DIR --out FILE`: one fine-tune for each path and seed through the multitask
stage of a run. "fast" is what a run does: bf16 where the processor has it, and the twins of minbert/fast.py.
"readable" has float32 and the readable functions, AdamW.update formula by formula; attention is written out in both, as in
every training on a CPU. Dev scores after the last epoch go into FILE as lines of JSON; what is there is not run again.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.material import without_bf16
from benchmarks.series import course_tables, go_on, shown_mean
from command_line.options import Options
from minbert import BertConfig, BertModel, BertTokenizer, fast, weights
from minbert.training import runtime
from minbert.training.loop import fit
from multitask.stage import build_job, encode_tables, read_tables
from multitask.tasks import TASKS

PATHS = ("fast", "readable")
SCORES = (*TASKS, "overall_2023")


def fine_tune(
    path: str, model: str, seed: int, data_dir: str, train_rows: str, epochs: int
) -> dict:
    """One fine-tune; returns the line for the file."""
    folder = weights.resolve(model)
    device = runtime.choose_device()[0]
    precision = "fp32" if path == "readable" else runtime.choose_precision("auto", device)[0]
    config = BertConfig.from_pretrained(folder)
    options = Options(
        data_dir=data_dir,
        seed=seed,
        train_rows=train_rows,
        epochs=epochs,
        max_length=64,
        precision=precision,
        encoder_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
    ).with_files()  # for small encoders too
    options, _ = options.for_encoder(config.hidden_size)
    rows = encode_tables(
        read_tables(options),
        BertTokenizer.from_pretrained(model),
        options.max_length,
        options.pair_encoding,
    )
    runtime.seed_everything(seed)
    with tempfile.TemporaryDirectory() as place:
        job = build_job(
            options, BertModel.from_pretrained(model).to(device), rows, Path(place), device
        )
        progress = fit(job)
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


def run(path: str, **settings) -> dict:
    """`fine_tune` with the forms of that path."""
    if path == "fast":
        return fine_tune(path, **settings)
    with fast.switched_off():
        return fine_tune(path, **settings)


def table(lines: list[dict]) -> str:
    """Mean and standard deviation over seeds, a row for each path."""
    shown = [f"{'dev, last epoch':<20}" + "".join(f"{name:>20}" for name in SCORES)]
    for path in PATHS:
        cells = [
            shown_mean([line[name] for line in lines if line["path"] == path]) for name in SCORES
        ]
        shown.append(f"{path:<20}" + "".join(f"{cell:>20}" for cell in cells))
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
    parser.add_argument(
        "--model", default="minbert-mini", help="as of run_multitask.py (%(default)s)"
    )
    parser.add_argument(
        "--train-rows", default="none", help="as of run_multitask.py: fewer rows of some tasks"
    )
    parser.add_argument("--epochs", type=int, default=2, help="of each run (%(default)s)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    course_tables(parser, given.data_dir, given.train_rows)
    runtime.settle_memory()
    for note in without_bf16("Both paths are in fp32.", runtime.choose_device()[0]):
        print(note)
    same = {
        "model": given.model,
        "data_dir": str(Path(given.data_dir).resolve()),
        "train_rows": given.train_rows,
        "epochs": given.epochs,
    }
    todo = [{"path": path, "seed": seed, **same} for seed in given.seeds for path in PATHS]
    print(table([line for line in go_on(given.out, todo, run) if same.items() <= line.items()]))


if __name__ == "__main__":
    main()
