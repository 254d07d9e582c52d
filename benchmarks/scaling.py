"""How does the cost of a run grow with its rows, their length, the batch, the tasks and the model?

`python -m benchmarks.scaling --data-dir DIR`: first whole runs of run_multitask.py on once, twice, four and eight times
the training rows; then single steps (forward, backward, AdamW) in which one size grows and the others stay. A size's
exponent is the slope of log(seconds) on log(size) by least squares: 1 is linear, 0 costs nothing. The sizes of one
series take their turns, and medians count. Prints tables in Markdown, and one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy
import torch

from benchmarks.comparison import versions
from benchmarks.material import DEVICE, without_bf16
from benchmarks.series import course_tables
from benchmarks.sides import alternate
from command_line.options import Options
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.optimizer import AdamW
from minbert.pretraining.sizes import SIZES
from minbert.training import cost_estimate as price
from minbert.training import runtime
from multitask.stage import build_job, encode_tables, read_tables

ROOT = Path(__file__).resolve().parent.parent
TIMES = (1, 2, 4, 8)
BASE_ROWS = {"sst": 1000, "para": 1500, "sts": 750}  # of the smallest run
TASKS = ("sts", "sts,sst", "sts,sst,para")


def run_once(times: int, data_dir: str, folder: Path) -> dict[str, float]:
    """One epoch of minbert-mini on so many times BASE_ROWS: what run.json says it took."""
    rows = ",".join(f"{task}={times * number}" for task, number in BASE_ROWS.items())
    command = [
        sys.executable,
        "run_multitask.py",
        "--data-dir",
        data_dir,
        "--train-rows",
        rows,
        "--dev-rows",
        "para=500",
        "--epochs",
        "1",
        "--pair-encoding",
        "cross",
        "--device",
        DEVICE.type,
        "--output-dir",
        folder,
        "--name",
        times,
    ]
    subprocess.run(list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    record = json.loads((folder / str(times) / "run.json").read_text())
    return {"rows": times * sum(BASE_ROWS.values()), **record["actual"]}


def whole_runs(data_dir: str, num_rounds: int) -> list[dict[str, float]]:
    """For each of TIMES: rows, median seconds, median peak memory in bytes."""
    found: dict[int, list] = {times: [] for times in TIMES}
    for _ in range(num_rounds):
        for times in TIMES:
            with tempfile.TemporaryDirectory() as folder:
                found[times].append(run_once(times, data_dir, Path(folder)))
    return [
        {
            key: statistics.median(run[key] for run in runs)
            for key in ("rows", "seconds", "peak_memory")
        }
        for runs in found.values()
    ]


def encoder_step(
    config: BertConfig, rows: int, tokens: int, precision: str
) -> Callable[[int], None]:
    """A training step of a bare encoder on random token ids (rows, tokens), no padding."""
    model = BertModel(config).train()
    optimizer = AdamW(model.parameters(), lr=0.0, fused=True)
    input_ids = torch.randint(config.vocab_size, (rows, tokens))

    def take(part: int) -> None:
        with runtime.autocast(DEVICE, precision):
            output = model(input_ids, torch.ones_like(input_ids)).last_hidden_state
        output.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return take


def task_step(options: Options, rows, encoder: BertModel, folder: Path) -> Callable[[int], None]:
    """A joint step of these tasks, the first of an epoch."""
    job = build_job(options, encoder, rows, folder, DEVICE)
    step = next(iter(job.all_steps()))
    return lambda part: price.rehearse(job, step)


def task_steps(data_dir: str, precision: str, folder: Path) -> dict[int, Callable[[int], None]]:
    """minbert-mini: joint steps of one, two and three tasks, 32 rows of each."""
    steps = {}
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    for names in TASKS:
        options = Options(
            data_dir=data_dir,
            tasks=names,
            sampling="joint",
            pair_encoding="cross",
            precision=precision,
            max_length=64,
        ).with_files()
        encoder = BertModel.from_pretrained("minbert-mini")
        options, _ = options.for_encoder(encoder.config.hidden_size)
        tables = {
            task: table for task, table in read_tables(options).items() if task in names.split(",")
        }
        rows = encode_tables(tables, tokenizer, options.max_length, options.pair_encoding)
        steps[len(names.split(","))] = task_step(options, rows, encoder, folder / names)
    return steps


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log(seconds) on log(size) by least squares."""
    return float(numpy.polyfit(numpy.log(sizes), numpy.log(seconds), 1)[0])


def off_a_line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """The straight line through them: seconds at size 0, seconds for each, the largest relative distance from it."""
    slope, start = numpy.polyfit(sizes, seconds, 1)
    predicted = start + slope * numpy.asarray(sizes)
    return float(start), float(slope), float(numpy.abs(seconds / predicted - 1).max())


def off_the_middle(values: Sequence[float]) -> float:
    """How far the smallest and the largest are from the number in their middle, as a share of it; 0 is flat."""
    return (max(values) - min(values)) / (max(values) + min(values))


def table(title: str, steps: dict[int, Callable[[int], None]], num_rounds: int) -> dict:
    """Time the steps of one series in turn and print their medians; returns sizes, seconds and the exponent."""
    taken = alternate({str(size): step for size, step in steps.items()}, num_rounds)
    medians = [statistics.median(taken[str(size)]) for size in steps]
    found = {"sizes": list(steps), "seconds": medians, "exponent": exponent(list(steps), medians)}
    print(
        f"\n{title}; n = {num_rounds}, exponent {found['exponent']:.2f}\n\n| | "
        + " | ".join(f"{s:,}" for s in steps)
        + " |\n|---|"
        + "---|" * len(steps)
        + "\n| ms | "
        + " | ".join(f"{1e3 * s:,.0f}" for s in medians)
        + " |",
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data-dir",
        required=True,
        help="folder with nine files of the course's form; training rows: "
        "8,000 of SST, 12,000 of PARA, 6,000 of STS at least",
    )
    parser.add_argument("--n", type=int, default=7, help="rounds of single steps (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="whole runs of each size (%(default)s)")
    given = parser.parse_args()
    tables = course_tables(parser, given.data_dir)
    for task, rows in BASE_ROWS.items():
        num_rows = len(tables[task]["train"].examples)
        if num_rows < max(TIMES) * rows:
            parser.error(
                f"--data-dir {given.data_dir}: {num_rows:,} training rows of {task}; needed are "
                f"{max(TIMES) * rows:,}. Give a folder with more."
            )
    runtime.settle_memory()
    precision = runtime.choose_precision("auto", DEVICE)[0]
    limit = price.matrix_product_limit(DEVICE, precision)
    print(
        *without_bf16("All is in fp32."),
        f"{precision}, {torch.get_num_threads()} threads, {limit / 1e9:,.0f} "
        "GFLOP/s of matrix products",
        sep="\n",
    )
    runs = whole_runs(str(Path(given.data_dir).resolve()), given.runs)
    rows, seconds = [run["rows"] for run in runs], [run["seconds"] for run in runs]
    start, slope, distance = off_a_line(rows, seconds)
    slopes = exponent(rows, seconds), exponent(rows, [each - start for each in seconds])
    print("\n| rows | seconds | peak memory |\n|---|---|---|")
    for run in runs:
        print(f"| {run['rows']:,} | {run['seconds']:.1f} | {run['peak_memory'] / 1e6:,.0f} MB |")
    flatness = off_the_middle([run["peak_memory"] for run in runs])
    print(
        f"\n{start:.1f} s + {1e3 * slope:.2f} ms a row, at most {distance:.1%} off; exponent {slopes[0]:.2f}, "
        f"{slopes[1]:.2f} without the constant; memory at most {flatness:.1%} off its middle; n = {given.runs}"
    )
    small = replace(SIZES["small"], max_position_embeddings=512)
    series = {
        "length": (
            "tokens of a row, 16 rows of `small`",
            {
                tokens: encoder_step(small, 16, tokens, precision)
                for tokens in (16, 32, 64, 128, 256, 512)
            },
        ),
        "batch": (
            "rows of a batch, 32 tokens, `small`",
            {rows: encoder_step(small, rows, 32, precision) for rows in (4, 8, 16, 32, 64, 128)},
        ),
        "parameters": (
            "parameters of the layers, 16 rows of 64 tokens, tiny to base",
            {
                sum(p.numel() for p in BertModel(config).layers.parameters()): encoder_step(
                    config, 16, 64, precision
                )
                for config in SIZES.values()
            },
        ),
    }
    found = {name: table(title, steps, given.n) for name, (title, steps) in series.items()}
    with tempfile.TemporaryDirectory() as folder:
        steps = task_steps(given.data_dir, precision, Path(folder))
        found["tasks"] = table(
            "tasks of a joint step, 32 rows of each, minbert-mini", steps, given.n
        )
    print(
        json.dumps(
            {
                "name": "scaling",
                "runs": runs,
                "off_a_line": distance,
                "off_the_middle": flatness,
                "exponents": slopes,
                "n": given.runs,
                **found,
                "limit": limit,
                "precision": precision,
                "versions": versions(),
            }
        )
    )


if __name__ == "__main__":
    main()
