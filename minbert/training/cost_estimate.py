"""What a job will cost, asked before it starts through a probe of real steps, and compared at the end."""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch

from minbert.commands.files import write_json
from minbert.training import processes, runtime
from minbert.training.gradients import backward
from minbert.training.job import Job, Part

FILE_NAME = "price.json"
NUM_SIZED = 2000  # steps whose tokens are counted: below a millisecond each, and memory goes with the largest
PRODUCTS = {
    "cpu": (2048, 1),
    "cuda": (8192, 20),
    "mps": (4096, 5),
}  # size, number: a GPU must outlast the launch
INFERENCE_SHARE = (
    1 / 3
)  # a forward pass is 2 of the 6 FLOPs that training spends on a weight and a token


@dataclass(frozen=True)
class CostEstimate:
    """The cost of one job: steps, wall-clock seconds, peak resident bytes of the process, bytes on disk."""

    name: str
    num_steps: int
    seconds: float
    peak_memory: int
    disk: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.num_steps:,} steps, about {self.seconds / 60:.1f} minutes, "
            f"at least {self.peak_memory / 1e9:.1f} GB of memory, {self.disk / 1e6:,.0f} MB on disk"
        )


def peak_memory(device: torch.device) -> int:
    """Bytes at the highest point so far: resident memory of the process, or of the GPU where one is used."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    if device.type == "mps":
        return (
            torch.mps.driver_allocated_memory()
        )  # what Metal holds is no part of the process's own
    unit = (
        1 if sys.platform == "darwin" else 1024
    )  # ru_maxrss is in bytes on macOS, in KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def probe(job: Job, num_timed: int = 4) -> CostEstimate:
    """Time real steps of `job`, the largest among them, and scale by tokens. Leaves no trace in the job.

    The steps run with a learning rate of 0, so weights keep their bits; the optimizer's state and gradients are dropped
    and the random state is put back. Tokens are counted in NUM_SIZED steps or up to twice as many, spread over the job.
    """
    random_state, surgery_state = (
        runtime.random_state(),
        job.surgery.state_dict() if job.surgery else {},
    )
    num_steps = sum(1 for _ in job.all_steps())
    steps = list(islice(job.all_steps(), 0, None, max(1, num_steps // NUM_SIZED)))
    sizes = sorted(
        (sum(job.load(task, rows).input_ids.numel() for task, rows, _ in step), number)
        for number, step in enumerate(steps)
    )
    mean_tokens = sum(size for size, _ in sizes) / len(sizes)
    middle = len(sizes) // 2  # timed are the step of median size and those just below it
    chosen = 2 * [sizes[-1]] + [sizes[middle - min(middle, offset)] for offset in range(num_timed)]
    rates = [group["lr"] for group in job.optimizer.param_groups]
    timings = []
    with job.freezing():
        for size, number in chosen:
            started = time.perf_counter()
            rehearse(job, steps[number])
            getattr(torch, job.device.type).synchronize()  # Python runs ahead of a GPU
            timings.append((time.perf_counter() - started, size))
    for group, rate in zip(job.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    job.optimizer.state.clear()
    job.optimizer.zero_grad(set_to_none=True)
    runtime.restore_random_state(random_state)
    if job.surgery:
        job.surgery.load_state_dict(surgery_state)
    timed = timings[
        2:
    ]  # the largest, twice, is for the memory: once to warm up, once beside the optimizer's state
    seconds_per_token = statistics.median(seconds / size for seconds, size in timed)
    num_evaluations = job.epochs * job.evaluations_per_epoch
    # Of several processes all train and the first one alone predicts.
    tokens = num_steps * mean_tokens + INFERENCE_SHARE * processes.count() * (
        num_evaluations * job.evaluation_tokens + job.closing_tokens
    )
    bytes_of_model = sum(
        tensor.numel() * tensor.element_size() for tensor in job.model.state_dict().values()
    )
    disk = (
        8 * bytes_of_model
    )  # a new best and a new checkpoint (weights, two moments) beside the old ones
    return CostEstimate(
        job.name, num_steps, tokens * seconds_per_token, peak_memory(job.device), disk
    )


def matrix_product_limit(device: torch.device, precision: str, num_timed: int = 10) -> float:
    """FLOP/s that one process reaches in square matrix products of the precision; the best of `num_timed`.

    What a training step reaches is held against it: 6 FLOPs per weight of a layer and token (2 forward, 4 backward).
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    size, num_products = PRODUCTS[device.type]
    matrix = torch.rand(size, size, device=device).to(dtype)
    seconds = []
    for _ in range(num_timed + 1):  # the first one warms up
        started = time.perf_counter()
        for _ in range(num_products):
            product = matrix @ matrix
        product[0, 0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - started)
    return 2 * size**3 * num_products / min(seconds[1:])


def rehearse(job: Job, step: list[Part]) -> None:
    """One step that changes no weight: forward, backward, clip, and an update with a learning rate of 0."""
    job.model.train()
    backward(job, step)
    touched = [parameter for parameter in job.model.parameters() if parameter.grad is not None]
    torch.nn.utils.clip_grad_norm_(touched, 1.0)
    for parameter in touched:
        parameter.grad.zero_()  # 0 times a gradient that is not finite would still reach the weights
    for group in job.optimizer.param_groups:
        group["lr"] = 0.0
    job.optimizer.step()


def estimate(jobs: list[Job], folder: Path, is_resumed: bool) -> list[CostEstimate]:
    """The price of each job; a resumed run reads what `keep` wrote instead of probing again.

    Writes nothing. Raises ValueError where the disk has too little room.
    """
    path = folder / FILE_NAME
    if is_resumed and path.is_file():
        with suppress(ValueError, KeyError, TypeError):  # a damaged one is made anew
            return [
                CostEstimate(**item)
                for item in json.loads(path.read_text(encoding="utf-8"))["jobs"]
            ]
    prices = [probe(job) for job in jobs]
    check_disk(prices, folder)
    return prices


def keep(prices: list[CostEstimate], folder: Path) -> None:
    """Write folder/price.json, from which a resumed run quotes."""
    processes.from_first(
        lambda: write_json(folder / FILE_NAME, {"jobs": [asdict(price) for price in prices]})
    )


def comparison(prices: list[CostEstimate], seconds: float, peak_memory: int) -> str:
    """The closing line: what was predicted and what it took."""
    predicted = max(price.peak_memory for price in prices)
    return (
        f"predicted {sum(price.seconds for price in prices) / 60:.1f} minutes and at least {predicted / 1e9:.1f} "
        f"GB, took {seconds / 60:.1f} minutes and {peak_memory / 1e9:.1f} GB"
    )


def check_disk(prices: list[CostEstimate], folder: Path) -> None:
    """ValueError where the disk of `folder`, which need not exist yet, has less room than the jobs will need."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    needed, free = sum(price.disk for price in prices), shutil.disk_usage(existing).free
    if free < needed:
        raise ValueError(
            f"{folder}: {free / 1e6:,.0f} MB free on its disk; this run needs {needed / 1e6:,.0f} MB "
            "for checkpoints and results. Free some space, or choose a folder on another disk."
        )
