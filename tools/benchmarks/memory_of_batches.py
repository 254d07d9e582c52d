"""How much memory does a large contrastive batch need in pieces? Peaks of the real loop.

`python -m tools.benchmarks.memory_of_batches --data-dir DIR` takes SimCSE steps: forward, backward,
clipping and AdamW. It takes them on a plain batch of --small sentences, and on one of --large
sentences with --contrastive_chunk. Both are padded to as many tokens as fit.

Each side has its own process. Its peak is the highest resident size that the kernel saw
(getrusage), less that of a process that loaded model and data and stopped there. The model has
MiniLM's architecture (6 layers, 384 units) with random weights and minbert-mini's vocabulary.
--model takes another one. The command prints each side, and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minbert import BertConfig, BertModel, BertTokenizer, hub
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.training import cost_estimate, runtime
from minbert.training.job import Job, TaskBatch
from multitask.rows import read_tables
from tools.benchmarks.comparison import Goal, versions
from tools.benchmarks.inputs import MINILM_SHAPE
from tools.benchmarks.jobs import build_contrastive_stage, make_loop, resolve_options
from tools.benchmarks.report import format_goal
from tools.benchmarks.settings import DEVICE

# Of the ratio of both peaks.
GOAL = Goal("<=", 1.1)

# The second and the third step have the moments of the optimizer beside them.
NUM_STEPS = 3

RANDOM = "random"
METHOD = "simcse"


@dataclass(frozen=True)
class BatchSize:
    """Sentences of a batch, and rows that are encoded at a time (0: all).

    With 0 sentences, a process loads model and data and trains nothing.
    """

    sentences: int
    chunk: int


LOADED_ONLY = BatchSize(0, 0)


def make_encoder(name: str) -> BertModel:
    """Return a model by its name, or "random": MiniLM's architecture with random weights."""
    if name != RANDOM:
        return BertModel.from_pretrained(name)
    config = BertConfig.from_pretrained(
        hub.resolve("minbert-mini"),
        hidden_size=MINILM_SHAPE.hidden_size,
        num_hidden_layers=MINILM_SHAPE.num_hidden_layers,
        num_attention_heads=MINILM_SHAPE.num_attention_heads,
        intermediate_size=MINILM_SHAPE.intermediate_size,
    )
    return BertModel(config)


def build_job(arguments: argparse.Namespace, size: BatchSize, folder: Path) -> Job:
    """Return the job of the stage --pretrain simcse."""
    encoder = make_encoder(arguments.model)
    is_random = arguments.model == RANDOM
    tokenizer = BertTokenizer.from_pretrained("minbert-mini" if is_random else arguments.model)
    options = resolve_options(
        encoder.config.hidden_size,
        DEVICE,
        arguments.precision,
        data_dir=arguments.data_dir,
        pretrain=METHOD,
        seed=0,
        contrastive_batch_size=size.sentences or "auto",
        contrastive_chunk=size.chunk,
    )
    tables = read_tables(options.data)
    return build_contrastive_stage(options, encoder, tokenizer, tables, folder).job


def longest_rows(job: Job) -> list[int]:
    """Return the rows of an epoch, the longest first."""
    rows = []
    for step in job.plan(0, torch.Generator().manual_seed(0)):
        for _, batch_rows in step:
            rows += batch_rows

    def num_tokens(row: int) -> int:
        return len(job.load(METHOD, [row]).input_ids[0])

    return sorted(rows, key=num_tokens, reverse=True)


def measure(arguments: argparse.Namespace, size: BatchSize, folder: Path) -> dict[str, Any]:
    """Return the peak of this process in bytes, the seconds of a step, and the tokens of a row."""
    # As a run does. It is faster, and the peak is larger.
    if arguments.keep_freed_memory:
        runtime.settle_memory()
    job = build_job(arguments, size, folder)
    rows = longest_rows(job)
    # The longest rows make the largest batch that an epoch can have.
    step = [TaskBatch(METHOD, rows[: size.sentences])]
    loop = make_loop(replace(job, plan=lambda epoch, generator: [step]))

    started = time.perf_counter()
    if size.sentences:
        for _ in range(NUM_STEPS):
            loop.train_step(loop.job.epoch_steps(0, torch.Generator())[0])
    seconds = time.perf_counter() - started
    return {
        "peak": cost_estimate.peak_memory(DEVICE),
        "seconds": seconds / NUM_STEPS,
        "tokens": job.load(METHOD, rows[:1]).input_ids.size(1),
    }


def measure_in_process(arguments: argparse.Namespace, size: BatchSize) -> dict[str, Any]:
    """Return what `measure` returns in a new process with the same flags."""
    # The flag --side asks for one side in this process.
    side = f"{size.sentences},{size.chunk}"
    command = [
        sys.executable,
        "-m",
        "tools.benchmarks.memory_of_batches",
        *sys.argv[1:],
        "--side",
        side,
    ]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(description="How much memory does a large contrastive batch need in pieces?")
    parser.add_argument(
        "--data-dir", default="data/sample", help="folder with the nine course files"
    )
    parser.add_argument("--model", default=RANDOM, help="random, or as in a run")
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
    return parser


def compare(arguments: argparse.Namespace) -> None:
    """Measure both batches, and print them and one line of JSON."""
    # What model and data take counts on neither side.
    loaded = measure_in_process(arguments, LOADED_ONLY)
    print(
        f"{arguments.model}, {arguments.precision}, {loaded['tokens']} tokens a sentence, "
        f"{torch.get_num_threads()} threads, {NUM_STEPS} steps; model and data loaded: "
        f"{loaded['peak'] / 1e6:,.0f} MB"
    )

    def measure_above(name: str, size: BatchSize) -> int:
        result = measure_in_process(arguments, size)
        above = result["peak"] - loaded["peak"]
        seconds = result["seconds"]
        print(f"{name}: {above / 1e6:,.0f} MB above that, {seconds:.2f} s a step", flush=True)
        return above

    plain = measure_above(f"plain batch of {arguments.small}", BatchSize(arguments.small, 0))
    pieces = measure_above(
        f"batch of {arguments.large}, {arguments.chunk} rows at a time",
        BatchSize(arguments.large, arguments.chunk),
    )

    ratio = pieces / plain
    is_met = GOAL.is_met(ratio)
    print(
        f"in pieces: {ratio:.3f} times the memory of the plain batch of {arguments.small} (goal "
        f"{format_goal(GOAL.relation, GOAL.number, is_met)})"
    )
    line = {
        "name": "memory_of_batches",
        "ours": pieces,
        "peer": plain,
        "ratio": ratio,
        "is_met": is_met,
        "chunk": arguments.chunk,
        "n": NUM_STEPS,
        "keep_freed_memory": arguments.keep_freed_memory,
        "versions": versions(),
    }
    print(json.dumps(line))


@exit_code("python -m tools.benchmarks.memory_of_batches")
def main(argv: Sequence[str] | None = None) -> None:
    """Compare both batches, or with --side measure one of them in this process."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if not runtime.is_native(arguments.precision, DEVICE):
        parser.error(
            f"--precision bf16: {runtime.NO_BF16}. A step would take very long. Use --precision "
            "fp32."
        )
    if not arguments.side:
        compare(arguments)
        return
    sentences, chunk = arguments.side.split(",")
    with tempfile.TemporaryDirectory() as folder:
        size = BatchSize(int(sentences), int(chunk))
        print(json.dumps(measure(arguments, size, Path(folder))))


if __name__ == "__main__":
    sys.exit(main())
