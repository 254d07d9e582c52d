"""The outputs of a model for many batches, two of them computed at the same time.

A batch of short sentences is many small operations. One after the other, a second core has little
to do in each of them, and nothing between them. With a batch of its own it is busy all the time.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import torch
from torch import nn

from minbert import fast
from minbert.training import runtime

Batch = TypeVar("Batch")
Output = TypeVar("Output")

NUM_WORKERS = 2  # batches at the same time

# Packages whose modules keep nothing of a batch, so that two batches cannot mix.
PACKAGES = ("torch", "minbert", "multitask")


def batch_outputs(
    model: nn.Module,
    compute: Callable[[Batch], Output],
    batches: Iterable[Batch],
    precision: str,
    is_packed: bool = True,
) -> list[Output]:
    """What `compute` returns for each batch, in the order of the batches.

    compute: runs the model on a batch. It is called in evaluation mode, without gradients, and
    perhaps in two threads at the same time. precision: of matrix products. is_packed: as of
    `runtime.predicting`. The model's mode is put back.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), runtime.predicting(model, device, precision, is_packed):
            rest = iter(batches)
            first = list(islice(rest, NUM_WORKERS))
            is_shared = len(first) == NUM_WORKERS and fast.is_on() and suits_threads(model)
            # The same numbers, with both cores busy. docs/formulas.md has its gain.
            if is_shared:
                return list(in_threads(compute, chain(first, rest), NUM_WORKERS))
            # A single batch has all of torch's threads.
            return [compute(batch) for batch in chain(first, rest)]
    finally:
        model.train(was_training)


def suits_threads(model: nn.Module) -> bool:
    """Whether two batches may run through a model at the same time, each with half of the threads.

    Not on a GPU, nor with an odd number of threads. Modules of other packages may keep something of
    a batch, and so may hooks. torch compiles one batch at a time. Debuggers, profilers and modes of
    torch see no other thread than their own.
    """
    if torch.get_num_threads() % NUM_WORKERS or is_watched():
        return False
    for module in model.modules():
        is_ours = type(module).__module__.partition(".")[0] in PACKAGES
        has_hooks = module._forward_hooks or module._forward_pre_hooks
        if not is_ours or has_hooks or module._compiled_call_impl is not None:
            return False
    return all(parameter.device.type == "cpu" for parameter in model.parameters())


def is_watched() -> bool:
    """Whether a debugger, a profiler or a mode of torch looks at this thread."""
    modes = ("_len_torch_function_stack", "_len_torch_dispatch_stack")
    has_mode = any(getattr(torch._C, name, int)() for name in modes)
    return sys.gettrace() is not None or has_mode or torch.autograd._profiler_enabled()


def in_threads(
    compute: Callable[[Batch], Output], batches: Iterable[Batch], num_workers: int
) -> Iterator[Output]:
    """Yield what `compute` returns for each batch, in their order.

    The workers share torch's threads, and have the caller's autocast and no gradients: torch keeps
    these settings for each thread. Few batches are asked for ahead of time, so that a bar of
    progress is true, and a stop does not wait for the others.
    """
    num_threads = torch.get_num_threads()
    is_autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu")

    def begin() -> None:
        torch.set_num_threads(num_threads // num_workers)
        torch.set_grad_enabled(False)
        # It never ends: an end would forget the converted weights of all threads.
        torch.autocast("cpu", dtype, is_autocast).__enter__()

    waiting: deque[Future[Output]] = deque()
    try:
        with ThreadPoolExecutor(num_workers, "minbert", begin) as executor:
            for batch in batches:
                waiting.append(executor.submit(compute, batch))
                if len(waiting) > num_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        # torch gives the number of a worker to threads that begin later, too.
        torch.set_num_threads(num_threads)
