"""Several processes train one model: `torchrun --nproc_per_node N run_multitask.py ...`. Next: loop.py, the stages.

Every process goes through the same steps with the same weights and the same random numbers. Of a batch each encodes its
own rows; a stage's loss is a share, and the shares of all processes add up to the loss of the batch, so that the sum of
their gradients is the gradient that one process alone would have. What is predicted, scored and written, the first
process predicts, scores and writes. Without torchrun there is one process, and every function here does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Result = TypeVar("Result")
TIMEOUT = timedelta(
    days=1
)  # while the first one predicts a large file; a process that ends is noticed at once


def join(device: str) -> None:
    """Meet the others that torchrun started, by gloo (CPU) or nccl (GPU). From here on only the first one prints.

    device: that of the command line, "auto" too. ValueError where a machine has fewer GPUs than processes, or Apple's.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return
    if device != "cpu" and torch.backends.mps.is_available():
        raise ValueError(
            "several processes cannot share an Apple GPU: torch.distributed does not know it. Pass "
            "--device cpu, or start without torchrun."
        )
    has_gpu = device != "cpu" and torch.cuda.is_available()
    if has_gpu:
        place, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if place >= num_gpus:
            raise ValueError(
                f"torchrun started process {place + 1} on this machine, which has {num_gpus} GPUs; each "
                f"process needs its own. Pass --nproc_per_node {num_gpus} to torchrun, or --device cpu."
            )
        torch.cuda.set_device(place)  # what "cuda" means from here on
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo", timeout=TIMEOUT)
    if number():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave() -> None:
    """The training is over: the first process goes on alone, the others end here."""
    is_first = number() == 0
    if count() > 1:
        dist.destroy_process_group()
    if not is_first:
        end()


def end() -> None:
    """All is written. One of several processes ends here at once, without Python's own clearing up.

    A thread of gloo that drops its last tensor during that aborts the process (pytorch pull request 179291), which
    torchrun takes for a failure of the whole job. One process alone goes on and returns as any program does.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def count() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def number() -> int:
    """Which of them this one is: 0 to count() - 1; 0 is the first, which writes and prints."""
    return dist.get_rank() if count() > 1 else 0


@contextmanager
def _together() -> Iterator[None]:
    """Within it this process waits for the others; ConnectionError where one of them has ended."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            f"process {number()} of {count()} lost the others ({str(error).splitlines()[0]}); one "
            "of them has ended, see its message. Start again; a saved run can be resumed."
        ) from error


def own_rows(num_rows: int) -> tuple[list[int], float]:
    """The rows of a batch that are this process's, and their share of all; all processes together have each row once.

    Where there are fewer rows than processes, those without any take row 0, with a share of 0: they have to keep step.
    """
    rows = list(range(number(), num_rows, count()))
    return (rows, len(rows) / num_rows) if rows else ([0], 0.0)


def add(tensor: Tensor) -> Tensor:
    """The sum of the processes' tensors, which have one shape, in place."""
    if count() > 1:
        with _together():
            dist.all_reduce(tensor)
    return tensor


def any_of(is_so: bool) -> bool:
    """Whether it is so in any process: all decide alike."""
    return bool(add(torch.tensor(float(is_so))))


def add_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Put the sum of the processes' gradients into .grad; None, where no process has one, stays None."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if count() > 1 and gradients:
        together = add(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = together.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


class Gather(torch.autograd.Function):
    """Gather.apply(rows, num_rows): what each process made of its own_rows(num_rows) -> (num_rows, ...), in order.

    Gradients flow back into the process that made a row, summed over what all processes make of it.
    """

    @staticmethod
    def forward(context, rows: Tensor, num_rows: int) -> Tensor:
        context.rows, context.share = own_rows(num_rows)
        whole = rows.new_zeros(num_rows, *rows.shape[1:])
        if context.share:
            whole[context.rows] = rows
        return add(whole)

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        # nccl takes contiguous tensors only
        return add(gradient.clone(memory_format=torch.contiguous_format))[context.rows] * bool(
            context.share
        ), None


def gather(rows: Tensor, num_rows: int) -> Tensor:
    """`Gather`, which one process alone does not need."""
    return Gather.apply(rows, num_rows) if count() > 1 else rows


def from_first(make: Callable[[], Result]) -> Result:
    """What `make` returns in the first process, which alone calls it, in all of them."""
    if count() == 1:
        return make()
    found = [make() if number() == 0 else None]
    with _together():
        dist.broadcast_object_list(found)
    return found[0]


@contextmanager
def own_randomness() -> Iterator[None]:
    """Within it each process draws random numbers of its own: two rows must not share a dropout mask.

    Afterwards all have the same state again, one draw further where anything was drawn (on a GPU always), so that a
    checkpoint needs one state, whatever the number of processes.
    """
    if count() == 1:
        yield
        return
    common = torch.Generator()
    common.set_state(torch.get_rng_state())
    before = common.get_state()
    torch.manual_seed(int(torch.randint(2**62, (), generator=common)) + number())
    started = torch.get_rng_state()
    yield
    is_used = torch.cuda.is_initialized() or not torch.equal(started, torch.get_rng_state())
    torch.set_rng_state(common.get_state() if is_used else before)
