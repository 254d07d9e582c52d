"""What does a contrastive stage do to an encoder? Zero-shot STS dev before and after, over several seeds.

`python -m benchmarks.contrastive --data-dir DIR --out FILE`: for each stage, model and seed the stage that
`run_multitask.py --pretrain` would run, on the same sentences, without the tasks after it. A line of JSON each in FILE;
what is in it already is not run again. "after" is the best of the stage's evaluations on the same dev pairs, so it
flatters a little.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.series import go_on
from contrastive.pretrain import build_stage
from minbert import BertConfig, BertModel, BertTokenizer, price, runtime, weights
from minbert.stage import encoder_fingerprint
from multitask.train import read_tables
from options import Options

SHOWN = ("spearman", "pearson", "alignment", "uniformity")


def run_stage(stage: str, model: str, seed: int, data_dir: str) -> dict:
    """One stage; returns the line for the file."""
    device = runtime.choose_device()[0]
    folder = weights.resolve(model)
    options = Options(data_dir=data_dir, model=model, seed=seed, pretrain=stage, device=device.type,
                      precision=runtime.choose_precision("auto", device)[0]).with_files()
    options, _ = options.for_encoder(BertConfig.from_pretrained(folder).hidden_size)
    tables = read_tables(options)
    encoder, tokenizer = BertModel.from_pretrained(folder).to(device), BertTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as run:
        train = {task: splits["train"].examples for task, splits in tables.items()}
        built = build_stage(options, stage, encoder, tokenizer, train, tables["sts"]["dev"].examples, Path(run),
                            "encoder", encoder_fingerprint(encoder, tokenizer), device)
        quality, seconds = built.train(is_resumed=False)
    return {"stage": stage, "model": model, "seed": seed, **quality, "seconds": round(seconds, 1),
            "peak_memory": price.peak_memory(device)}


def table(lines: list[dict]) -> str:
    """Mean and standard deviation over seeds of the scores before and after."""
    shown = [f"{'zero-shot STS dev':<28}" + "".join(f"{name:>22}" for name in SHOWN)]
    for stage, model in dict.fromkeys((line["stage"], line["model"]) for line in lines):
        chosen = [line for line in lines if (line["stage"], line["model"]) == (stage, model)]
        for when in ("before", "after"):
            cells = []
            for name in SHOWN:
                scores = [line[when][name] for line in chosen]
                deviation = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
                cells.append(f"{statistics.mean(scores):.4f}{deviation}")
            label = f"{model}, {stage}, {when}"
            shown.append(f"{label:<28}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="folder with the nine course files")
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line of JSON each; is added to")
    parser.add_argument("--stages", nargs="+", default=["simcse"])
    parser.add_argument("--models", nargs="+", default=["minbert-mini"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    runtime.keep_freed_memory()
    todo = [{"stage": stage, "model": model, "seed": seed} for seed in given.seeds for model in given.models
            for stage in given.stages]
    print(table(go_on(given.out, todo, partial(run_stage, data_dir=given.data_dir))))


if __name__ == "__main__":
    main()
