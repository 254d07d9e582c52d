"""How does the cost of a run grow with its rows, their length, the batch, the tasks and the model?

`python -m tools.benchmarks.scaling --data-dir DIR` first times whole runs of run_multitask.py, on
once, twice, four and eight times the training rows. Then it times single steps (forward, backward,
AdamW) in which one size grows and the others stay.

The exponent of a size is the slope of log(seconds) on log(size) by least squares. 1 is linear, and
0 costs nothing. The sizes of one series take turns, and medians count. The command prints tables in
Markdown, and one line of JSON at the end.
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
from typing import Any, NamedTuple

import numpy
import torch

from experiments.records import RECORDS
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.optimizer import AdamW
from minbert.pretraining.sizes import SIZES
from minbert.training import cost_estimate, runtime
from minbert.training.job import Job, Part
from multitask.rows import read_tables
from tools.benchmarks.comparison import versions
from tools.benchmarks.jobs import build_task_job, encode_rows, resolve_options
from tools.benchmarks.json_lines import read_tables_or_exit
from tools.benchmarks.limit import notes_without_bf16
from tools.benchmarks.recording import HELP, digest_of_folder, record_measurement
from tools.benchmarks.settings import DEVICE
from tools.benchmarks.timing import Side, alternate

SCALING = RECORDS / "scaling.jsonl"
ROOT = Path(__file__).resolve().parents[2]

# Whole runs: the training rows of the smallest one, and how many times as many the others have.
BASE_ROWS = {"sst": 1000, "para": 1500, "sts": 750}
TIMES = (1, 2, 4, 8)

# Single steps: the sizes of each series.
LENGTHS = (16, 32, 64, 128, 256, 512)
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
TASKS = ("sts", "sts,sst", "sts,sst,para")

RunCost = dict[str, float]


class Fit(NamedTuple):
    """A straight line through measurements.

    start: seconds at size 0. slope: seconds for each unit of size. distance: the largest relative
    distance of a measurement from the line.
    """

    start: float
    slope: float
    distance: float


class Series(NamedTuple):
    """Steps in which one size grows, by size."""

    title: str
    steps: dict[int, Side]


# --- whole runs -----------------------------------------------------------------------------------


def run_once(times: int, data_dir: str, folder: Path) -> RunCost:
    """Train minbert-mini for an epoch on `times` x BASE_ROWS. Return the cost in run.json."""
    rows = ",".join(f"{task}={times * number}" for task, number in BASE_ROWS.items())
    data = ["--data-dir", data_dir, "--train-rows", rows, "--dev-rows", "para=500"]
    training = ["--epochs", "1", "--pair-encoding", "cross", "--device", DEVICE.type]
    output = ["--output-dir", str(folder), "--name", str(times)]
    command = [sys.executable, "run_multitask.py", *data, *training, *output]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    record = json.loads((folder / str(times) / "run.json").read_text())
    return {"rows": times * sum(BASE_ROWS.values()), **record["actual"]}


def whole_runs(data_dir: str, num_rounds: int) -> list[RunCost]:
    """Return rows, median seconds and median peak memory in bytes, for each of TIMES."""
    runs: dict[int, list[RunCost]] = {times: [] for times in TIMES}
    # The sizes take turns, so that a slow minute of the machine slows all of them.
    for _ in range(num_rounds):
        for times in TIMES:
            with tempfile.TemporaryDirectory() as folder:
                runs[times].append(run_once(times, data_dir, Path(folder)))

    medians = []
    for costs in runs.values():
        median = {}
        for key in ("rows", "seconds", "peak_memory"):
            median[key] = statistics.median(cost[key] for cost in costs)
        medians.append(median)
    return medians


# --- single steps ---------------------------------------------------------------------------------


def encoder_step(config: BertConfig, num_rows: int, num_tokens: int, precision: str) -> Side:
    """Return a training step of a bare encoder on random token ids, without padding."""
    model = BertModel(config).train()
    # With learning rate 0 a step costs the same and changes nothing.
    optimizer = AdamW(model.parameters(), lr=0.0, fused=True)
    input_ids = torch.randint(config.vocab_size, (num_rows, num_tokens))

    def run_part(part: int) -> None:
        with runtime.autocast(DEVICE, precision):
            output = model(input_ids, torch.ones_like(input_ids)).last_hidden_state
        output.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return run_part


def rehearsal(job: Job, update: list[Part]) -> Side:
    """Return a function that takes a step of a job and changes no weight."""
    return lambda part: cost_estimate.rehearse(job, update)


def task_steps(data_dir: str, precision: str, folder: Path) -> dict[int, Side]:
    """Return joint steps of minbert-mini on one, two and three tasks, 32 rows of each."""
    steps = {}
    tokenizer = BertTokenizer.from_pretrained("minbert-mini")
    for names in TASKS:
        encoder = BertModel.from_pretrained("minbert-mini")
        options = resolve_options(
            encoder.config.hidden_size,
            DEVICE,
            precision,
            data_dir=data_dir,
            tasks=names,
            sampling="joint",
            pair_encoding="cross",
            max_length=64,
        )
        trained = names.split(",")
        tables = read_tables(options.data)
        rows = encode_rows(options, {task: tables[task] for task in trained}, tokenizer)
        job = build_task_job(options, encoder, rows, folder / names)
        steps[len(trained)] = rehearsal(job, next(iter(job.all_steps())))
    return steps


def length_series(precision: str) -> Series:
    """Return steps in which the length of the rows grows."""
    config = replace(SIZES["small"], max_position_embeddings=max(LENGTHS))
    steps = {length: encoder_step(config, 16, length, precision) for length in LENGTHS}
    return Series("tokens of a row, 16 rows of `small`", steps)


def batch_series(precision: str) -> Series:
    """Return steps in which the batch grows."""
    config = replace(SIZES["small"], max_position_embeddings=max(LENGTHS))
    steps = {size: encoder_step(config, size, 32, precision) for size in BATCH_SIZES}
    return Series("rows of a batch, 32 tokens, `small`", steps)


def parameter_series(precision: str) -> Series:
    """Return steps in which the model grows."""
    steps = {}
    for config in SIZES.values():
        layers = BertModel(config).layers
        num_parameters = sum(parameter.numel() for parameter in layers.parameters())
        steps[num_parameters] = encoder_step(config, 16, 64, precision)
    return Series("parameters of the layers, 16 rows of 64 tokens, tiny to base", steps)


# --- what grows how -------------------------------------------------------------------------------


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log(seconds) on log(size) by least squares."""
    # seconds = a x size^slope, so log(seconds) = log(a) + slope x log(size).
    slope, _ = numpy.polyfit(numpy.log(sizes), numpy.log(seconds), 1)
    return float(slope)


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Return the straight line through the measurements, by least squares."""
    slope, start = numpy.polyfit(sizes, seconds, 1)
    predicted = start + slope * numpy.asarray(sizes)
    distance = numpy.abs(seconds / predicted - 1).max()
    return Fit(float(start), float(slope), float(distance))


def off_the_middle(values: Sequence[float]) -> float:
    """Return how far the smallest and the largest value are from the number in their middle.

    It is a share of that number; 0 is flat.
    """
    return (max(values) - min(values)) / (max(values) + min(values))


def measure_series(series: Series, num_rounds: int) -> dict[str, Any]:
    """Time the steps of a series in turn and print their medians.

    Returns title, sizes, seconds and the exponent.
    """
    sides = {str(size): step for size, step in series.steps.items()}
    seconds = alternate(sides, num_rounds)
    sizes = list(series.steps)
    medians = [statistics.median(seconds[str(size)]) for size in sizes]
    slope = exponent(sizes, medians)

    titles = " | ".join(f"{size:,}" for size in sizes)
    cells = " | ".join(f"{1e3 * median:,.0f}" for median in medians)
    print(
        f"\n{series.title}; n = {num_rounds}, exponent {slope:.2f}\n",
        f"| | {titles} |",
        "|---|" + "---|" * len(sizes),
        f"| ms | {cells} |",
        sep="\n",
        flush=True,
    )
    return {"title": series.title, "sizes": sizes, "seconds": medians, "exponent": slope}


def measure_runs(data_dir: str, num_rounds: int) -> dict[str, Any]:
    """Time whole runs and print a table. Return their part of the closing line."""
    runs = whole_runs(data_dir, num_rounds)
    rows = [run["rows"] for run in runs]
    seconds = [run["seconds"] for run in runs]
    peaks = [run["peak_memory"] for run in runs]

    line = fit_line(rows, seconds)
    # Starting the program and reading the files cost the same for every size.
    without_start = [measured - line.start for measured in seconds]
    exponents = exponent(rows, seconds), exponent(rows, without_start)
    flatness = off_the_middle(peaks)

    print("\n| rows | seconds | peak memory |\n|---|---|---|")
    for run in runs:
        print(f"| {run['rows']:,} | {run['seconds']:.1f} | {run['peak_memory'] / 1e6:,.0f} MB |")
    print(
        f"\n{line.start:.1f} s + {1e3 * line.slope:.2f} ms a row, at most {line.distance:.1%} off; "
        f"exponent {exponents[0]:.2f}, {exponents[1]:.2f} without the constant; memory at most "
        f"{flatness:.1%} off its middle; n = {num_rounds}"
    )
    return {
        "runs": runs,
        "off_a_line": line.distance,
        "off_the_middle": flatness,
        "exponents": exponents,
        "n": num_rounds,
    }


# --- the command ----------------------------------------------------------------------------------


def build_parser() -> Parser:
    """Return the parser of this command."""
    parser = Parser(
        description="How does the cost of a run grow with its rows, length, batch, tasks and model?"
    )
    parser.add_argument(
        "--data-dir",
        required=True,
        help="folder with nine files of the course's form; training rows: 8,000 of SST, 12,000 of "
        "PARA, 6,000 of STS at least",
    )
    parser.add_argument("--n", type=int, default=7, help="rounds of single steps (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="whole runs of each size (%(default)s)")
    parser.add_argument("--record", action="store_true", help=HELP)
    return parser


def check_rows(parser: argparse.ArgumentParser, data_dir: str) -> None:
    """End the program with a message where the files are missing or too small."""
    # A run on fewer rows than asked for would look cheaper than it is.
    tables = read_tables_or_exit(parser, data_dir)
    for task, base_rows in BASE_ROWS.items():
        num_rows = len(tables[task]["train"].examples)
        expected = max(TIMES) * base_rows
        if num_rows < expected:
            parser.error(
                f"--data-dir {data_dir}: {num_rows:,} training rows of {task}; expected are "
                f"{expected:,}. Give a folder with more."
            )


@exit_code("python -m tools.benchmarks.scaling")
def main(argv: Sequence[str] | None = None) -> None:
    """Time runs and steps, and print tables and one line of JSON."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    check_rows(parser, arguments.data_dir)

    runtime.settle_memory()
    precision = runtime.choose_precision("auto", DEVICE)[0]
    limit = cost_estimate.matrix_product_limit(DEVICE, precision)
    print(
        *notes_without_bf16("All is in fp32."),
        f"{precision}, {torch.get_num_threads()} threads, {limit / 1e9:,.0f} GFLOP/s of matrix "
        "products",
        sep="\n",
    )
    data_dir = str(Path(arguments.data_dir).resolve())
    line = {"name": "scaling", **measure_runs(data_dir, arguments.runs)}

    makers: dict[str, Callable[[str], Series]] = {
        "length": length_series,
        "batch": batch_series,
        "parameters": parameter_series,
    }
    for name, make_series in makers.items():
        line[name] = measure_series(make_series(precision), arguments.n)
    with tempfile.TemporaryDirectory() as folder:
        steps = task_steps(arguments.data_dir, precision, Path(folder))
        title = "tasks of a joint step, 32 rows of each, minbert-mini"
        line["tasks"] = measure_series(Series(title, steps), arguments.n)

    line |= {"limit": limit, "precision": precision, "versions": versions()}
    if arguments.record:
        data = digest_of_folder(data_dir)
        record_measurement(SCALING, {**line, "data": data, "num_rounds": arguments.n})
    print(json.dumps(line))


if __name__ == "__main__":
    sys.exit(main())
