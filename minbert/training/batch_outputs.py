"""The outputs of a model for many batches, two of them computed at the same time.

A batch of short sentences is many small operations. One after the other, a second core has little
to do in each of them, and nothing between them. With a batch of its own it is busy all the time.
"""

from __future__ import annotations

import sys
import threading
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

# Tokens of a batch, up to which two of them run at the same time. Larger ones keep both threads
# busy, and two of them need twice the memory.
MOST_TOKENS = 4096

# Packages whose modules keep nothing of a batch, so that two batches cannot mix.
PACKAGES = ("torch", "minbert", "multitask")


def batch_outputs(
    model: nn.Module,
    compute: Callable[[Batch], Output],
    batches: Iterable[Batch],
    num_tokens: Callable[[Batch], int],
    precision: str,
    is_packed: bool = True,
) -> list[Output]:
    """What `compute` returns for each batch, in the order of the batches.

    compute: runs the model on a batch. It is called in evaluation mode, without gradients, and
    perhaps in two threads at the same time. num_tokens: of a batch, with padding. precision: of
    matrix products. is_packed: as of `runtime.predicting`. The model's mode is put back.
    """
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), runtime.predicting(model, device, precision, is_packed):
            rest = iter(batches)
            first = list(islice(rest, NUM_WORKERS))
            is_shared = len(first) == NUM_WORKERS and fast.is_on() and suits_threads(model)
            # The same numbers up to rounding, with both cores busy. docs/formulas.md has its gain.
            if is_shared:
                return list(in_threads(compute, chain(first, rest), num_tokens))
            # A single batch has all of torch's threads.
            return [compute(batch) for batch in chain(first, rest)]
    finally:
        model.train(was_training)


def suits_threads(model: nn.Module) -> bool:
    """Whether two batches may run through a model at the same time, each with half of the threads.

    Not on a GPU, nor with an odd number of threads, nor in a thread beside the main one. Modules of
    other packages may keep something of a batch, and so may hooks and a `forward` that was put in
    the place of a module's own. torch compiles one batch at a time. Debuggers, profilers and modes
    of torch see no other thread than their own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or torch.get_num_threads() % NUM_WORKERS or is_watched():
        return False
    for module in model.modules():
        package, _, part = type(module).__module__.partition(".")
        is_ours = package in PACKAGES and not part.startswith("_dynamo")
        is_changed = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        if not is_ours or is_changed or module._compiled_call_impl is not None:
            return False
    return all(parameter.device.type == "cpu" for parameter in model.parameters())


def is_watched() -> bool:
    """Whether a debugger, a profiler, a global hook or a mode of torch looks at this thread."""
    stacks = ("_len_torch_function_stack", "_len_torch_dispatch_stack")
    has_mode = any(getattr(torch._C, name, int)() for name in stacks)
    has_hook = torch.nn.modules.module._has_any_global_hook()
    is_profiled = torch.autograd._profiler_enabled() or sys.getprofile() is not None
    return has_mode or has_hook or is_profiled or sys.gettrace() is not None


def in_threads(
    compute: Callable[[Batch], Output],
    batches: Iterable[Batch],
    num_tokens: Callable[[Batch], int],
) -> Iterator[Output]:
    """Yield what `compute` returns for each batch, in their order.

    The workers share torch's threads, and have the caller's autocast and no gradients: torch keeps
    these settings for each thread. A batch of more than MOST_TOKENS runs in this thread, alone. A
    stop waits for the two batches that run.
    """
    num_threads = torch.get_num_threads()
    is_autocast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu")

    def begin() -> None:
        torch.set_num_threads(num_threads // NUM_WORKERS)
        torch.set_grad_enabled(False)
        # It never ends: an end would forget the converted weights of all threads.
        torch.autocast("cpu", dtype, is_autocast).__enter__()

    waiting: deque[Future[Output]] = deque()
    try:
        with ThreadPoolExecutor(NUM_WORKERS, "minbert", begin) as executor:
            try:
                for batch in batches:
                    is_small = num_tokens(batch) <= MOST_TOKENS
                    # One more than can run, so that no worker waits.
                    while len(waiting) > (NUM_WORKERS if is_small else 0):
                        yield waiting.popleft().result()
                    if is_small:
                        waiting.append(executor.submit(compute, batch))
                    else:
                        yield compute(batch)
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
    finally:
        # torch gives the number of a worker to threads that begin later, too.
        torch.set_num_threads(num_threads)
