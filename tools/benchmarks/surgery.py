"""What does gradient surgery cost, against a joint step, and against torchjd's PCGrad?

All sides have the same batch of each task. Each step has three backward passes, surgery or none,
clipping and AdamW. torchjd gets the three gradients as one (K, P) matrix. Memory is the highest
resident size of a process after ten steps, and each side has its own process.

K tasks, P parameters.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minbert import BertConfig, BertModel, BertTokenizer
from minbert.training import cost_estimate, runtime
from minbert.training.gradients import accumulate, take
from minbert.training.job import Job, Part
from minbert.training.loop import Loop
from multitask.rows import read_tables
from tools.benchmarks.comparison import Check, Comparison, Goal, json_line, versions
from tools.benchmarks.inputs import layer_flops
from tools.benchmarks.jobs import build_task_job, encode_rows, make_loop, resolve_options
from tools.benchmarks.limit import Limit, notes_without_bf16
from tools.benchmarks.settings import DEVICE, Settings
from tools.benchmarks.timing import Side, SideProcess, alternate

# Rows of a training file. The batches are drawn from them.
NUM_ROWS = 2000

# Steps before the memory is read.
NUM_MEASURED = 10


@dataclass(frozen=True)
class JointStep:
    """What all sides train: the model's folder, the data, and the size of a batch."""

    model: Path
    data_dir: str
    batch_size: int
    precision: str


class MemoryResult(NamedTuple):
    """The peaks of both steps, and their difference in sizes of the parameters."""

    comparison: Comparison
    extra: float


def build_job(joint_step: JointStep, surgery: str, folder: Path) -> Job:
    """Return the multitask stage of a run, whose plan is one step over and over.

    The step has the first batch of each task. surgery: as --surgery.
    """
    options = resolve_options(
        BertConfig.from_pretrained(joint_step.model).hidden_size,
        DEVICE,
        joint_step.precision,
        data_dir=joint_step.data_dir,
        sampling="joint",
        batch_size=joint_step.batch_size,
        epochs=1,
        surgery=surgery,
    )
    # Fewer rows of each file are enough for batches of usual length.
    tables = {}
    for task, splits in read_tables(options.data).items():
        tables[task] = {split: table.cut(NUM_ROWS) for split, table in splits.items()}
    rows = encode_rows(options, tables, BertTokenizer.from_pretrained(joint_step.model))
    encoder = BertModel.from_pretrained(joint_step.model).to(DEVICE)
    job = build_task_job(options, encoder, rows, folder)
    # All sides plan with the same seed, so they have the same step.
    step = job.plan(0, torch.Generator().manual_seed(0))[0]
    return replace(job, plan=lambda epoch, generator: [step])


def only_update(loop: Loop) -> list[Part]:
    """Return the step that the loop's job repeats."""
    return loop.job.epoch_steps(0, torch.Generator())[0]


def our_side(joint_step: JointStep, surgery: str, folder: Path) -> Side:
    """Return a function that takes a step of the loop.

    The request "peak" returns the peak memory, and "parameters" the size of the parameters, both in
    bytes.
    """
    # As a run does it.
    runtime.settle_memory()
    loop = make_loop(build_job(joint_step, surgery, folder))
    update = only_update(loop)

    def answer(request: int | str) -> int | None:
        if request == "peak":
            return cost_estimate.peak_memory(DEVICE)
        if request == "parameters":
            sizes = [parameter.nbytes for parameter in loop.parameters]
            return sum(sizes)
        loop.train_step(update)
        return None

    return answer


def torchjd_side(loop: Loop) -> Side:
    """Return the same step with torchjd's aggregator between backward passes and clipping.

    It aggregates the gradients of the parameters that all tasks share.
    """
    from torchjd.aggregation import PCGrad

    aggregator = PCGrad()
    update = only_update(loop)

    def run_part(part: int) -> None:
        loop.job.optimizer.zero_grad(set_to_none=True)
        gradients = []
        for batch in update:
            rows = loop.job.load(batch.task, batch.rows)
            accumulate(loop.job, Part(batch.task, batch.rows, 1.0), rows)
            gradients.append(take(loop.parameters))
        aggregate(aggregator, loop, gradients)
        torch.nn.utils.clip_grad_norm_(loop.parameters, loop.job.max_grad_norm)
        loop.job.optimizer.step()

    return run_part


def aggregate(
    aggregator: torch.nn.Module, loop: Loop, gradients: Sequence[Sequence[Tensor | None]]
) -> None:
    """Set .grad of each parameter from the K tasks' gradients of it.

    gradients: for each task, a gradient of every parameter; None where the task does not touch it.
    """
    # A head's own gradient stays as it is.
    columns = list(zip(*gradients, strict=True))
    shared = []
    for number, column in enumerate(columns):
        present = [gradient for gradient in column if gradient is not None]
        loop.parameters[number].grad = present[0] if present else None
        if len(present) == len(column):
            shared.append(number)

    # One row of the matrix for each task, without the heads.
    rows = []
    for task_gradients in gradients:
        pieces = [task_gradients[number] for number in shared]
        rows.append(torch.cat([piece.flatten() for piece in pieces if piece is not None]))
    matrix = torch.stack(rows)  # (K, P)
    sizes = [loop.parameters[number].numel() for number in shared]
    aggregated = aggregator(matrix).split(sizes)
    for number, piece in zip(shared, aggregated, strict=True):
        parameter = loop.parameters[number]
        parameter.grad = piece.view_as(parameter)


def measure_memory(settings: Settings, joint_step: JointStep) -> MemoryResult:
    """Return the peaks of a joint and of a PCGrad step."""
    peaks = {}
    for surgery in ("mean", "pcgrad"):
        folder = settings.folder / f"{surgery}-memory"
        with SideProcess(settings.threads, our_side, joint_step, surgery, folder) as process:
            for _ in range(settings.size(NUM_MEASURED, 2)):
                process(0)
            peaks[surgery] = process("peak")
            parameter_bytes = process("parameters")
    comparison = Comparison.of(
        "peak memory, PCGrad : joint", "MB", [peaks["pcgrad"]], [peaks["mean"]], scale=1e-6
    )
    return MemoryResult(comparison, (peaks["pcgrad"] - peaks["mean"]) / parameter_bytes)


def make_loops(settings: Settings, joint_step: JointStep) -> dict[str, Loop]:
    """Return the loops of the timing: ours with PCGrad, a joint step, and torchjd's."""
    surgeries = {"ours": "pcgrad", "joint": "mean", "torchjd": "mean"}
    loops = {}
    for name, surgery in surgeries.items():
        loops[name] = make_loop(build_job(joint_step, surgery, settings.folder / name))
    return loops


def make_sides(loops: dict[str, Loop], has_peer: bool) -> dict[str, Side]:
    """Return the sides of the timing. All of them take the same batches."""
    update = only_update(loops["ours"])
    sides: dict[str, Side] = {
        "ours": lambda part: loops["ours"].train_step(update),
        "joint": lambda part: loops["joint"].train_step(update),
    }
    if has_peer:
        sides["torchjd"] = torchjd_side(loops["torchjd"])
    return sides


def count_tokens(job: Job, update: list[Part]) -> int:
    """Return the tokens of a step without padding."""
    num_tokens = 0
    for batch in update:
        num_tokens += int(job.load(batch.task, batch.rows).attention_mask.sum())
    return num_tokens


def compare(seconds: dict[str, list[float]], precision: str) -> list[Comparison]:
    """Return the comparisons of the sides that were measured."""
    comparisons = [
        Comparison.of(
            f"step ({precision}), PCGrad : joint",
            "ms",
            seconds["ours"],
            seconds["joint"],
            Goal("<=", 1.15),
            scale=1e3,
        )
    ]
    if "torchjd" in seconds:
        what = "step, PCGrad : torchjd's PCGrad"
        comparisons.append(
            Comparison.of(what, "ms", seconds["ours"], seconds["torchjd"], scale=1e3)
        )
    return comparisons


def run(settings: Settings) -> dict[str, Any]:
    """Return the line of JSON. Full: 20 rounds of a step; quick: 5."""
    precision = settings.precision
    joint_step = JointStep(settings.model, settings.data_dir, settings.batch_size, precision)
    has_peer = importlib.util.find_spec("torchjd") is not None

    # The memory comes first: the peak of a process begins with that of its parent.
    memory = measure_memory(settings, joint_step)

    runtime.settle_memory()
    limit = Limit(precision)
    loops = make_loops(settings, joint_step)
    sides = make_sides(loops, has_peer)
    seconds = alternate(sides, settings.rounds(20, 5), num_warmup=3, between=limit.measure)
    comparisons = compare(seconds, precision)

    update = only_update(loops["ours"])
    num_tasks = len(update)
    what = "PCGrad's peak above the joint step's, in sizes of the parameters"
    checks = [Check(what, memory.extra, "<=", num_tasks + 1)]
    notes = notes_without_bf16("Every side is in fp32.")
    notes.append(f"three batches of {settings.batch_size}")
    if not has_peer:
        notes.append(
            "torchjd is not installed, so only the joint step is compared with: "
            "`bash setup.sh --dev`"
        )

    # 6 FLOPs for each weight of the layers and each token: 2 forward, 4 backward.
    seconds_per_step = comparisons[0].ours / 1e3
    flops = layer_flops(settings.model, 6) * count_tokens(loops["ours"].job, update)
    line = json_line(
        "surgery",
        [*comparisons, memory.comparison],
        versions(*(["torchjd"] if has_peer else [])),
        checks,
        notes,
        flops / seconds_per_step / limit.median,
        limit.median,
    )
    return line | {"extra_memory": memory.extra}
