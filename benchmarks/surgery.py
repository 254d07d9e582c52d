"""What does gradient surgery cost, against a joint step, and against the same step through torchjd's PCGrad?

One batch of each task, the same on all sides; each step has three backward passes, surgery or none, clipping and AdamW.
torchjd gets the three gradients as one (K, P) matrix. Memory is the resident process's highest point after ten steps,
each side in a process of its own. K tasks, P parameters.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.comparison import Check, Comparison, json_line, versions
from benchmarks.material import DEVICE, Limit, Settings, layer_flops, without_bf16
from benchmarks.sides import Process, alternate
from benchmarks.training import make_loop
from command_line.options import Options
from minbert import BertConfig, BertModel, BertTokenizer
from minbert.training import cost_estimate as price
from minbert.training import runtime
from minbert.training.gradients import accumulate, take
from minbert.training.job import Job, Part
from minbert.training.loop import Loop
from multitask.stage import build_job, encode_tables, read_tables

NUM_ROWS = 2000  # of a training file; the batches are drawn from them
NUM_MEASURED = 10  # steps before the memory is read


def make_job(
    model: Path, data_dir: str, batch_size: int, precision: str, surgery: str, folder: Path
) -> Job:
    """The multitask stage as a run would build it, its plan one step over and over: the first batch of each task."""
    options = Options(
        data_dir=data_dir,
        sampling="joint",
        batch_size=batch_size,
        epochs=1,
        surgery=surgery,
        precision=precision,
    ).with_files()
    options, _ = options.for_encoder(BertConfig.from_pretrained(model).hidden_size)
    tables = {
        task: {split: table.cut(NUM_ROWS) for split, table in splits.items()}
        for task, splits in read_tables(options).items()
    }
    rows = encode_tables(
        tables, BertTokenizer.from_pretrained(model), options.max_length, options.pair_encoding
    )
    job = build_job(options, BertModel.from_pretrained(model).to(DEVICE), rows, folder, DEVICE)
    step = job.plan(0, torch.Generator().manual_seed(0))[0]
    return replace(job, plan=lambda epoch, generator: [step])


def our_side(*arguments) -> Callable[[int], None]:
    """A function that takes a step of the loop; arguments as of `make_job`. "peak" and "parameters" give bytes."""
    runtime.settle_memory()
    loop = make_loop(make_job(*arguments))
    step = loop.job.epoch_steps(0, torch.Generator())[0]

    def answer(request: int | str) -> int | None:
        match request:
            case "peak":
                return price.peak_memory(DEVICE)
            case "parameters":
                return sum(
                    parameter.numel() * parameter.element_size() for parameter in loop.parameters
                )
        return loop.train_step(step)

    return answer


def torchjd_side(loop: Loop) -> Callable[[int], None]:
    """The same step with torchjd's aggregator between backward passes and clipping, on what all tasks share."""
    from torchjd.aggregation import PCGrad

    aggregator = PCGrad()
    step = loop.job.epoch_steps(0, torch.Generator())[0]

    def train_step(part: int) -> None:
        loop.job.optimizer.zero_grad(set_to_none=True)
        gradients = []
        for task, rows, _ in step:
            accumulate(loop.job, Part(task, rows, 1.0))
            gradients.append(take(loop.parameters))
        columns = list(
            zip(*gradients, strict=True)
        )  # for each parameter the gradients of the K tasks
        shared = [
            number
            for number, column in enumerate(columns)
            if all(each is not None for each in column)
        ]
        matrix = torch.stack(
            [torch.cat([each[number].flatten() for number in shared]) for each in gradients]
        )  # (K, P)
        pieces = aggregator(matrix).split([loop.parameters[number].numel() for number in shared])
        for parameter, column in zip(loop.parameters, columns, strict=True):
            parameter.grad = next(
                (each for each in column if each is not None), None
            )  # a head's own task's
        for number, piece in zip(shared, pieces, strict=True):
            loop.parameters[number].grad = piece.view_as(loop.parameters[number])
        torch.nn.utils.clip_grad_norm_(loop.parameters, loop.job.max_grad_norm)
        loop.job.optimizer.step()

    return train_step


def measure_memory(settings: Settings, shared: tuple) -> tuple[Comparison, float]:
    """The peaks of a joint and of a PCGrad step, and their difference in units of the parameters' size."""
    peaks = {}
    for surgery in ("mean", "pcgrad"):
        with Process(
            settings.threads, our_side, *shared, surgery, settings.folder / f"{surgery}-memory"
        ) as process:
            for _ in range(settings.size(NUM_MEASURED, 2)):
                process(0)
            peaks[surgery], parameters = process("peak"), process("parameters")
    comparison = Comparison.of(
        "peak memory, PCGrad : joint", "MB", [peaks["pcgrad"]], [peaks["mean"]], scale=1e-6
    )
    return comparison, (peaks["pcgrad"] - peaks["mean"]) / parameters


def run(settings: Settings) -> dict:
    """Returns the line of JSON. Full: 20 rounds of a step; quick: 5."""
    precision = settings.precision
    shared = (settings.model, settings.data_dir, settings.batch_size, precision)
    memory, extra = measure_memory(
        settings, shared
    )  # first: a process's peak begins at that of its parent
    runtime.settle_memory()
    loops = {
        name: make_loop(make_job(*shared, surgery, settings.folder / name))
        for name, surgery in {"ours": "pcgrad", "joint": "mean", "torchjd": "mean"}.items()
    }
    step = loops["ours"].job.epoch_steps(0, torch.Generator())[0]
    sides = {
        name: lambda part, loop=loops[name]: loop.train_step(step) for name in ("ours", "joint")
    }
    has_peer = importlib.util.find_spec("torchjd") is not None
    if has_peer:
        sides["torchjd"] = torchjd_side(loops["torchjd"])
    limit = Limit(precision)
    seconds = alternate(sides, settings.rounds(20, 5), num_warm=3, between=limit.measure)
    comparisons = [
        Comparison.of(
            f"step ({precision}), PCGrad : joint",
            "ms",
            seconds["ours"],
            seconds["joint"],
            ("<=", 1.15),
            scale=1e3,
        )
    ]
    if has_peer:
        comparisons.append(
            Comparison.of(
                "step, PCGrad : torchjd's PCGrad",
                "ms",
                seconds["ours"],
                seconds["torchjd"],
                scale=1e3,
            )
        )
    checks = [
        Check(
            "PCGrad's peak above the joint step's, in sizes of the parameters",
            extra,
            "<=",
            len(step) + 1,
        )
    ]
    notes = [*without_bf16("Every side is in fp32."), f"three batches of {settings.batch_size}"]
    if not has_peer:
        notes.append(
            "torchjd is not installed, so only the joint step is compared with: `bash setup.sh --dev`"
        )
    job = loops["ours"].job
    tokens = sum(int(job.load(task, rows).attention_mask.sum()) for task, rows, _ in step)
    share = layer_flops(settings.model, 6) * tokens / (comparisons[0].ours / 1e3) / limit.median
    line = json_line(
        "surgery",
        [*comparisons, memory],
        versions(*(["torchjd"] if has_peer else [])),
        checks,
        notes,
        share,
        limit.median,
    )
    return line | {"extra_memory": extra}
