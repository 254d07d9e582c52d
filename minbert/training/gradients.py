"""The gradient of one update: of the weighted losses, or as a surgery combines the tasks.

K tasks, P elements of one parameter.

An update is the mean over its rows of each task, however the rows are cut into batches: a batch of
8 rows weighs 8 times as much as a batch of one. For masked language modelling it is the mean over
the masked tokens.

No graph is kept and no copy of the model is made. Each batch has its own backward pass, and a
task's gradient is taken out of .grad before the next task begins. A surgery that needs only dot
products of the gradients (PCGrad, GradVac; multitask/surgery.py) gets their K x K Gramian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from minbert.training import processes, runtime
from minbert.training.job import Job, Part

# Elements of each gradient that are multiplied at once. They stay in the cache for all products of
# the tasks, and a short sum in float32 loses fewer digits.
CHUNK = 2**17

# Squared lengths below it may have lost digits: float32 ends at 1e-38, and a long gradient is a sum
# of many small squares.
LEAST_SQUARE = 1e-24

# Weights beyond it, or beyond its inverse, are multiplied in two steps.
LEAST_FACTOR = 1e-18


class LoadedPart(NamedTuple):
    """A batch of an update, before its forward pass."""

    part: Part
    batch: Any  # as Job.load gives it
    size: int  # of what its loss is the mean: rows, or masked tokens


class UpdateLoss(NamedTuple):
    """The loss of one update.

    part: its last batch, or the batch whose loss is not finite. by_task: the mean loss over the
    rows of each task, without weights. num_tokens: of all its batches, padding included.
    """

    loss: float
    part: Part
    by_task: dict[str, float]
    num_tokens: int


def backward(job: Job, update: list[Part]) -> UpdateLoss:
    """Put the gradient of one update into .grad, which must be None before.

    Without job.surgery it is the gradient of the weighted sum of the losses. With a surgery the
    weights are not used: the mean over the rows of each task gives its gradient, and the tasks'
    gradients are combined.

    Where a loss is not finite it stops before the backward pass of that batch, and returns the loss
    and the batch for the error message.
    """
    # All batches are loaded first: the weight of each depends on the sizes of the others.
    loaded = [load(job, part) for part in update]
    by_task = group_by_task(loaded)
    groups = [weigh_by_size(loaded)]
    if job.surgery is not None:
        groups = [weigh_by_size(equally_weighted(group)) for group in by_task.values()]
    parameters = []
    for parameter_group in job.optimizer.param_groups:
        parameters += parameter_group["params"]

    total = 0.0
    num_tokens = 0
    losses: dict[str, list[float]] = {}
    gradients = []
    for group in groups:
        # Each batch has its own backward pass, so that one graph is in memory at a time.
        for part, batch, _ in group:
            loss = accumulate(job, part, batch)
            if not math.isfinite(loss):
                return UpdateLoss(loss, part, {}, num_tokens)
            total += loss * part.weight / len(groups)
            num_tokens += batch.input_ids.numel()
            losses.setdefault(part.task, []).append(loss)
        processes.add_gradients(parameters)
        if job.surgery is not None:
            gradients.append(take(parameters))

    means = {}
    for task, values in losses.items():
        means[task] = mean_of(values, [part.size for part in by_task[task]])
    if job.surgery is not None:
        surgery = job.surgery
        combine(parameters, gradients, lambda products: surgery(products, means))
    return UpdateLoss(total, part, means, num_tokens)


def load(job: Job, part: Part) -> LoadedPart:
    """A batch of an update with its size. Raises ValueError where the GPU's memory is full."""
    with telling_of_full_memory(job, part):
        batch = job.load(part.task, part.rows)
    return LoadedPart(part, batch, job.size(part.task, batch))


def group_by_task(update: Iterable[LoadedPart]) -> dict[str, list[LoadedPart]]:
    """The batches of each task, in the order of the tasks."""
    groups: dict[str, list[LoadedPart]] = {}
    for loaded in update:
        groups.setdefault(loaded.part.task, []).append(loaded)
    return groups


def equally_weighted(group: Sequence[LoadedPart]) -> list[LoadedPart]:
    """The batches of one task with weights that average them."""
    weight = 1 / len(group)
    return [loaded._replace(part=loaded.part._replace(weight=weight)) for loaded in group]


def weigh_by_size(update: Sequence[LoadedPart]) -> list[LoadedPart]:
    """Share out the weight of each task among its batches, in proportion to their sizes.

    Batches of one size and one weight keep it to the bit.
    """
    of_tasks = group_by_task(update)
    weighed = []
    for loaded in update:
        group = of_tasks[loaded.part.task]
        if len({(other.size, other.part.weight) for other in group}) > 1:
            weight = math.fsum(other.part.weight for other in group)
            total = sum(other.size for other in group)
            share = loaded.size / total if total else 0.0
            loaded = loaded._replace(part=loaded.part._replace(weight=weight * share))
        weighed.append(loaded)
    return weighed


def mean_of(losses: Sequence[float], sizes: Sequence[int]) -> float:
    """The mean of the losses of some batches over all that is in them."""
    if len(set(sizes)) == 1:
        return sum(losses) / len(losses)
    total = math.fsum(loss * size for loss, size in zip(losses, sizes, strict=True))
    return total / sum(sizes)


def take(parameters: Sequence[nn.Parameter]) -> list[Tensor | None]:
    """Take the gradients out of .grad, which is None afterwards. Nothing is copied."""
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradients


def accumulate(job: Job, part: Part, batch: Any) -> float:
    """Add this process's share of a batch's weighted gradient to .grad.

    A loss that is not finite adds nothing.

    batch: the rows of the part, as Job.load gives them.
    Returns the loss of the batch over all processes, without its weight.
    Raises ValueError where the batch does not fit into the GPU's memory.
    """
    with telling_of_full_memory(job, part):
        with runtime.autocast(job.device, job.precision):
            loss = job.loss(part.task, batch)
        # `add` sums in place, hence the clone.
        value = float(processes.add(loss.detach().clone()))
        if math.isfinite(value):
            (loss * part.weight).backward()
    return value


@contextmanager
def telling_of_full_memory(job: Job, part: Part) -> Iterator[None]:
    """Within it a GPU without memory becomes a ValueError that says what to lower."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).split(". ")[0]
        raise ValueError(
            f"{job.name}: a batch of {len(part.rows)} examples does not fit into the GPU's memory "
            f"({reason}). Pass a smaller one (--batch-size; in run_multitask.py with "
            "--accumulation for the same update), or --precision bf16. A stage of --pretrain has "
            "--mlm-batch-size or --contrastive-chunk."
        ) from error


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
    pairs = list(combinations_with_replacement(range(num_tasks), 2))
    products = []
    for column in columns:
        split = [gradient.flatten().split(CHUNK) for gradient in column]
        for together in zip(*split, strict=True):
            pieces = list(together)
            if scales:
                pieces = [piece * scale for piece, scale in zip(pieces, scales, strict=True)]
            products += [torch.dot(pieces[first], pieces[second]) for first, second in pairs]
    symmetric = torch.zeros(num_tasks, num_tasks, dtype=torch.float64)
    if not products:
        return symmetric

    # A GPU copies them once at the end, as each copy would wait for it. They become float64 on the
    # CPU, as mps has no float64.
    of_pieces = torch.stack(products).view(-1, len(pairs))  # (pieces, pairs)
    sums = of_pieces.cpu().double().sum(dim=0)  # (pairs,)
    for (first, second), total in zip(pairs, sums, strict=True):
        symmetric[first, second] = total
        symmetric[second, first] = total
    return symmetric
