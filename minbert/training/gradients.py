"""What a step leaves in .grad: the weighted sum of its losses' gradients, or what a surgery makes of each task's own.

K tasks, P parameters. No graph is kept and no copy of the model is made: each batch has its own backward pass, and a
task's gradient is taken out of .grad before the next task begins. Rules that need only dot products of the gradients
(PCGrad, GradVac; multitask/surgery.py) get the K x K Gramian. Next: loop.py, which calls `backward`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from minbert.training import processes, runtime
from minbert.training.job import Part

if TYPE_CHECKING:
    from minbert.training.job import Job

CHUNK = (
    2**18
)  # elements of each gradient that are multiplied at once, so that the copy stays in the cache


def backward(job: Job, step: list[Part]) -> tuple[float, Part]:
    """Leave the gradient of one step in .grad, which must be None before.

    Without job.surgery it is the gradient of the weighted sum of the losses. With it the weights are not used: the
    losses of one task are averaged, and the tasks' gradients combined.

    Returns (loss, part): the step's loss and its last batch; or, where a loss is not finite, that loss and the batch
    that gave it, before its backward pass, for the error message.
    """
    groups = [step] if job.surgery is None else group_by_task(step)
    parameters = [
        parameter for group in job.optimizer.param_groups for parameter in group["params"]
    ]
    total, gradients = 0.0, []
    for group in groups:
        for part in group:
            loss = accumulate(job, *part)
            if not math.isfinite(loss):
                return loss, part
            total += loss * part[2] / len(groups)
        processes.add_gradients(parameters)
        if job.surgery:
            gradients.append(take(parameters))
    if job.surgery:
        combine(
            parameters,
            gradients,
            lambda products: job.surgery(products, [group[0][0] for group in groups]),
        )
    return total, part


def group_by_task(step: list[Part]) -> list[list[Part]]:
    """The batches of each task, with weights that average them."""
    tasks = dict.fromkeys(task for task, _, _ in step)
    rows_of = {task: [rows for other, rows, _ in step if other == task] for task in tasks}
    return [
        [(task, rows, 1 / len(batches)) for rows in batches] for task, batches in rows_of.items()
    ]


def take(parameters: list[nn.Parameter]) -> list[Tensor | None]:
    """The gradients out of .grad, which is None afterwards; nothing is copied."""
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradients


def accumulate(job: Job, task: str, rows: list[int], weight: float) -> float:
    """Add this process's share of a batch's weighted gradient to .grad, unless the loss is not finite.

    Returns the whole loss of the batch, not weighted.
    """
    try:
        batch = job.load(task, rows)
        with runtime.autocast(job.device, job.precision):
            loss = job.loss(task, batch)
        value = float(processes.add(loss.detach().clone()))  # a clone, for `add` sums in place
        if math.isfinite(value):
            (loss * weight).backward()
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"{job.name}: a batch of {len(rows)} examples does not fit into the GPU's memory "
            f"({str(error).split('. ')[0]}). Pass a smaller one (--batch-size, with --accumulation for "
            "the same update; for a stage of --pretrain --mlm-batch-size, or --contrastive-chunk), or "
            "--precision bf16."
        ) from error
    return value


def combine(parameters: list[nn.Parameter], gradients: list[list[Tensor | None]], weigh) -> None:
    """Set .grad of each parameter from K tasks' gradients of it, None where a task does not touch it.

    What all K tasks touch is shared: its gradients are weighted by weigh(their Gramian). What fewer touch (heads) gets
    the sum of the gradients it has, and what none touches keeps None. The tensors in `gradients` are used up.
    """
    columns = list(zip(*gradients, strict=True))  # for each parameter the gradients of the K tasks
    shared = [column for column in columns if all(gradient is not None for gradient in column)]
    weights = weigh(gramian(shared, len(gradients))).tolist()
    for parameter, column in zip(parameters, columns, strict=True):
        present = [gradient for gradient in column if gradient is not None]
        if not present:
            continue
        factors = weights if len(present) == len(gradients) else [1.0] * len(present)
        parameter.grad = present[0].mul_(factors[0])
        for gradient, factor in zip(present[1:], factors[1:], strict=True):
            parameter.grad.add_(gradient, alpha=factor)


def gramian(columns: list[tuple[Tensor, ...]], num_tasks: int) -> Tensor:
    """All dot products of K gradients, given for each parameter as a tuple of K tensors -> (K, K) float64 on the CPU.

    Each is read once: (K, CHUNK) @ (CHUNK, K) for a piece of a parameter, added up in float64.
    """
    products = [torch.zeros(num_tasks, num_tasks)]
    for column in columns:
        for pieces in zip(*(gradient.flatten().split(CHUNK) for gradient in column), strict=True):
            stacked = torch.stack(pieces)  # (K, CHUNK)
            products.append(stacked @ stacked.T)
    # One copy from a GPU at the end, which would wait for each; float64 only then, as mps has none.
    return (
        torch.stack([each.to(products[-1].device) for each in products]).cpu().double().sum(dim=0)
    )
