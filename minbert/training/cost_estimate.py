"""The cost of a job in time, memory and disk, estimated from a few real steps before it starts."""

from __future__ import annotations

import resource
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from minbert import linear
from minbert.commands.files import read_json, write_json
from minbert.options import FP32_ONEDNN
from minbert.reporting import terminal
from minbert.reporting.tables import aligned
from minbert.training import processes, runtime
from minbert.training.gradients import backward
from minbert.training.job import Job, Part

FILE_NAME = "cost_estimate.json"
OLD_FILE_NAME = "price.json"  # in runs of commit 94b06e7 and before
# Steps whose tokens are counted: this takes below a millisecond for each.
NUM_SIZED = 2000
# A forward pass is 2 of the 6 operations that training spends on a weight and a token.
INFERENCE_SHARE = 1 / 3
# At the highest point, a new best model and a new checkpoint (weights and two moments) are on the
# disk beside the old ones.
MODELS_ON_DISK = 8
AVERAGES_ON_DISK = 2  # an average of the weights, or a reference model, is in both checkpoints


class Products(NamedTuple):
    """The matrix products that measure the limit of a device."""

    size: int
    number: int  # a GPU must be busy for longer than a launch takes


PRODUCTS = {"cpu": Products(2048, 1), "cuda": Products(8192, 20), "mps": Products(4096, 5)}


@dataclass(frozen=True)
class CostEstimate:
    """The cost of one job."""

    name: str
    num_steps: int
    seconds: float  # by the clock on the wall
    peak_memory: int  # bytes, resident in the process or on the GPU
    disk: int  # bytes


class SizedStep(NamedTuple):
    """One update, and how many tokens it has with their padding."""

    num_tokens: int
    update: list[Part]


def peak_memory(device: torch.device) -> int:
    """Bytes at the highest point so far: of the GPU where one is used, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    if device.type == "mps":
        # The memory of Metal is no part of the process's own.
        return torch.mps.driver_allocated_memory()
    # ru_maxrss is in bytes on macOS, and in KiB on Linux.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def probe(job: Job, num_timed: int = 4) -> CostEstimate:
    """Time real steps of `job`, the largest among them, and scale by tokens.

    num_timed: steps of middle size that are timed. The tokens of NUM_SIZED steps or up to twice as
    many are counted, spread over the whole job.

    It leaves no trace in the job. The steps run with a learning rate of 0, so the weights keep
    their bits. The state of the optimizer and the gradients are dropped, and the random state is
    put back.
    """
    num_steps = sum(1 for _ in job.all_steps())
    with leaving_no_trace(job):
        with terminal.working(f"cost estimate of {job.name}: sizes of its batches"):
            steps = sized_steps(job, num_steps)
        # The largest step runs twice, for the memory: once to warm up, and once beside the state of
        # the optimizer. The step of median size and those just below it are timed.
        middle = len(steps) // 2
        chosen = [steps[-1], steps[-1]]
        chosen += [steps[middle - min(middle, offset)] for offset in range(num_timed)]
        seconds_per_token = time_steps(job, chosen)[2:]

    # Of several processes all train, and the first one alone predicts.
    mean_tokens = sum(step.num_tokens for step in steps) / len(steps)
    num_evaluations = job.epochs * job.evaluations_per_epoch
    predicted_tokens = num_evaluations * job.evaluation_tokens + job.closing_tokens
    tokens = num_steps * mean_tokens
    # A regulariser makes the steps dearer that are timed, but no prediction.
    tokens += INFERENCE_SHARE * processes.count() * predicted_tokens / job.step_cost
    return CostEstimate(
        job.name,
        num_steps,
        tokens * statistics.median(seconds_per_token),
        peak_memory(job.device),
        disk_of([job]),
    )


def time_steps(job: Job, steps: Sequence[SizedStep]) -> list[float]:
    """Rehearse the steps in this order; returns the seconds per token of each."""
    seconds_per_token = []
    with job.freezing():
        for step in terminal.track(steps, f"cost estimate of {job.name}", "trial step"):
            started = time.perf_counter()
            rehearse(job, step.update)
            # Python runs ahead of a GPU.
            getattr(torch, job.device.type).synchronize()
            seconds_per_token.append((time.perf_counter() - started) / step.num_tokens)
    return seconds_per_token


def sized_steps(job: Job, num_steps: int) -> list[SizedStep]:
    """Steps that are spread over the whole job, the smallest first."""
    every = max(1, num_steps // NUM_SIZED)
    sized = []
    for update in islice(job.all_steps(), 0, None, every):
        num_tokens = 0
        for task, rows, _ in update:
            num_tokens += job.load(task, rows).input_ids.numel()
        sized.append(SizedStep(num_tokens, update))
    return sorted(sized, key=lambda step: step.num_tokens)


def disk_of(jobs: Sequence[Job]) -> int:
    """Bytes that the jobs need on the disk."""
    total = 0
    for job in jobs:
        models_on_disk = MODELS_ON_DISK
        for follower in (job.average, job.reference):
            models_on_disk += 0 if follower is None else AVERAGES_ON_DISK
        total += models_on_disk * bytes_of_model(job)
    return total


def bytes_of_model(job: Job) -> int:
    """Bytes of the model's tensors."""
    total = 0
    for tensor in job.model.state_dict().values():
        total += tensor.numel() * tensor.element_size()
    return total


@contextmanager
def leaving_no_trace(job: Job) -> Iterator[None]:
    """Within it the job may rehearse; afterwards all but the peak of memory is as before."""
    random_state = runtime.random_state()
    surgery_state = job.surgery.state_dict() if job.surgery else {}
    learning_rates = [group["lr"] for group in job.optimizer.param_groups]
    yield
    for group, learning_rate in zip(job.optimizer.param_groups, learning_rates, strict=True):
        group["lr"] = learning_rate
    job.optimizer.state.clear()
    job.optimizer.zero_grad(set_to_none=True)
    runtime.restore_random_state(random_state)
    if job.surgery:
        job.surgery.load_state_dict(surgery_state)


def rehearse(job: Job, update: list[Part]) -> None:
    """One update that changes no weight: forward, backward, clip, and a learning rate of 0."""
    job.model.train()
    backward(job, update)
    gradients = []
    touched = []
    for parameter in job.model.parameters():
        if parameter.grad is not None:
            touched.append(parameter)
            gradients.append(parameter.grad)
    torch.nn.utils.clip_grad_norm_(touched, 1.0)
    # 0 times a gradient that is not finite would still reach the weights.
    for gradient in gradients:
        gradient.zero_()
    for group in job.optimizer.param_groups:
        group["lr"] = 0.0
    job.optimizer.step()


def matrix_product_limit(device: torch.device, precision: str, num_timed: int = 10) -> float:
    """FLOP/s that one process reaches in square matrix products, the best of `num_timed`.

    precision: "fp32", "bf16" or "fp32-onednn". Compare a training step with it: 6 FLOPs for each
    weight of a layer and each token, 2 forward and 4 backward.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    size, number = PRODUCTS[device.type]
    matrix = torch.rand(size, size, device=device).to(dtype)
    multiply = linear.product if precision == FP32_ONEDNN else torch.matmul
    seconds = []
    for _ in range(num_timed + 1):
        started = time.perf_counter()
        for _ in range(number):
            product = multiply(matrix, matrix)
        product[0, 0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - started)
    fastest = min(seconds[1:])  # the first one warms up
    return 2 * size**3 * number / fastest


def estimate(jobs: Sequence[Job], folder: Path, is_resumed: bool) -> list[CostEstimate]:
    """The cost of each job. A resumed run reads what `write_estimates` wrote, and probes nothing.

    Writes nothing. Raises ValueError where the disk has too little space.
    """
    if is_resumed:
        for name in (FILE_NAME, OLD_FILE_NAME):
            # Where the file is missing or damaged, the jobs are probed again.
            with suppress(OSError, ValueError, KeyError, TypeError):
                return read_estimates(folder / name)
    estimates = [probe(job) for job in jobs]
    check_disk(sum(item.disk for item in estimates), folder)
    return estimates


def read_estimates(path: Path) -> list[CostEstimate]:
    """The estimates in a file of `write_estimates`.

    Raises OSError, ValueError, KeyError or TypeError for a file that it did not write.
    """
    content = read_json(path)
    estimates = [CostEstimate(**item) for item in content["jobs"]]
    for item in estimates:
        numbers = (item.num_steps, item.seconds, item.peak_memory, item.disk)
        if not all(type(number) in (int, float) for number in numbers):
            raise TypeError("a cost is no number")
    return estimates


def table(estimates: Sequence[CostEstimate]) -> str:
    """The estimates as a table for the terminal, with the minutes of all jobs together."""
    titles = ("cost estimate", "steps", "minutes", "memory, at least", "disk")
    rows = [titles]
    for item in estimates:
        rows.append(
            (
                item.name,
                f"{item.num_steps:,}",
                f"{item.seconds / 60:.1f}",
                f"{item.peak_memory / 1e9:.1f} GB",
                f"{item.disk / 1e6:,.0f} MB",
            )
        )
    if len(estimates) > 1:
        minutes = sum(item.seconds for item in estimates) / 60
        rows.append(("together", "", f"{minutes:.1f}", "", ""))
    return aligned(rows)


def write_estimates(estimates: Sequence[CostEstimate], folder: Path) -> None:
    """Write folder/cost_estimate.json, which a resumed run reads."""
    content = {"jobs": [asdict(item) for item in estimates]}

    def write() -> None:
        write_json(folder / FILE_NAME, content, has_checksum=True)
        (folder / OLD_FILE_NAME).unlink(missing_ok=True)

    processes.from_first(write)


def comparison(estimates: Sequence[CostEstimate], seconds: float, peak_memory: float) -> str:
    """The closing line of a run: the estimated cost, if any, and the actual seconds and bytes."""
    took = f"took {seconds / 60:.1f} minutes and {peak_memory / 1e9:.1f} GB"
    if not estimates:
        return took
    minutes = sum(item.seconds for item in estimates) / 60
    memory = max(item.peak_memory for item in estimates) / 1e9
    return f"predicted {minutes:.1f} minutes and at least {memory:.1f} GB, {took}"


def check_disk(needed: int, folder: Path) -> None:
    """ValueError where the disk of `folder` has less space than a run will need.

    needed: bytes. The folder need not exist yet.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise ValueError(
            f"{folder}: {free / 1e6:,.0f} MB free on its disk; this run needs {needed / 1e6:,.0f} "
            "MB for checkpoints and results. Free some space, or choose a folder on another disk."
        )
