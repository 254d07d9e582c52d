"""The gradient of one update: of the weighted losses, or as a surgery combines the tasks.

K tasks, P elements of one parameter.

No graph is kept and no copy of the model is made. Each batch has its own backward pass, and a
task's gradient is taken out of .grad before the next task begins. A surgery that needs only dot
products of the gradients (PCGrad, GradVac; multitask/surgery.py) gets their K x K Gramian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from minbert.training import processes, runtime
from minbert.training.job import Job, Part

# Elements of each gradient that are multiplied at once, so that their copy stays in the cache.
CHUNK = 2**18

# Squared lengths below it may have lost digits: float32 ends at 1e-38, and a long gradient is a sum
# of many small squares.
LEAST_SQUARE = 1e-24

# Weights beyond it, or beyond its inverse, are multiplied in two steps.
LEAST_FACTOR = 1e-18


class UpdateLoss(NamedTuple):
    """The loss of one update.

    part: its last batch, or the batch whose loss is not finite. by_task: the mean loss of each
    task, without weights. num_tokens: of all its batches, padding included.
    """

    loss: float
    part: Part
    by_task: dict[str, float]
    num_tokens: int


class BatchLoss(NamedTuple):
    """The loss of one batch over all processes, and its tokens, padding included."""

    loss: float
    num_tokens: int


def backward(job: Job, update: list[Part]) -> UpdateLoss:
    """Put the gradient of one update into .grad, which must be None before.

    Without job.surgery it is the gradient of the weighted sum of the losses. With a surgery the
    weights are not used: the losses of one task are averaged, and the tasks' gradients are
    combined.

    Where a loss is not finite it stops before the backward pass of that batch, and returns the loss
    and the batch for the error message.
    """
    groups = [update] if job.surgery is None else group_by_task(update)
    parameters = []
    for parameter_group in job.optimizer.param_groups:
        parameters += parameter_group["params"]

    total = 0.0
    num_tokens = 0
    losses: dict[str, list[float]] = {}
    gradients = []
    for group in groups:
        # Each batch has its own backward pass, so that one graph is in memory at a time.
        for part in group:
            loss, num_tokens_of_batch = accumulate(job, part)
            if not math.isfinite(loss):
                return UpdateLoss(loss, part, {}, num_tokens)
            total += loss * part.weight / len(groups)
            num_tokens += num_tokens_of_batch
            losses.setdefault(part.task, []).append(loss)
        processes.add_gradients(parameters)
        if job.surgery is not None:
            gradients.append(take(parameters))

    if job.surgery is not None:
        surgery = job.surgery
        tasks = [group[0].task for group in groups]
        combine(parameters, gradients, lambda products: surgery(products, tasks))
    by_task = {task: sum(values) / len(values) for task, values in losses.items()}
    return UpdateLoss(total, part, by_task, num_tokens)


def group_by_task(update: list[Part]) -> list[list[Part]]:
    """The batches of each task, with weights that average them, in the order of the tasks."""
    rows_of_tasks: dict[str, list[list[int]]] = {}
    for task, rows, _ in update:
        rows_of_tasks.setdefault(task, []).append(rows)
    groups = []
    for task, batches in rows_of_tasks.items():
        groups.append([Part(task, rows, 1 / len(batches)) for rows in batches])
    return groups


def take(parameters: Sequence[nn.Parameter]) -> list[Tensor | None]:
    """Take the gradients out of .grad, which is None afterwards. Nothing is copied."""
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradients


def accumulate(job: Job, part: Part) -> BatchLoss:
    """Add this process's share of a batch's weighted gradient to .grad.

    A loss that is not finite adds nothing.

    Returns the loss of the batch over all processes, without its weight.
    Raises ValueError where the batch does not fit into the GPU's memory.
    """
    try:
        batch = job.load(part.task, part.rows)
        with runtime.autocast(job.device, job.precision):
            loss = job.loss(part.task, batch)
        # `add` sums in place, hence the clone.
        value = float(processes.add(loss.detach().clone()))
        if math.isfinite(value):
            (loss * part.weight).backward()
    except torch.OutOfMemoryError as error:
        reason = str(error).split(". ")[0]
        raise ValueError(
            f"{job.name}: a batch of {len(part.rows)} examples does not fit into the GPU's memory "
            f"({reason}). Pass a smaller one (--batch-size, with --accumulation for the same "
            "update; for a stage of --pretrain --mlm-batch-size, or --contrastive-chunk), or "
            "--precision bf16."
        ) from error
    return BatchLoss(value, batch.input_ids.numel())


def combine(
    parameters: Sequence[nn.Parameter],
    gradients: Sequence[Sequence[Tensor | None]],
    weigh: Callable[[Tensor], Tensor],
) -> None:
    """Set .grad of each parameter from the K tasks' gradients of it.

    gradients: for each task a gradient of every parameter, None where the task does not touch it.
    They are used up. weigh: Gramian (K, K) -> weights (K,).

    A parameter that all K tasks touch is shared: its gradients are weighted by weigh(their
    Gramian). One that fewer tasks touch (a head) gets the sum of the gradients that it has. One
    that no task touches keeps None.
    """
    columns = list(zip(*gradients, strict=True))  # for each parameter its K gradients

    # The surgery weighs what all tasks touch.
    shared = []
    for column in columns:
        present = [gradient for gradient in column if gradient is not None]
        if len(present) == len(column):
            shared.append(present)
    weights = weigh(gramian(shared, len(gradients))).tolist()

    for parameter, column in zip(parameters, columns, strict=True):
        present = [gradient for gradient in column if gradient is not None]
        if not present:
            continue
        factors = weights if len(present) == len(gradients) else [1.0] * len(present)
        factors = [
            prescale(gradient, factor) for gradient, factor in zip(present, factors, strict=True)
        ]
        # In place: a copy of every gradient would cost a model's memory for each task.
        total = present[0].mul_(factors[0])
        for gradient, factor in zip(present[1:], factors[1:], strict=True):
            total.add_(gradient, alpha=factor)
        parameter.grad = total


def prescale(gradient: Tensor, factor: float) -> float:
    """Multiply a gradient in place by a part of its factor; returns the rest of the factor.

    Gradients of very different lengths have weights that float32 cannot hold, such as 1e60 on a
    gradient of 1e-30. Their product can be held. An ordinary factor is returned as it is.
    """
    if factor == 0 or LEAST_FACTOR < abs(factor) < 1 / LEAST_FACTOR:
        return factor
    root = math.sqrt(abs(factor))
    gradient.mul_(root)
    return factor / root


def gramian(columns: Sequence[Sequence[Tensor]], num_tasks: int) -> Tensor:
    """All dot products of K gradients, (K, K) float64 on the CPU.

    columns: for each parameter its K gradients. Each gradient is read once.
    """
    products = dot_products(columns, num_tasks)
    squares = products.diagonal()
    if bool(((squares > LEAST_SQUARE) & squares.isfinite()).all()):
        return products

    # The squares of very long or short gradients leave the range of float32. With powers of two as
    # scales nothing is rounded that would not have been rounded before.
    scales = [power_of_two(column_of_task) for column_of_task in zip(*columns, strict=True)]
    if not scales:
        return products
    inverse = torch.tensor(scales, dtype=torch.float64)  # (K,)
    return dot_products(columns, num_tasks, scales) / torch.outer(inverse, inverse)


def power_of_two(gradients: Sequence[Tensor]) -> float:
    """The power of two that brings the largest number of a task's gradients to between 0.5 and 1.

    1 for gradients that are all 0, or not finite.
    """
    sizes = [float(gradient.abs().max()) for gradient in gradients if gradient.numel()]
    largest = max(sizes, default=0.0)
    if largest == 0 or not math.isfinite(largest):
        return 1.0
    # float32 itself has no larger power.
    exponent = max(-126, min(126, -math.frexp(largest)[1]))
    return math.ldexp(1.0, exponent)


def dot_products(
    columns: Sequence[Sequence[Tensor]], num_tasks: int, scales: Sequence[float] = ()
) -> Tensor:
    """All dot products of K gradients, (K, K) float64 on the CPU.

    columns: as in `gramian`. scales: each gradient is multiplied by its number first.
    """
    products = [torch.zeros(num_tasks, num_tasks)]
    for column in columns:
        split = [gradient.flatten().split(CHUNK) for gradient in column]
        for pieces in zip(*split, strict=True):
            stacked = torch.stack(pieces)  # (K, CHUNK)
            if scales:
                stacked = stacked * stacked.new_tensor(scales).unsqueeze(1)  # (K, CHUNK)
            products.append(stacked @ stacked.T)  # (K, K)
    # A GPU copies them once at the end, as each copy would wait for it. They become float64 on the
    # CPU, as mps has no float64.
    device = products[-1].device
    stacked = torch.stack([product.to(device) for product in products])  # (pieces, K, K)
    return stacked.cpu().double().sum(dim=0)  # (K, K)
