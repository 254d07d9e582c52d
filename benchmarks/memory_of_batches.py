"""How much memory does a large contrastive batch need in pieces? Peaks of the real loop, each in a process of its own.

`python -m benchmarks.memory_of_batches --data-dir DIR`: SimCSE steps, forward, backward, clipping and AdamW, on a plain
batch of --small sentences and on one of --large with --contrastive_chunk; both are padded to as many tokens as fit. A
process's peak is the highest resident size that the kernel saw (getrusage), less that of a process that loaded model
and data and stopped there. The model is MiniLM's architecture (6 layers, 384 units) with random weights and
minbert-mini's vocabulary; --model takes another. Prints each side, and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.comparison import verdict, versions
from benchmarks.material import DEVICE
from command_line.options import Options
from contrastive.stage import build_stage
from minbert import BertConfig, BertModel, BertTokenizer, weights
from minbert.training import cost_estimate as price
from minbert.training import runtime
from minbert.training.loop import Loop
from minbert.training.stage import encoder_fingerprint
from multitask.stage import read_tables

GOAL = 1.1  # of the ratio
NUM_STEPS = 3  # the second and third have the optimizer's moments beside them


def make_encoder(name: str) -> BertModel:
    if name != "random":
        return BertModel.from_pretrained(name)
    config = BertConfig.from_pretrained(
        weights.resolve("minbert-mini"),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    return BertModel(config)


def measure(given: argparse.Namespace, batch_size: int, chunk: int, folder: Path) -> dict:
    """Peak bytes of this process and seconds of a step; with batch_size 0 it loads everything and trains nothing."""
    if given.keep_freed_memory:
        runtime.settle_memory()
    options = Options(
        data_dir=given.data_dir,
        pretrain="simcse",
        precision=given.precision,
        seed=0,
        contrastive_batch_size=batch_size or "auto",
        contrastive_chunk=chunk,
    ).with_files()
    tables, encoder = read_tables(options), make_encoder(given.model)
    tokenizer = BertTokenizer.from_pretrained(
        "minbert-mini" if given.model == "random" else given.model
    )
    train = {task: splits["train"].examples for task, splits in tables.items()}
    stage = build_stage(
        options,
        "simcse",
        encoder,
        tokenizer,
        train,
        tables["sts"]["dev"].examples,
        folder,
        "encoder",
        encoder_fingerprint(encoder, tokenizer),
        DEVICE,
    )
    task, steps = "simcse", stage.job.plan(0, torch.Generator().manual_seed(0))
    rows = [row for ((_, batch),) in steps for row in batch]
    longest = sorted(
        rows, key=lambda row: len(stage.job.load(task, [row]).input_ids[0]), reverse=True
    )
    step = [(task, longest[:batch_size])]
    loop = Loop(replace(stage.job, plan=lambda epoch, generator: [step]), resume=False)
    loop.bar, loop.progress.num_steps = tqdm(disable=True), 10**6
    started = time.perf_counter()
    for _ in range(NUM_STEPS if batch_size else 0):
        loop.train_step(loop.job.epoch_steps(0, torch.Generator())[0])
    return {
        "peak": price.peak_memory(DEVICE),
        "seconds": (time.perf_counter() - started) / NUM_STEPS,
        "tokens": stage.job.load(task, longest[:1]).input_ids.size(1),
    }


def measure_apart(given: argparse.Namespace, batch_size: int, chunk: int) -> dict:
    command = [
        sys.executable,
        "-m",
        "benchmarks.memory_of_batches",
        *sys.argv[1:],
        "--side",
        f"{batch_size},{chunk}",
    ]
    return json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[
            -1
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data-dir", default="data/sample", help="folder with the nine course files"
    )
    parser.add_argument("--model", default="random", help="random, or as in a run")
    parser.add_argument(
        "--small", type=int, default=32, help="sentences of the plain batch; each is two rows"
    )
    parser.add_argument("--large", type=int, default=512, help="sentences of the batch in pieces")
    parser.add_argument("--chunk", type=int, default=32, help="rows of a piece")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument(
        "--keep-freed-memory", action="store_true", help="the allocator as in a run; faster, larger"
    )
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not runtime.is_native(given.precision, DEVICE):
        parser.error(
            f"--precision bf16: {runtime.NO_BF16}. A step would take very long. Use --precision fp32."
        )
    if given.side:
        batch_size, chunk = map(int, given.side.split(","))
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(given, batch_size, chunk, Path(folder))))
        return
    loaded = measure_apart(given, 0, 0)
    print(
        f"{given.model}, {given.precision}, {loaded['tokens']} tokens a sentence, {torch.get_num_threads()} threads, "
        f"{NUM_STEPS} steps; model and data loaded: {loaded['peak'] / 1e6:,.0f} MB"
    )
    sides = {
        f"plain batch of {given.small}": (given.small, 0),
        f"batch of {given.large}, {given.chunk} rows at a time": (given.large, given.chunk),
    }
    above = {}
    for name, side in sides.items():
        found = measure_apart(given, *side)
        above[name] = found["peak"] - loaded["peak"]
        print(
            f"{name}: {above[name] / 1e6:,.0f} MB above that, {found['seconds']:.2f} s a step",
            flush=True,
        )
    plain, pieces = above.values()
    is_met = pieces / plain <= GOAL
    print(
        f"in pieces: {pieces / plain:.3f} times the memory of the plain batch of {given.small} "
        f"(goal {verdict('<=', GOAL, is_met)})"
    )
    print(
        json.dumps(
            {
                "name": "memory_of_batches",
                "ours": pieces,
                "peer": plain,
                "ratio": pieces / plain,
                "is_met": is_met,
                "chunk": given.chunk,
                "n": NUM_STEPS,
                "keep_freed_memory": given.keep_freed_memory,
                "versions": versions(),
            }
        )
    )


if __name__ == "__main__":
    main()
