"""What does a contrastive stage do to an encoder? Zero-shot STS dev before and after, over several seeds.

`python -m benchmarks.contrastive --data-dir DIR --out FILE`: for each stage, model and seed the stage that
`run_multitask.py --pretrain` would run, on the same text, without the tasks after it. A stage is a method, or a
comparison of --list-recipes that has one, such as bsc-knn. Each runs in a process of its own, so that its peak of
memory is its own, and leaves a line of JSON in FILE; what is in it already is not run again. "after" is the best of the
stage's evaluations on the same dev pairs, so it flatters a little.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch

from benchmarks.series import course_tables, go_on, shown_mean
from benchmarks.sides import Process
from command_line.options import Options
from contrastive.presets import OWN, PRESETS
from contrastive.stage import build_stage
from experiments.recipes import COMPARISONS
from minbert import BertConfig, BertModel, BertTokenizer, weights
from minbert.training import cost_estimate as price
from minbert.training import runtime
from minbert.training.stage import encoder_fingerprint
from multitask.stage import read_tables

TEXTS = (
    "nli",
    "ct_corpus",
)  # options that name what some stages read instead of the course's sentences
SHOWN = ("spearman", "pearson", "alignment", "uniformity")


def run_stage(
    stage: str, model: str, seed: int, data_dir: str, train_rows: str, **texts: str
) -> dict:
    """One stage; returns the line for the file. texts: the options of TEXTS that it reads."""
    runtime.settle_memory()
    device = runtime.choose_device()[0]
    folder = weights.resolve(model)
    values = COMPARISONS.get(stage, {"pretrain": stage})
    options = Options(
        data_dir=data_dir,
        model=model,
        seed=seed,
        train_rows=train_rows,
        device=device.type,
        precision=runtime.choose_precision("auto", device)[0],
        **values,
        **texts,
    ).with_files()
    options, _ = options.for_encoder(BertConfig.from_pretrained(folder).hidden_size)
    tables = read_tables(options)
    encoder, tokenizer = (
        BertModel.from_pretrained(folder).to(device),
        BertTokenizer.from_pretrained(folder),
    )
    train = {task: splits["train"].examples for task, splits in tables.items()}
    with tempfile.TemporaryDirectory() as run:
        built = build_stage(
            options,
            values["pretrain"],
            encoder,
            tokenizer,
            train,
            tables["sts"]["dev"].examples,
            Path(run),
            "encoder",
            encoder_fingerprint(encoder, tokenizer),
            device,
        )
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
        "peak_memory": price.peak_memory(device),
    }


def method_of(stage: str) -> str | None:
    """The method of --pretrain that a method's or a comparison's name stands for."""
    return COMPARISONS.get(stage, {"pretrain": stage}).get("pretrain")


def texts_of(stage: str, given: argparse.Namespace) -> dict[str, str]:
    """The options of TEXTS that the stage's method reads, "none" too; {} for a stage that no longer exists."""
    return {name: getattr(given, name) for name in TEXTS if name in OWN.get(method_of(stage), ())}


def serve_stages():
    """For `Process`, which calls what this returns with one request."""
    return lambda settings: run_stage(**settings)


def run_apart(**settings) -> dict:
    """`run_stage` in a process of its own."""
    with Process(torch.get_num_threads(), serve_stages) as process:
        return process(settings)


def table(lines: list[dict]) -> str:
    """Mean and standard deviation over seeds of the scores before and after; median seconds, peak memory, seeds."""
    shown = [f"{'zero-shot STS dev':<40}" + "".join(f"{name:>18}" for name in SHOWN)]
    for stage, model in dict.fromkeys((line["stage"], line["model"]) for line in lines):
        chosen = [line for line in lines if (line["stage"], line["model"]) == (stage, model)]
        for when in ("before", "after"):
            cells = [shown_mean([line[when][name] for line in chosen]) for name in SHOWN]
            label = f"{model}, {stage}, {when}"
            if when == "after":
                cells += [
                    f"{statistics.median(line['seconds'] for line in chosen):,.0f} s",
                    f"{max(line['peak_memory'] for line in chosen) / 1e9:.2f} GB",
                    f"n={len(chosen)}",
                ]
            shown.append(f"{label:<40}" + "".join(f"{cell:>18}" for cell in cells))
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
    parser.add_argument("--stages", nargs="+", default=["simcse"])
    parser.add_argument(
        "--train-rows", default="none", help="as of run_multitask.py: fewer rows of some tasks"
    )
    parser.add_argument("--models", nargs="+", default=["minbert-mini"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--nli", default="none", help="as of run_multitask.py: the triplets of simcse-nli"
    )
    parser.add_argument(
        "--ct-corpus", default="none", help="as of run_multitask.py: what ct and ct-in-batch read"
    )
    given = parser.parse_args()
    for stage in given.stages:
        if method_of(stage) not in PRESETS:
            parser.error(
                f"--stages {stage}: it is one of {', '.join(PRESETS)}, or a comparison with a stage of those."
            )
        if method_of(stage) == "simcse-nli" and given.nli == "none":
            parser.error(
                f"--stages {stage} trains on triplets of sentences; name their file with --nli."
            )
    for path in {given.nli, given.ct_corpus} - {"none", "random-words"}:
        if not Path(path).is_file():
            parser.error(f"{path} is no file. Name one with --nli or --ct-corpus.")
    data = {"train_rows": given.train_rows, "data_dir": str(Path(given.data_dir).resolve())}
    course_tables(parser, given.data_dir, given.train_rows)
    todo = [
        {"stage": stage, "model": model, "seed": seed, **data, **texts_of(stage, given)}
        for seed in given.seeds
        for model in given.models
        for stage in given.stages
    ]
    lines = go_on(given.out, todo, run_apart)
    asked = [(line, {**data, **texts_of(line["stage"], given)}) for line in lines]
    print(
        table(
            [
                line
                for line, of in asked
                if all(line.get(name) == of.get(name) for name in (*data, *TEXTS))
            ]
        )
    )


if __name__ == "__main__":
    main()
